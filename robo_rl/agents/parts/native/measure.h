// The products and activations of one dense layer alone, for tests and measurements, and the rate that no product can
// exceed.
#pragma once

#include "network.h"

namespace robo_rl {

/// With x (rows, in), weights w (in, out) and output gradient g (rows, out): y = x w, dx = g w^T, dw = x^T g, by the
/// functions that the update uses. Each is skipped if its result is null.
template <class Unit>
void dense_products(int rows, int in, int out, const float* x, const float* w, const float* g, float* y, float* dx,
                    float* dw) {
    Network network;
    network.layers.push_back({in, out, Activation::kNone, {}, {}, {}, {}});
    Panels<Unit> forward(divide_up(in, kDepth<Unit>), out), backward(divide_up(out, kDepth<Unit>), in);
    Saved<Unit> saved(network, rows);
    Scratch<Unit> scratch(network);
    for (int first = 0; first < in; first += kLanes) {
        if (y) pack_weights(w, in, out, first, forward);
        if (dx) pack_transposed(w, in, out, first, backward);
    }
    const int in_stride = row_stride(in), out_stride = row_stride(out);
    const auto unpad = [](const float* from, int stride, int count, int width, float* to) {
        for (int i = 0; i < count; ++i) std::copy_n(from + size_t(i) * stride, width, to + size_t(i) * width);
    };
    Buffer<float> result(size_t(kBlockRows<Unit>) * std::max(in_stride, out_stride));
    for (int block = 0; block < saved.blocks.count; ++block) {
        const int first = saved.blocks.start(block), count = saved.blocks.size(block);
        scratch.begin(&saved, first);
        for (int i = 0; i < count; ++i) {
            std::copy_n(x + size_t(first + i) * in, in, scratch.input() + i * in_stride);
            std::copy_n(g + size_t(first + i) * out, out, scratch.gradients[0] + i * out_stride);
        }
        if (y) {
            multiply(count, left_operand(scratch.input(), count, in, scratch.units.data()), forward, result.data(),
                     out_stride);
            unpad(result.data(), out_stride, count, out, y + size_t(first) * out);
        }
        if (dx) {
            multiply(count, left_operand(scratch.gradients[0], count, out, scratch.units.data()), backward,
                     result.data(), in_stride);
            unpad(result.data(), in_stride, count, in, dx + size_t(first) * in);
        }
        save_inputs(scratch.input(), count, in, first, saved.inputs[0].data());
        save_gradients(scratch.gradients[0], count, out, first, saved.gradients[0].data());
    }
    if (!dw) return;
    Barrier alone(1);
    weight_gradient(network.layers[0], saved.inputs[0], saved.gradients[0], rows, saved.weight_gradients[0].data(),
                    Team{0, 1, &alone});
    unpad(saved.weight_gradients[0].data(), out_stride, in, out, dw);
}

/// y and its slope at each of `count` values x.
inline void activations(Activation kind, int count, const float* x, float* y, float* slope) {
    dispatch({0, 0, kind, {}, {}, {}, {}}, [&](auto activation, auto) {
        for (int i = 0; i < count; i += kLanes) {
            const int some = std::min(count - i, kLanes);
            const Vector value = load_at_most(x + i, some), result = activation_value<activation()>(value);
            store_some(y + i, result, some);
            store_some(slope + i, activation_slope<activation()>(value, result), some);
        }
    });
}

#if defined(ROBO_RL_AMX)
/// Products of tiles, `steps` times: the processor's peak by AMX.
inline double saturate_tiles(int64_t steps) {
    const ProductState<TilePair> tiles;
    for (int64_t step = 0; step < steps; ++step) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    return 2.0 * steps * 4 * kTile * kTile * kTile * kDepth<TilePair>;
}
#endif

/// Multiply-adds of registers, `steps` times, with operands and sums in registers: the processor's peak. Return the
/// number of floating-point operations.
template <class Unit>
double saturate(int64_t steps) {
#if defined(ROBO_RL_AMX)
    if constexpr (std::is_same_v<Unit, TilePair>) return saturate_tiles(steps);
#endif
    constexpr int kChains = kTileRows * kTileRegisters - kTileRegisters;
    const Buffer<Unit> row(kLanes);
    const auto right = load_units(row.data());
    const Unit element = *row.data();
    Vector sums[kChains];
#pragma GCC unroll 32
    for (int i = 0; i < kChains; ++i) sums[i] = broadcast(float(i));  // otherwise the compiler would keep one for all
    for (int64_t step = 0; step < steps; ++step) {
        __asm__ volatile("" ::: "memory");  // one step after another
#pragma GCC unroll 32
        for (int i = 0; i < kChains; ++i) sums[i] = multiply_add(sums[i], right, element);
    }
    Vector total{};
#pragma GCC unroll 32
    for (int i = 0; i < kChains; ++i) total += sums[i];
    volatile float kept = sum(total);
    (void)kept;
    return 2.0 * steps * kChains * kLanes * kDepth<Unit>;
}

}  // namespace robo_rl
