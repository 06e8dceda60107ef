"""ONNX files of policies: the translation of a graph, with a description in the metadata."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from robo_rl.core import ConfigError

from .description import PolicyDescription
from .graph import Graph, Node
from .tracing import NOISE

METADATA_KEY = "robo_rl.policy"
"""Key of the metadata that holds the description, as JSON."""
OUTPUT = "action"
OPSET, IR_VERSION = 17, 8
"""Versions of ONNX 1.12 (2022), which every current runtime reads."""

_SAME = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "relu": "Relu",
    "tanh": "Tanh",
    "sine": "Sin",
    "cosine": "Cos",
    "exponential": "Exp",
    "square_root": "Sqrt",
    "sigmoid": "Sigmoid",
    "matmul": "MatMul",
    "dense": "Gemm",
}
"""Operators of ONNX without attributes, by operation."""
OPERATORS = frozenset(_SAME.values()) | {
    "ArgMax", "Cast", "Clip", "Concat", "Conv", "Gather", "LayerNormalization", "MaxPool", "ReduceL2", "ReduceMean",
    "ReduceMin", "ReduceSum", "Reshape", "Slice", "Transpose",
}  # fmt: skip
"""All operators that a file of robo-rl may use."""


def to_onnx(graph: Graph, description: PolicyDescription) -> bytes:
    """Return the content of an ONNX file.

    Its inputs are the observations by key and, for policies that sample, ``noise``; its output is ``action`` (h, A).

    Raises:
        ConfigError: if an observation has the name of one of these.
    """
    if OUTPUT in graph.inputs or (NOISE in description.observed and description.noise_size):
        raise ConfigError(f"an ONNX file cannot hold a policy that observes something named {OUTPUT!r} or {NOISE!r}")
    writer = _Writer(graph)
    for node in graph.nodes:
        _TRANSLATIONS.get(node.operation, _translate_simple)(writer, node)
    writer.add("Reshape", [graph.output, writer.integers(description.output_shape())], OUTPUT)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        for name, (shape, dtype) in graph.inputs.items()
    ]
    output = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, description.output_shape())
    body = helper.make_graph(writer.nodes, "policy", inputs, [output], writer.initializers)
    model = helper.make_model(
        body,
        producer_name="robo-rl",
        producer_version=description.version,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        doc_string=f"Policy of {description.agent} for {description.spec.task}",
    )
    helper.set_model_props(model, {METADATA_KEY: json.dumps(description.to_json())})
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


class _Writer:
    """Nodes and initialisers of a model so far."""

    def __init__(self, graph: Graph) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._shapes = graph.shapes()
        for name, array in graph.constants.items():
            if name not in graph.scales:
                self.initializers.append(numpy_helper.from_array(array, name))
                continue
            whole, factor = f"{name}_int8", f"{name}_float"
            self.initializers.append(numpy_helper.from_array(array, whole))
            self.add("Cast", [whole], factor, to=TensorProto.FLOAT)
            self.add("Mul", [factor, self.constant(graph.scales[name])], name)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value of the graph."""
        return self._shapes[name]

    def add(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        """Add a node."""
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))

    def constant(self, array: "np.ndarray[Any, Any]") -> str:
        """Add an initialiser; return its name."""
        name = f"/k{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def integers(self, values: Sequence[int]) -> str:
        """Add an initialiser of whole numbers; return its name."""
        return self.constant(np.array(values, np.int64))


def _translate_simple(writer: _Writer, node: Node) -> None:
    writer.add(_SAME[node.operation], node.inputs, node.output)


def _clip(writer: _Writer, node: Node) -> None:
    bounds = [writer.constant(np.array(node.attributes[name], np.float32)) for name in ("low", "high")]
    writer.add("Clip", [*node.inputs, *bounds], node.output)


def _layer_norm(writer: _Writer, node: Node) -> None:
    scale = writer.constant(np.ones(node.shape[-1], np.float32))
    writer.add("LayerNormalization", [*node.inputs, scale], node.output, axis=-1, epsilon=node.attributes["epsilon"])


def _reduce(operator: str) -> Callable[[_Writer, Node], None]:
    def translate(writer: _Writer, node: Node) -> None:
        writer.add(operator, node.inputs, node.output, axes=[node.attributes["axis"]], keepdims=1)

    return translate


def _choose(writer: _Writer, node: Node) -> None:
    rows, scores = node.inputs
    writer.add("ArgMax", [scores], f"{node.output}_index", axis=0, keepdims=0)
    writer.add("Gather", [rows, f"{node.output}_index"], node.output, axis=0)


def _slice(writer: _Writer, node: Node) -> None:
    bounds = [writer.integers([node.attributes[name]]) for name in ("start", "stop", "axis")]
    writer.add("Slice", [*node.inputs, *bounds], node.output)


def _convolution(writer: _Writer, node: Node) -> None:
    facts = node.attributes
    writer.add(
        "Conv",
        node.inputs,
        node.output,
        strides=facts["stride"],
        pads=[*facts["padding"], *facts["padding"]],
        dilations=facts["dilation"],
        group=facts["groups"],
    )


def _max_pool(writer: _Writer, node: Node) -> None:
    facts = node.attributes
    pads = [*facts["padding"], *facts["padding"]]
    writer.add("MaxPool", node.inputs, node.output, kernel_shape=facts["kernel"], strides=facts["stride"], pads=pads)


_TRANSLATIONS: dict[str, Callable[[_Writer, Node], None]] = {
    "clip": _clip,
    "layer_norm": _layer_norm,
    "norm": lambda writer, node: writer.add("ReduceL2", node.inputs, node.output, axes=[-1], keepdims=1),
    # The axes of a sum are an input since opset 13, those of the other reductions since 18.
    "sum": lambda writer, node: writer.add(
        "ReduceSum", [*node.inputs, writer.integers([node.attributes["axis"]])], node.output, keepdims=1
    ),
    "mean": _reduce("ReduceMean"),
    "minimum": _reduce("ReduceMin"),
    "choose": _choose,
    "cast": lambda writer, node: writer.add("Cast", node.inputs, node.output, to=TensorProto.FLOAT),
    "reshape": lambda writer, node: writer.add("Reshape", [*node.inputs, writer.integers(node.shape)], node.output),
    "transpose": lambda writer, node: writer.add("Transpose", node.inputs, node.output, perm=node.attributes["axes"]),
    "slice": _slice,
    "concatenate": lambda writer, node: writer.add("Concat", node.inputs, node.output, axis=node.attributes["axis"]),
    "convolution": _convolution,
    "max_pool": _max_pool,
}
