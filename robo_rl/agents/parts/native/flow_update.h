// The whole update of agents with critics of chunks and a flow, on a pool of threads;
// robo_rl/agents/parts/flow_actor_critic.py and robo_rl/agents/fql/agent.py define it.
#pragma once

#include <limits>
#include <optional>

#include "critics.h"
#include "flow.h"

namespace robo_rl {

/// Configuration, as Python passes it (native/flow_update.py holds the same list).
struct FlowSettings {
    int32_t observation_size, action_size, ensemble, batch, threads, flow_steps, time_octaves;
    int32_t candidates;                        // chunks of the flow for each target; 0: an actor decides the chunk
    int32_t target_minimum, normalise_values;  // truth values
    double learning_rate, distillation_weight;
};

/// Rows and randomness of one minibatch.
struct FlowInputs {
    const float *observation, *chunk, *weight;                   // chunk: of the flow; weight: mean 1
    const float *action, *reward, *discount, *next_observation;  // null: critics neither learn nor teach the actor
    const float *target_noise, *flow_noise, *time, *actor_noise;
    double tau;  // of the running averages
    int32_t candidates;  // at most those of the settings
};

/// The metrics, in the order of native/flow_update.py's METRICS; NaN for those that do not apply.
struct FlowMetrics {
    float critic_loss, q_mean, q_abs_max, target_mean, flow_loss, distillation_loss, actor_q;
};

class AnyFlowUpdate {
   public:
    virtual ~AnyFlowUpdate() = default;
    /// Earlier steps of the critics, and of flow and actor.
    virtual FlowMetrics run(const FlowInputs& inputs, int64_t critic_steps_before, int64_t steps_before) = 0;
};

template <class Unit>
class FlowUpdate final : public AnyFlowUpdate {
   public:
    /// `actor`: without layers if there are candidates.
    FlowUpdate(const FlowSettings& settings, const Network& flow, Network critic, const Network& actor)
        : s_(settings),
          input_{settings.observation_size, settings.action_size, settings.time_octaves},
          critic_(std::move(critic)),
          flow_(flow, settings.batch, settings.threads),
          pool_(settings.threads),
          everyone_(settings.threads),
          rows_(row_blocks<Unit>(settings.batch)),
          candidate_rows_(row_blocks<Unit>(settings.batch * std::max(settings.candidates, 1))),
          critic_saved_(critic_, settings.batch),
          candidate_(size_t(candidate_rows_.n) * s_.action_size),
          candidate_value_(candidate_rows_.n),
          next_chunk_(size_t(s_.batch) * s_.action_size),
          target_(s_.batch),
          values_(size_t(s_.ensemble) * s_.batch),
          value_gradient_(size_t(s_.ensemble) * s_.batch * s_.action_size),
          chunk_(size_t(s_.batch) * s_.action_size),
          squares_(s_.batch) {
        if (!s_.candidates) actor_.emplace(actor, s_.batch, s_.threads);
        for (int thread = 0; thread < s_.threads; ++thread) critic_scratch_.emplace_back(critic_);
        for (int m = 0; m < s_.ensemble; ++m) {
            critic_weights_.emplace_back(critic_, s_.observation_size);
            average_weights_.emplace_back(critic_, s_.observation_size);
        }
    }

    FlowMetrics run(const FlowInputs& inputs, int64_t critic_steps_before, int64_t steps_before) override {
        const float unknown = std::numeric_limits<float>::quiet_NaN();
        in_ = inputs;
        metrics_ = {unknown, unknown, unknown, unknown, unknown, unknown, unknown};
        candidate_rows_ = row_blocks<Unit>(s_.batch * std::max(in_.candidates, 1));
        claimed_.store(0, std::memory_order_relaxed);
        pool_.run([&](int thread) { work(thread, critic_steps_before, steps_before); });
        return metrics_;
    }

   private:
    /// The work of each thread. The stages between barriers are the sections below.
    void work(int thread, int64_t critic_steps_before, int64_t steps_before) {
        const Team all{thread, s_.threads, &everyone_};
        const Adam adam(s_.learning_rate, steps_before + 1, in_.tau);
        flow_.pack(Backward::kHidden, all);
        if (actor_) actor_->pack(Backward::kHidden, all);
        if (in_.reward) update_critics(all, critic_steps_before);
        all.wait();
        update_flow(all, adam);
        all.wait();
        if (thread == 0) metrics_.flow_loss = mean_of_squares();
        if (actor_) update_actor(all, adam);
    }

    // ---- Critics -------------------------------------------------------------------------------------------

    void update_critics(const Team& all, int64_t steps_before) {
        for (int m = 0; m < s_.ensemble; ++m) {
            critic_weights_[m].pack(critic_, m, false, Backward::kHidden, all);
            average_weights_[m].pack(critic_, m, true, Backward::kNone, all);
        }
        all.wait();
        propose_next_chunks(all.rank);
        all.wait();
        evaluate_targets(all);
        all.wait();
        const Pairs pairs{in_.observation, in_.action, s_.observation_size, s_.action_size};
        for (int m = 0; m < s_.ensemble; ++m) {
            descend_square(critic_, m, critic_weights_[m], critic_scratch_[all.rank], critic_saved_, pairs,
                           values_.data() + size_t(m) * s_.batch, [&](int row) { return target_.data()[row]; },
                           Adam(s_.learning_rate, steps_before + 1, in_.tau), all);
            all.wait();
        }
        if (all.rank > 0) return;
        CriticSums sums;
        sums.add(values_.data(), target_.data(), s_.ensemble, s_.batch);
        const double values = double(s_.ensemble) * s_.batch;
        metrics_.critic_loss = float(sums.loss / values), metrics_.q_mean = float(sums.value / values);
        metrics_.q_abs_max = sums.largest, metrics_.target_mean = float(sums.target / s_.batch);
    }

    /// Chunks for the next observations: of the actor, or candidates of the flow with the newest critics' values.
    void propose_next_chunks(int thread) {
        const int o = s_.observation_size, a = s_.action_size;
        for (int block; (block = claimed_.fetch_add(1, std::memory_order_relaxed)) < candidate_rows_.count;) {
            const int first = candidate_rows_.start(block), rows = candidate_rows_.size(block);
            if (actor_) {
                act(thread, in_.next_observation, in_.target_noise, first, rows, next_chunk_.data());
                continue;
            }
            sample_flow(flow_, flow_.scratch[thread], input_, s_.flow_steps, in_.next_observation, in_.candidates,
                        in_.target_noise, first, rows, candidate_.data());
            aggregate(thread, critic_weights_, {in_.next_observation, candidate_.data(), o, a, in_.candidates}, first,
                      rows, candidate_value_.data() + first);
        }
    }

    void evaluate_targets(const Team& all) {
        const Share share = all.share(rows_.count);
        for (int block = share.begin; block < share.end; ++block) {
            const int first = rows_.start(block), rows = rows_.size(block);
            for (int row = first; in_.candidates && row < first + rows; ++row)
                std::copy_n(candidate_.data() + best(row) * s_.action_size, s_.action_size,
                            next_chunk_.data() + size_t(row) * s_.action_size);
            float values[kBlockRows<Unit>];
            aggregate(all.rank, average_weights_,
                      {in_.next_observation, next_chunk_.data(), s_.observation_size, s_.action_size}, first, rows,
                      values);
            for (int i = 0; i < rows; ++i)
                target_.data()[first + i] = in_.reward[first + i] + in_.discount[first + i] * values[i];
        }
    }

    /// The candidate with the largest value, the first of several; NaN is larger than every number, as in PyTorch.
    size_t best(int row) const {
        const size_t first = size_t(row) * in_.candidates;
        size_t best = first;
        for (size_t k = first + 1; k < first + in_.candidates; ++k) {
            const float value = candidate_value_.data()[k], largest = candidate_value_.data()[best];
            if (largest == largest && !(value <= largest)) best = k;
        }
        return best;
    }

    /// The mean or the minimum of the ensemble's values of some rows.
    void aggregate(int thread, const std::vector<Weights<Unit>>& weights, const Pairs& pairs, int first, int rows,
                   float* result) {
        float values[kBlockRows<Unit>];
        for (int m = 0; m < s_.ensemble; ++m) {
            evaluate(critic_, weights[m], critic_scratch_[thread], pairs, first, rows, values);
            for (int i = 0; i < rows; ++i)
                if (m == 0) result[i] = values[i];
                else result[i] = s_.target_minimum ? smaller(result[i], values[i]) : result[i] + values[i];
        }
        for (int i = 0; i < rows && !s_.target_minimum; ++i) result[i] /= s_.ensemble;
    }

    // ---- Flow ----------------------------------------------------------------------------------------------

    void update_flow(const Team& all, const Adam& adam) {
        Scratch<Unit>& scratch = flow_.scratch[all.rank];
        const int a = s_.action_size, stride = row_stride(a);
        const auto set = [&](int first, int rows) {
            for (int row = first; row < first + rows; ++row)
                input_.interpolate(in_.observation + size_t(row) * s_.observation_size,
                                   in_.flow_noise + size_t(row) * a, in_.chunk + size_t(row) * a, in_.time[row],
                                   scratch.input() + (row - first) * row_stride(input_.size()));
        };
        std::vector<float> velocity(a);
        const auto differentiate = [&](int first, int rows, int /*block*/) {
            for (int i = 0; i < rows; ++i) {
                const size_t at = size_t(first + i) * a;
                for (int j = 0; j < a; ++j) velocity[j] = in_.chunk[at + j] - in_.flow_noise[at + j];
                const float weight = in_.weight[first + i];
                squares_.data()[first + i] =
                    weight * regress(scratch.output() + i * stride, velocity.data(), a, weight / (s_.batch * a),
                                     scratch.gradients.back() + i * stride);
            }
        };
        descend(flow_.network, 0, flow_.weights, scratch, flow_.saved, adam, all, set, differentiate);
    }

    float mean_of_squares() const {
        double total = 0;
        for (int row = 0; row < s_.batch; ++row) total += squares_.data()[row];
        return float(total / s_.batch / s_.action_size);
    }

    // ---- Actor ---------------------------------------------------------------------------------------------

    /// The actor's chunks, in [-1, 1], for some rows.
    void act(int thread, const float* observation, const float* noise, int first, int rows, float* chunk) {
        Scratch<Unit>& scratch = actor_->scratch[thread];
        const int a = s_.action_size;
        scratch.begin(nullptr, 0);
        Pairs{observation, noise, s_.observation_size, a}.set(scratch, first, rows);
        forward(actor_->network, actor_->weights, scratch, rows);
        for (int i = 0; i < rows; ++i)
            for (int j = 0; j < a; ++j)
                chunk[size_t(first + i) * a + j] = clamped(scratch.output()[i * row_stride(a) + j]);
    }

    /// Distillation of the new flow and, unless the critics do not learn, a step up the new critics' values.
    void update_actor(const Team& all, const Adam& adam) {
        flow_.pack(Backward::kNone, all);
        for (int m = 0; in_.reward && m < s_.ensemble; ++m)
            critic_weights_[m].pack(critic_, m, false, Backward::kInput, all);
        all.wait();
        const Share share = all.share(rows_.count);
        for (int block = share.begin; block < share.end; ++block)
            prepare_distillation(all.rank, rows_.start(block), rows_.size(block));
        all.wait();
        const float value_weight = in_.reward ? weigh_values(all.rank == 0) : 0;
        Scratch<Unit>& scratch = actor_->scratch[all.rank];
        const int a = s_.action_size, stride = row_stride(a);
        const Pairs pairs{in_.observation, in_.actor_noise, s_.observation_size, a};
        const auto set = [&](int first, int rows) { pairs.set(scratch, first, rows); };
        const auto differentiate = [&](int first, int rows, int /*block*/) {
            for (int i = 0; i < rows; ++i) {
                const size_t at = size_t(first + i) * a;
                const float* chunk = scratch.output() + i * stride;
                float* gradient = scratch.gradients.back() + i * stride;
                squares_.data()[first + i] = regress(chunk, candidate_.data() + at, a,
                                                     float(s_.distillation_weight) / (s_.batch * a), gradient);
                for (int m = 0; in_.reward && m < s_.ensemble; ++m) {
                    const float* slope = value_gradient_.data() + size_t(m) * s_.batch * a + at;
                    for (int j = 0; j < a; ++j)  // values are those of clamped chunks
                        if (clamped(chunk[j]) == chunk[j]) gradient[j] -= value_weight * slope[j];
                }
            }
        };
        // Computing the forward pass again is cheaper than storing it.
        descend(actor_->network, 0, actor_->weights, scratch, actor_->saved, adam, all, set, differentiate);
        all.wait();
        if (all.rank == 0) metrics_.distillation_loss = mean_of_squares();
    }

    /// For some rows, the chunk of the flow, and the critics' values of the actor's chunk with their gradients.
    void prepare_distillation(int thread, int first, int rows) {
        const int o = s_.observation_size, a = s_.action_size;
        sample_flow(flow_, flow_.scratch[thread], input_, s_.flow_steps, in_.observation, 1, in_.actor_noise, first,
                    rows, candidate_.data());
        if (!in_.reward) return;
        act(thread, in_.observation, in_.actor_noise, first, rows, chunk_.data());
        for (int m = 0; m < s_.ensemble; ++m) {
            const size_t at = size_t(m) * s_.batch + first;
            differentiate_values(critic_, critic_weights_[m], critic_scratch_[thread],
                                 {in_.observation, chunk_.data(), o, a}, first, rows, values_.data() + at,
                                 value_gradient_.data() + at * a);
        }
    }

    /// The weight of each row's and each critic's value in the actor's loss; `report` the mean value.
    float weigh_values(bool report) {
        double total = 0, magnitude = 0;
        for (int row = 0; row < s_.batch; ++row) {
            double value = 0;
            for (int m = 0; m < s_.ensemble; ++m) value += values_.data()[size_t(m) * s_.batch + row];
            total += value / s_.ensemble, magnitude += std::fabs(value) / s_.ensemble;
        }
        if (report) metrics_.actor_q = float(total / s_.batch);
        constexpr double kLeastScale = 1e-6;  // LEAST_SCALE of robo_rl/agents/fql/agent.py
        double scale = 1;
        if (s_.normalise_values) scale = magnitude / s_.batch;
        if (scale < kLeastScale) scale = kLeastScale;
        return float(1 / (scale * s_.batch * s_.ensemble));
    }

    const FlowSettings s_;
    const FlowInput input_;
    Network critic_;
    Trained<Unit> flow_;
    std::optional<Trained<Unit>> actor_;
    Pool pool_;
    Barrier everyone_;
    std::atomic<int> claimed_{0};  // blocks of candidates: a thread that is delayed takes fewer
    const Blocks rows_;
    Blocks candidate_rows_;

    std::vector<Weights<Unit>> critic_weights_, average_weights_;  // by member
    std::vector<Scratch<Unit>> critic_scratch_;                    // by thread
    Saved<Unit> critic_saved_;

    Buffer<float> candidate_, candidate_value_, next_chunk_, target_, values_, value_gradient_, chunk_, squares_;
    FlowInputs in_{};
    FlowMetrics metrics_{};
};

}  // namespace robo_rl
