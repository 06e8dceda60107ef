"""The choice of the implementation that computes the update."""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from robo_rl.core import ConfigError

from ..parts import native
from ..parts.adam import TrainState
from ..parts.reference import ReferenceRows
from .config import SACConfig
from .native_update import NativeUpdate
from .precision import fastest_precision
from .ranks import RankedUpdate, several_ranks
from .update import Minibatches, Noise, TorchUpdate

Update = Callable[[Minibatches, Noise, int, ReferenceRows | None], Tensor]
"""One whole update, see :meth:`.TorchUpdate.__call__`."""


def native_lacks(config: SACConfig) -> str:
    """Return the feature that the native update lacks for ``config``; empty if it lacks none."""
    return "filter of cloned actions" if config.cloning_filter else native.lacks(config)


def computable(config: SACConfig, device: torch.device) -> SACConfig:
    """Return ``config`` with the precision in which updates on ``device`` are computed.

    ``precision=auto`` is measured for native updates in one process, and is float32 for all others. On a processor
    without products of bfloat16, ``implementation=auto`` uses float32: PyTorch would emulate them, many times slower.
    """
    if config.precision == "auto":
        in_cpp = config.implementation in ("auto", "native") and not native_lacks(config)
        measured = device.type == "cpu" and in_cpp and not several_ranks()
        return dataclasses.replace(config, precision=fastest_precision() if measured else "float32")
    emulated = device.type == "cpu" and config.precision == "bfloat16" and not native.multiplies_bfloat16()
    return dataclasses.replace(config, precision="float32") if emulated and config.implementation == "auto" else config


def make_update(config: SACConfig, state: TrainState) -> tuple[Update, str]:
    """Return the update for ``config.implementation``, and a description for operators of which it is and why.

    If no products of bfloat16 can be compiled, ``auto`` is native in float32.

    Raises:
        ConfigError: if the native update is requested and not available.
    """
    if several_ranks():
        ranked = RankedUpdate(config, state)
        return ranked, ranked.description
    device = next(iter(state.parameters.values())).device
    if device.type == "cuda" and config.implementation == "native":
        raise ConfigError(
            "agent.implementation=native computes on the CPU. Use agent.device=cpu, or agent.implementation=auto"
        )
    if device.type == "cpu" and config.implementation in ("auto", "native"):
        lacking = native_lacks(config)
        available, reason = (False, f"it has no {lacking}") if lacking else native.available(config.precision)
        if available:
            return NativeUpdate(config, state), f"native ({reason})"
        if config.implementation == "auto" and not lacking and native.available("float32")[0]:
            fallback = dataclasses.replace(config, precision="float32")
            return NativeUpdate(fallback, state), f"native, in float32 ({reason})"
        if config.implementation == "native":
            raise ConfigError(f"agent.implementation=native is not available: {reason}. Use agent.implementation=auto")
        return TorchUpdate(config, state), f"torch (native is not available: {reason})"
    compiled = config.implementation == "compile"
    return TorchUpdate(config, state, compiled=compiled), describe_torch(device, compiled)


def describe_torch(device: torch.device, compiled: bool) -> str:
    """Return a description for operators of updates by PyTorch."""
    name = "torch.compile" if compiled else "torch"
    return f"{name}, a CUDA graph on {torch.cuda.get_device_name(device)}" if device.type == "cuda" else name
