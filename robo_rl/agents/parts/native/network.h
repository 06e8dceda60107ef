// A multi-layer perceptron on blocks of a few rows: forward, backward, and the optimiser's step.
//
// A block of rows passes through the whole network, forward and back, while it is in the nearest cache; only the
// weights are streamed. The second stage computes the gradient of each weight, a sum over the batch, layer by layer,
// and Adam uses it while it is still in a near cache.
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

/// Which transposed weights are packed: those through which the gradient passes.
enum class Backward { kNone, kHidden, kInput };

/// One member's parameters, packed for the products.
template <class Unit>
struct Weights {
    /// The gradient of the input is computed from column `gradient_from` on.
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
            const int skipped = l == 0 ? gradient_from : 0;
            const bool transposed = backward == Backward::kInput || (backward == Backward::kHidden && l > 0);
            const Share share = team.share(divide_up(layer.in, kLanes));
            for (int first = share.begin * kLanes; first < share.end * kLanes; first += kLanes) {
                for (int ahead = 0; ahead < kLanes * layer.out; ahead += 16)
                    __builtin_prefetch(weights + size_t(first + kLanes) * layer.out + ahead);
                pack_weights(weights, layer.in, layer.out, first, packed.forward);
                if (transposed && first < layer.in - skipped)
                    pack_transposed(weights + size_t(skipped) * layer.out, layer.in - skipped, layer.out, first,
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

/// Results of the first stage for the second, for a whole batch: inputs and gradients of each layer's product, and
/// sums over each block for the parameters that are vectors.
template <class Unit>
struct Saved {
    Saved(const Network& network, int batch) : blocks(row_blocks<Unit>(batch)), head_bias(blocks.count) {
        const size_t rows = round_up(batch, kBlockUnit<Unit>) / kDepth<Unit>;
        for (const Layer& layer : network.layers) {
            inputs.emplace_back(rows * row_stride(layer.in));
            gradients.emplace_back(rows * row_stride(layer.out));
            weight_gradients.emplace_back(size_t(round_up(layer.in, kLanes)) * row_stride(layer.out));
            sums.emplace_back(size_t(blocks.count) * kSums * row_stride(layer.out));
        }
    }
    BlockSums sums_of(int layer, int block, int stride) {
        return {sums[layer].data() + size_t(block) * kSums * stride, stride};
    }

    Blocks blocks;
    std::vector<Buffer<Unit>> inputs, gradients;
    std::vector<Buffer<float>> weight_gradients, sums;
    Buffer<float> head_bias;
};

/// A thread's memory for one block of rows. The rows are computed here or, if they are stored for the second stage
/// and need no conversion, directly where they are stored.
template <class Unit>
struct Scratch {
    explicit Scratch(const Network& network)
        : network(network),
          input_gradient(kBlockRows<Unit> * row_stride(network.inputs())),
          units(kBlockRows<Unit> * row_stride(network.widest())) {
        own_activations.emplace_back(kBlockRows<Unit> * row_stride(network.inputs()));
        for (const Layer& layer : network.layers) {
            own_activations.emplace_back(kBlockRows<Unit> * row_stride(layer.out));
            own_gradients.emplace_back(kBlockRows<Unit> * row_stride(layer.out));
            blocks.emplace_back(layer.out);
        }
        begin(nullptr, 0);
    }

    /// Begin a block of rows; with `saved`, one that is stored, beginning at row `first`.
    void begin(Saved<Unit>* saved, int first) {
        const auto room = [&](Buffer<float>& own, std::vector<Buffer<Unit>>& batch, size_t l, int width) {
            return saved && l < batch.size() ? room_for_rows(own.data(), batch[l].data(), width, first)
                                             : own.data();
        };
        std::vector<Buffer<Unit>> none;
        activations.clear();
        gradients.clear();
        for (size_t l = 0; l < own_activations.size(); ++l)
            activations.push_back(room(own_activations[l], saved ? saved->inputs : none, l,
                                       l == 0 ? network.inputs() : network.layers[l - 1].out));
        for (size_t l = 0; l < own_gradients.size(); ++l)
            gradients.push_back(room(own_gradients[l], saved ? saved->gradients : none, l, network.layers[l].out));
    }

    float* input() { return activations.front(); }
    float* output() { return activations.back(); }

    const Network& network;
    std::vector<float*> activations;  // the input, and the output of each layer
    std::vector<float*> gradients;    // of the output of each layer, then of its product
    std::vector<LayerBlock> blocks;
    Buffer<float> input_gradient;
    Buffer<Unit> units;

   private:
    std::vector<Buffer<float>> own_activations, own_gradients;
};

/// Rows [first, first + rows) of (B, inputs()), as the input of a block.
template <class Unit>
void set_input(Scratch<Unit>& scratch, const float* batch, size_t first, int rows) {
    const int width = scratch.network.inputs(), stride = row_stride(width);
    for (int i = 0; i < rows; ++i) std::copy_n(batch + (first + i) * width, width, scratch.input() + i * stride);
}

/// scratch.input() -> scratch.output().
template <class Unit>
void forward(const Network& network, const Weights<Unit>& weights, Scratch<Unit>& scratch, int rows) {
    for (size_t l = 0; l < network.layers.size(); ++l) {
        const Layer& layer = network.layers[l];
        const View<Unit> left = left_operand(scratch.activations[l], rows, layer.in, scratch.units.data());
        multiply(rows, left, weights.layers[l].forward, scratch.blocks[l].normal.data(), row_stride(layer.out));
        activate(layer, weights.layers[l].vectors, scratch.blocks[l], scratch.activations[l + 1], rows);
    }
}

/// The values of the head for the rows of scratch.output().
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

/// The gradient of the last layer's output, scratch.gradients.back(), from the gradient of the head's values.
template <class Unit>
void head_backward(const Network& network, const Weights<Unit>& weights, Scratch<Unit>& scratch, int rows,
                   const float* gradient, Saved<Unit>* saved, int block) {
    const int width = network.outputs(), stride = row_stride(width);
    for (int j = 0; j < width; j += kLanes) {
        const Vector head = load(weights.head.data() + j);
        Vector total{};
        for (int i = 0; i < rows; ++i) {
            total += load(scratch.output() + i * stride + j) * gradient[i];
            store(scratch.gradients.back() + i * stride + j, head * gradient[i]);
        }
        if (saved) store(saved->sums_of(network.layers.size() - 1, block, stride).row(kHeadSum) + j, total);
    }
    if (saved) {
        float total = 0;
        for (int i = 0; i < rows; ++i) total += gradient[i];
        saved->head_bias.data()[block] = total;
    }
}

/// The backward pass through the layers, beginning at scratch.gradients.back(). With `saved`, it stores there what the
/// optimiser needs. With Backward::kInput it also computes scratch.input_gradient, from column gradient_from on.
template <class Unit>
void backward(const Network& network, const Weights<Unit>& weights, Scratch<Unit>& scratch, int rows,
              Backward backward, Saved<Unit>* saved, int block) {
    for (int l = int(network.layers.size()) - 1; l >= 0; --l) {
        const Layer& layer = network.layers[l];
        const int stride = row_stride(layer.out);
        float* gradient = scratch.gradients[l];
        activate_backward(layer, weights.layers[l].vectors, scratch.blocks[l], scratch.activations[l + 1], gradient,
                          rows, saved ? saved->sums_of(l, block, stride) : BlockSums{});
        if (saved) {
            const int first = saved->blocks.start(block);
            save_inputs(scratch.activations[l], rows, layer.in, first, saved->inputs[l].data());
            save_gradients(gradient, rows, layer.out, first, saved->gradients[l].data());
        }
        if (l == 0 && backward != Backward::kInput) return;
        const Panels<Unit>& transposed = weights.layers[l].backward;
        const View<Unit> left = left_operand(gradient, rows, layer.out, scratch.units.data());
        float* next = l > 0 ? scratch.gradients[l - 1] : scratch.input_gradient.data();
        multiply(rows, left, transposed, next, row_stride(transposed.columns));
    }
}

/// Sum over the blocks of a batch, in the order of the blocks.
inline Vector sum_blocks(const float* sums, int blocks, size_t step) {
    Vector total{};
    for (int block = 0; block < blocks; ++block) total += load(sums + block * step);
    return total;
}

/// The gradient of a layer's weights, tile by tile.
template <class Unit>
void weight_gradient(const Layer& layer, const Buffer<Unit>& inputs, const Buffer<Unit>& gradients, int batch,
                     float* result, const Team& team) {
    const Blocks rows = gradient_blocks<Unit>(layer.in);
    const Share share = team.share(divide_up(layer.out, kTileColumns) * rows.count);
    const ProductState<Unit> state;
    for (int task = share.begin; task < share.end; ++task) {
        const int column = task / rows.count * kTileColumns, block = task % rows.count;
        gradient_tile(rows.start(block), rows.size(block), column, layer.in, layer.out, inputs.data(),
                      gradients.data(), batch, result);
    }
}

/// The second stage: the gradient of every parameter of `member`, Adam, and the target's step towards the parameter.
template <class Unit>
void apply(Network& network, int member, Saved<Unit>& saved, int batch, const Adam& adam, const Team& team) {
    for (size_t l = 0; l < network.layers.size(); ++l) {
        Layer& layer = network.layers[l];
        const int stride = row_stride(layer.out);
        float* gradient = saved.weight_gradients[l].data();
        weight_gradient(layer, saved.inputs[l], saved.gradients[l], batch, gradient, team);
        team.wait();
        const Share rows = team.share(layer.in);
        for (int i = rows.begin; i < rows.end; ++i)
            for (int j = 0; j < layer.out; j += kLanes)
                adam.step(layer.weight, member, size_t(i) * layer.out + j, load(gradient + size_t(i) * stride + j),
                          layer.out - j);
        if (team.rank > 0) continue;
        const auto step = [&](Tensor& tensor, SumKind kind) {
            const float* sums = saved.sums_of(l, 0, stride).row(kind);
            for (int j = 0; tensor.value && j < layer.out; j += kLanes)
                adam.step(tensor, member, j, sum_blocks(sums + j, saved.blocks.count, kSums * stride), layer.out - j);
        };
        step(layer.bias, kBiasSum);
        step(layer.scale, kScaleSum);
        step(layer.shift, kShiftSum);
        if (network.scalar_head && l + 1 == network.layers.size()) step(network.head_weight, kHeadSum);
    }
    if (network.scalar_head && team.rank == 0) {
        float total = 0;
        for (int block = 0; block < saved.blocks.count; ++block) total += saved.head_bias.data()[block];
        adam.step(network.head_bias, member, 0, broadcast(total), 1);
    }
}

/// A step of a network on a batch, by a team with its weights packed. For each block of rows, `set(first, rows)` sets
/// scratch.input(), and `differentiate(first, rows, block)` sets scratch.gradients.back() from scratch.output().
template <class Unit, class Set, class Differentiate>
void descend(Network& network, int member, const Weights<Unit>& weights, Scratch<Unit>& scratch, Saved<Unit>& saved,
             const Adam& adam, const Team& team, Set set, Differentiate differentiate) {
    const Share share = team.share(saved.blocks.count);
    for (int block = share.begin; block < share.end; ++block) {
        const int first = saved.blocks.start(block), rows = saved.blocks.size(block);
        scratch.begin(&saved, first);
        set(first, rows);
        forward(network, weights, scratch, rows);
        differentiate(first, rows, block);
        backward(network, weights, scratch, rows, Backward::kHidden, &saved, block);
    }
    team.wait();
    apply(network, member, saved, saved.blocks.n, adam, team);
}

}  // namespace robo_rl
