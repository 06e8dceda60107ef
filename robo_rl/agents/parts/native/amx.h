// Products of bfloat16 by AMX (Intel Advanced Matrix Extensions): one instruction multiplies a tile of 16x32 values by
// one of 32x16 and adds the products to 16x16 floats.
//
// Operands are Pairs as for vdpbf16ps, padded with zeros to whole tiles along the inner dimension. A packed panel and a
// batch of saved gradients already have the layout of the right operand. Saved inputs, the left operand of the weights'
// gradient, are transposed tile by tile when they are saved.
#pragma once

#include "bfloat16.h"

#if defined(ROBO_RL_AMX)
#include <sys/syscall.h>
#include <unistd.h>

namespace robo_rl {

/// A pair of values of a product by AMX.
struct TilePair : Pair {};

constexpr int kTile = 16;                     // rows of a tile, and units in a row
constexpr int kTileUnits = kTile * kTile;

template <>
constexpr int kDepth<TilePair> = 2;
template <>
constexpr int kStepUnit<TilePair> = kTile;
template <>
constexpr int kBlockRows<TilePair> = kMostRows;
template <>
constexpr int kBlockUnit<TilePair> = kMostRows;  // all blocks but the last are whole tiles of the weights' gradient

/// Whether the operating system lets this process use tiles; it asks once. Older kernels and some virtual machines
/// refuse, and so does Linux if a thread has an alternative signal stack that is too small for the tiles.
inline bool tiles_permitted() {
    constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    static const bool permitted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
    return permitted;
}

/// The tiles of a thread, all of 16 rows of 64 bytes. Outside its lifetime they are unused, so that a switch between
/// threads does not need to save them.
template <>
struct ProductState<TilePair> {
    ProductState() {
        alignas(64) static const struct {
            uint8_t palette = 1, start_row = 0, reserved[14] = {};
            uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
            uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
        } shape;
        // The compiler does not know that loading tiles reads memory: what was stored before must be there.
        __asm__ volatile("ldtilecfg %0" ::"m"(shape) : "memory");
    }
    ~ProductState() { _tile_release(); }
    ProductState(const ProductState&) = delete;
    ProductState& operator=(const ProductState&) = delete;
};

/// Where the tiles of an operand are: the rows of a tile at `row` units, the next tile of the inner dimension at `step`
/// units, and the tile of the next rows (of the left operand) or columns (of the right operand) at `next` units.
struct TileView {
    const Pair* data;
    ptrdiff_t row, step, next;
};

/// c[i * stride + j] = sum over k of a(i, k) * b(k, j) for one or two tiles of rows and of columns, `steps` tiles of k.
template <bool two_rows, bool two_columns>
void multiply_tiles(int steps, TileView a, TileView b, float* c, ptrdiff_t stride) {
    _tile_zero(0);
    if constexpr (two_columns) _tile_zero(1);
    if constexpr (two_rows) _tile_zero(2);
    if constexpr (two_rows && two_columns) _tile_zero(3);
    for (int k = 0; k < steps; ++k) {
        _tile_loadd(6, b.data, b.row * sizeof(Pair));
        _tile_loadd(4, a.data, a.row * sizeof(Pair));
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (two_columns) {
            _tile_loadd(7, b.data + b.next, b.row * sizeof(Pair));
            _tile_dpbf16ps(1, 4, 7);
        }
        if constexpr (two_rows) {
            _tile_loadd(5, a.data + a.next, a.row * sizeof(Pair));
            _tile_dpbf16ps(2, 5, 6);
        }
        if constexpr (two_rows && two_columns) _tile_dpbf16ps(3, 5, 7);
        a.data += a.step;
        b.data += b.step;
    }
    _tile_stored(0, c, stride * sizeof(float));
    if constexpr (two_columns) _tile_stored(1, c + kTile, stride * sizeof(float));
    if constexpr (two_rows) _tile_stored(2, c + kTile * stride, stride * sizeof(float));
    if constexpr (two_rows && two_columns) _tile_stored(3, c + kTile * stride + kTile, stride * sizeof(float));
}

/// The same for at most 2 * kTile rows and columns; it writes whole tiles.
inline void multiply_tiles(int rows, int columns, int steps, TileView a, TileView b, float* c, ptrdiff_t stride) {
    if (rows > kTile)
        columns > kTile ? multiply_tiles<true, true>(steps, a, b, c, stride)
                        : multiply_tiles<true, false>(steps, a, b, c, stride);
    else
        columns > kTile ? multiply_tiles<false, true>(steps, a, b, c, stride)
                        : multiply_tiles<false, false>(steps, a, b, c, stride);
}

inline void multiply(int rows, View<TilePair> a, const Panels<TilePair>& b, float* c, ptrdiff_t stride) {
    const ProductState<TilePair> tiles;
    for (int p = 0; p < b.count(); ++p)
        for (int i = 0; i < rows; i += 2 * kTile)
            multiply_tiles(rows - i, b.registers(p) * kLanes, b.steps / kTile,
                           {a.data + i * a.row, a.row, kTile, kTile * a.row},
                           {b.panel(p), b.step(p), kTile * b.step(p), kTile}, c + i * stride + p * kTileColumns, stride);
}

inline View<TilePair> left_operand(const float* rows, int count, int width, TilePair* units) {
    const int stride = row_stride(width), unit_stride = row_stride(divide_up(width, 2));
    const int padded = round_up(width, kLanes), whole = padded / (2 * kLanes) * 2 * kLanes;
    for (int i = 0; i < count; ++i) {
        const float* row = rows + i * stride;
        Pair* to = units + i * unit_stride;
        for (int j = 0; j < whole; j += 2 * kLanes) _mm512_storeu_si512(to + j / 2, pair_neighbours(row + j));
        if (whole < padded)  // the padding of a row ends in the middle of a tile
            _mm512_storeu_si512(to + whole / 2, (__m512i)_mm512_cvtne2ps_pbh(Vector{}, load(row + whole)));
    }
    return {units, unit_stride, 1};
}

inline float* room_for_rows(float* own, TilePair* /*batch*/, int /*width*/, int /*first*/) { return own; }

/// The row of a block, or zeros after its end: the batch is padded to whole tiles.
inline Vector load_row(const float* rows, int row, int count, int stride) {
    return row < count ? load(rows + row * stride) : Vector{};
}

/// The right operand of the weights' gradient.
inline void save_gradients(const float* rows, int count, int width, int first, TilePair* batch) {
    const int stride = row_stride(width);
    for (int i = 0; i < round_up(count, 2 * kTile); i += 2)
        for (int j = 0; j < width; j += kLanes)
            _mm512_storeu_si512(batch + size_t((first + i) / 2) * stride + j,
                                pair_rows(load_row(rows + j, i, count, stride), load_row(rows + j, i + 1, count, stride)));
}

/// The left operand: tile after tile along the width, then along the batch.
inline void save_inputs(const float* rows, int count, int width, int first, TilePair* batch) {
    const int stride = row_stride(width);
    TilePair* tile = batch + size_t(first / (2 * kTile)) * divide_up(width, kTile) * kTileUnits;
    for (int i = 0; i < count; i += 2 * kTile)
        for (int j = 0; j < width; j += kTile, tile += kTileUnits) {
            Vector block[kLanes];
            for (int k = 0; k < kTile; ++k)
                block[k] = (Vector)pair_rows(load_row(rows + j, i + 2 * k, count, stride),
                                             load_row(rows + j, i + 2 * k + 1, count, stride));
            transpose(block);
            for (int k = 0; k < kTile; ++k) store(reinterpret_cast<float*>(tile + k * kTile), block[k]);
        }
}

template <>
inline Blocks gradient_blocks<TilePair>(int in) {
    return {in, 2 * kTile, 2 * kTile};
}

inline void gradient_tile(int row, int rows, int column, int in, int out, const TilePair* inputs,
                          const TilePair* gradients, int batch, float* result) {
    const int stride = row_stride(out);
    multiply_tiles(rows, out - column, divide_up(batch, 2 * kTile),
                   {inputs + row * kTile, kTile, ptrdiff_t(divide_up(in, kTile)) * kTileUnits, kTileUnits},
                   {gradients + column, stride, ptrdiff_t(kTile) * stride, kTile},
                   result + size_t(row) * stride + column, stride);
}

}  // namespace robo_rl
#endif
