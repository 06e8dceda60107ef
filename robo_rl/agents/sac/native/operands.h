// How float32 data becomes the operands of products: packed weights, rows of activations, saved batches.
//
// Each function has one overload for each kind of unit; this file holds those for float.
#pragma once

#include "gemm.h"

namespace robo_rl {

/// Values of the inner dimension in one unit.
template <class Unit>
constexpr int kDepth = 1;

inline Vector load_at_most(const float* source, int count) {
    return count >= kLanes ? load(source) : load_some(source, count < 0 ? 0 : count);
}

/// Panel `p` of the weights (in, out) as right operand of inputs times weights.
inline void pack_weights(const float* weights, int in, int out, int p, Panels<float>& packed) {
    float* to = packed.panel(p);
    for (int k = 0; k < in; ++k)
        for (int j = 0; j < packed.registers(p); ++j, to += kLanes) {
            const int column = p * kTileColumns + j * kLanes;
            store(to, load_at_most(weights + size_t(k) * out + column, out - column));
        }
}

/// Panel `p` of the transposed weights (out, in) as right operand of output gradients times transposed weights.
inline void pack_transposed(const float* weights, int in, int out, int p, Panels<float>& packed) {
    for (int j = 0; j < packed.registers(p); ++j)
        for (int k = 0; k < out; k += kLanes) {
            Vector block[kLanes];
            for (int i = 0; i < kLanes; ++i) {
                const int row = p * kTileColumns + j * kLanes + i;
                block[i] = row < in ? load_at_most(weights + size_t(row) * out + k, out - k) : Vector{};
            }
            transpose(block);
            float* to = packed.panel(p) + k * packed.step(p) + j * kLanes;
            for (int i = 0; i < kLanes && k + i < out; ++i) store(to + i * packed.step(p), block[i]);
        }
}

/// Rows (rows, width) as left operand of a product over the width. `units` is room for the kinds that need it.
inline View<float> left_operand(const float* values, int /*rows*/, int /*width*/, int stride, float* /*units*/) {
    return {values, stride, 1};
}

/// Save rows of a batch, from row `first` on, for a product over the batch.
inline void save_rows(const float* values, int rows, int stride, int first, float* batch) {
    std::memcpy(batch + size_t(first) * stride, values, sizeof(float) * rows * stride);
}

}  // namespace robo_rl
