// Values as distributions over bins of equal width; robo_rl/agents/parts/categorical.py defines them.
//
// A row has one number for each bin and is padded to whole registers: shares and gradients with zeros, logits with any
// finite values.
#pragma once

#include "layer.h"

namespace robo_rl {

class Bins {
   public:
    Bins(int count, double low, double high)
        : count_(count),
          low_(low),
          width_((high - low) / count),
          centres_(row_stride(count)),
          inside_(row_stride(count)) {
        for (int k = 0; k < count; ++k) {
            centres_.data()[k] = float(low + (k + 0.5) * width_);
            inside_.data()[k] = 1.0f;
        }
    }

    /// shares = softmax(logits); return the logarithm of the sum of the exponentials of the logits.
    float softmax(const float* logits, float* shares) const {
        constexpr float kLowest = -3e38f;
        float largest = kLowest;
        for (int j = 0; j < count_; j += kLanes) {
            const Vector x = load(inside_.data() + j) > 0.0f ? load(logits + j) : broadcast(kLowest);
            for (int i = 0; i < kLanes; ++i) largest = x[i] > largest ? x[i] : largest;
        }
        Vector total{};
        for (int j = 0; j < count_; j += kLanes) {  // a logit that is NaN makes the total NaN, whatever is largest
            const Vector x = exponential(load(logits + j) - largest) * load(inside_.data() + j);
            store(shares + j, x);
            total += x;
        }
        const float normaliser = sum(total);
        for (int j = 0; j < count_; j += kLanes) store(shares + j, load(shares + j) / normaliser);
        return largest + std::log(normaliser);
    }

    /// The mean of the centres, weighted by the shares.
    float value(const float* shares) const {
        Vector total{};
        for (int j = 0; j < count_; j += kLanes) total += load(shares + j) * load(centres_.data() + j);
        return sum(total);
    }

    /// Replace the shares by the gradient of their value with respect to the logits: p (centre - value).
    void value_gradient(float value, float* shares) const {
        for (int j = 0; j < count_; j += kLanes)
            store(shares + j, load(shares + j) * (load(centres_.data() + j) - value));
    }

    /// Return - sum of target * log shares; replace the shares by its gradient with respect to the logits, times
    /// `weight`.
    float cross_entropy(const float* logits, float log_normaliser, const float* target, float weight,
                        float* shares) const {
        Vector total{};
        for (int j = 0; j < count_; j += kLanes) {
            const Vector wanted = load(target + j);
            total += wanted * (log_normaliser - load(logits + j));
            store(shares + j, (load(shares + j) - wanted) * weight);
        }
        return sum(total);
    }

    /// HL-Gauss: the shares of a Gaussian around `target` that lie in the bins.
    void project(float target, float* shares) const {
        constexpr double kSigma = 0.75, kRootOfTwo = 1.4142135623730951;  // the deviation, in widths of a bin
        double at = (target - low_) / width_;                             // in widths of a bin too; NaN stays NaN
        at = at < 0 ? 0 : (at > count_ ? count_ : at);
        const auto below = [&](int edge) { return std::erf(float((edge - at) / (kSigma * kRootOfTwo))); };
        const float first = below(0);
        float last = first;
        for (int k = 0; k < count_; ++k) {
            const float next = below(k + 1);
            shares[k] = next - last;
            last = next;
        }
        for (int k = 0; k < count_; ++k) shares[k] /= last - first;
    }

   private:
    int count_;
    double low_, width_;
    Buffer<float> centres_, inside_;  // inside: one for a bin, zero behind the last
};

}  // namespace robo_rl
