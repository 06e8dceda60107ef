// A multi-layer perceptron on blocks of a few rows: forward, backward, and the optimiser's step.
//
// A block of rows passes through the whole network, forward and back, while it is in the nearest cache; only the
// weights stream by. What remains for the second stage is the gradient of each weight, a sum over the batch, and
// there each tile of the gradient goes from registers straight into Adam: gradients never reach memory.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "adam.h"
#include "layer.h"
#include "threads.h"

namespace robo_rl {

/// A network of an ensemble; all tensors are stacked over the members.
struct Network {
    std::vector<Layer> layers;
    bool scalar_head = false;      // one output per member, from the last layer's activations
    Tensor head_weight, head_bias;

    int inputs() const { return layers.front().in; }
    int outputs() const { return layers.back().out; }
    int widest() const {
        int width = inputs();
        for (const Layer& layer : layers) width = std::max(width, layer.out);
        return width;
    }
};

/// Which transposed weights are packed: those that the gradient passes.
enum class Backward { kNone, kHidden, kInput };

/// One member's parameters, packed for the products.
template <class Unit>
struct Weights {
    /// The gradient of the input is taken from column `gradient_from` on.
    Weights(const Network& network, int gradient_from)
        : gradient_from(gradient_from), head(row_stride(network.outputs())) {
        for (const Layer& layer : network.layers) {
            const int skipped = layers.empty() ? gradient_from : 0;
            layers.emplace_back(layer, skipped);
        }
    }

    void pack(const Network& network, int member, bool target, Backward backward, const Team& team) {
        for (size_t l = 0; l < layers.size(); ++l) {
            const Layer& layer = network.layers[l];
            PackedLayer<Unit>& packed = layers[l];
            const float* weights = layer.weight.of(member, target);
            const Share forward = team.share(packed.forward.count());
            for (int p = forward.begin; p < forward.end; ++p)
                pack_weights(weights, layer.in, layer.out, p, packed.forward);
            if (backward == Backward::kInput || (backward == Backward::kHidden && l > 0)) {
                const int skipped = l == 0 ? gradient_from : 0;
                const Share share = team.share(packed.backward.count());
                for (int p = share.begin; p < share.end; ++p)
                    pack_transposed(weights + size_t(skipped) * layer.out, layer.in - skipped, layer.out, p,
                                    packed.backward);
            }
            if (team.rank == 0) packed.vectors.copy(layer, member, target);
        }
        if (team.rank == 0 && network.scalar_head) {
            std::copy_n(network.head_weight.of(member, target), network.outputs(), head.data());
            head_bias = *network.head_bias.of(member, target);
        }
    }

    int gradient_from;
    std::vector<PackedLayer<Unit>> layers;
    Buffer<float> head;
    float head_bias = 0;
};

/// A thread's own room for one block of rows.
template <class Unit>
struct Scratch {
    explicit Scratch(const Network& network) : units(kTileRows * row_stride(network.widest())) {
        for (Buffer<float>& buffer : gradients) buffer = Buffer<float>(kTileRows * row_stride(network.widest()));
        activations.emplace_back(kTileRows * row_stride(network.inputs()));
        for (const Layer& layer : network.layers) {
            activations.emplace_back(kTileRows * row_stride(layer.out));
            blocks.emplace_back(layer.out);
        }
    }

    float* input() { return activations.front().data(); }
    float* output() { return activations.back().data(); }

    std::vector<Buffer<float>> activations;  // the input, and the output of each layer
    std::vector<LayerBlock> blocks;
    Buffer<float> gradients[2];
    Buffer<Unit> units;
};

/// What the first stage leaves for the second, for a whole batch: inputs and gradients of each layer's product,
/// and sums over each block for the parameters that are vectors.
template <class Unit>
struct Saved {
    Saved(const Network& network, int batch) : blocks(batch, kTileRows, 2), head_bias(blocks.count) {
        const size_t rows = round_up(batch, 2) / kDepth<Unit>;
        for (const Layer& layer : network.layers) {
            inputs.emplace_back(rows * row_stride(layer.in));
            gradients.emplace_back(rows * row_stride(layer.out));
            sums.emplace_back(size_t(blocks.count) * kSums * row_stride(layer.out));
        }
    }
    BlockSums of(int layer, int block, int stride) {
        return {sums[layer].data() + size_t(block) * kSums * stride, stride};
    }

    Blocks blocks;
    std::vector<Buffer<Unit>> inputs, gradients;
    std::vector<Buffer<float>> sums;
    Buffer<float> head_bias;
};

/// scratch.input() -> scratch.output().
template <class Unit>
void forward(const Network& network, const Weights<Unit>& weights, Scratch<Unit>& scratch, int rows) {
    for (size_t l = 0; l < network.layers.size(); ++l) {
        const Layer& layer = network.layers[l];
        const View<Unit> left = left_operand(scratch.activations[l].data(), rows, layer.in, row_stride(layer.in),
                                             scratch.units.data());
        multiply(rows, left, weights.layers[l].forward, scratch.blocks[l].normal.data(), row_stride(layer.out));
        activate(layer, weights.layers[l].vectors, scratch.blocks[l], scratch.activations[l + 1].data(), rows);
    }
}

/// The head's values for the rows of scratch.output().
template <class Unit>
void head_forward(const Network& network, const Weights<Unit>& weights, Scratch<Unit>& scratch, int rows,
                  float* values) {
    const int width = network.outputs(), stride = row_stride(width);
    for (int i = 0; i < rows; ++i) {
        Vector total{};
        for (int j = 0; j < width; j += kLanes)
            total += load(scratch.output() + i * stride + j) * load(weights.head.data() + j);
        values[i] = sum(total) + weights.head_bias;
    }
}

/// The gradient of the last layer's output in scratch.gradients[0], given that of the head's values.
template <class Unit>
void head_backward(const Network& network, const Weights<Unit>& weights, Scratch<Unit>& scratch, int rows,
                   const float* gradient, Saved<Unit>* saved, int block) {
    const int width = network.outputs(), stride = row_stride(width);
    for (int j = 0; j < width; j += kLanes) {
        const Vector head = load(weights.head.data() + j);
        Vector total{};
        for (int i = 0; i < rows; ++i) {
            total += load(scratch.output() + i * stride + j) * gradient[i];
            store(scratch.gradients[0].data() + i * stride + j, head * gradient[i]);
        }
        if (saved) store(saved->of(network.layers.size() - 1, block, stride).row(kHeadSum) + j, total);
    }
    if (saved) {
        float total = 0;
        for (int i = 0; i < rows; ++i) total += gradient[i];
        saved->head_bias.data()[block] = total;
    }
}

/// Back through the layers, from the gradient of the output in scratch.gradients[0]. With `saved`: leave there
/// what the optimiser needs. Return the gradient of the input from column gradient_from on (rows at the stride
/// of that many columns) if `backward` says so.
template <class Unit>
const float* backward(const Network& network, const Weights<Unit>& weights, Scratch<Unit>& scratch, int rows,
                      Backward backward, Saved<Unit>* saved, int block) {
    float* gradient = scratch.gradients[0].data();
    float* next = scratch.gradients[1].data();
    for (int l = int(network.layers.size()) - 1; l >= 0; --l) {
        const Layer& layer = network.layers[l];
        const int stride = row_stride(layer.out);
        BlockSums sums{};
        if (saved) sums = saved->of(l, block, stride);
        activate_backward(layer, weights.layers[l].vectors, scratch.blocks[l], scratch.activations[l + 1].data(),
                          gradient, rows, sums);
        if (saved) {
            const int first = saved->blocks.start(block);
            save_rows(scratch.activations[l].data(), rows, row_stride(layer.in), first, saved->inputs[l].data());
            save_rows(gradient, rows, stride, first, saved->gradients[l].data());
        }
        if (l == 0 && backward != Backward::kInput) return nullptr;
        const Panels<Unit>& transposed = weights.layers[l].backward;
        const View<Unit> left = left_operand(gradient, rows, layer.out, stride, scratch.units.data());
        multiply(rows, left, transposed, next, row_stride(transposed.columns));
        std::swap(gradient, next);
    }
    return gradient;
}

/// Sum over the blocks of a batch, in their order.
inline Vector sum_blocks(const float* sums, int blocks, size_t step) {
    Vector total{};
    for (int block = 0; block < blocks; ++block) total += load(sums + block * step);
    return total;
}

/// Second stage: the gradient of every parameter of `member`, Adam, and the target's step towards it.
template <class Unit>
void apply(Network& network, int member, Saved<Unit>& saved, int batch, const Adam& adam, const Team& team) {
    const int steps = divide_up(batch, kDepth<Unit>);
    for (size_t l = 0; l < network.layers.size(); ++l) {
        Layer& layer = network.layers[l];
        const int in_stride = row_stride(layer.in), out_stride = row_stride(layer.out);
        const int panels = divide_up(layer.out, kTileColumns);
        const Blocks tile_rows(layer.in, kTileRows);
        const Share share = team.share(panels * tile_rows.count);
        for (int task = share.begin; task < share.end; ++task) {
            const int panel = task / tile_rows.count, block = task % tile_rows.count;
            const int column = panel * kTileColumns, columns = std::min(layer.out - column, kTileColumns);
            const int row = tile_rows.start(block), rows = tile_rows.size(block);
            alignas(64) float tile[kTileRows * kTileColumns];
            const size_t corner = size_t(row) * layer.out + column;
            adam.prefetch(layer.weight, member, corner, rows, columns, layer.out);
            Kernels<Unit>::of(rows, divide_up(columns, kLanes))(steps, {saved.inputs[l].data() + row, 1, in_stride},
                                                               saved.gradients[l].data() + column, out_stride, tile,
                                                               kTileColumns);
            for (int i = 0; i < rows; ++i)
                for (int j = 0; j < columns; j += kLanes)
                    adam.step(layer.weight, member, corner + size_t(i) * layer.out + j,
                              load(tile + i * kTileColumns + j), columns - j);
            if (block > 0) continue;
            const std::pair<Tensor*, SumKind> vectors[] = {{&layer.bias, kBiasSum},
                                                           {&layer.scale, kScaleSum},
                                                           {&layer.shift, kShiftSum},
                                                           {&network.head_weight, kHeadSum}};
            for (const auto& [tensor, kind] : vectors) {
                if (tensor == &network.head_weight && l + 1 < network.layers.size()) continue;
                if (!tensor->value) continue;
                const float* sums = saved.of(l, 0, out_stride).row(kind);
                for (int j = column; j < column + columns; j += kLanes)
                    adam.step(*tensor, member, j, sum_blocks(sums + j, saved.blocks.count, kSums * out_stride),
                              layer.out - j);
            }
        }
    }
    if (network.scalar_head && team.rank == 0) {
        float total = 0;
        for (int block = 0; block < saved.blocks.count; ++block) total += saved.head_bias.data()[block];
        adam.step(network.head_bias, member, 0, broadcast(total), 1);
    }
}

}  // namespace robo_rl
