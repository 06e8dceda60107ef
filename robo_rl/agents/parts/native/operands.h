// Conversion of float32 data to the operands of products: packed weights, rows of activations, saved batches.
//
// Each function has one overload per kind of unit; this file holds the overloads for float.
#pragma once

#include "gemm.h"

namespace robo_rl {

/// Number of values of the inner dimension in one unit.
template <class Unit>
constexpr int kDepth = 1;

inline Vector load_at_most(const float* source, int count) {
    return count >= kLanes ? load(source) : load_some(source, count < 0 ? 0 : count);
}

/// Rows [first, first + kLanes) of the weights (in, out), as far as they exist: their place in the right operand of
/// inputs times weights ...
inline void pack_weights(const float* weights, int in, int out, int first, Panels<float>& packed) {
    for (int k = first; k < in && k < first + kLanes; ++k)
        for (int p = 0; p < packed.count(); ++p)
            for (int j = 0; j < packed.registers(p); ++j) {
                const int column = p * kTileColumns + j * kLanes;
                store(packed.panel(p) + k * packed.step(p) + j * kLanes,
                      load_at_most(weights + size_t(k) * out + column, out - column));
            }
}

/// ... and in that of output gradients times the transposed weights (out, in).
inline void pack_transposed(const float* weights, int in, int out, int first, Panels<float>& packed) {
    const int p = first / kTileColumns;
    const ptrdiff_t step = packed.step(p);
    for (int k = 0; k < out; k += kLanes) {
        Vector block[kLanes];
        for (int i = 0; i < kLanes; ++i)
            block[i] = first + i < in ? load_at_most(weights + size_t(first + i) * out + k, out - k) : Vector{};
        transpose(block);
        float* to = packed.panel(p) + k * step + first % kTileColumns;
        for (int i = 0; i < kLanes && k + i < out; ++i) store(to + i * step, block[i]);
    }
}

/// Rows (count, width) as the left operand of a product over the width. Some kinds of unit need the memory `units`.
inline View<float> left_operand(const float* rows, int /*count*/, int width, float* /*units*/) {
    return {rows, row_stride(width), 1};
}

/// Memory in which to compute rows that will be saved for a product over the batch: for float rows the place where
/// they are saved, for others the block's own memory.
inline float* room_for_rows(float* /*own*/, float* batch, int width, int first) {
    return batch + size_t(first) * row_stride(width);
}

/// Save rows of a batch, beginning at row `first`, that were computed in the memory above.
inline void save_rows(const float* /*rows*/, int /*count*/, int /*width*/, int /*first*/, float* /*batch*/) {}

/// The same for the left operand of a product over the batch, a layer's inputs ...
template <class Unit>
void save_inputs(const float* rows, int count, int width, int first, Unit* batch) {
    save_rows(rows, count, width, first, batch);
}

/// ... and for its right operand, the gradients.
template <class Unit>
void save_gradients(const float* rows, int count, int width, int first, Unit* batch) {
    save_rows(rows, count, width, first, batch);
}

/// Blocks of the rows of a gradient of weights.
template <class Unit>
Blocks gradient_blocks(int in) {
    return {in, kTileRows};
}

/// At most kTileColumns columns, from `column` on, of rows [row, row + rows) of the gradient of weights (in, out).
template <class Unit>
void gradient_tile(int row, int rows, int column, int in, int out, const Unit* inputs, const Unit* gradients, int batch,
                   float* result) {
    const int in_stride = row_stride(in), out_stride = row_stride(out), left = divide_up(out - column, kLanes);
    Kernels<Unit>::of(rows, left < kTileRegisters ? left : kTileRegisters)(
        divide_up(batch, kDepth<Unit>), {inputs + row, 1, in_stride}, gradients + column, out_stride,
        result + size_t(row) * out_stride + column, out_stride);
}

}  // namespace robo_rl
