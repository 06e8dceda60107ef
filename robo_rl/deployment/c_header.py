"""C99 headers of policies: the translation of a graph into one function without dependencies but ``math.h``."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError

from .description import PolicyDescription
from .graph import Graph, Node

_UNARY = {
    "relu": "{x} < 0.0f ? 0.0f : {x}",  # NaN stays NaN, also below
    "tanh": "tanhf({x})",
    "sine": "sinf({x})",
    "cosine": "cosf({x})",
    "exponential": "expf({x})",
    "square_root": "sqrtf({x})",
    "sigmoid": "1.0f / (1.0f + expf(-{x}))",
    "clip": "{x} < {low} ? {low} : {x} > {high} ? {high} : {x}",
}
_CALLS = ("dense", "matmul", "layer_norm", "norm")
_BINARY = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}

_HELPERS = {
    "dense": """
/* y = x weight + bias; bias may be NULL. Rows of inputs that are 0, as after ReLU, are skipped. */
static void {p}_dense(
    const float *x, int inputs, const float *weight, const float *bias, int outputs, float *restrict y)
{{
    for (int j = 0; j < outputs; ++j)
        y[j] = bias ? bias[j] : 0.0f;
    for (int i = 0; i < inputs; ++i) {{
        const float factor = x[i];
        const float *row = weight + (long)i * outputs;
        if (factor != 0.0f)
            for (int j = 0; j < outputs; ++j)
                y[j] += factor * row[j];
    }}
}}
""",
    "layer_norm": """
/* y = (x - mean) / sqrt(variance + epsilon) */
static void {p}_layer_norm(const float *x, int size, float epsilon, float *y)
{{
    float mean = 0.0f, variance = 0.0f;
    for (int i = 0; i < size; ++i)
        mean += x[i];
    mean /= (float)size;
    for (int i = 0; i < size; ++i)
        variance += (x[i] - mean) * (x[i] - mean);
    const float scale = 1.0f / sqrtf(variance / (float)size + epsilon);
    for (int i = 0; i < size; ++i)
        y[i] = (x[i] - mean) * scale;
}}
""",
    "norm": """
/* Euclidean length of x */
static float {p}_norm(const float *x, int size)
{{
    float sum = 0.0f;
    for (int i = 0; i < size; ++i)
        sum += x[i] * x[i];
    return sqrtf(sum);
}}
""",
}


def to_c(graph: Graph, description: PolicyDescription, prefix: str) -> str:
    """Return the text of a header with the function ``<prefix>_act``.

    Args:
        graph: computation of the policy.
        description: description of the policy.
        prefix: beginning of all names.

    Raises:
        ConfigError: if the policy acts on other observations than vectors of float32.
    """
    for key in description.observed:
        if description.spec.observation[key].dtype != "float32":
            kind = "images" if key.startswith("images/") else description.spec.observation[key].dtype
            raise ConfigError(
                f"agent {description.agent}: its policy acts on {key!r} ({kind}), and a C header holds policies of "
                "float32 vectors alone: give output=NAME.onnx"
            )
    if re.fullmatch(r"[A-Za-z]\w*", prefix, re.ASCII) is None:
        raise ConfigError(
            f"output: the name of a header is the prefix of its C functions: expected letters, digits and underscores, "
            f"such as policy.h, got {prefix + '.h'!r}"
        )
    return "".join(_Header(graph, description, prefix).lines())


class _Header:
    """The parts of a header; see :func:`to_c`."""

    def __init__(self, graph: Graph, description: PolicyDescription, prefix: str) -> None:
        self._graph = graph
        self._description = description
        self._prefix = prefix
        self._shapes = graph.shapes()
        self._constants = {name: f"{prefix}_w{i}" for i, name in enumerate(graph.constants)}
        self._memory = _Memory(graph)

    def lines(self) -> Iterator[str]:
        """Yield the parts of the header in order."""
        guard = f"{self._prefix.upper()}_H"
        yield self._comment()
        yield f"#ifndef {guard}\n#define {guard}\n\n#include <math.h>\n#include <stddef.h>\n\n"
        yield from self._facts()
        for name, array in self._graph.constants.items():
            yield _array(f"static const float {self._constants[name]}", array)
        used = {"dense" if node.operation == "matmul" else node.operation for node in self._graph.nodes}
        for operation, text in _HELPERS.items():
            if operation in used:
                yield text.format(p=self._prefix)
        yield from self._function()
        yield f"\n#endif /* {guard} */\n"

    def _comment(self) -> str:
        d = self._description
        noise = ", noise" if d.noise_size else ""
        layout, place = [], 0
        for key in d.observed:
            size = math.prod(self._shapes[key])
            layout.append(f" *     [{place}, {place + size})  {_plain(key)}")
            place += size
        text = [
            f"/* Policy of agent {_plain(d.agent)} for task {_plain(d.spec.task)}, step {d.step}, written by robo-rl "
            f"{_plain(d.version)}.",
            " *",
            f" * {self._prefix}_act(observation{noise}, action) computes one decision: {d.action_chunk} action(s) of "
            f"{len(d.action_names)} elements in [-1, 1],",
            f" * one after another. Each is to be executed for 1 / {d.spec.control_rate:g} s. "
            f"Physical value = scale * action + offset.",
            f" * Frame of the action: {_plain(d.spec.action_frame)}; space: {_plain(d.spec.action_space)}.",
            " * The observation is the concatenation of:",
            *layout,
        ]
        if d.noise_size:
            text.append(
                f" * The noise is {d.noise_size} values from the standard normal distribution, new for each call."
            )
        text += [" * An observation with NaN gives actions with NaN: check them before a robot moves.", " */"]
        return "\n".join(text) + "\n"

    def _facts(self) -> Iterator[str]:
        d, upper = self._description, self._prefix.upper()
        names = [name for key in d.observed for name in d.element_names(key)]
        units = [unit for key in d.observed for unit in d.element_units(key)]
        scales, offsets, action_units = d.action_scales()
        yield f"#define {upper}_OBSERVATION_SIZE {len(names)}\n"
        if d.noise_size:
            yield f"#define {upper}_NOISE_SIZE {d.noise_size}\n"
        yield f"#define {upper}_ACTION_SIZE {len(d.action_names)}\n"
        yield f"#define {upper}_ACTION_CHUNK {d.action_chunk}\n"
        yield f"#define {upper}_CONTROL_RATE {_number(d.spec.control_rate)} /* Hz */\n"
        yield f"#define {upper}_ACTION_LOW (-1.0f)\n#define {upper}_ACTION_HIGH 1.0f\n\n"
        yield f"static const char *const {self._prefix}_task = {_text(d.spec.task)};\n"
        yield _texts(f"{self._prefix}_observation_names", names)
        yield _texts(f"{self._prefix}_observation_units", units)
        yield _texts(f"{self._prefix}_action_names", d.action_names)
        yield _texts(f"{self._prefix}_action_units", action_units)
        yield _array(f"static const float {self._prefix}_action_scale", np.array(scales, np.float32))
        yield _array(f"static const float {self._prefix}_action_offset", np.array(offsets, np.float32))

    def _function(self) -> Iterator[str]:
        noise = "const float *noise, " if self._description.noise_size else ""
        yield f"\nstatic void {self._prefix}_act(const float *observation, {noise}float *action)\n{{\n"
        for slot, size in enumerate(self._memory.sizes):
            yield f"    float b{slot}[{size}];\n"
        for node in self._graph.nodes:
            if node.operation != "reshape":
                yield from (f"    {line}\n" for line in self._node(node))
        count = math.prod(self._description.output_shape())
        result = self._value(self._graph.output).at("i")
        yield f"    for (int i = 0; i < {count}; ++i)\n        action[i] = {result};\n}}\n"

    def _value(self, name: str) -> "_Place":
        """Return the place of a value."""
        if name in self._constants:
            return _Place(self._constants[name])
        root = self._memory.root(name)
        if root in self._memory.slots:
            return _Place(f"b{self._memory.slots[root]}")
        if root not in self._description.observed:
            return _Place("noise")
        before = self._description.observed[: self._description.observed.index(root)]
        return _Place("observation", sum(math.prod(self._shapes[key]) for key in before))

    def _node(self, node: Node) -> Iterator[str]:
        """Yield the statements that compute a node."""
        y, inputs = self._value(node.output), [self._value(name) for name in node.inputs]
        shapes = [self._shapes[name] for name in node.inputs]
        total, facts = math.prod(node.shape), node.attributes
        if node.operation in _CALLS:
            yield from self._calls(node, y, inputs, shapes)
        elif node.operation in _UNARY:
            bounds = {name: _number(value) for name, value in facts.items()}
            yield f"for (int i = 0; i < {total}; ++i)"
            yield f"    {y.at('i')} = {_UNARY[node.operation].format(x=inputs[0].at('i'), **bounds)};"
        elif node.operation in _BINARY:
            strides = [_strides(shape, node.shape) for shape in shapes]
            yield from _loops(node.shape, y, f" {_BINARY[node.operation]} ".join, inputs, strides)
        elif node.operation == "transpose":
            strides = [tuple(_contiguous(shapes[0])[axis] for axis in facts["axes"])]
            yield from _loops(node.shape, y, "".join, inputs, strides)
        elif node.operation == "slice":
            steps = _contiguous(shapes[0])
            yield from _loops(node.shape, y, "".join, [inputs[0].after(facts["start"] * steps[facts["axis"]])], [steps])
        elif node.operation == "concatenate":
            steps = _contiguous(node.shape)
            for x, shape in zip(inputs, shapes, strict=True):
                yield from _loops(shape, y, "".join, [x], [_contiguous(shape)], steps)
                y = y.after(shape[facts["axis"]] * steps[facts["axis"]])
        elif node.operation in ("sum", "mean", "minimum"):
            yield from _reduction(node, y, inputs[0], shapes[0])
        elif node.operation == "choose":
            yield from _choice(y, inputs, *shapes[0])
        else:
            raise ConfigError(
                f"agent {self._description.agent}: its policy uses {node.operation!r}, which a C header cannot hold: "
                "give output=NAME.onnx"
            )

    def _calls(
        self, node: Node, y: "_Place", inputs: Sequence["_Place"], shapes: Sequence[tuple[int, ...]]
    ) -> Iterator[str]:
        """Yield calls of the functions of :data:`_HELPERS`, one for each row of the result, or a loop of them."""
        last, size = node.shape[-1], shapes[0][-1]
        matrices = node.shape[0] if node.operation == "matmul" else 1
        rows = math.prod(node.shape[:-1]) // matrices
        loop, steps = (
            ("", ("", ""))
            if rows == 1
            else (
                f"for (int r = 0; r < {rows}; ++r)\n        ",
                (f" + r * {size}", f" + r * {last}"),
            )
        )
        for matrix in range(matrices):
            x = f"{inputs[0].after(matrix * rows * size)}{steps[0]}"
            result = f"{y.after(matrix * rows * last)}{steps[1]}"
            if node.operation == "layer_norm":
                epsilon = _number(node.attributes["epsilon"])
                yield f"{loop}{self._prefix}_layer_norm({x}, {last}, {epsilon}, {result});"
            elif node.operation == "norm":
                yield f"{loop}*({result}) = {self._prefix}_norm({x}, {size});"
            else:
                bias = inputs[2] if len(inputs) > 2 else "NULL"
                weight = inputs[1].after(matrix * size * last)
                yield f"{loop}{self._prefix}_dense({x}, {size}, {weight}, {bias}, {last}, {result});"


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in an array of C; its text is the expression of a pointer."""

    array: str
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.array} + {self.offset}" if self.offset else self.array

    def after(self, count: int) -> "_Place":
        """Return the place ``count`` elements further on."""
        return _Place(self.array, self.offset + count)

    def at(self, index: str) -> str:
        """Return the expression of an element, counted from this place."""
        if index == "0" or not self.offset:
            return f"{self.array}[{self.offset or index}]"
        return f"{self.array}[{self.offset} + {index}]"


class _Memory:
    """The arrays that hold results, each used again once its value is not needed any more.

    Attributes:
        sizes: elements of each array.
        slots: number of the array that holds a value, by its name.
    """

    def __init__(self, graph: Graph) -> None:
        self._roots = {name: name for name in graph.shapes()}
        for node in graph.nodes:
            if node.operation == "reshape":  # the same elements
                self._roots[node.output] = self._roots[node.inputs[0]]
        last_use = {self._roots[graph.output]: len(graph.nodes)}
        for place, node in enumerate(graph.nodes):
            for name in node.inputs:
                last_use[self._roots[name]] = max(place, last_use.get(self._roots[name], 0))
        self.sizes: list[int] = []
        self.slots: dict[str, int] = {}
        free: list[int] = []
        for place, node in enumerate(graph.nodes):
            if node.operation != "reshape":
                size = math.prod(node.shape)
                slot = max(free, key=lambda each: self.sizes[each], default=None)
                if slot is None:
                    slot = len(self.sizes)
                    self.sizes.append(0)
                else:
                    free.remove(slot)
                self.sizes[slot] = max(self.sizes[slot], size)
                self.slots[node.output] = slot
            released = {self._roots[name] for name in node.inputs} & self.slots.keys()
            free += [self.slots[root] for root in sorted(released) if last_use[root] == place]

    def root(self, name: str) -> str:
        """Return the name of the value whose elements the value ``name`` has."""
        return self._roots[name]


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides [elements] of an array."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _strides(shape: Sequence[int], broadcast: Sequence[int]) -> tuple[int, ...]:
    """Return the strides [elements] with which an array is read as one of the shape ``broadcast``."""
    padded = (1,) * (len(broadcast) - len(shape)) + tuple(shape)
    return tuple(0 if length == 1 else stride for length, stride in zip(padded, _contiguous(padded), strict=True))


def _loops(
    shape: Sequence[int],
    y: _Place,
    combine: Callable[[list[str]], str],
    inputs: Sequence[_Place],
    strides: Sequence[Sequence[int]],
    target: Sequence[int] | None = None,
) -> Iterator[str]:
    """Yield loops over all elements of ``shape``: y[...] = combine(x[...] for each input)."""
    columns = [tuple(_contiguous(shape) if target is None else target), *map(tuple, strides)]
    axes = [(length, tuple(column[axis] for column in columns)) for axis, length in enumerate(shape) if length > 1]
    merged: list[tuple[int, tuple[int, ...]]] = []
    for length, steps in axes:  # neighbouring axes that are one for every array
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


def _reduction(node: Node, y: _Place, x: _Place, shape: tuple[int, ...]) -> Iterator[str]:
    axis = node.attributes["axis"]
    count, inner, outer = shape[axis], math.prod(shape[axis + 1 :]), math.prod(shape[:axis])
    reduced = "value < result ? value : result" if node.operation == "minimum" else "result + value"
    divisor = f" / {_number(count)}" if node.operation == "mean" else ""
    yield f"for (int i = 0; i < {outer}; ++i)"
    yield f"    for (int j = 0; j < {inner}; ++j) {{"
    yield f"        float result = {x.at(f'i * {count * inner} + j')};"
    yield f"        for (int k = 1; k < {count}; ++k) {{"
    yield f"            const float value = {x.at(f'i * {count * inner} + k * {inner} + j')};"
    yield f"            result = {reduced};"
    yield "        }"
    yield f"        {y.at(f'i * {inner} + j')} = result{divisor};"
    yield "    }"


def _choice(y: _Place, inputs: Sequence[_Place], rows: int, size: int) -> Iterator[str]:
    x, scores = inputs
    yield "{"
    yield "    int best = 0;"
    yield f"    for (int i = 1; i < {rows}; ++i)"
    yield f"        if ({scores.at('i')} > {scores.at('best')})"
    yield "            best = i;"
    yield f"    for (int i = 0; i < {size}; ++i)"
    yield f"        {y.at('i')} = {x.at(f'best * {size} + i')};"
    yield "}"


def _number(value: float) -> str:
    """Return a literal of type float."""
    return f"{np.float32(value)}f" if np.float32(value) >= 0 else f"({np.float32(value)}f)"


def _array(declaration: str, array: NDArray[np.float32]) -> str:
    """Return the definition of an array."""
    text = ", ".join(f"{value}f" for value in array.ravel().astype(str))
    body = "\n".join(wrap(text, 116, break_long_words=False))
    return f"{declaration}[{array.size}] = {{\n{body}\n}};\n"


def _texts(name: str, values: Sequence[str]) -> str:
    body = ",\n    ".join(map(_text, values))
    return f"static const char *const {name}[{len(values)}] = {{\n    {body}\n}};\n"


def _text(value: str) -> str:
    """Return a string literal; all characters but plain ones are written as octal numbers."""
    escaped = [chr(byte) if _PLAIN.fullmatch(chr(byte)) else f"\\{byte:03o}" for byte in value.encode()]
    return f'"{"".join(escaped)}"'


def _plain(value: str) -> str:
    """Return a text for a comment, without characters that could end it."""
    return "".join(letter if _PLAIN.fullmatch(letter) else "_" for letter in value)


_PLAIN = re.compile(r"[A-Za-z0-9 _.,:+/()=-]", re.ASCII)
