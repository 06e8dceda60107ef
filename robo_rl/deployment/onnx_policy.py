"""Policies from ONNX files of any origin: checks of a file, and a policy that ONNX Runtime computes.

A file is accepted only in the form that robo-rl deploy writes: operators of the standard set without subgraphs or
functions, parameters inside the file, static shapes, and a description. It cannot name other files or code.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import AttributeProto, TensorProto, shape_inference

from robo_rl.core import DataError, EnvSpec, Observation, parse_json, read_bytes

from .description import PolicyDescription
from .onnx_file import METADATA_KEY, OPERATORS, OUTPUT
from .tracing import NOISE

MOST_BYTES = 256 << 20
"""Largest size of a file that is read [bytes]."""
MOST_METADATA = 1 << 20
MOST_OTHER_BYTES = 8 << 20
"""Largest size of a file besides its parameters [bytes]."""
MOST_NODES = 10_000
"""Largest number of operators of a model, and of its parameters, inputs of operators, stated shapes and texts."""
MOST_ELEMENTS = 1 << 26
"""Largest number of elements of all values of a model together, so that a small file cannot claim much memory."""
MOST_PRODUCTS = 1 << 34
"""Largest number of multiplications for one decision. They take seconds on one core."""
_ATTRIBUTES = {AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.INTS, AttributeProto.FLOATS}
_DTYPES = {TensorProto.FLOAT: 4, TensorProto.INT8: 1, TensorProto.INT64: 8}
"""Bytes of an element of the parameters, by type."""
_SLACK = 1e-3
"""Amount by which an action may exceed [-1, 1] due to rounding, before it is clipped."""


class OnnxPolicy:
    """A :class:`~robo_rl.core.Policy` from the content of an ONNX file; it does not explore.

    Attributes:
        description: description in the file.
        fingerprint: hash of the content.

    Args:
        data: content of the file.
        where: origin of the content, for messages.

    Raises:
        DataError: if it was not written by robo-rl deploy, is damaged or too large, or contains more than a policy.
    """

    def __init__(self, data: bytes, where: object) -> None:
        self._where = where
        self.fingerprint = hashlib.sha256(data).hexdigest()[:16]
        model = _parsed(data, where)
        self.description = _description(model, where)
        _check_graph(model, where)
        _check_sizes(model, where)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        with _reporting_damage(where):
            self._session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        self._check_interface()
        self._noise = torch.Generator().manual_seed(self.description.noise_seed)
        self._chunk: list[NDArray[np.float32]] = []

    @classmethod
    def load(cls, path: Path) -> "OnnxPolicy":
        """Return the policy in a file.

        Raises:
            DataError: as the class, and if the file cannot be read.
        """
        try:
            return cls(read_bytes(path, MOST_BYTES), path)
        except OSError as error:
            raise DataError(f"{path} cannot be read ({error.strerror or error})") from error

    def check(self, spec: EnvSpec) -> None:
        """Check that the policy was trained for ``spec``.

        Raises:
            DataError: naming both tasks and all differences if it was trained for another spec.
        """
        trained = self.description.spec
        if differences := trained.differences(spec):
            raise DataError(
                f"{self._where} was trained for task {trained.task!r} and does not match task {spec.task!r}: "
                + "; ".join(differences)
            )

    def act(self, observation: Observation, *, explore: bool = False) -> NDArray[np.float32]:
        """Return an action (A,) in [-1, 1]; ``explore`` has no effect.

        Raises:
            DataError: if the model returns something else.
        """
        if not self._chunk:
            self._chunk = list(self.decide(observation))
        return self._chunk.pop(0)

    def forget_plan(self, *, explore: bool = False) -> None:
        """Discard the rest of an action chunk."""
        self._chunk = []

    def decide(self, observation: Observation, noise: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return an action chunk (h, A) in [-1, 1].

        Args:
            observation: arrays by key.
            noise: standard normal noise (noise_size,); None: the next noise of the policy's own generator.

        Raises:
            DataError: if the model fails, or returns something else.
        """
        inputs: dict[str, NDArray[Any]] = {key: observation[key] for key in self.description.observed}
        if self.description.noise_size:
            if noise is None:
                noise = torch.randn(self.description.noise_size, generator=self._noise).numpy()
            inputs[NOISE] = noise
        with _reporting_damage(self._where):
            (chunk,) = self._session.run([OUTPUT], inputs)
        if not np.abs(chunk).max() <= 1 + _SLACK:  # written so that NaN fails too
            raise DataError(f"{self._where}: expected actions in [-1, 1], the model returned {chunk.ravel()[:4]}")
        actions: NDArray[np.float32] = chunk.clip(-1, 1)
        return actions

    def _check_interface(self) -> None:
        """Check that inputs and output are those of the description."""
        kinds = {"tensor(float)": "float32", "tensor(uint8)": "uint8", "tensor(double)": "float64"}
        kinds |= {f"tensor({name})": name for name in ("int8", "int16", "int32", "int64", "uint16", "uint32", "bool")}
        inputs = {each.name: (tuple(each.shape), kinds.get(each.type)) for each in self._session.get_inputs()}
        expected: dict[str, Any] = self.description.inputs()
        for name in sorted(inputs.keys() | expected.keys()):
            if inputs.get(name) != expected.get(name):
                raise DataError(
                    f"{self._where}: input {name!r}: expected {expected.get(name)} by the description, the model has "
                    f"{inputs.get(name)}; write the file again with robo-rl deploy"
                )
        outputs = {each.name: (tuple(each.shape), kinds.get(each.type)) for each in self._session.get_outputs()}
        if outputs != {OUTPUT: (self.description.output_shape(), "float32")}:
            raise DataError(
                f"{self._where}: expected the output {OUTPUT!r} of shape {self.description.output_shape()} by the "
                f"description, the model has {outputs}; write the file again with robo-rl deploy"
            )


def _damaged(where: object, error: Exception) -> DataError:
    reason = str(error).partition("\n")[0][:200]
    return DataError(f"{where} is not a usable ONNX model ({reason}): write it again with robo-rl deploy")


@contextmanager
def _reporting_damage(where: object) -> Iterator[None]:
    """Raise DataError for any exception: those of ONNX, ONNX Runtime and protobuf have no base but Exception."""
    try:
        yield
    except Exception as error:
        raise _damaged(where, error) from error


def _refuse(where: object, found: str) -> DataError:
    return DataError(f"{where} contains {found}, which robo-rl deploy does not write: do not use this file")


def _parsed(data: bytes, where: object) -> onnx.ModelProto:
    if len(data) > MOST_BYTES:
        raise DataError(f"{where}: expected at most {MOST_BYTES:,} bytes, found more")
    with _reporting_damage(where):
        model: onnx.ModelProto = onnx.ModelProto.FromString(data)
    return model


def _description(model: onnx.ModelProto, where: object) -> PolicyDescription:
    texts = [each.value for each in model.metadata_props if each.key == METADATA_KEY]
    if len(texts) != 1 or len(texts[0]) > MOST_METADATA:
        raise DataError(
            f"{where}: expected the metadata {METADATA_KEY!r} of a policy, found {len(texts)} of them of a readable "
            "size. robo-rl deploy writes such files"
        )
    return PolicyDescription.from_json(parse_json(texts[0], f"{where}: {METADATA_KEY}"), where)


def _check_graph(model: onnx.ModelProto, where: object) -> None:
    """Reject everything but standard operators on parameters inside the file."""
    graph = model.graph
    domains = {each.domain for each in model.opset_import} | {node.domain for node in graph.node}
    if others := sorted(domains - {"", "ai.onnx"}):
        raise _refuse(where, f"operators of {others[0]!r}")
    if model.functions or model.training_info or graph.sparse_initializer or graph.quantization_annotation:
        raise _refuse(where, "functions, training, or sparse or quantised parameters")
    _check_counts(model, where)
    for node in graph.node:
        if node.op_type not in OPERATORS:
            raise _refuse(where, f"the operator {node.op_type!r}")
        if any(attribute.type not in _ATTRIBUTES for attribute in node.attribute):
            raise _refuse(where, f"the operator {node.op_type!r} with a tensor or a graph as an attribute")
    for tensor in graph.initializer:
        if tensor.data_location != TensorProto.DEFAULT or tensor.external_data:
            raise _refuse(where, f"the parameter {tensor.name!r} in another file")
        size = _DTYPES.get(tensor.data_type, 0)
        if (
            size == 0
            or any(length < 0 for length in tensor.dims)
            or math.prod(tensor.dims) * size != len(tensor.raw_data)
        ):
            raise DataError(f"{where} is damaged: the parameter {tensor.name!r} is incomplete. Write it again")


def _check_counts(model: onnx.ModelProto, where: object) -> None:
    """Reject models with so many parts that reading them takes longer than computing a policy."""
    graph = model.graph
    counts = {
        "operators": len(graph.node),
        "parameters": len(graph.initializer),
        "inputs of operators": sum(len(node.input) + len(node.output) for node in graph.node) // 4,
        "attributes": sum(len(each.ints) + len(each.floats) + 1 for node in graph.node for each in node.attribute) // 8,
        "stated shapes": len(graph.value_info) + len(graph.input) + len(graph.output),
        "texts": len(model.metadata_props) + len(graph.metadata_props),
        "kinds of operators": len(model.opset_import),
    }
    for name, count in counts.items():
        if count > MOST_NODES:
            raise _refuse(where, f"more than {MOST_NODES:,} {name}")
    rest = model.ByteSize() - sum(len(tensor.raw_data) for tensor in graph.initializer)
    if rest > MOST_OTHER_BYTES:
        raise _refuse(where, f"more than {MOST_OTHER_BYTES:,} bytes besides its parameters")


def _products(node: onnx.NodeProto, lengths: Mapping[str, Sequence[int]], elements: int) -> int:
    """Return an upper bound on the multiplications, or comparisons, of a node with ``elements`` output elements."""
    first = lengths[node.input[0]] if node.input else ()
    if node.op_type in ("MatMul", "Gemm"):
        return elements * max(first[-2:], default=1)
    if node.op_type == "Conv":
        return elements * math.prod(lengths[node.input[1]][1:])
    if node.op_type == "MaxPool":
        kernels = (list(each.ints) for each in node.attribute if each.name == "kernel_shape")
        return elements * math.prod(map(int, next(kernels, [])))
    return elements + math.prod(first)


def _check_sizes(model: onnx.ModelProto, where: object) -> None:
    """Reject models with values of unknown size, or that need too much memory or time."""
    with _reporting_damage(where):
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True).graph
    values = (*inferred.value_info, *inferred.output, *inferred.input)
    shapes = {each.name: each.type.tensor_type.shape for each in values}
    lengths = {name: [length.dim_value for length in shape.dim] for name, shape in shapes.items()}
    lengths |= {tensor.name: list(tensor.dims) for tensor in inferred.initializer}
    total = products = 0
    for node in inferred.node:
        for name in node.output:
            if name not in shapes:
                raise _damaged(where, ValueError(f"the shape of {name!r} is unknown"))
            if not all(length.HasField("dim_value") and length.dim_value >= 0 for length in shapes[name].dim):
                raise _damaged(where, ValueError(f"the shape of {name!r} is not fixed"))
            total += (elements := math.prod(lengths[name]))
            if total > MOST_ELEMENTS:
                raise _refuse(where, f"values of more than {MOST_ELEMENTS:,} elements")
            with _reporting_damage(where):
                products += _products(node, lengths, elements)
            if products > MOST_PRODUCTS:
                raise _refuse(where, f"a decision of more than {MOST_PRODUCTS:,} multiplications")
