// A velocity field that moves noise to action chunks, and networks that are regressed on chunks;
// robo_rl/agents/parts/flow.py defines the field.
#pragma once

#include "network.h"

namespace robo_rl {

/// A network that acts, with the memory to train it on a batch.
template <class Unit>
struct Trained {
    Trained(Network network, int batch, int threads)
        : network(std::move(network)), weights(this->network, this->network.inputs()), saved(this->network, batch) {
        for (int thread = 0; thread < threads; ++thread) scratch.emplace_back(this->network);
    }
    Trained(const Trained&) = delete;  // scratch refers to the network

    void pack(Backward backward, const Team& team) { weights.pack(network, 0, false, backward, team); }

    Network network;
    Weights<Unit> weights;
    Saved<Unit> saved;
    std::vector<Scratch<Unit>> scratch;  // by thread
};

/// Half a period of sine and cosine in [0, 1] for the first frequency, and twice the previous one after that.
inline void embed_time(float time, int octaves, float* embedding) {
    *embedding++ = time;
    for (int octave = 0; octave < octaves; ++octave) {
        const float angle = time * float(3.14159265358979323846 * (1 << octave));
        embedding[octave] = std::sin(angle);
        embedding[octaves + octave] = std::cos(angle);
    }
}

/// In [-1, 1]; NaN is kept.
inline float clamped(float x) { return x < -1.0f ? -1.0f : (x > 1.0f ? 1.0f : x); }

/// Inputs of the field: an observation, a chunk, the time and its embedding.
struct FlowInput {
    int observation_size, action_size, octaves;

    int time_size() const { return 1 + 2 * octaves; }
    int size() const { return observation_size + action_size + time_size(); }

    /// x_t = (1 - t) x_0 + t x_1, as torch.lerp computes it.
    void interpolate(const float* observation, const float* noise, const float* chunk, float time, float* row) const {
        std::copy_n(observation, observation_size, row);
        float* x = row + observation_size;
        for (int j = 0; j < action_size; ++j)
            x[j] = time < 0.5f ? noise[j] + time * (chunk[j] - noise[j])
                               : chunk[j] - (chunk[j] - noise[j]) * (1.0f - time);
        embed_time(time, octaves, x + action_size);
    }
};

/// The chunks, in [-1, 1], to which the flow moves rows [first, first + rows) of `noise` by Euler steps; `repeats`
/// consecutive rows share an observation. The block passes through all steps while it is in the nearest cache.
template <class Unit>
void sample_flow(const Trained<Unit>& flow, Scratch<Unit>& scratch, const FlowInput& input, int steps,
                 const float* observation, int repeats, const float* noise, size_t first, int rows, float* chunk) {
    const int o = input.observation_size, a = input.action_size;
    const int stride = row_stride(input.size()), velocity_stride = row_stride(a);
    scratch.begin(nullptr, 0);
    for (int i = 0; i < rows; ++i) {
        float* row = scratch.input() + i * stride;
        std::copy_n(observation + (first + i) / repeats * o, o, row);
        std::copy_n(noise + (first + i) * a, a, row + o);
    }
    std::vector<float> embedding(input.time_size());
    for (int step = 0; step < steps; ++step) {
        embed_time(float(double(step) / steps), input.octaves, embedding.data());
        for (int i = 0; i < rows; ++i)
            std::copy(embedding.begin(), embedding.end(), scratch.input() + i * stride + o + a);
        forward(flow.network, flow.weights, scratch, rows);
        for (int i = 0; i < rows; ++i) {
            float* x = scratch.input() + i * stride + o;
            for (int j = 0; j < a; ++j) x[j] += scratch.output()[i * velocity_stride + j] / steps;
        }
    }
    for (int i = 0; i < rows; ++i) {
        const float* x = scratch.input() + i * stride + o;
        for (int j = 0; j < a; ++j) chunk[(first + i) * a + j] = clamped(x[j]);
    }
}

/// The gradient of `weight` |output - wanted|^2 with respect to `output`; return the square.
inline float regress(const float* output, const float* wanted, int size, float weight, float* gradient) {
    Vector square{};
    for (int j = 0; j < size; j += kLanes) {
        const int count = size - j < kLanes ? size - j : kLanes;
        const Vector error = load_at_most(output + j, count) - load_at_most(wanted + j, count);
        store_some(gradient + j, 2.0f * weight * error, count);
        square += error * error;
    }
    return sum(square);
}

}  // namespace robo_rl
