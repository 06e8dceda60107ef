// The C interface, which Python calls through ctypes.

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

   private:
    float* const* next_;
};

}  // namespace

extern "C" {

/// Make an update. `tensors`: for each hidden layer of the critics weight, bias, scale, shift (null where there is
/// no LayerNorm), then the output's weight and bias; the same for the actor, its output a layer without LayerNorm;
/// then the log temperature. Return null, with the reason in `error`, where memory is short.
void* robo_rl_update_new(const Settings* settings, int activation, int depth, const int* hidden,
                         float* const* tensors, char* error, size_t error_size) {
    try {
        const Activation kind = static_cast<Activation>(activation);
        TensorReader reader(tensors);
        Network critic, actor;
        int in = settings->observation_size + settings->action_size;
        for (int l = 0; l < depth; in = hidden[l++]) critic.layers.push_back(reader.read_layer(in, hidden[l], kind));
        critic.scalar_head = true;
        critic.head_weight = reader.read(in);
        critic.head_bias = reader.read(1);
        in = settings->observation_size;
        for (int l = 0; l < depth; in = hidden[l++]) actor.layers.push_back(reader.read_layer(in, hidden[l], kind));
        actor.layers.push_back(reader.read_layer(in, 2 * settings->action_size, Activation::kNone));
        return static_cast<AnyUpdate*>(new Update<float>(*settings, critic, actor, reader.read(1)));
    } catch (const std::exception& problem) {
        std::strncpy(error, problem.what(), error_size - 1);
        return nullptr;
    }
}

void robo_rl_update_run(void* update, const Inputs* inputs, int64_t updates_before, Metrics* metrics) {
    *metrics = static_cast<AnyUpdate*>(update)->run(*inputs, updates_before);
}

void robo_rl_update_delete(void* update) { delete static_cast<AnyUpdate*>(update); }

}  // extern "C"
