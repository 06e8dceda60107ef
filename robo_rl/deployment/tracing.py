"""Tracing of a decision: the tensor operations that PyTorch performs for one observation, as a graph.

The decision is computed once, and every operation on a value that depends on the inputs is recorded. Results that do
not depend on them, such as factors of a normalisation, become constants. Branches are recorded as they were taken, so
the graph is compared with the policy afterwards (:mod:`.verification`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from robo_rl.core import ConfigError, Decision, Observation

from .graph import Graph, Node

NOISE = "noise"
"""Name of the input for the noise of a policy that samples."""
_MOVES = {"reshape", "transpose", "slice"}
"""Operations that keep the elements of their input, including those of images."""
_UNTRACED = {"new_full", "new_zeros", "new_ones", "full_like", "zeros_like", "ones_like"}
"""Operations whose results depend on the shapes of their inputs alone."""


def trace(decision: Decision, observation: Observation, agent: str) -> Graph:
    """Return the graph of ``decision``, whose result (h, A) is limited to [-1, 1].

    Args:
        decision: decision of a policy.
        observation: any observation that the policy accepts, with the keys that it uses.
        agent: name of the agent, for messages.

    Raises:
        ConfigError: if the policy uses an operation that a file cannot hold.
    """
    inputs = {key: torch.from_numpy(np.array(value)) for key, value in observation.items()}
    noise = torch.zeros(decision.noise_size)
    traced = inputs | ({NOISE: noise} if decision.noise_size else {})
    tracer = _Tracer(traced, agent)
    with torch.no_grad(), tracer:
        result = decision.compute(inputs, noise).clamp(-1, 1)
    return tracer.graph(result)


class _Tracer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the operations on ``inputs`` while it is entered."""

    def __init__(self, inputs: Mapping[str, Tensor], agent: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._inputs = dict(inputs)
        self._agent = agent
        # The tensors are kept alive, so that no other tensor gets the identity of one of them.
        self._names = {id(tensor): (name, tensor) for name, tensor in inputs.items()}
        self._constants: dict[tuple[Any, ...], tuple[str, np.ndarray[Any, np.dtype[np.float32]]]] = {}
        self._nodes: list[Node] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        if name in _UNTRACED or not any(id(leaf) in self._names for leaf in tree_leaves((args, kwargs))):
            return result
        handler = _OPERATIONS.get(name)
        if handler is None or func._schema.is_mutable:
            raise ConfigError(
                f"agent {self._agent}: its policy uses the PyTorch operation {func._schema.name}, which robo-rl deploy "
                "cannot write to a file"
            )
        handler(self, result, *args, **kwargs)
        return result

    def graph(self, result: Tensor) -> Graph:
        """Return the recorded graph, with ``result`` as the output."""
        constants = dict(self._constants.values())
        inputs = {name: (tuple(x.shape), str(x.dtype).removeprefix("torch.")) for name, x in self._inputs.items()}
        return Graph(inputs, constants, tuple(self._nodes), self.name(result)).without_unused()

    def name(self, value: Tensor | float) -> str:
        """Return the name of a value, which becomes a constant unless it was computed from the inputs."""
        if isinstance(value, Tensor) and id(value) in self._names:
            return self._names[id(value)][0]
        array = np.array(torch.as_tensor(value).detach().float().numpy(force=True), dtype=np.float32, order="C")
        if not np.isfinite(array).all():
            raise ConfigError(f"agent {self._agent}: a parameter of its policy is not finite; use another checkpoint")
        return self._constants.setdefault((array.shape, array.tobytes()), (f"/w{len(self._constants)}", array))[0]

    def add(
        self, operation: str, inputs: Sequence[Tensor | float | str], result: Tensor | None, **attributes: Any
    ) -> str:
        """Record an operation whose result is the tensor ``result``; return the name of the result."""
        assert result is not None
        if result.dtype != torch.float32 and operation not in _MOVES:
            raise ConfigError(
                f"agent {self._agent}: its policy computes in {str(result.dtype).removeprefix('torch.')}; files "
                "support only float32: train with agent.precision=float32"
            )
        output = self.add_inner(operation, inputs, tuple(result.shape), **attributes)
        self._names[id(result)] = (output, result)
        return output

    def add_inner(
        self, operation: str, inputs: Sequence[Tensor | float | str], shape: tuple[int, ...], **attributes: Any
    ) -> str:
        """Record an operation whose result is not a tensor of PyTorch; return the name of the result."""
        names = tuple(each if isinstance(each, str) else self.name(each) for each in inputs)
        output = f"/v{len(self._nodes)}"
        self._nodes.append(Node(operation, names, output, shape, attributes))
        return output

    def alias(self, result: Tensor, value: Tensor) -> None:
        """Record that ``result`` equals ``value``."""
        self._names[id(result)] = (self.name(value), result)


def _baddbmm(tracer: _Tracer, out: Tensor, bias: Tensor, x: Tensor, weight: Tensor) -> None:
    product = tracer.add_inner("matmul", (x, weight), tuple(out.shape))
    tracer.add("add", (product, bias), out)


def _binary(operation: str) -> Callable[..., None]:
    def handler(tracer: _Tracer, out: Tensor, x: Tensor, y: Tensor | float, alpha: float = 1) -> None:
        second: Tensor | float | str = y
        if alpha != 1:
            shape = tuple(y.shape) if isinstance(y, Tensor) else ()
            second = tracer.add_inner("multiply", (y, float(alpha)), shape)
        tracer.add(operation, (x, second), out)

    return handler


def _unary(operation: str) -> Callable[..., None]:
    def handler(tracer: _Tracer, out: Tensor, x: Tensor) -> None:
        tracer.add(operation, (x,), out)

    return handler


def _addcmul(tracer: _Tracer, out: Tensor, x: Tensor, y: Tensor, z: Tensor) -> None:
    tracer.add("add", (tracer.add_inner("multiply", (y, z), tuple(out.shape)), x), out)


def _silu(tracer: _Tracer, out: Tensor, x: Tensor) -> None:
    tracer.add("multiply", (x, tracer.add_inner("sigmoid", (x,), tuple(out.shape))), out)


def _gelu(tracer: _Tracer, out: Tensor, x: Tensor, approximate: str = "none") -> None:
    """Record 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))); networks use no other form."""
    assert approximate == "tanh"

    def step(operation: str, *inputs: Tensor | float | str) -> str:
        return tracer.add_inner(operation, inputs, tuple(out.shape))

    cube = step("multiply", step("multiply", x, x), x)
    inner = step("multiply", step("add", x, step("multiply", cube, 0.044715)), math.sqrt(2 / math.pi))
    tracer.add("multiply", (step("multiply", x, 0.5), step("add", step("tanh", inner), 1.0)), out)


def _clamp(tracer: _Tracer, out: Tensor, x: Tensor, low: float | None = None, high: float | None = None) -> None:
    largest = float(np.finfo(np.float32).max)
    bounds = {"low": -largest if low is None else float(low), "high": largest if high is None else float(high)}
    tracer.add("clip", (x,), out, **bounds)


def _layer_norm(
    tracer: _Tracer, out: tuple[Tensor, ...], x: Tensor, shape: list[int], weight: None, bias: None, eps: float
) -> None:
    assert weight is None and bias is None and len(shape) == 1
    tracer.add("layer_norm", (x,), out[0], epsilon=eps)


def _norm(tracer: _Tracer, out: Tensor, x: Tensor, order: float, axes: list[int], keepdim: bool = False) -> None:
    assert order == 2 and axes in ([-1], [x.ndim - 1]) and keepdim
    tracer.add("norm", (x,), out)


def _reduce(operation: str) -> Callable[..., None]:
    def handler(tracer: _Tracer, out: Tensor, x: Tensor, axes: int | list[int], keepdim: bool = False) -> None:
        (axis,) = axes if isinstance(axes, list) else (axes,)
        kept = list(x.shape)
        kept[axis] = 1
        reduced = tracer.add_inner(operation, (x,), tuple(kept), axis=axis % x.ndim)
        tracer.add("reshape", (reduced,), out)

    return handler


def _expand(tracer: _Tracer, out: Tensor, x: Tensor, *_: Any, **__: Any) -> None:
    if out.numel() == x.numel():
        tracer.add("reshape", (x,), out)
    else:
        tracer.add("add", (x, torch.zeros(out.shape)), out)


def _to_copy(tracer: _Tracer, out: Tensor, x: Tensor, **_: Any) -> None:
    if x.dtype == out.dtype:
        tracer.alias(out, x)
    else:
        tracer.add("cast", (x,), out)


def _permute(tracer: _Tracer, out: Tensor, x: Tensor, axes: list[int]) -> None:
    tracer.add("transpose", (x,), out, axes=tuple(axis % x.ndim for axis in axes))


def _transpose(tracer: _Tracer, out: Tensor, x: Tensor, first: int, second: int) -> None:
    axes = list(range(x.ndim))
    axes[first], axes[second] = axes[second], axes[first]
    _permute(tracer, out, x, axes)


def _split(tracer: _Tracer, out: Sequence[Tensor], x: Tensor, size: Any, axis: int = 0) -> None:
    start = 0
    for part in out:
        stop = start + part.shape[axis]
        tracer.add("slice", (x,), part, axis=axis % x.ndim, start=start, stop=stop)
        start = stop


def _slice(
    tracer: _Tracer,
    out: Tensor,
    x: Tensor,
    axis: int = 0,
    start: int | None = None,
    stop: int | None = None,
    step: int = 1,
) -> None:
    assert step == 1
    first, last, _ = slice(start, stop).indices(x.shape[axis])
    if out.numel() == 0:
        return
    tracer.add("slice", (x,), out, axis=axis % x.ndim, start=first, stop=last)


def _cat(tracer: _Tracer, out: Tensor, parts: Sequence[Tensor], axis: int = 0) -> None:
    tracer.add("concatenate", [part for part in parts if part.numel()], out, axis=axis % out.ndim)


def _argmax(tracer: _Tracer, out: Tensor, x: Tensor, axis: int | None = None, keepdim: bool = False) -> None:
    """Record the scores in place of the index, because :func:`_index` chooses by them."""
    assert x.numel() == x.shape[-1] and not keepdim
    tracer.alias(out, x)


def _index(tracer: _Tracer, out: Tensor, x: Tensor, indices: Sequence[Tensor | None]) -> None:
    """Record the choice of x[0, argmax(scores)] from ``x`` (1, k, n)."""
    first, best = indices
    assert x.ndim == 3 and x.shape[0] == 1 and best is not None and best.numel() == 1
    assert first is None or first.tolist() == [0]
    rows = tracer.add_inner("reshape", (x,), tuple(x.shape[1:]))
    scores = tracer.add_inner("reshape", (best,), (x.shape[1], 1))
    tracer.add("choose", (rows, scores), out)


def _pad(tracer: _Tracer, out: Tensor, x: Tensor, padding: list[int], value: float = 0) -> None:
    assert len(padding) == 2
    sides = [torch.full((*x.shape[:-1], count), float(value)) for count in padding]
    _cat(tracer, out, (sides[0], x, sides[1]), -1)


def _convolution(
    tracer: _Tracer,
    out: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> None:
    assert not transposed
    inputs = (x, weight) if bias is None else (x, weight, bias)
    tracer.add("convolution", inputs, out, stride=stride, padding=padding, dilation=dilation, groups=groups)


def _max_pool(
    tracer: _Tracer, out: tuple[Tensor, ...], x: Tensor, kernel: list[int], stride: list[int], padding: list[int]
) -> None:
    tracer.add("max_pool", (x,), out[0], kernel=kernel, stride=stride, padding=padding)


_OPERATIONS: dict[str, Callable[..., None]] = {
    "addmm": lambda tracer, out, bias, x, weight: tracer.add("dense", (x, weight, bias), out),
    "mm": lambda tracer, out, x, weight: tracer.add("dense", (x, weight), out),
    "baddbmm": _baddbmm,
    "bmm": lambda tracer, out, x, y: tracer.add("matmul", (x, y), out),
    "convolution": _convolution,
    "max_pool2d_with_indices": _max_pool,
    "add": _binary("add"),
    "sub": _binary("subtract"),
    "mul": _binary("multiply"),
    "div": _binary("divide"),
    "addcmul": _addcmul,
    **{name: _unary(name) for name in ("relu", "tanh", "sigmoid")},
    "sin": _unary("sine"),
    "cos": _unary("cosine"),
    "exp": _unary("exponential"),
    "sqrt": _unary("square_root"),
    "silu": _silu,
    "gelu": _gelu,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "argmax": _argmax,
    "index": _index,
    "native_layer_norm": _layer_norm,
    "linalg_vector_norm": _norm,
    "mean": _reduce("mean"),
    "sum": _reduce("sum"),
    "amin": _reduce("minimum"),
    **dict.fromkeys(
        ("view", "_unsafe_view", "unsqueeze", "squeeze", "reshape"),
        lambda tracer, out, x, *_, **__: tracer.add("reshape", (x,), out),
    ),
    **dict.fromkeys(("alias", "detach", "clone", "lift_fresh"), lambda tracer, out, x, *_, **__: tracer.alias(out, x)),
    "expand": _expand,
    "_to_copy": _to_copy,
    "permute": _permute,
    "transpose": _transpose,
    "t": lambda tracer, out, x: _transpose(tracer, out, x, 0, 1),
    "split": _split,
    "split_with_sizes": _split,
    "slice": _slice,
    "cat": _cat,
    "constant_pad_nd": _pad,
}
