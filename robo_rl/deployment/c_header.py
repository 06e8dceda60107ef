"""C99 headers of policies: the translation of a graph into one function that depends only on ``math.h``."""

import math
import re
from collections.abc import Iterator, Sequence
from textwrap import wrap

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import OBSERVATION_FRAME, ConfigError

from .c_statements import Place, broadcast_strides, choice, contiguous, loops, number, reduction
from .description import PolicyDescription
from .graph import Graph, Node

_UNARY = {
    "relu": "{x} < 0.0f ? 0.0f : {x}",  # NaN remains NaN, also below
    "tanh": "tanhf({x})",
    "sine": "sinf({x})",
    "cosine": "cosf({x})",
    "exponential": "expf({x})",
    "square_root": "sqrtf({x})",
    "sigmoid": "1.0f / (1.0f + expf(-{x}))",
    "clip": "{x} < {low} ? {low} : {x} > {high} ? {high} : {x}",
}
_MATRICES = ("dense", "matmul")
_CALLS = (*_MATRICES, "layer_norm", "norm")
_BINARY = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}

_DENSE = """
/* y = x weight + bias; bias may be NULL. Four inputs at a time, without those that are 0, as many are after ReLU. */
static inline void {p}_dense{suffix}(
    const float *x, int inputs, const {element} *weight,{scale} const float *bias, int outputs, float *__restrict y)
{{
    for (int j = 0; j < outputs; ++j)
        y[j] = {begin};
    for (int i = 0; i < inputs;) {{
        float factor[4] = {{0.0f, 0.0f, 0.0f, 0.0f}};
        const {element} *row[4] = {{weight, weight, weight, weight}};
        for (int count = 0; i < inputs && count < 4; ++i)
            if (x[i] != 0.0f) {{
                factor[count] = x[i];
                row[count++] = weight + (long)i * outputs;
            }}
        const float a = factor[0], b = factor[1], c = factor[2], d = factor[3];
        const {element} *p = row[0], *q = row[1], *r = row[2], *s = row[3];
        for (int j = 0; j < outputs; ++j)
            y[j] += a * p[j] + b * q[j] + (c * r[j] + d * s[j]);
    }}
{end}}}
"""
_FLOAT_DENSE = {"suffix": "", "element": "float", "scale": "", "begin": "bias ? bias[j] : 0.0f", "end": ""}
_INT8_DENSE = {
    "suffix": "_int8",
    "element": "signed char",
    "scale": " const float *scale,",
    "begin": "0.0f",
    "end": ("    for (int j = 0; j < outputs; ++j)\n        y[j] = y[j] * scale[j] + (bias ? bias[j] : 0.0f);\n"),
}
_HELPERS = {
    "layer_norm": """
/* y = (x - mean) / sqrt(variance + epsilon) */
static inline void {p}_layer_norm(const float *x, int size, float epsilon, float *y)
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
static inline float {p}_norm(const float *x, int size)
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
        ConfigError: if the policy uses observations other than vectors of float32.
    """
    for key in description.observed:
        if description.spec.observation[key].dtype != "float32":
            kind = "images" if key.startswith("images/") else description.spec.observation[key].dtype
            raise ConfigError(
                f"agent {description.agent}: its policy acts on {key!r} ({kind}), but a C header supports only float32 "
                "vectors: use output=NAME.onnx"
            )
    if re.fullmatch(r"[A-Za-z]\w*", prefix, re.ASCII) is None:
        raise ConfigError(
            f"output: the name of a header is the prefix of its C functions: expected letters, digits and underscores, "
            f"such as policy.h, got {prefix + '.h'!r}"
        )
    return "".join(_Header(graph, description, prefix).lines())


class _Header:
    """Parts of a header; see :func:`to_c`."""

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
            element = "signed char" if name in self._graph.scales else "float"
            yield _array(f"static const {element} {self._constants[name]}", array)
            if name in self._graph.scales:
                yield _array(f"static const float {self._constants[name]}_scale", self._graph.scales[name])
        weights = [node.inputs[1] in self._graph.scales for node in self._graph.nodes if node.operation in _MATRICES]
        for is_int8, parts in ((False, _FLOAT_DENSE), (True, _INT8_DENSE)):
            if is_int8 in weights:
                yield _DENSE.format(p=self._prefix, **parts)
        used = {node.operation for node in self._graph.nodes}
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
            *self._observation_frame(),
            " * The observation is the concatenation of:",
            *layout,
        ]
        if d.noise_size:
            text.append(
                f" * The noise is {d.noise_size} values from the standard normal distribution, new for each call."
            )
        text += [" * An observation with NaN gives actions with NaN: check them before a robot moves.", " */"]
        return "\n".join(text) + "\n"

    def _observation_frame(self) -> Iterator[str]:
        """Yield the lines of the comment about observations that are not in the frame of the base."""
        frame = self._description.spec.extra.get(OBSERVATION_FRAME)
        if frame is not None:
            yield f" * Frame of end_effector_* in state: {_plain(str(frame))}. Position and rotation are relative to"
            yield " * the first pose of the episode, and velocities are in the end effector's own frame."

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
        yield f"#define {upper}_CONTROL_RATE {number(d.spec.control_rate)} /* Hz */\n"
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
        yield f"\nstatic inline void {self._prefix}_act(const float *observation, {noise}float *action)\n{{\n"
        for slot, size in enumerate(self._memory.sizes):
            yield f"    float b{slot}[{size}];\n"
        for node in self._graph.nodes:
            if node.operation != "reshape":
                yield from (f"    {line}\n" for line in self._node(node))
        count = math.prod(self._description.output_shape())
        result = self._value(self._graph.output).at("i")
        yield f"    for (int i = 0; i < {count}; ++i)\n        action[i] = {result};\n}}\n"

    def _value(self, name: str) -> "Place":
        """Return the position of a value in memory."""
        if name in self._constants:
            return Place(self._constants[name])
        root = self._memory.root(name)
        if root in self._memory.slots:
            return Place(f"b{self._memory.slots[root]}")
        if root not in self._description.observed:
            return Place("noise")
        before = self._description.observed[: self._description.observed.index(root)]
        return Place("observation", sum(math.prod(self._shapes[key]) for key in before))

    def _node(self, node: Node) -> Iterator[str]:
        """Yield the statements that compute a node."""
        y, inputs = self._value(node.output), [self._value(name) for name in node.inputs]
        shapes = [self._shapes[name] for name in node.inputs]
        total, facts = math.prod(node.shape), node.attributes
        if node.operation in _CALLS:
            yield from self._calls(node, y, inputs, shapes)
        elif node.operation in _UNARY:
            bounds = {name: number(value) for name, value in facts.items()}
            yield f"for (int i = 0; i < {total}; ++i)"
            yield f"    {y.at('i')} = {_UNARY[node.operation].format(x=inputs[0].at('i'), **bounds)};"
        elif node.operation in _BINARY:
            strides = [broadcast_strides(shape, node.shape) for shape in shapes]
            yield from loops(node.shape, y, f" {_BINARY[node.operation]} ".join, inputs, strides)
        elif node.operation == "transpose":
            strides = [tuple(contiguous(shapes[0])[axis] for axis in facts["axes"])]
            yield from loops(node.shape, y, "".join, inputs, strides)
        elif node.operation == "slice":
            steps = contiguous(shapes[0])
            yield from loops(node.shape, y, "".join, [inputs[0].after(facts["start"] * steps[facts["axis"]])], [steps])
        elif node.operation == "concatenate":
            steps = contiguous(node.shape)
            for x, shape in zip(inputs, shapes, strict=True):
                yield from loops(shape, y, "".join, [x], [contiguous(shape)], steps)
                y = y.after(shape[facts["axis"]] * steps[facts["axis"]])
        elif node.operation in ("sum", "mean", "minimum"):
            yield from reduction(node, y, inputs[0], shapes[0])
        elif node.operation == "choose":
            yield from choice(y, inputs, *shapes[0])
        else:
            raise ConfigError(
                f"agent {self._description.agent}: its policy uses {node.operation!r}, which a C header cannot hold: "
                "give output=NAME.onnx"
            )

    def _calls(
        self, node: Node, y: "Place", inputs: Sequence["Place"], shapes: Sequence[tuple[int, ...]]
    ) -> Iterator[str]:
        """Yield calls of functions of :data:`_HELPERS`, one for each row of the result, or a loop of calls."""
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
                epsilon = number(node.attributes["epsilon"])
                yield f"{loop}{self._prefix}_layer_norm({x}, {last}, {epsilon}, {result});"
            elif node.operation == "norm":
                yield f"{loop}*({result}) = {self._prefix}_norm({x}, {size});"
            else:
                bias = inputs[2] if len(inputs) > 2 else "NULL"
                weight, dense = str(inputs[1].after(matrix * size * last)), "dense"
                if node.inputs[1] in self._graph.scales:
                    scale = Place(f"{self._constants[node.inputs[1]]}_scale", matrix * last)
                    weight, dense = f"{weight}, {scale}", "dense_int8"
                yield f"{loop}{self._prefix}_{dense}({x}, {size}, {weight}, {bias}, {last}, {result});"


class _Memory:
    """Arrays for results. An array is reused once its value is not needed any more.

    Attributes:
        sizes: elements of each array.
        slots: number of the array that holds a value, by its name.
    """

    def __init__(self, graph: Graph) -> None:
        self._roots = {name: name for name in graph.shapes()}
        for node in graph.nodes:
            if node.operation == "reshape":  # the result has the same elements as the input
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
        """Return the name of the value that shares its elements with the value ``name``."""
        return self._roots[name]


def _array(declaration: str, array: NDArray[np.float32] | NDArray[np.int8]) -> str:
    """Return the definition of an array."""
    suffix = "f" if array.dtype == np.float32 else ""
    text = ", ".join(f"{value}{suffix}" for value in array.ravel().astype(str))
    body = "\n".join(wrap(text, 116, break_long_words=False))
    return f"{declaration}[{array.size}] = {{\n{body}\n}};\n"


def _texts(name: str, values: Sequence[str]) -> str:
    body = ",\n    ".join(map(_text, values))
    return f"static const char *const {name}[{len(values)}] = {{\n    {body}\n}};\n"


def _text(value: str) -> str:
    """Return a string literal, in which all characters but plain ones are written as octal numbers."""
    escaped = [chr(byte) if _PLAIN.fullmatch(chr(byte)) else f"\\{byte:03o}" for byte in value.encode()]
    return f'"{"".join(escaped)}"'


def _plain(value: str) -> str:
    """Return a text for a comment, without characters that could end it."""
    return "".join(letter if _PLAIN.fullmatch(letter) else "_" for letter in value)


_PLAIN = re.compile(r"[A-Za-z0-9 _.,:+/()=-]", re.ASCII)
