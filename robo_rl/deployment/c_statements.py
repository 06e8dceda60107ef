"""Statements of C: loops over arrays, and positions in them."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .graph import Node


@dataclass(frozen=True, slots=True)
class Place:
    """Position in an array of C; its text is the expression of a pointer."""

    array: str
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.array} + {self.offset}" if self.offset else self.array

    def after(self, count: int) -> "Place":
        """Return the position ``count`` elements further on."""
        return Place(self.array, self.offset + count)

    def at(self, index: str) -> str:
        """Return the expression of an element, counted from this position."""
        if index == "0" or not self.offset:
            return f"{self.array}[{self.offset or index}]"
        return f"{self.array}[{self.offset} + {index}]"


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides [elements] of an array."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def broadcast_strides(shape: Sequence[int], broadcast: Sequence[int]) -> tuple[int, ...]:
    """Return the strides [elements] with which an array is read as one of the shape ``broadcast``."""
    padded = (1,) * (len(broadcast) - len(shape)) + tuple(shape)
    return tuple(0 if length == 1 else stride for length, stride in zip(padded, contiguous(padded), strict=True))


def loops(
    shape: Sequence[int],
    y: Place,
    combine: Callable[[list[str]], str],
    inputs: Sequence[Place],
    strides: Sequence[Sequence[int]],
    target: Sequence[int] | None = None,
) -> Iterator[str]:
    """Yield loops over all elements of ``shape``: y[...] = combine(x[...] for each input)."""
    columns = [tuple(contiguous(shape) if target is None else target), *map(tuple, strides)]
    axes = [(length, tuple(column[axis] for column in columns)) for axis, length in enumerate(shape) if length > 1]
    merged: list[tuple[int, tuple[int, ...]]] = []
    for length, steps in axes:  # merges neighbouring axes that are contiguous in every array
        if merged and all(outer == length * inner for outer, inner in zip(merged[-1][1], steps, strict=True)):
            merged[-1] = (merged[-1][0] * length, steps)
        else:
            merged.append((length, steps))
    for depth, (length, _) in enumerate(merged):
        i = "ijklmnop"[depth]
        yield f"{'    ' * depth}for (int {i} = 0; {i} < {length}; ++{i})"
    terms = [
        ["ijklmnop"[depth] if steps[column] == 1 else f"{steps[column]} * {'ijklmnop'[depth]}"
         for depth, (_, steps) in enumerate(merged) if steps[column]]
        for column in range(len(columns))
    ]  # fmt: skip
    places = [" + ".join(each) or "0" for each in terms]
    values = [x.at(place) for x, place in zip(inputs, places[1:], strict=True)]
    yield f"{'    ' * len(merged)}{y.at(places[0])} = {combine(values)};"


def reduction(node: Node, y: Place, x: Place, shape: tuple[int, ...]) -> Iterator[str]:
    """Yield the statements of a sum, mean or minimum of x of a shape."""
    axis = node.attributes["axis"]
    count, inner, outer = shape[axis], math.prod(shape[axis + 1 :]), math.prod(shape[:axis])
    reduced = "value < result ? value : result" if node.operation == "minimum" else "result + value"
    divisor = f" / {number(count)}" if node.operation == "mean" else ""
    yield f"for (int i = 0; i < {outer}; ++i)"
    yield f"    for (int j = 0; j < {inner}; ++j) {{"
    yield f"        float result = {x.at(f'i * {count * inner} + j')};"
    yield f"        for (int k = 1; k < {count}; ++k) {{"
    yield f"            const float value = {x.at(f'i * {count * inner} + k * {inner} + j')};"
    yield f"            result = {reduced};"
    yield "        }"
    yield f"        {y.at(f'i * {inner} + j')} = result{divisor};"
    yield "    }"


def choice(y: Place, inputs: Sequence[Place], rows: int, size: int) -> Iterator[str]:
    """Yield the statements that copy the row with the largest score to y."""
    x, scores = inputs
    yield "{"
    yield "    int best = 0;"
    yield f"    for (int i = 1; i < {rows}; ++i)"
    yield f"        if ({scores.at('i')} > {scores.at('best')})"
    yield "            best = i;"
    yield f"    for (int i = 0; i < {size}; ++i)"
    yield f"        {y.at('i')} = {x.at(f'best * {size} + i')};"
    yield "}"


def number(value: float) -> str:
    """Return a literal of type float."""
    return f"{np.float32(value)}f" if np.float32(value) >= 0 else f"({np.float32(value)}f)"
