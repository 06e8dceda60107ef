// Behaviour cloning of the actor on a pool of threads; robo_rl/agents/parts/cloning.py defines it.
#pragma once

#include "network.h"
#include "policy.h"

namespace robo_rl {

/// Configuration, as Python passes it (native/cloning.py holds the same list).
struct CloningSettings {
    int32_t observation_size, action_size, batch, threads;
    double learning_rate;
};

class Cloning {
   public:
    Cloning(const CloningSettings& settings, Network actor)
        : s_(settings),
          actor_(std::move(actor)),
          pool_(settings.threads),
          everyone_(settings.threads),
          rows_(row_blocks<float>(settings.batch)),
          weights_(actor_, actor_.inputs()),
          saved_(actor_, settings.batch),
          squares_(settings.batch) {
        for (int thread = 0; thread < s_.threads; ++thread) scratch_.emplace_back(actor_);
    }

    /// Take step number `count` of Adam, starting at 1, on the mean squared error of the mode tanh(mean), unless the
    /// error is not finite; return the error before it. `observation`: (B, O). `proposed_action`: (B, A).
    float run(const float* observation, const float* proposed_action, int64_t count) {
        const int values = s_.batch * s_.action_size;
        double error = 0;
        pool_.run([&](int thread) {
            const Team team{thread, s_.threads, &everyone_};
            weights_.pack(actor_, 0, false, Backward::kHidden, team);
            team.wait();
            const Share share = team.share(rows_.count);
            for (int block = share.begin; block < share.end; ++block)
                differentiate(scratch_[thread], observation, proposed_action, 1.0f / values, block);
            team.wait();
            double total = 0;
            for (int row = 0; row < s_.batch; ++row) total += squares_.data()[row];
            if (thread == 0) error = total / values;
            if (std::isfinite(total)) apply(actor_, 0, saved_, s_.batch, Adam(s_.learning_rate, count, 0), team);
        });
        return float(error);
    }

   private:
    void differentiate(Scratch<float>& scratch, const float* observation, const float* proposed_action, float weight,
                       int block) {
        const int first = rows_.start(block), rows = rows_.size(block), stride = row_stride(2 * s_.action_size);
        scratch.begin(&saved_, first);
        set_input(scratch, observation, first, rows);
        forward(actor_, weights_, scratch, rows);
        float* gradient = scratch.gradients.back();
        std::fill_n(gradient, rows * stride, 0.0f);
        for (int i = 0; i < rows; ++i) {
            const ActionRow row{scratch.output() + i * stride, nullptr, s_.action_size};
            const float* shown = proposed_action + size_t(first + i) * s_.action_size;
            squares_.data()[first + i] = add_cloning_gradient(row, shown, weight, gradient + i * stride);
        }
        backward(actor_, weights_, scratch, rows, Backward::kHidden, &saved_, block);
    }

    const CloningSettings s_;
    Network actor_;
    Pool pool_;
    Barrier everyone_;
    const Blocks rows_;
    Weights<float> weights_;
    Saved<float> saved_;
    std::vector<Scratch<float>> scratch_;  // by thread
    Buffer<float> squares_;                // of each row's error
};

}  // namespace robo_rl
