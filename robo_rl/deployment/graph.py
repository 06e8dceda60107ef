"""Graphs of a policy's computation: constants and operations on arrays of fixed shapes, for one observation.

Values have names. A graph's inputs are observations by key and, for policies that sample, ``noise``. All other values
are float32, except those of images before their cast. The operations are:

    dense        x (n, i), weight (i, o), and bias (o,) or none: x @ weight + bias
    matmul       x (e, n, i), y (e, i, o): x @ y
    convolution  x (1, c, h, w), weight, and bias or none; stride, padding, dilation, groups
    max_pool     x (1, c, h, w); kernel, stride, padding
    add, subtract, multiply, divide     x, y, broadcast as in NumPy
    relu, tanh, sine, cosine, exponential, square_root, sigmoid     x
    clip         x; low, high
    layer_norm   x: (x - mean) / sqrt(variance + epsilon) over the last axis
    norm         x: Euclidean length over the last axis, which is kept with length 1
    sum, mean, minimum    x; axis, which is kept with length 1
    choose       x (k, n), scores (k, 1): the row (1, n) with the largest score, the first of equal ones
    cast         x of any dtype: x as float32
    reshape      x, whose elements stay in order
    transpose    x; axes
    slice        x; axis, start, stop
    concatenate  x, y, ...; axis
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WEIGHTS = (("dense", 1), ("matmul", 1))
"""Operations with weights, and the place of the weight among their inputs."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation.

    Attributes:
        operation: name of the operation.
        inputs: names of the values that it is applied to.
        output: name of the result.
        shape: shape of the result.
        attributes: further arguments by name.
    """

    operation: str
    inputs: tuple[str, ...]
    output: str
    shape: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Graph:
    """A policy's computation.

    Attributes:
        inputs: shape and NumPy dtype of each input, by name.
        constants: float32 arrays by name, or int8 if the name is in ``scales``.
        nodes: the operations, each after those whose results it uses.
        output: name of the result.
        scales: factors (..., 1, o) of constants (..., i, o) in int8, which stand for constant * scale.
    """

    inputs: Mapping[str, tuple[tuple[int, ...], str]]
    constants: Mapping[str, NDArray[np.float32] | NDArray[np.int8]]
    nodes: tuple[Node, ...]
    output: str
    scales: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every value by name."""
        shapes = {name: shape for name, (shape, _) in self.inputs.items()}
        shapes |= {name: array.shape for name, array in self.constants.items()}
        return shapes | {node.output: node.shape for node in self.nodes}

    def without_unused(self) -> "Graph":
        """Return the graph without operations and constants that do not affect the output."""
        used, nodes = {self.output}, []
        for node in reversed(self.nodes):
            if node.output in used:
                used.update(node.inputs)
                nodes.append(node)
        constants = {name: array for name, array in self.constants.items() if name in used}
        return replace(self, constants=constants, nodes=tuple(reversed(nodes)))

    def quantised(self) -> "Graph":
        """Return the graph with weights in int8: symmetric, with one scale for each output of a layer.

        Weights are matrices that only ``dense`` and ``matmul`` multiply with. All other constants, and the results of
        operations, remain float32.
        """
        uses = [(node.operation, place, name) for node in self.nodes for place, name in enumerate(node.inputs)]
        other = {name for operation, place, name in uses if (operation, place) not in _WEIGHTS}
        weights = {name for *_, name in uses if name in self.constants} - other
        constants, scales = dict(self.constants), dict(self.scales)
        for name in weights:
            largest = np.abs(self.constants[name]).max(axis=-2, keepdims=True)
            scales[name] = np.where(largest > 0.0, largest / 127.0, 1.0).astype(np.float32)
            constants[name] = np.rint(self.constants[name] / scales[name]).astype(np.int8)
        return replace(self, constants=constants, scales=scales)
