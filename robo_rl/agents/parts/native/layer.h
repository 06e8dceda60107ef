// The operations of a dense layer around its product, on a block of rows: bias, LayerNorm and activation, and back.
#pragma once

#include "adam.h"

namespace robo_rl {

enum class Activation { kNone = 0, kRelu = 1, kTanh = 2, kSilu = 3, kGelu = 4 };

/// Dense -> LayerNorm (if `scale.value`) -> activation.
struct Layer {
    int in, out;
    Activation activation;
    Tensor weight, bias, scale, shift;

    bool normalised() const { return scale.value != nullptr; }
};

/// One member's vectors, padded with zeros to whole registers.
struct LayerVectors {
    explicit LayerVectors(int width) : bias(row_stride(width)), scale(row_stride(width)), shift(row_stride(width)) {}

    void copy(const Layer& layer, int member, bool target) {
        std::memcpy(bias.data(), layer.bias.of(member, target), layer.out * sizeof(float));
        if (!layer.normalised()) return;
        std::memcpy(scale.data(), layer.scale.of(member, target), layer.out * sizeof(float));
        std::memcpy(shift.data(), layer.shift.of(member, target), layer.out * sizeof(float));
    }

    Buffer<float> bias, scale, shift;
};

template <class Unit>
struct PackedLayer {
    PackedLayer(const Layer& layer, int skipped_inputs)
        : forward(divide_up(layer.in, kDepth<Unit>), layer.out),
          backward(divide_up(layer.out, kDepth<Unit>), layer.in - skipped_inputs),
          vectors(layer.out) {}

    Panels<Unit> forward, backward;
    LayerVectors vectors;
};

/// Values of the forward pass that the backward pass of a layer needs for the same block.
struct LayerBlock {
    explicit LayerBlock(int width) : normal(kMostRows * row_stride(width)) {}

    Buffer<float> normal;            // before scale and shift, or without LayerNorm before the activation
    float inverse_deviation[kMostRows];
};

/// Sums over the rows of a block: gradients of the parameters that are vectors of the width of the layer.
enum SumKind { kBiasSum, kScaleSum, kShiftSum, kHeadSum, kSums };

struct BlockSums {
    float* data = nullptr;
    int stride = 0;

    float* row(SumKind kind) const { return data + kind * stride; }
};

/// GELU with tanh, x (1 + tanh u) / 2 = x sigmoid(2 u), where 2 u = x (kGeluSlope + kGeluCube x^2).
constexpr float kGeluSlope = 1.59576912f, kGeluCube = 1.59576912f * 0.044715f;

template <Activation activation>
inline Vector activation_value(Vector x) {
    if constexpr (activation == Activation::kRelu) return maximum(x, 0.0f);
    if constexpr (activation == Activation::kTanh) return hyperbolic_tangent(x);
    if constexpr (activation == Activation::kSilu) return x * sigmoid(x);
    if constexpr (activation == Activation::kGelu) return x * sigmoid(x * (kGeluSlope + kGeluCube * x * x));
    return x;
}

/// The derivative at x, given the activation y.
template <Activation activation>
inline Vector activation_slope(Vector x, Vector y) {
    const Vector zero{};
    if constexpr (activation == Activation::kRelu) return y > zero ? zero + 1.0f : zero;
    if constexpr (activation == Activation::kTanh) return 1.0f - y * y;
    if constexpr (activation == Activation::kSilu) {
        const Vector s = sigmoid(x);
        return s + y * (1.0f - s);
    }
    if constexpr (activation == Activation::kGelu) {
        x = minimum(maximum(x, -10.0f), 10.0f);  // the slope is 0 or 1 beyond, and squares stay finite
        const Vector square = x * x, e = exponential(-x * (kGeluSlope + kGeluCube * square));
        const Vector s = 1.0f / (1.0f + e);  // e s = 1 - s without cancellation
        return s + x * (e * s) * s * (kGeluSlope + 3.0f * kGeluCube * square);
    }
    return zero + 1.0f;
}

template <Activation activation, bool normalised>
void activate_rows(int width, const LayerVectors& vectors, LayerBlock& block, float* output, int rows) {
    constexpr float kEpsilon = 1e-6f;
    const int stride = row_stride(width), last = (width - 1) / kLanes * kLanes;
    const Vector mask = lane_mask(width - last);
    const float *bias = vectors.bias.data(), *scale = vectors.scale.data(), *shift = vectors.shift.data();
    float mean[kMostRows];
    if constexpr (normalised) {  // one loop over the rows for each pass, as rows can then be in flight together
        for (int i = 0; i < rows; ++i) {
            float* x = block.normal.data() + i * stride;
            Vector total{};
            for (int j = 0; j < width; j += kLanes) {
                const Vector value = load(x + j) + load(bias + j);
                store(x + j, value);
                total += value;
            }
            mean[i] = sum(total) / width;
        }
        for (int i = 0; i < rows; ++i) {
            const float* x = block.normal.data() + i * stride;
            const Vector end = (load(x + last) - mean[i]) * mask;
            Vector squares = end * end;
            for (int j = 0; j < last; j += kLanes) squares += (load(x + j) - mean[i]) * (load(x + j) - mean[i]);
            block.inverse_deviation[i] = 1.0f / std::sqrt(sum(squares) / width + kEpsilon);
        }
    }
    for (int i = 0; i < rows; ++i) {
        float* x = block.normal.data() + i * stride;
        for (int j = 0; j < width; j += kLanes) {
            Vector value;
            if constexpr (normalised) {
                value = (load(x + j) - mean[i]) * block.inverse_deviation[i];
                store(x + j, value);
                value = value * load(scale + j) + load(shift + j);
            } else {
                value = load(x + j) + load(bias + j);
                store(x + j, value);
            }
            store(output + i * stride + j, activation_value<activation>(value));
        }
    }
}

template <Activation activation, bool normalised>
void activate_rows_backward(int width, const LayerVectors& vectors, const LayerBlock& block, const float* output,
                            float* gradient, int rows, BlockSums sums) {
    const int stride = row_stride(width);
    const float *scale = vectors.scale.data(), *shift = vectors.shift.data(), *normal = block.normal.data();
    float mean[kMostRows], correlation[kMostRows];  // of the gradient of the normalised values, and with them
    for (int i = 0; i < rows; ++i) {
        Vector total{}, products{};
        for (int j = 0; j < width; j += kLanes) {
            const int at = i * stride + j;
            Vector x = load(normal + at);
            if constexpr (normalised) x = x * load(scale + j) + load(shift + j);
            const Vector inner = load(gradient + at) * activation_slope<activation>(x, load(output + at));
            store(gradient + at, inner);
            if constexpr (normalised) {
                total += inner * load(scale + j);
                products += inner * load(scale + j) * load(normal + at);
            }
        }
        mean[i] = sum(total) / width;
        correlation[i] = sum(products) / width;
    }
    for (int j = 0; j < width; j += kLanes) {
        Vector bias_sum{}, scale_sum{}, shift_sum{};
        for (int i = 0; i < rows; ++i) {
            const int at = i * stride + j;
            Vector inner = load(gradient + at);
            if constexpr (normalised) {
                const Vector x = load(normal + at);
                shift_sum += inner;
                scale_sum += inner * x;
                inner = (inner * load(scale + j) - mean[i] - x * correlation[i]) * block.inverse_deviation[i];
                store(gradient + at, inner);
            }
            bias_sum += inner;
        }
        if (!sums.data) continue;
        store(sums.row(kBiasSum) + j, bias_sum);
        store(sums.row(kScaleSum) + j, scale_sum);
        store(sums.row(kShiftSum) + j, shift_sum);
    }
}

/// Call f.template operator()<activation, normalised>() for the layer's kind.
template <class F>
void dispatch(const Layer& layer, F f) {
    const auto with = [&](auto activation) {
        layer.normalised() ? f(activation, std::true_type{}) : f(activation, std::false_type{});
    };
    switch (layer.activation) {
        case Activation::kNone: return with(std::integral_constant<Activation, Activation::kNone>{});
        case Activation::kRelu: return with(std::integral_constant<Activation, Activation::kRelu>{});
        case Activation::kTanh: return with(std::integral_constant<Activation, Activation::kTanh>{});
        case Activation::kSilu: return with(std::integral_constant<Activation, Activation::kSilu>{});
        case Activation::kGelu: return with(std::integral_constant<Activation, Activation::kGelu>{});
    }
}

/// block.normal holds the product; add the bias, normalise in place, and write the activations to `output`.
inline void activate(const Layer& layer, const LayerVectors& vectors, LayerBlock& block, float* output, int rows) {
    dispatch(layer, [&](auto activation, auto normalised) {
        activate_rows<activation(), normalised()>(layer.out, vectors, block, output, rows);
    });
}

/// Replace the gradient of the layer's output in `gradient` by that of its product; write the sums over rows to `sums`.
inline void activate_backward(const Layer& layer, const LayerVectors& vectors, const LayerBlock& block,
                              const float* output, float* gradient, int rows, BlockSums sums) {
    dispatch(layer, [&](auto activation, auto normalised) {
        activate_rows_backward<activation(), normalised()>(layer.out, vectors, block, output, gradient, rows, sums);
    });
}

}  // namespace robo_rl
