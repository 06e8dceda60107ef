// Portable vectors: one register of floats through the vector extensions of GCC and Clang, and the few
// elementary functions that the update needs.
//
// Comparisons are written so that they keep NaN (as `x < low ? low : x` does): a diverged run must be noticed.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace robo_rl {

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__linux__)
#define ROBO_RL_AMX  // see amx.h
#endif

#if defined(__AVX512F__)
constexpr int kLanes = 16;         // floats in a register
constexpr int kTileRows = 14;      // micro-kernel: 14 rows of 2 registers leave 4 of the 32 for operands
constexpr int kTileRegisters = 2;  // registers in a row of the micro-kernel's tile
#elif defined(__AVX__)
constexpr int kLanes = 8;
constexpr int kTileRows = 6;
constexpr int kTileRegisters = 2;
#elif defined(__aarch64__)
constexpr int kLanes = 4;
constexpr int kTileRows = 8;
constexpr int kTileRegisters = 3;
#else
constexpr int kLanes = 4;
constexpr int kTileRows = 4;
constexpr int kTileRegisters = 2;
#endif

#if defined(ROBO_RL_AMX)
constexpr int kMostRows = 32;  // rows of a block, for whichever kind of unit they are most
#else
constexpr int kMostRows = kTileRows;
#endif

typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t IntVector __attribute__((vector_size(kLanes * sizeof(int32_t))));

inline Vector load(const float* source) {
    Vector x;
    std::memcpy(&x, source, sizeof x);
    return x;
}

inline void store(float* destination, Vector x) { std::memcpy(destination, &x, sizeof x); }

inline Vector broadcast(float x) { return Vector{} + x; }

/// The first `count` lanes; the others are zero.
inline Vector load_some(const float* source, int count) {
    float lanes[kLanes] = {};
    std::memcpy(lanes, source, count * sizeof(float));
    return load(lanes);
}

inline void store_some(float* destination, Vector x, int count) {
    float lanes[kLanes];
    store(lanes, x);
    std::memcpy(destination, lanes, count * sizeof(float));
}

/// Ones in the first `count` lanes, zeros in the others.
inline Vector lane_mask(int count) {
    Vector mask{};
    for (int i = 0; i < kLanes; ++i) mask[i] = i < count ? 1.0f : 0.0f;
    return mask;
}

/// Lane i of the result is lane index(i) of the 2 * kLanes lanes of `a` followed by `b`.
template <class Index>
inline Vector shuffle(Vector a, Vector b, Index index) {
#if defined(__clang__)
    Vector x;
    for (int i = 0; i < kLanes; ++i) x[i] = index(i) < kLanes ? a[index(i)] : b[index(i) - kLanes];
    return x;
#else
    IntVector lanes{};
    for (int i = 0; i < kLanes; ++i) lanes[i] = index(i);
    return __builtin_shuffle(a, b, lanes);
#endif
}

template <int half>
inline Vector add_halves(Vector x) {
    if constexpr (half > 0) {
        return add_halves<half / 2>(x + shuffle(x, x, [](int i) { return i ^ half; }));
    } else {
        return x;
    }
}

/// Sum of all lanes, always in the same order.
inline float sum(Vector x) { return add_halves<kLanes / 2>(x)[0]; }

/// One step of the transposition below: exchange the off-diagonal blocks of size `half`.
template <int half>
inline void exchange_blocks(Vector (&rows)[kLanes]) {
    if constexpr (half > 0) {
        for (int i = 0; i < kLanes; ++i) {
            if (i & half) continue;
            const Vector upper = rows[i], lower = rows[i + half];
            rows[i] = shuffle(upper, lower, [](int lane) { return lane & half ? lane - half + kLanes : lane; });
            rows[i + half] = shuffle(upper, lower, [](int lane) { return lane & half ? lane + kLanes : lane + half; });
        }
        exchange_blocks<half / 2>(rows);
    }
}

/// Transpose a square block held in registers.
inline void transpose(Vector (&rows)[kLanes]) { exchange_blocks<kLanes / 2>(rows); }

inline Vector minimum(Vector x, float high) { return x > high ? broadcast(high) : x; }
inline Vector maximum(Vector x, float low) { return x < low ? broadcast(low) : x; }
inline Vector absolute(Vector x) { return x < 0.0f ? -x : x; }

inline Vector square_root(Vector x) {
    Vector root;
    for (int i = 0; i < kLanes; ++i) root[i] = std::sqrt(x[i]);  // compilers emit one instruction for it
    return root;
}

/// exp(x) to about two units in the last place; x is clipped to [-87, 88].
inline Vector exponential(Vector x) {
    x = minimum(maximum(x, -87.0f), 88.0f);
    const float kRound = 12582912.0f;                               // 1.5 * 2^23: adding it rounds to an integer
    const Vector shifted = x * 1.44269504f + kRound;                // the integer n nearest to x / log 2 ...
    const Vector n = shifted - kRound;
    const Vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;   // ... and x - n log 2, in two parts
    Vector p = broadcast(1.0f / 5040.0f);                           // Taylor series on |r| <= log(2) / 2
    for (float coefficient : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) p = p * r + coefficient;
    const IntVector power = (((IntVector)shifted << 23) + (127 << 23));  // bits of 2^n
    return p * (Vector)power;
}

/// log(1 + z) for z in [0, 1], through 2 artanh(z / (2 + z)).
inline Vector log_one_plus(Vector z) {
    const Vector s = z / (z + 2.0f), s2 = s * s;
    Vector p = broadcast(1.0f / 15.0f);
    for (float odd : {13.0f, 11.0f, 9.0f, 7.0f, 5.0f, 3.0f, 1.0f}) p = p * s2 + 1.0f / odd;
    return 2.0f * s * p;
}

/// log(1 + exp(x)).
inline Vector softplus(Vector x) { return maximum(x, 0.0f) + log_one_plus(exponential(-absolute(x))); }

inline Vector sigmoid(Vector x) { return 1.0f / (1.0f + exponential(-x)); }

/// tanh(x): the Taylor series near zero, where 1 - 2 / (exp(2x) + 1) would cancel.
inline Vector hyperbolic_tangent(Vector x) {
    const Vector x2 = x * x;
    Vector p = broadcast(-1382.0f / 155925);
    for (float coefficient : {62.0f / 2835, -17.0f / 315, 2.0f / 15, -1.0f / 3, 1.0f}) p = p * x2 + coefficient;
    const Vector far = 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f);
    return absolute(x) < 0.4f ? x * p : far;
}

}  // namespace robo_rl
