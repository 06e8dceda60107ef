// Matrix products. One micro-kernel serves all three products of a dense layer (forward, input gradient, weight
// gradient): it multiplies a strided view, element by element, with rows of whole registers.
//
// The inner dimension counts units: one float, or (see bfloat16.h) a pair of bfloat16 values along the inner
// dimension. Sums are always float32.
#pragma once

#include <array>
#include <cstdlib>
#include <memory>
#include <new>

#include "simd.h"

namespace robo_rl {

constexpr int kTileColumns = kTileRegisters * kLanes;

inline int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }
inline int divide_up(int n, int divisor) { return (n + divisor - 1) / divisor; }

/// Distance between rows of n elements of 4 bytes: whole registers and an odd number of cache lines, since rows at a
/// power of two would share few sets of the cache.
inline int row_stride(int n) { return (divide_up(n, 16) | 1) * 16; }

/// Zeroed memory, aligned to cache lines.
template <class T>
class Buffer {
   public:
    Buffer() = default;
    explicit Buffer(size_t size) {
        const size_t bytes = (size * sizeof(T) + 63) / 64 * 64 + 64;
        data_.reset(static_cast<T*>(std::aligned_alloc(64, bytes)));
        if (!data_) throw std::bad_alloc();
        std::memset(static_cast<void*>(data_.get()), 0, bytes);
    }
    T* data() { return data_.get(); }
    const T* data() const { return data_.get(); }

   private:
    struct Free {
        void operator()(T* pointer) const { std::free(pointer); }
    };
    std::unique_ptr<T, Free> data_;
};

/// Left operand of a product: element (i, k) is data[i * row + k * step].
template <class Unit>
struct View {
    const Unit* data;
    ptrdiff_t row, step;
};

/// A row of the right operand times one element of the left operand.
inline Vector multiply_add(Vector sum, Vector row, float element) { return sum + row * element; }
inline Vector load_units(const float* source) { return load(source); }

/// c[i * stride + j] = sum over k of a(i, k) * b[k * b_step + j], for `rows` rows and `registers` registers.
template <class Unit, int rows, int registers>
void micro_kernel(int steps, View<Unit> a, const Unit* b, ptrdiff_t b_step, float* c, ptrdiff_t stride) {
    Vector sum[rows][registers];
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < registers; ++j) sum[i][j] = Vector{};
    const Unit* left = a.data;
    for (int k = 0; k < steps; ++k) {
        decltype(load_units(b)) right[registers];
#pragma GCC unroll 4
        for (int j = 0; j < registers; ++j) right[j] = load_units(b + j * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < rows; ++i) {
            const Unit element = left[i * a.row];
#pragma GCC unroll 4
            for (int j = 0; j < registers; ++j) sum[i][j] = multiply_add(sum[i][j], right[j], element);
        }
        left += a.step;
        b += b_step;
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < registers; ++j) store(c + i * stride + j * kLanes, sum[i][j]);
}

/// The micro-kernels for every height and width of a tile.
template <class Unit>
struct Kernels {
    using Kernel = void (*)(int, View<Unit>, const Unit*, ptrdiff_t, float*, ptrdiff_t);

    template <size_t... i>
    static constexpr std::array<Kernel, sizeof...(i)> all(std::index_sequence<i...>) {
        return {&micro_kernel<Unit, i / kTileRegisters + 1, i % kTileRegisters + 1>...};
    }
    static Kernel of(int rows, int registers) {
        static constexpr auto table = all(std::make_index_sequence<kTileRows * kTileRegisters>());
        return table[(rows - 1) * kTileRegisters + registers - 1];
    }
};

/// Rows of a block that passes through a network, at most.
template <class Unit>
constexpr int kBlockRows = kTileRows;

/// The first rows of all blocks are multiples of this: no unit of a saved batch is in two blocks.
template <class Unit>
constexpr int kBlockUnit = 2;

/// Steps of the inner dimension of a product are padded to multiples of this.
template <class Unit>
constexpr int kStepUnit = 1;

/// What a thread needs while it computes products of this kind of unit: for most nothing.
template <class Unit>
struct ProductState {
    ProductState() {}
};

/// The right operand in panels of kTileColumns columns, each panel contiguous, in the order of the micro-kernel.
template <class Unit>
struct Panels {
    Panels(int least_steps, int columns)
        : steps(round_up(least_steps, kStepUnit<Unit>)),
          columns(columns),
          units(size_t(steps) * round_up(columns, kLanes)) {}

    int count() const { return divide_up(columns, kTileColumns); }
    int registers(int panel) const {
        const int left = divide_up(columns - panel * kTileColumns, kLanes);
        return left < kTileRegisters ? left : kTileRegisters;
    }
    Unit* panel(int index) { return units.data() + size_t(index) * kTileColumns * steps; }
    const Unit* panel(int index) const { return units.data() + size_t(index) * kTileColumns * steps; }
    ptrdiff_t step(int index) const { return registers(index) * kLanes; }

    int steps, columns;
    Buffer<Unit> units;
};

/// c = a b for at most kTileRows rows, b packed.
template <class Unit>
void multiply(int rows, View<Unit> a, const Panels<Unit>& b, float* c, ptrdiff_t stride) {
    for (int p = 0; p < b.count(); ++p)
        Kernels<Unit>::of(rows, b.registers(p))(b.steps, a, b.panel(p), b.step(p), c + p * kTileColumns, stride);
}

/// n items in blocks of at most `largest`, as equal as possible: block i is [start(i), start(i + 1)).
struct Blocks {
    int n, count, unit;

    /// `unit`: all starts are multiples of it; it divides `largest`.
    Blocks(int n, int largest, int unit = 1) : n(n), count(divide_up(n, largest)), unit(unit) {}
    int start(int i) const {
        const int at = int(int64_t(divide_up(n, unit)) * i / count) * unit;
        return at < n ? at : n;
    }
    int size(int i) const { return start(i + 1) - start(i); }
};

/// The blocks of a batch of n rows.
template <class Unit>
Blocks row_blocks(int n) {
    return {n, kBlockRows<Unit>, kBlockUnit<Unit>};
}

}  // namespace robo_rl
