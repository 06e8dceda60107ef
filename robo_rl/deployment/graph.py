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
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
        constants: float32 arrays by name.
        nodes: the operations, each after those whose results it uses.
        output: name of the result.
    """

    inputs: Mapping[str, tuple[tuple[int, ...], str]]
    constants: Mapping[str, NDArray[np.float32]]
    nodes: tuple[Node, ...]
    output: str

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
        return Graph(self.inputs, constants, tuple(reversed(nodes)), self.output)
