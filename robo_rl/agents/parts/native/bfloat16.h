// Operands in bfloat16, two values per unit; sums, parameters and everything outside of products remain float32.
//
// vdpbf16ps adds the products of two pairs to each float of a register: twice the products of a float32
// multiply-add at half the memory. Pairs lie along the inner dimension of each product, so that a batch saved for
// the weights' gradient has two rows in a unit, and rows for the other products have two columns.
#pragma once

#include "operands.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>

namespace robo_rl {

struct Pair {
    uint32_t bits;
};

template <>
constexpr int kDepth<Pair> = 2;

inline __m512bh load_units(const Pair* source) { return (__m512bh)_mm512_loadu_si512(source); }

inline Vector multiply_add(Vector sum, __m512bh row, Pair element) {
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32(element.bits), row);
}

/// 16 pairs of neighbours from 32 consecutive values.
inline __m512i pair_neighbours(const float* values) {
    return (__m512i)_mm512_cvtne2ps_pbh(load(values + kLanes), load(values));
}

/// 16 pairs of a value from `even` and the one below it, from `odd`.
inline __m512i pair_rows(Vector even, Vector odd) {
    const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
    const __m512i spread = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), halves);
    // Each 128 bits hold 4 values of `even`, then 4 of `odd`; interleave them.
    const __m512i high = _mm512_bsrli_epi128(spread, 8);
    return _mm512_unpacklo_epi16(spread, high);
}

template <class Unit>
void pack_weights(const float* weights, int in, int out, int first, Panels<Unit>& packed) {
    for (int k = first; k < in && k < first + kLanes; k += 2)
        for (int p = 0; p < packed.count(); ++p)
            for (int j = 0; j < packed.registers(p); ++j) {
                const int column = p * kTileColumns + j * kLanes;
                const float* row = weights + size_t(k) * out + column;
                const Vector even = load_at_most(row, out - column);
                const Vector odd = k + 1 < in ? load_at_most(row + out, out - column) : Vector{};
                _mm512_storeu_si512(packed.panel(p) + k / 2 * packed.step(p) + j * kLanes, pair_rows(even, odd));
            }
}

template <class Unit>
void pack_transposed(const float* weights, int in, int out, int first, Panels<Unit>& packed) {
    const int p = first / kTileColumns;
    const ptrdiff_t step = packed.step(p);
    for (int k = 0; k < out; k += 2 * kLanes) {
        Vector block[kLanes];
        for (int i = 0; i < kLanes; ++i) {
            float row[2 * kLanes] = {};
            if (first + i < in) {
                const float* from = weights + size_t(first + i) * out + k;
                store(row, load_at_most(from, out - k));
                store(row + kLanes, load_at_most(from + kLanes, out - k - kLanes));
            }
            block[i] = (Vector)pair_neighbours(row);
        }
        transpose(block);
        Unit* to = packed.panel(p) + k / 2 * step + first % kTileColumns;
        for (int i = 0; i < kLanes && k / 2 + i < packed.steps; ++i)
            store(reinterpret_cast<float*>(to + i * step), block[i]);
    }
}

inline View<Pair> left_operand(const float* rows, int count, int width, Pair* units) {
    const int stride = row_stride(width), unit_stride = row_stride(divide_up(width, 2));
    for (int i = 0; i < count; ++i)
        for (int j = 0; j < width; j += 2 * kLanes)
            _mm512_storeu_si512(units + i * unit_stride + j / 2, pair_neighbours(rows + i * stride + j));
    return {units, unit_stride, 1};
}

inline float* room_for_rows(float* own, Pair* /*batch*/, int /*width*/, int /*first*/) { return own; }

inline void save_rows(const float* rows, int count, int width, int first, Pair* batch) {
    const int stride = row_stride(width);
    for (int i = 0; i < count; i += 2)
        for (int j = 0; j < width; j += kLanes) {
            const Vector even = load(rows + i * stride + j);
            const Vector odd = i + 1 < count ? load(rows + (i + 1) * stride + j) : Vector{};
            _mm512_storeu_si512(batch + size_t((first + i) / 2) * stride + j, pair_rows(even, odd));
        }
}

}  // namespace robo_rl
#endif
