"""Functions that read and name the arrays of reward modules in checkpoints."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import CheckpointError, State

SMALLEST_SCALE = 1e-6
"""Smallest deviation that modules divide by."""


def take_over(arrays: Mapping[str, NDArray[Any]], state: State, name: str) -> None:
    """Copy arrays of ``state`` into the ``arrays`` of the same names and shapes.

    Raises:
        CheckpointError: if an array is missing or has another shape or dtype; the message names the first one.
    """
    for key, array in arrays.items():
        saved = state.get(key)
        if saved is None or saved.shape != array.shape or saved.dtype != array.dtype:
            raise CheckpointError(
                f"reward module {name!r}: expected {key!r}, {array.dtype} {array.shape}, found "
                f"{'nothing' if saved is None else f'{saved.dtype} {saved.shape}'}; resume with the configuration of "
                "the run"
            )
        if fault := _fault(key, saved):
            raise CheckpointError(f"reward module {name!r}: {key!r} {fault}; use another checkpoint")
        array[...] = saved


def _fault(key: str, array: NDArray[Any]) -> str:
    """Return the fault in the values of a saved array; empty if a module could have saved them."""
    if array.dtype.kind == "f" and np.isnan(array).any():
        return "is not a number"
    least = array.min() if array.size and array.dtype.kind in "fiu" else SMALLEST_SCALE
    if key == "scale" and least < SMALLEST_SCALE:  # infinite for an element that is ignored
        return f"divides by {least:.3g}"
    if (key.startswith("scale/") or key.endswith("/exp_avg_sq") or array.dtype.kind in "iu") and least < 0:
        return f"holds {least:.3g}, expected none below 0"
    return ""


def taken(state: State, key: str, name: str, *, like: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of an array of ``state`` whose leading axis may be of any length.

    Args:
        state: state of the module in a checkpoint.
        key: name of the array.
        name: name of the module, for the message.
        like: an array with the expected dtype and trailing shape.

    Raises:
        CheckpointError: if the array is missing or has another dtype or trailing shape.
    """
    saved = state.get(key)
    if saved is None or saved.dtype != like.dtype or saved.shape[1:] != like.shape[1:] or saved.ndim != like.ndim:
        raise CheckpointError(
            f"reward module {name!r}: expected {key!r}, {like.dtype} rows of shape {like.shape[1:]}, found "
            f"{'nothing' if saved is None else f'{saved.dtype} {saved.shape}'}; resume with the configuration of the "
            "run"
        )
    if fault := _fault(key, saved):
        raise CheckpointError(f"reward module {name!r}: {key!r} {fault}; use another checkpoint")
    return saved.copy()


def with_prefix(prefix: str, state: State) -> State:
    """Return the arrays of a part of a module, with a prefix that distinguishes their names from other parts."""
    return {prefix + key: value for key, value in state.items()}


def without_prefix(prefix: str, state: State) -> State:
    """Return the arrays of ``state`` that :func:`with_prefix` named with ``prefix``, under their original names."""
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
