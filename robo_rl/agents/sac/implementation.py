"""The choice of the implementation that computes the update."""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from robo_rl.core import ConfigError

from ..parts.adam import TrainState
from ..parts.implementation import computed_precision, native_or_torch
from ..parts.reference import ReferenceRows
from .config import SACConfig
from .native_update import NativeUpdate
from .precision import TIMER
from .ranks import RankedUpdate, several_ranks
from .update import Minibatches, Noise, TorchUpdate

Update = Callable[[Minibatches, Noise, int, ReferenceRows | None], Tensor]
"""One whole update, see :meth:`.TorchUpdate.__call__`."""


def native_lacks(config: SACConfig) -> str:
    """Return the feature that the native update lacks for ``config``; empty if it lacks none."""
    return "filter of cloned actions" if config.cloning_filter else ""


def computable(config: SACConfig, device: torch.device) -> SACConfig:
    """Return ``config`` with the precision in which updates on ``device`` are computed; see :func:`computed_precision`.

    Updates by several processes are not native.
    """
    if device.type == "cpu":
        in_cpp = not native_lacks(config) and not several_ranks()
        precision = computed_precision(config.implementation, config.precision, in_cpp=in_cpp, fastest=TIMER.fastest)
    else:
        precision = "float32" if config.precision == "auto" else config.precision
    return dataclasses.replace(config, precision=precision)


def make_update(config: SACConfig, state: TrainState) -> tuple[Update, str]:
    """Return the update for ``config.implementation``, and a description for operators of which it is and why.

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
        precision, description = native_or_torch(config.implementation, config.precision, native_lacks(config))
        if precision is None:
            return TorchUpdate(config, state), description
        return NativeUpdate(dataclasses.replace(config, precision=precision), state), description
    compiled = config.implementation == "compile"
    return TorchUpdate(config, state, compiled=compiled), describe_torch(device, compiled)


def describe_torch(device: torch.device, compiled: bool) -> str:
    """Return a description for operators of updates by PyTorch."""
    name = "torch.compile" if compiled else "torch"
    return f"{name}, a CUDA graph on {torch.cuda.get_device_name(device)}" if device.type == "cuda" else name
