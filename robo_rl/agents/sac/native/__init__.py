"""The update of soft actor-critic in C++ for the CPU: hand-written gradients, fused passes, own matrix kernels.

:class:`NativeUpdate` does what :class:`..update.TorchUpdate` defines, several times faster, on the memory of the
same tensors. It is compiled on first use; :func:`available` says whether that is possible here.

The result does not depend on the number of threads, and equal arguments give equal bits on the same machine.
"""

import ctypes
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ....core import NativeBuildError, native_library
from ..config import SACConfig
from ..networks import Parameters
from ..update import METRICS, Minibatches, Noise

__all__ = ["NativeUpdate", "available", "lacks", "library_path"]

_ACTIVATIONS = {"relu": 1, "tanh": 2, "silu": 3}


class _Settings(ctypes.Structure):
    """``Settings`` of update.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("observation_size", "action_size", "ensemble", "subset", "batch")),
        *((name, ctypes.c_int32) for name in ("updates", "threads", "entropy_backup", "actor_minimum")),
        ("bins", ctypes.c_int32),
        *((name, ctypes.c_double) for name in ("actor_learning_rate", "critic_learning_rate")),
        *((name, ctypes.c_double) for name in ("temperature_learning_rate", "tau", "target_entropy")),
        *((name, ctypes.c_double) for name in ("value_low", "value_high")),
    )


class _Inputs(ctypes.Structure):
    """``Inputs`` of update.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("observation", "action", "reward", "discount", "next_observation")),
        *((name, ctypes.c_void_p) for name in ("next_noise", "subset", "actor_noise", "cloning", "proposed_action")),
    )


def library_path() -> Path:
    """Return the compiled library.

    Raises:
        NativeBuildError: if it cannot be compiled here.
    """
    return native_library(Path(__file__).with_name("library.cpp"))


@functools.cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(library_path()))
    except OSError as error:
        raise NativeBuildError(f"the compiled library does not load: {error}") from error
    library.robo_rl_update_new.restype = ctypes.c_void_p
    library.robo_rl_update_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    library.robo_rl_update_run.restype = None
    library.robo_rl_update_delete.argtypes = (ctypes.c_void_p,)
    library.robo_rl_update_delete.restype = None
    return library


def available(precision: str = "float32") -> tuple[bool, str]:
    """Return whether the native update works here, and why or how. Compiles it if that was never done.

    ``bfloat16`` needs a processor that multiplies it (AVX512_BF16).
    """
    try:
        if precision == "bfloat16" and not _library().robo_rl_has_bfloat16():
            return False, "this processor has no instruction for products of bfloat16 (AVX512_BF16)"
        _library()
        return True, "compiled with this machine's C++ compiler"
    except NativeBuildError as error:
        return False, str(error)


def lacks(config: SACConfig) -> str:
    """Return what the native update would need for ``config`` and does not have; else nothing."""
    return "residual networks" if config.network != "mlp" else ""


class NativeUpdate:
    """Same arguments and same result as :class:`..update.TorchUpdate`; see there.

    The tensors' memory must stay where it is as long as this object is used: change values in place. It has as many
    threads as PyTorch uses; they do not survive a fork: make the object in the process that uses it.

    Raises:
        NativeBuildError: if :func:`available` is false.
        ValueError: if a tensor is not a contiguous float32 tensor on the CPU of the shape that the config says.
    """

    def __init__(self, config: SACConfig, parameters: Parameters, first: Parameters, second: Parameters) -> None:
        self._handle: int | None = None
        self._library = _library()
        self._config = config
        self._action_size = parameters["actor/output/bias"].shape[0] // 2
        self._observation_size = parameters["actor/0/weight"].shape[0]
        value_low, value_high = config.value_range or (0.0, 0.0)
        settings = _Settings(
            observation_size=self._observation_size,
            action_size=self._action_size,
            ensemble=config.ensemble_size,
            subset=config.target_subset,
            batch=config.batch_size,
            updates=config.update_to_data,
            threads=torch.get_num_threads(),
            entropy_backup=config.entropy_backup,
            actor_minimum=config.actor_q == "min",
            bins=config.value_bins,
            actor_learning_rate=config.actor_learning_rate,
            critic_learning_rate=config.critic_learning_rate,
            temperature_learning_rate=config.temperature_learning_rate,
            tau=config.tau,
            target_entropy=-0.5 * self._action_size if config.target_entropy is None else config.target_entropy,
            value_low=value_low,
            value_high=value_high,
        )
        # Kept, so that the memory lives as long as the pointers to it.
        self._tensors = list(self._stored_tensors(parameters, first, second))
        pointers = (ctypes.c_void_p * len(self._tensors))(
            *(None if tensor is None else tensor.data_ptr() for tensor in self._tensors)
        )
        hidden = (ctypes.c_int * len(config.hidden))(*config.hidden)
        works, why = available(config.precision)
        if not works:
            raise NativeBuildError(why)
        error = ctypes.create_string_buffer(200)
        self._handle = self._library.robo_rl_update_new(
            ctypes.byref(settings),
            ctypes.c_int(config.precision == "bfloat16"),
            ctypes.c_int(_ACTIVATIONS[config.activation]),
            ctypes.c_int(len(config.hidden)),
            hidden,
            pointers,
            error,
            ctypes.c_size_t(len(error)),
        )
        if not self._handle:
            reason = error.value.decode()
            raise MemoryError(f"the native update needs more memory, or {settings.threads} threads: {reason}")

    def __call__(self, batch: Minibatches, noise: Noise, updates: int) -> Tensor:
        """Do one whole update; other Python threads run meanwhile.

        Args:
            batch: rows.
            noise: randomness.
            updates: whole updates done before this one.

        Returns:
            (len(METRICS),) float32.

        Raises:
            ValueError: if a tensor has another shape or dtype or is not contiguous.
        """
        config, o, a = self._config, self._observation_size, self._action_size
        u, b = config.update_to_data, config.batch_size
        inputs = _Inputs(
            observation=_pointer("observation", batch.observation, (u, b, o)),
            action=_pointer("action", batch.action, (u, b, a)),
            reward=_pointer("reward", batch.reward, (u, b)),
            discount=_pointer("discount", batch.discount, (u, b)),
            next_observation=_pointer("next_observation", batch.next_observation, (u, b, o)),
            next_noise=_pointer("noise.next_action", noise.next_action, (u, b, a)),
            subset=_pointer("noise.subset", noise.subset, (u, config.target_subset), torch.int64),
            actor_noise=_pointer("noise.action", noise.action, (b, a)),
            cloning=_pointer("cloning", batch.cloning, (u, b)),
            proposed_action=_pointer("proposed_action", batch.proposed_action, (u, b, a)),
        )
        if noise.subset.min() < 0 or noise.subset.max() >= config.ensemble_size:
            raise ValueError(f"noise.subset: expected indices below {config.ensemble_size}, got {noise.subset}")
        metrics = torch.empty(len(METRICS))
        self._library.robo_rl_update_run(self._handle, ctypes.byref(inputs), updates, metrics.data_ptr())
        return metrics

    def __del__(self) -> None:
        if self._handle:
            self._library.robo_rl_update_delete(self._handle)
            self._handle = None

    def _stored_tensors(self, parameters: Parameters, first: Parameters, second: Parameters) -> Iterator[Tensor | None]:
        """Yield value, moments and target of each parameter, in the order that library.cpp reads."""
        config = self._config

        def stored(name: str, shape: tuple[int, ...], present: bool = True) -> Iterator[Tensor | None]:
            for store, key in ((parameters, name), (first, name), (second, name), (parameters, f"target_{name}")):
                if not present or (key.startswith("target_") and not name.startswith("critic/")):
                    yield None
                else:
                    _pointer(key, store[key], shape)
                    yield store[key]

        def network(name: str, lead: tuple[int, ...], inputs: int, outputs: int, norm: bool) -> Iterator[Any]:
            for layer, width in enumerate(config.hidden):
                yield from stored(f"{name}/{layer}/weight", (*lead, inputs, width))
                yield from stored(f"{name}/{layer}/bias", (*lead, width))
                yield from stored(f"{name}/{layer}/scale", (*lead, width), norm)
                yield from stored(f"{name}/{layer}/shift", (*lead, width), norm)
                inputs = width
            yield from stored(f"{name}/output/weight", (*lead, inputs, outputs))
            yield from stored(f"{name}/output/bias", (*lead, outputs))

        o, a = self._observation_size, self._action_size
        without_norm = (None,) * 8  # scale and shift of an output that is a layer
        yield from network("critic", (config.ensemble_size,), o + a, config.value_bins or 1, config.layer_norm)
        if config.value_bins:
            yield from without_norm
        yield from network("actor", (), o, 2 * a, config.actor_layer_norm)
        yield from without_norm
        yield from stored("temperature/log_alpha", ())


def _pointer(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
    """Return the address of a tensor's memory, or raise ValueError unless it is as the library reads it."""
    if tuple(tensor.shape) != shape or tensor.dtype != dtype or tensor.device.type != "cpu":
        got = f"{tensor.dtype} {tuple(tensor.shape)} on {tensor.device}"
        raise ValueError(f"{name}: expected {dtype} {shape} on cpu, got {got}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name}: expected a contiguous tensor, got strides {tensor.stride()}")
    return tensor.data_ptr()
