// The tanh-Gaussian policy: actions, log densities, and the gradient of the actor's loss.
#pragma once

#include "layer.h"

namespace robo_rl {

constexpr float kLogStdMin = -20.0f, kLogStdMax = 2.0f;
constexpr float kLog2 = 0.69314718f, kHalfLogTwoPi = 0.91893853f;

/// One row of the actor's output, `registers` at a time: means, then log standard deviations.
struct ActionRow {
    const float *output, *noise;
    int size;

    Vector mean(int j) const { return load_at_most(output + j, size - j); }
    Vector raw_log_std(int j) const { return load_at_most(output + size + j, size - j); }
    Vector log_std(int j) const { return minimum(maximum(raw_log_std(j), kLogStdMin), kLogStdMax); }
    Vector scaled_noise(int j) const { return exponential(log_std(j)) * load_at_most(noise + j, size - j); }
};

/// action = tanh(mean + std * noise); return log pi(action). The tanh has log-derivative
/// 2 (log 2 - u - softplus(-2 u)), which is exact for large |u|.
inline float sample_action(const ActionRow& row, float* action) {
    Vector total{};
    for (int j = 0; j < row.size; j += kLanes) {
        const int count = row.size - j < kLanes ? row.size - j : kLanes;
        const Vector noise = load_at_most(row.noise + j, count);
        const Vector u = row.mean(j) + row.scaled_noise(j);
        const Vector correction = 2.0f * (kLog2 - u - softplus(-2.0f * u));
        total += lane_mask(count) * (-0.5f * noise * noise - row.log_std(j) - kHalfLogTwoPi - correction);
        store_some(action + j, hyperbolic_tangent(u), count);
    }
    return sum(total);
}

/// The gradient of alpha * log pi - Q with respect to one row of the actor's output, times `weight`; `q_gradient` is
/// dQ/da. d log pi / du = 2 tanh(u), and d log pi / d log std = -1 in addition to the part through u.
inline void action_gradient(const ActionRow& row, const float* action, const float* q_gradient, float alpha,
                            float weight, float* gradient) {
    for (int j = 0; j < row.size; j += kLanes) {
        const int count = row.size - j < kLanes ? row.size - j : kLanes;
        const Vector a = load_at_most(action + j, count), q = load_at_most(q_gradient + j, count);
        const Vector by_u = weight * (alpha * 2.0f * a - q * (1.0f - a * a));
        const Vector by_log_std = by_u * row.scaled_noise(j) - weight * alpha;
        const Vector raw = row.raw_log_std(j);
        const Vector clipped = raw < kLogStdMin ? Vector{} : (raw > kLogStdMax ? Vector{} : by_log_std);
        store_some(gradient + j, by_u, count);
        store_some(gradient + row.size + j, clipped, count);
    }
}

/// Add the gradient of `weight` |tanh(mean) - shown|^2, where a demonstrator proposed `shown`; return the square.
inline float add_cloning_gradient(const ActionRow& row, const float* shown, float weight, float* gradient) {
    Vector square{};
    for (int j = 0; j < row.size; j += kLanes) {
        const int count = row.size - j < kLanes ? row.size - j : kLanes;
        const Vector mode = hyperbolic_tangent(row.mean(j));
        const Vector error = lane_mask(count) * (mode - load_at_most(shown + j, count));
        const Vector by_mean = 2.0f * weight * error * (1.0f - mode * mode);
        store_some(gradient + j, load_at_most(gradient + j, count) + by_mean, count);
        square += error * error;
    }
    return sum(square);
}

/// Add the gradient of `weight` KL(policy || reference), of the Gaussians before tanh, with respect to one row of the
/// actor's output; robo_rl/agents/parts/reference.py has the formula.
inline void add_reference_gradient(const ActionRow& row, const float* mean, const float* log_std, float weight,
                                   float* gradient) {
    for (int j = 0; j < row.size; j += kLanes) {
        const int count = row.size - j < kLanes ? row.size - j : kLanes;
        const Vector inverse = exponential(-2.0f * load_at_most(log_std + j, count));
        const Vector by_mean = weight * inverse * (row.mean(j) - load_at_most(mean + j, count));
        const Vector by_log_std = weight * (inverse * exponential(2.0f * row.log_std(j)) - 1.0f);
        const Vector raw = row.raw_log_std(j);
        const Vector clipped = raw < kLogStdMin ? Vector{} : (raw > kLogStdMax ? Vector{} : by_log_std);
        store_some(gradient + j, load_at_most(gradient + j, count) + by_mean, count);
        float* by_deviation = gradient + row.size + j;
        store_some(by_deviation, load_at_most(by_deviation, count) + clipped, count);
    }
}

}  // namespace robo_rl
