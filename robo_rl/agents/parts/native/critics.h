// What critics do in the updates of several agents: values of actions, their gradients, and steps towards targets.
#pragma once

#include "network.h"

namespace robo_rl {

/// NaN takes precedence over every number, so that a diverged target is noticed.
inline float smaller(float a, float b) { return a < b || a != a ? a : b; }
inline float larger(float a, float b) { return a > b || a != a ? a : b; }

/// Inputs of critics: rows of an observation and an action.
struct Pairs {
    const float *observation, *action;
    int observation_size, action_size;
    int repeats = 1;  // consecutive actions that share an observation

    template <class Unit>
    void set(Scratch<Unit>& scratch, size_t first, int rows) const {
        const int stride = row_stride(observation_size + action_size);
        for (int i = 0; i < rows; ++i) {
            float* input = scratch.input() + i * stride;
            std::copy_n(observation + (first + i) / repeats * observation_size, observation_size, input);
            std::copy_n(action + (first + i) * action_size, action_size, input + observation_size);
        }
    }
};

/// Values of rows [first, first + rows).
template <class Unit>
void evaluate(const Network& critic, const Weights<Unit>& weights, Scratch<Unit>& scratch, const Pairs& pairs,
              size_t first, int rows, float* values) {
    scratch.begin(nullptr, 0);
    pairs.set(scratch, first, rows);
    forward(critic, weights, scratch, rows);
    head_forward(critic, weights, scratch, rows, values);
}

/// The same, and the values' gradients by the action, (rows, action_size).
template <class Unit>
void differentiate_values(const Network& critic, const Weights<Unit>& weights, Scratch<Unit>& scratch,
                          const Pairs& pairs, size_t first, int rows, float* values, float* gradients) {
    evaluate(critic, weights, scratch, pairs, first, rows, values);
    float ones[kBlockRows<Unit>];
    std::fill_n(ones, rows, 1.0f);
    head_backward<Unit>(critic, weights, scratch, rows, ones, nullptr, 0);
    backward<Unit>(critic, weights, scratch, rows, Backward::kInput, nullptr, 0);
    for (int i = 0; i < rows; ++i)
        std::copy_n(scratch.input_gradient.data() + i * row_stride(pairs.action_size), pairs.action_size,
                    gradients + size_t(i) * pairs.action_size);
}

/// A step of one member on the mean squared error of its values, which are those before the step, towards target(row).
template <class Unit, class Target>
void descend_square(Network& critic, int member, const Weights<Unit>& weights, Scratch<Unit>& scratch,
                    Saved<Unit>& saved, const Pairs& pairs, float* values, Target target, const Adam& adam,
                    const Team& team) {
    const auto set = [&](int first, int rows) { pairs.set(scratch, first, rows); };
    const auto differentiate = [&](int first, int rows, int block) {
        float gradient[kBlockRows<Unit>];
        head_forward(critic, weights, scratch, rows, values + first);
        for (int i = 0; i < rows; ++i)
            gradient[i] = 2.0f / saved.blocks.n * (values[first + i] - target(first + i));
        head_backward(critic, weights, scratch, rows, gradient, &saved, block);
    };
    descend(critic, member, weights, scratch, saved, adam, team, set, differentiate);
}

/// Running sums of metrics over updates of critics.
struct CriticSums {
    double loss = 0, value = 0, target = 0;
    float largest = 0;

    /// `values`: (ensemble, batch). `targets`: (batch,).
    void add(const float* values, const float* targets, int ensemble, int batch) {
        for (int row = 0; row < batch; ++row) target += targets[row];
        for (int e = 0; e < ensemble; ++e)
            for (int row = 0; row < batch; ++row, ++values) {
                const double error = double(*values) - targets[row];
                loss += error * error;
                value += *values;
                largest = larger(largest, std::fabs(*values));
            }
    }
};

}  // namespace robo_rl
