// The whole update of soft actor-critic on a pool of threads; robo_rl/agents/sac/update.py defines it.
#pragma once

#include <limits>

#include "critics.h"
#include "policy.h"

namespace robo_rl {

/// Configuration, as Python passes it (robo_rl/agents/sac/native_update.py holds the same list).
struct Settings {
    int32_t observation_size, action_size, ensemble, subset, batch, updates, threads;
    int32_t entropy_backup, actor_minimum;  // truth values
    double actor_learning_rate, critic_learning_rate, temperature_learning_rate, tau, target_entropy;
};

/// Rows and randomness of one update; shapes as in update.py's Minibatches and Noise.
struct Inputs {
    const float *observation, *action, *reward, *discount, *next_observation;
    const float* next_noise;
    const int64_t* subset;
    const float *actor_noise, *cloning, *proposed_action;
    const float *reference_mean, *reference_log_std;  // of the last minibatch; null: no reference
    float reference_weight;
};

/// The metrics, in the order of update.py's METRICS.
struct Metrics {
    float critic_loss, q_mean, q_abs_max, target_mean, actor_loss, entropy, temperature;
};

class AnyUpdate {
   public:
    virtual ~AnyUpdate() = default;
    /// `actor_steps_before`: steps of actor and temperature so far; negative: none in this update either.
    virtual Metrics run(const Inputs& inputs, int64_t updates_before, int64_t actor_steps_before) = 0;
};

/// Number of threads per team that lets the teams, each computing one critic after another, end earliest.
inline int team_size(int threads, int ensemble) {
    int best = 1;
    double best_time = 1e30;
    for (int size = 1; size <= threads; ++size) {
        if (threads % size) continue;
        const double time = double(divide_up(ensemble, threads / size)) / size;
        if (time < best_time - 1e-9) best = size, best_time = time;
    }
    return best;
}

template <class Unit>
class Update final : public AnyUpdate {
   public:
    Update(const Settings& settings, Network critic, Network actor, Tensor log_alpha)
        : s_(settings),
          critic_(std::move(critic)),
          actor_(std::move(actor)),
          log_alpha_(log_alpha),
          pool_(settings.threads),
          everyone_(settings.threads),
          team_size_(team_size(settings.threads, settings.ensemble)),
          claims_(kCriticStage + 2 * settings.updates),
          claimed_member_(settings.threads),
          rows_(row_blocks<Unit>(settings.batch)),
          actor_weights_(actor_, actor_.inputs()),
          actor_saved_(actor_, settings.batch),
          next_action_(size_t(s_.updates) * s_.batch * s_.action_size),
          next_log_prob_(size_t(s_.updates) * s_.batch),
          target_values_(size_t(s_.subset) * s_.batch),
          target_(s_.batch),
          values_(size_t(s_.ensemble) * s_.batch),
          value_gradient_(size_t(s_.ensemble) * s_.batch * s_.action_size),
          new_action_(size_t(s_.batch) * s_.action_size),
          log_prob_(s_.batch) {
        for (int thread = 0; thread < s_.threads; ++thread) {
            critic_scratch_.emplace_back(critic_);
            actor_scratch_.emplace_back(actor_);
        }
        for (int m = 0; m < s_.subset; ++m) target_weights_.emplace_back(critic_, s_.observation_size);
        for (int team = 0; team < s_.threads / team_size_; ++team) {
            critic_weights_.emplace_back(critic_, s_.observation_size);
            critic_saved_.emplace_back(critic_, s_.batch);
            barriers_.emplace_back(new Barrier(team_size_));
        }
    }

    Metrics run(const Inputs& inputs, int64_t updates_before, int64_t actor_steps_before) override {
        in_ = inputs;
        alpha_ = std::exp(*log_alpha_.value);
        sums_ = CriticSums{};
        for (std::atomic<int>& claims : claims_) claims.store(0, std::memory_order_relaxed);
        pool_.run([&](int thread) { work(thread, updates_before, actor_steps_before); });
        return finish(actor_steps_before);
    }

   private:
    /// The work of each thread. The stages between barriers are the sections below.
    void work(int thread, int64_t updates_before, int64_t actor_steps_before) {
        const Team all{thread, s_.threads, &everyone_};
        const int group = thread / team_size_;
        const Team team{thread % team_size_, team_size_, barriers_[group].get()};

        actor_weights_.pack(actor_, 0, false, Backward::kHidden, all);
        all.wait();
        sample_next_actions(thread);
        all.wait();
        for (int u = 0; u < s_.updates; ++u) {
            for (int m = 0; m < s_.subset; ++m)
                target_weights_[m].pack(critic_, int(in_.subset[u * s_.subset + m]), true, Backward::kNone, all);
            all.wait();
            evaluate_targets(thread, u);
            all.wait();
            const Adam adam(s_.critic_learning_rate, updates_before * s_.updates + u + 1, s_.tau);
            for (int member; (member = claim_member(team, group, kCriticStage + u)) < s_.ensemble;)
                update_critic(team, group, thread, member, u, adam);
            all.wait();
            // No thread writes what this reads before the barrier after the targets.
            if (thread == 0) sums_.add(values_.data(), target_.data(), s_.ensemble, s_.batch);
        }
        if (actor_steps_before < 0) return;
        sample_new_actions(all);
        all.wait();
        for (int member; (member = claim_member(team, group, kActorStage)) < s_.ensemble;)
            differentiate_values(team, group, thread, member);
        all.wait();
        update_actor(all, actor_steps_before);
    }

    // ---- Work is claimed, not dealt: a thread that is delayed by other work on its core takes less -----------

    enum { kSampleStage = 0, kActorStage = 1, kCriticStage = 2 };  // then one for each update, then the targets'

    int claim(int stage) { return claims_[stage].fetch_add(1, std::memory_order_relaxed); }

    int claim_member(const Team& team, int group, int stage) {
        if (team.rank == 0) claimed_member_[group] = claim(stage);
        team.wait();
        return claimed_member_[group];  // unchanged until the team has passed another barrier
    }

    // ---- Targets -------------------------------------------------------------------------------------------

    /// The policy's actions for all next observations at once: the actor does not change during the critic updates.
    void sample_next_actions(int thread) {
        const Blocks blocks = row_blocks<Unit>(s_.updates * s_.batch);
        for (int b; (b = claim(kSampleStage)) < blocks.count;)
            act(thread, in_.next_observation, in_.next_noise, blocks.start(b), blocks.size(b), next_action_.data(),
                next_log_prob_.data());
    }

    void evaluate_targets(int thread, int u) {
        const Pairs pairs = this->pairs(in_.next_observation, next_action_.data(), u);
        for (int task; (task = claim(kCriticStage + s_.updates + u)) < s_.subset * rows_.count;) {
            const int m = task / rows_.count, block = task % rows_.count;
            const int first = rows_.start(block), rows = rows_.size(block);
            evaluate(critic_, target_weights_[m], critic_scratch_[thread], pairs, first, rows,
                     target_values_.data() + m * s_.batch + first);
        }
    }

    /// y = r + discount * (smallest target value [- alpha * log pi]).
    float target(int u, int row) const {
        float value = target_values_.data()[row];
        for (int m = 1; m < s_.subset; ++m) value = smaller(value, target_values_.data()[m * s_.batch + row]);
        const size_t at = size_t(u) * s_.batch + row;
        if (s_.entropy_backup) value -= alpha_ * next_log_prob_.data()[at];
        return in_.reward[at] + in_.discount[at] * value;
    }

    // ---- Critics -------------------------------------------------------------------------------------------

    void update_critic(const Team& team, int group, int thread, int member, int u, const Adam& adam) {
        Weights<Unit>& weights = critic_weights_[group];
        weights.pack(critic_, member, false, Backward::kHidden, team);
        team.wait();
        const auto y = [&](int row) {
            const float y = target(u, row);
            if (member == 0) target_.data()[row] = y;
            return y;
        };
        descend_square(critic_, member, weights, critic_scratch_[thread], critic_saved_[group],
                       pairs(in_.observation, in_.action, u), values_.data() + size_t(member) * s_.batch, y, adam, team);
    }

    // ---- Actor and temperature -----------------------------------------------------------------------------

    void sample_new_actions(const Team& team) {
        const Share share = team.share(rows_.count);
        for (int b = share.begin; b < share.end; ++b)
            act(team.rank, last(in_.observation, s_.observation_size), in_.actor_noise, rows_.start(b), rows_.size(b),
                new_action_.data(), log_prob_.data());
    }

    /// One critic's values of the new actions, and their gradients.
    void differentiate_values(const Team& team, int group, int thread, int member) {
        Weights<Unit>& weights = critic_weights_[group];
        weights.pack(critic_, member, false, Backward::kInput, team);
        team.wait();
        const Pairs pairs{last(in_.observation, s_.observation_size), new_action_.data(), s_.observation_size,
                          s_.action_size};
        const Share share = team.share(rows_.count);
        for (int block = share.begin; block < share.end; ++block) {
            const int first = rows_.start(block), rows = rows_.size(block);
            const size_t at = size_t(member) * s_.batch + first;
            robo_rl::differentiate_values(critic_, weights, critic_scratch_[thread], pairs, first, rows,
                                          values_.data() + at, value_gradient_.data() + at * s_.action_size);
        }
        team.wait();
    }

    /// The actor's objective in one row, the mean or the smallest of all values, and its gradient by the action.
    float climbed(int row, float* gradient) const {
        const auto value = [&](int e) { return values_.data()[size_t(e) * s_.batch + row]; };
        const auto slope = [&](int e) { return value_gradient_.data() + (size_t(e) * s_.batch + row) * s_.action_size; };
        if (s_.actor_minimum) {
            int least = 0;
            for (int e = 1; e < s_.ensemble; ++e)
                if (value(least) == value(least) && !(value(e) >= value(least))) least = e;  // NaN is kept
            std::copy_n(slope(least), s_.action_size, gradient);
            return value(least);
        }
        float total = 0;
        std::fill_n(gradient, s_.action_size, 0.0f);
        for (int e = 0; e < s_.ensemble; ++e) {
            total += value(e) / s_.ensemble;
            for (int j = 0; j < s_.action_size; ++j) gradient[j] += slope(e)[j] / s_.ensemble;
        }
        return total;
    }

    void update_actor(const Team& team, int64_t steps_before) {
        Scratch<Unit>& scratch = actor_scratch_[team.rank];
        const int outputs = 2 * s_.action_size;
        std::vector<float> q_gradient(s_.action_size);
        const auto set = [&](int first, int rows) {
            set_input(scratch, last(in_.observation, s_.observation_size), first, rows);
        };
        const auto differentiate = [&](int first, int rows, int /*block*/) {
            float* gradient = scratch.gradients.back();
            for (int i = 0; i < rows; ++i) {
                climbed(first + i, q_gradient.data());
                const ActionRow row{scratch.output() + i * row_stride(outputs),
                                    in_.actor_noise + size_t(first + i) * s_.action_size, s_.action_size};
                action_gradient(row, new_action_.data() + size_t(first + i) * s_.action_size, q_gradient.data(),
                                alpha_, 1.0f / s_.batch, gradient + i * row_stride(outputs));
                const float weight = last(in_.cloning, 1)[first + i];
                if (weight > 0)
                    add_cloning_gradient(row,
                                         last(in_.proposed_action, s_.action_size) + size_t(first + i) * s_.action_size,
                                         weight / s_.batch, gradient + i * row_stride(outputs));
                if (in_.reference_mean)
                    add_reference_gradient(row, in_.reference_mean + size_t(first + i) * s_.action_size,
                                           in_.reference_log_std + size_t(first + i) * s_.action_size,
                                           in_.reference_weight / s_.batch, gradient + i * row_stride(outputs));
            }
        };
        // Computing the forward pass again is cheaper than storing it.
        descend(actor_, 0, actor_weights_, scratch, actor_saved_, Adam(s_.actor_learning_rate, steps_before + 1, 0), team,
                set, differentiate);
    }

    /// The temperature's step and the metrics.
    Metrics finish(int64_t steps_before) {
        const double rows = double(s_.updates) * s_.batch;
        const float unknown = std::numeric_limits<float>::quiet_NaN();
        Metrics metrics{float(sums_.loss / rows / s_.ensemble),
                        float(sums_.value / rows / s_.ensemble),
                        sums_.largest,
                        float(sums_.target / rows),
                        unknown,
                        unknown,
                        unknown};
        if (steps_before < 0) return metrics;
        double loss = 0, entropy = 0;
        std::vector<float> unused(s_.action_size);
        for (int row = 0; row < s_.batch; ++row) {
            const double log_prob = log_prob_.data()[row];
            loss += (alpha_ * log_prob - climbed(row, unused.data())) / s_.batch;
            entropy -= log_prob / s_.batch;
        }
        // Too much entropy lowers the temperature.
        const float gradient = float(alpha_ * (entropy - s_.target_entropy));
        Adam(s_.temperature_learning_rate, steps_before + 1, 0).step(log_alpha_, 0, 0, broadcast(gradient), 1);
        metrics.actor_loss = float(loss), metrics.entropy = float(entropy), metrics.temperature = alpha_;
        return metrics;
    }

    // ---- Inputs --------------------------------------------------------------------------------------------

    /// The part of the last minibatch, on which the actor is updated.
    const float* last(const float* field, int size) const {
        return field + size_t(s_.updates - 1) * s_.batch * size;
    }

    /// The critics' inputs in minibatch `u`.
    Pairs pairs(const float* observation, const float* action, int u) const {
        const size_t first = size_t(u) * s_.batch;
        return {observation + first * s_.observation_size, action + first * s_.action_size, s_.observation_size,
                s_.action_size};
    }

    /// Sample the policy's actions and their log densities for some rows.
    void act(int thread, const float* observation, const float* noise, int first, int rows, float* action,
             float* log_prob) {
        Scratch<Unit>& scratch = actor_scratch_[thread];
        scratch.begin(nullptr, 0);
        const int size = s_.action_size;
        set_input(scratch, observation, first, rows);
        forward(actor_, actor_weights_, scratch, rows);
        for (int i = 0; i < rows; ++i) {
            const size_t at = size_t(first + i) * size;
            const ActionRow row{scratch.output() + i * row_stride(2 * size), noise + at, size};
            log_prob[first + i] = sample_action(row, action + at);
        }
    }

    const Settings s_;
    Network critic_, actor_;
    Tensor log_alpha_;
    Pool pool_;
    Barrier everyone_;
    const int team_size_;  // threads
    std::vector<std::unique_ptr<Barrier>> barriers_;
    std::vector<std::atomic<int>> claims_;  // by stage
    std::vector<int> claimed_member_;       // by team
    const Blocks rows_;

    Weights<Unit> actor_weights_;
    std::vector<Weights<Unit>> critic_weights_;  // by team
    std::vector<Weights<Unit>> target_weights_;  // by position in the subset
    std::vector<Scratch<Unit>> critic_scratch_, actor_scratch_;  // by thread
    std::vector<Saved<Unit>> critic_saved_;                      // by team
    Saved<Unit> actor_saved_;

    Buffer<float> next_action_, next_log_prob_, target_values_, target_, values_, value_gradient_,
        new_action_, log_prob_;
    Inputs in_{};
    CriticSums sums_;
    float alpha_ = 0;
};

}  // namespace robo_rl
