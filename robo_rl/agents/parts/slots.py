"""Conversion of named tensors to a State and back.

An agent keeps everything that must be saved, including its counters, in tensors that are never replaced, only
written. Saving copies from them, and loading copies into them.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import CheckpointError, State, saved_counts

from .observations import SMALLEST_SCALE

_SQUARES = re.compile(r"\w+_second/.+|(reference/)?\w+_statistics/.+/variance")
_COUNTS = re.compile(r"(\w+_)?(updates|steps)")


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return ``tensors`` under names that begin with ``prefix/``."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def save_slots(tensors: Mapping[str, Tensor]) -> State:
    """Return copies; a scalar becomes an array (1,), since not every writer of arrays supports zero axes."""
    return {name: np.atleast_1d(tensor.numpy(force=True)).copy() for name, tensor in tensors.items()}


def load_slots(tensors: Mapping[str, Tensor], state: State, what: str) -> None:
    """Copy ``state`` into ``tensors``: all or nothing.

    Args:
        tensors: written in place.
        state: arrays of the same names, shapes and dtypes.
        what: name of the receiver, for messages.

    Raises:
        CheckpointError: naming the first difference, or the first array that no agent can have: with NaN or
            infinities, a normalisation that divides by nearly nothing, negative squares or counts.
    """
    for name in sorted(tensors.keys() | state.keys()):
        if name not in state:
            raise CheckpointError(f"{what} needs {name!r}, which the state lacks; it was saved with another agent")
        if name not in tensors:
            raise CheckpointError(
                f"the state holds {name!r}, which {what} does not have; it was saved with another agent"
            )
        expected = np.atleast_1d(tensors[name].numpy(force=True))
        array = state[name]
        if array.shape != expected.shape or array.dtype != expected.dtype:
            raise CheckpointError(
                f"{what}: {name!r} should be {expected.dtype} {expected.shape}, the state has {array.dtype} "
                f"{array.shape}; use the agent configuration that the state was saved with"
            )
        if fault := _fault(name, array):
            raise CheckpointError(f"{what}: {name!r} {fault}; use another checkpoint")
    for name, tensor in tensors.items():
        tensor.copy_(torch.from_numpy(np.ascontiguousarray(state[name])).view(tensor.shape))


def _fault(name: str, array: NDArray[Any]) -> str:
    """Return what is wrong with the values of a loaded array; empty if they are those of an agent."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return "is not finite"
    if name.endswith("normaliser/scale") and (array < SMALLEST_SCALE).any():
        return f"divides by {array.min():.3g}, and the smallest scale is {SMALLEST_SCALE}"
    squares = array[[0, 2, 3]] if name == "returns" else array  # the number of returns, their squares and the largest
    if (name == "returns" or _SQUARES.fullmatch(name)) and (squares < 0).any():
        return f"holds {squares.min():.3g}, expected none below 0"
    if _COUNTS.fullmatch(name):
        try:
            saved_counts(array, 1)
        except ValueError as error:
            return f"is not a count: {error}"
    return ""


def save_generators(generators: Mapping[str, torch.Generator]) -> State:
    """Return the states of random generators, as uint8 arrays under ``generator/<name>``."""
    return {f"generator/{name}": generator.get_state().numpy().copy() for name, generator in generators.items()}


def load_generators(generators: Mapping[str, torch.Generator], state: State, what: str) -> None:
    """Set ``generators`` from ``state``, which may hold other entries.

    Raises:
        CheckpointError: if the state of a generator is missing or invalid.
    """
    for name, generator in generators.items():
        array = state.get(f"generator/{name}")
        if array is None:
            raise CheckpointError(f"{what} needs 'generator/{name}', which the state lacks")
        try:
            generator.set_state(torch.from_numpy(np.ascontiguousarray(array)))
        except (RuntimeError, TypeError) as error:
            raise CheckpointError(f"'generator/{name}' is not the state of a random generator: {error}") from error
