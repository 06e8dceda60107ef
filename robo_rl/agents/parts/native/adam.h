// Adam (Kingma and Ba, 2015) and, in the same pass, the exponential moving average of the target network.
#pragma once

#include "operands.h"

namespace robo_rl {

/// A parameter with its moments and target, each stacked over the members of an ensemble: `size` values per member.
/// Null `value`: the network does not have the parameter. Null `target`: there is no target network.
struct Tensor {
    float *value = nullptr, *first = nullptr, *second = nullptr, *target = nullptr;
    size_t size = 0;

    const float* of(int member, bool of_target) const { return (of_target ? target : value) + member * size; }
};

struct Adam {
    // 1 - beta is written out: 1 - 0.999f has a relative error of 1e-5.
    static constexpr float kFirst = 0.9f, kFirstRest = 0.1f, kSecond = 0.999f, kSecondRest = 0.001f;
    static constexpr float kEpsilon = 1e-8f;

    static constexpr int kAhead = 1024;  // the next page, where the processor's own prefetching does not reach

    float rate;   // learning rate over the first moment's bias correction
    float scale;  // one over the square root of the second moment's bias correction
    float tau;    // the target's step towards the parameter

    /// For update number `count`, starting at 1.
    Adam(double learning_rate, int64_t count, double tau)
        : rate(float(learning_rate / (1 - std::pow(0.9, double(count))))),
          scale(float(1 / std::sqrt(1 - std::pow(0.999, double(count))))),
          tau(float(tau)) {}

    /// One step for `count` values (at most kLanes are used) at `offset` of a member.
    void step(Tensor& tensor, int member, size_t offset, Vector gradient, int count) const {
        const size_t at = member * tensor.size + offset;
        const bool whole = count >= kLanes;
        const auto get = [&](const float* from) { return whole ? load(from + at) : load_some(from + at, count); };
        const auto put = [&](float* to, Vector x) { whole ? store(to + at, x) : store_some(to + at, x, count); };

        for (const float* from : {tensor.value, tensor.first, tensor.second})
            __builtin_prefetch(from + at + kAhead, 1);
        const Vector first = get(tensor.first) * kFirst + gradient * kFirstRest;
        const Vector second = get(tensor.second) * kSecond + gradient * gradient * kSecondRest;
        const Vector value = get(tensor.value) - rate * first / (square_root(second) * scale + kEpsilon);
        put(tensor.first, first);
        put(tensor.second, second);
        put(tensor.value, value);
        if (tensor.target) {
            __builtin_prefetch(tensor.target + at + kAhead, 1);
            const Vector target = get(tensor.target);
            put(tensor.target, target + (value - target) * tau);
        }
    }
};

}  // namespace robo_rl
