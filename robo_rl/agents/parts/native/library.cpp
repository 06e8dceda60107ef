// The C interface that Python calls through ctypes.

#include "amx.h"
#include "cloning.h"
#include "flow_update.h"
#include "measure.h"
#include "update.h"

using namespace robo_rl;

namespace {

/// Reads tensors from a flat list of pointers: value, first moment, second moment, target for each tensor.
class TensorReader {
   public:
    TensorReader(float* const* pointers) : next_(pointers) {}

    Tensor read(size_t size) {
        const Tensor tensor{next_[0], next_[1], next_[2], next_[3], size};
        next_ += 4;
        return tensor;
    }

    Layer read_layer(int in, int out, Activation activation) {
        Layer layer{in, out, activation, read(size_t(in) * out), read(out), {}, {}};
        layer.scale = read(out);
        layer.shift = read(out);
        return layer;
    }

    void read_hidden(Network& network, int in, int depth, const int* hidden, Activation activation) {
        for (int l = 0; l < depth; in = hidden[l++]) network.layers.push_back(read_layer(in, hidden[l], activation));
    }

    /// The output is a layer without LayerNorm.
    Network read_network(int in, int depth, const int* hidden, int out, Activation activation) {
        Network network;
        read_hidden(network, in, depth, hidden, activation);
        network.layers.push_back(read_layer(network.outputs(), out, Activation::kNone));
        return network;
    }

    Network read_critic(int in, int depth, const int* hidden, Activation activation) {
        Network critic;
        read_hidden(critic, in, depth, hidden, activation);
        critic.scalar_head = true;
        critic.head_weight = read(critic.outputs());
        critic.head_bias = read(1);
        return critic;
    }

   private:
    float* const* next_;
};

/// Call f with a unit of the kind in which products are computed here; do nothing if there is none.
template <class F>
void with_unit(bool bfloat16, F f) {
    if (!bfloat16) return f(float{});
#if defined(ROBO_RL_AMX)
    if (tiles_permitted()) return f(TilePair{});
#endif
#if defined(__AVX512BF16__)
    f(Pair{});
#endif
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

/// The instructions by which this process multiplies pairs of bfloat16; empty if there are none.
EXPORT const char* robo_rl_bfloat16_instructions() {
#if defined(ROBO_RL_AMX)
    if (tiles_permitted()) return "AMX";
#endif
#if defined(__AVX512BF16__)
    return "AVX512_BF16";
#endif
    return "";
}

/// Make an update. `tensors`: for each hidden layer of the critics weight, bias, scale, shift (null without
/// LayerNorm), then the output's weight and bias; the same for the actor; then the log temperature. The actor's
/// output is a layer without LayerNorm. Return null, with the reason in `error`, if memory is short.
EXPORT void* robo_rl_update_new(const Settings* settings, int bfloat16, int activation, int depth, const int* hidden,
                                float* const* tensors, char* error, size_t error_size) {
    try {
        const Activation kind = static_cast<Activation>(activation);
        TensorReader reader(tensors);
        const Network critic =
            reader.read_critic(settings->observation_size + settings->action_size, depth, hidden, kind);
        const Network actor =
            reader.read_network(settings->observation_size, depth, hidden, 2 * settings->action_size, kind);
        const Tensor log_alpha = reader.read(1);
        AnyUpdate* update = nullptr;
        with_unit(bfloat16, [&](auto unit) {
            update = new Update<decltype(unit)>(*settings, critic, actor, log_alpha);
        });
        return update;
    } catch (const std::exception& problem) {
        std::strncpy(error, problem.what(), error_size - 1);
        return nullptr;
    }
}

EXPORT void robo_rl_update_run(void* update, const Inputs* inputs, int64_t updates_before, int64_t actor_steps_before,
                               Metrics* metrics) {
    *metrics = static_cast<AnyUpdate*>(update)->run(*inputs, updates_before, actor_steps_before);
}

EXPORT void robo_rl_update_delete(void* update) { delete static_cast<AnyUpdate*>(update); }

/// Make an update of an agent with a flow. `tensors`: those of the flow, of the critics and, without candidates, of the
/// actor, as above; targets are running averages. Return null, with the reason in `error`, if memory is short.
EXPORT void* robo_rl_flow_update_new(const FlowSettings* settings, int bfloat16, int activation, int depth,
                                     const int* hidden, float* const* tensors, char* error, size_t error_size) {
    try {
        const Activation kind = static_cast<Activation>(activation);
        const int pair = settings->observation_size + settings->action_size, chunk = settings->action_size;
        const int inputs = FlowInput{settings->observation_size, chunk, settings->time_octaves}.size();
        TensorReader reader(tensors);
        const Network flow = reader.read_network(inputs, depth, hidden, chunk, kind);
        const Network critic = reader.read_critic(pair, depth, hidden, kind);
        const Network actor =
            settings->candidates ? Network() : reader.read_network(pair, depth, hidden, chunk, kind);
        AnyFlowUpdate* update = nullptr;
        with_unit(bfloat16, [&](auto unit) {
            update = new FlowUpdate<decltype(unit)>(*settings, flow, critic, actor);
        });
        return update;
    } catch (const std::exception& problem) {
        std::strncpy(error, problem.what(), error_size - 1);
        return nullptr;
    }
}

EXPORT void robo_rl_flow_update_run(void* update, const FlowInputs* inputs, int64_t critic_steps_before,
                                    int64_t steps_before, FlowMetrics* metrics) {
    *metrics = static_cast<AnyFlowUpdate*>(update)->run(*inputs, critic_steps_before, steps_before);
}

EXPORT void robo_rl_flow_update_delete(void* update) { delete static_cast<AnyFlowUpdate*>(update); }

/// Make a cloning. `tensors`: the actor's, as above. Return null, with the reason in `error`, if memory is short.
EXPORT void* robo_rl_cloning_new(const CloningSettings* settings, int activation, int depth, const int* hidden,
                                 float* const* tensors, char* error, size_t error_size) {
    try {
        return new Cloning(*settings,
                           TensorReader(tensors).read_network(settings->observation_size, depth, hidden,
                                                              2 * settings->action_size,
                                                              static_cast<Activation>(activation)));
    } catch (const std::exception& problem) {
        std::strncpy(error, problem.what(), error_size - 1);
        return nullptr;
    }
}

EXPORT float robo_rl_cloning_run(void* cloning, const float* observation, const float* proposed_action,
                                 int64_t count) {
    return static_cast<Cloning*>(cloning)->run(observation, proposed_action, count);
}

EXPORT void robo_rl_cloning_delete(void* cloning) { delete static_cast<Cloning*>(cloning); }

/// See measure.h.
EXPORT void robo_rl_dense_products(int bfloat16, int rows, int in, int out, const float* x, const float* w,
                                   const float* g, float* y, float* dx, float* dw) {
    with_unit(bfloat16, [&](auto unit) { dense_products<decltype(unit)>(rows, in, out, x, w, g, y, dx, dw); });
}

/// See measure.h.
EXPORT void robo_rl_activations(int kind, int count, const float* x, float* y, float* slope) {
    activations(static_cast<Activation>(kind), count, x, y, slope);
}

/// See measure.h.
EXPORT double robo_rl_saturate(int bfloat16, int64_t steps) {
    double operations = 0;
    with_unit(bfloat16, [&](auto unit) { operations = saturate<decltype(unit)>(steps); });
    return operations;
}
