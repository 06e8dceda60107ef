"""The compiled library: its compilation, its loading, and the memory of tensors for its functions."""

import ctypes
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....core import NativeBuildError, native_library
from ..adam import TrainState
from ..policy import PolicyConfig

ACTIVATION_NUMBERS = {"relu": 1, "tanh": 2, "silu": 3, "gelu": 4}
"""The numbers of ``Activation`` in layer.h."""


def library_path() -> Path:
    """Return the path of the compiled library.

    Raises:
        NativeBuildError: if it cannot be compiled on this machine.
    """
    return native_library(Path(__file__).with_name("library.cpp"))


@functools.cache
def library() -> ctypes.CDLL:
    return load(library_path())


def load(path: Path) -> ctypes.CDLL:
    """Load the library compiled to ``path``, and declare its functions.

    Raises:
        NativeBuildError: if it does not load.
    """
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise NativeBuildError(f"the compiled library does not load: {error}") from error
    loaded.robo_rl_update_new.restype = ctypes.c_void_p
    counts = ctypes.c_int64, ctypes.c_int64
    loaded.robo_rl_update_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, *counts, ctypes.c_void_p)
    loaded.robo_rl_update_run.restype = None
    loaded.robo_rl_update_delete.argtypes = (ctypes.c_void_p,)
    loaded.robo_rl_update_delete.restype = None
    loaded.robo_rl_flow_update_new.restype = ctypes.c_void_p
    loaded.robo_rl_flow_update_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, *counts, ctypes.c_void_p)
    loaded.robo_rl_flow_update_run.restype = None
    loaded.robo_rl_flow_update_delete.argtypes = (ctypes.c_void_p,)
    loaded.robo_rl_flow_update_delete.restype = None
    loaded.robo_rl_cloning_new.restype = ctypes.c_void_p
    loaded.robo_rl_cloning_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    loaded.robo_rl_cloning_run.restype = ctypes.c_float
    loaded.robo_rl_cloning_delete.argtypes = (ctypes.c_void_p,)
    loaded.robo_rl_cloning_delete.restype = None
    loaded.robo_rl_bfloat16_instructions.restype = ctypes.c_char_p
    loaded.robo_rl_saturate.restype = ctypes.c_double
    return loaded


def multiplies_bfloat16() -> bool:
    """Return whether this processor multiplies bfloat16 (AVX512_BF16), without compiling anything."""
    return bool(torch.cpu.get_capabilities().get("avx512_bf16"))


def bfloat16_instructions() -> str:
    """Return the instructions by which native updates multiply bfloat16 here: ``AMX``, ``AVX512_BF16``, or empty.

    AMX needs a permission of the operating system, which the library requests once in each process. Empty: the
    processor has none of them, or the library cannot be compiled.
    """
    try:
        return str(library().robo_rl_bfloat16_instructions().decode())
    except NativeBuildError:
        return ""


def available(precision: str = "float32") -> tuple[bool, str]:
    """Return whether the native update works on this machine, and why or how. Compile it if that was never done.

    ``bfloat16`` needs a processor that multiplies it (AVX512_BF16).
    """
    try:
        library()
    except NativeBuildError as error:
        return False, str(error)
    compiled = "compiled with this machine's C++ compiler"
    if precision != "bfloat16":
        return True, compiled
    instructions = bfloat16_instructions()
    if not instructions:
        return False, "this processor has no instruction for products of bfloat16 (AVX512_BF16)"
    return True, f"{compiled}; bfloat16 by {instructions}"


WITHOUT_NORM = (None,) * 8
"""Placeholders for scale and shift of an output that library.cpp reads as a layer, but without LayerNorm."""


class StoredTensors(NamedTuple):
    """The tensors of a parameter by name: value, moments and target, in the order in which library.cpp reads them."""

    state: TrainState

    def tensor(self, name: str, shape: tuple[int, ...], present: bool = True) -> Iterator[Tensor | None]:
        for tensors in self.state:
            yield _checked(name, tensors[name], shape) if present else None
        target, parameters = f"target_{name}", self.state.parameters
        yield _checked(target, parameters[target], shape) if present and target in parameters else None

    def network(
        self, name: str, widths: tuple[int, ...], norm: bool, lead: tuple[int, ...] = ()
    ) -> Iterator[Tensor | None]:
        """Yield the tensors of the hidden layers, then the output's weight and bias; ``widths`` include the input's."""
        *hidden, outputs = widths[1:]
        for layer, (inputs, width) in enumerate(zip(widths, hidden, strict=False)):
            yield from self.tensor(f"{name}/{layer}/weight", (*lead, inputs, width))
            yield from self.tensor(f"{name}/{layer}/bias", (*lead, width))
            yield from self.tensor(f"{name}/{layer}/scale", (*lead, width), norm)
            yield from self.tensor(f"{name}/{layer}/shift", (*lead, width), norm)
        yield from self.tensor(f"{name}/output/weight", (*lead, widths[-2], outputs))
        yield from self.tensor(f"{name}/output/bias", (*lead, outputs))

    def actor(self, observation_size: int, action_size: int, config: PolicyConfig) -> Iterator[Tensor | None]:
        yield from self.network("actor", (observation_size, *config.hidden, 2 * action_size), config.actor_layer_norm)
        yield from WITHOUT_NORM


def made(
    make: Callable[..., int | None],
    settings: tuple[Any, ...],
    config: PolicyConfig,
    tensors: list[Tensor | None],
    what: str,
) -> int:
    """Return the handle that a constructor of the library creates, or raise MemoryError."""
    pointers = (ctypes.c_void_p * len(tensors))(*(None if tensor is None else tensor.data_ptr() for tensor in tensors))
    hidden = (ctypes.c_int * len(config.hidden))(*config.hidden)
    activation, depth = ctypes.c_int(ACTIVATION_NUMBERS[config.activation]), ctypes.c_int(len(config.hidden))
    error = ctypes.create_string_buffer(200)
    handle = make(*settings, activation, depth, hidden, pointers, error, ctypes.c_size_t(len(error)))
    if not handle:
        threads = torch.get_num_threads()
        raise MemoryError(f"{what} needs more memory, or {threads} threads: {error.value.decode()}")
    return handle


def _checked(name: str, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    pointer(name, tensor, shape)
    return tensor


def pointer(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
    """Return the address of a tensor's memory, or raise ValueError if the library cannot read the tensor."""
    if tuple(tensor.shape) != shape or tensor.dtype != dtype or tensor.device.type != "cpu":
        got = f"{tensor.dtype} {tuple(tensor.shape)} on {tensor.device}"
        raise ValueError(f"{name}: expected {dtype} {shape} on cpu, got {got}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name}: expected a contiguous tensor, got strides {tensor.stride()}")
    return tensor.data_ptr()
