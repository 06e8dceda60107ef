"""Arrays of a checkpoint, taken over by a part of a reward module."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from robo_rl.core import CheckpointError, State


def take_over(ours: Mapping[str, NDArray[Any]], state: State, name: str) -> None:
    """Copy arrays of ``state`` into those of the same names and shapes.

    Raises:
        CheckpointError: naming the first that is missing or has another shape or dtype.
    """
    for key, array in ours.items():
        found = state.get(key)
        if found is None or found.shape != array.shape or found.dtype != array.dtype:
            raise CheckpointError(
                f"reward module {name!r}: expected {key!r}, {array.dtype} {array.shape}, found "
                f"{'nothing' if found is None else f'{found.dtype} {found.shape}'}; resume with the configuration of "
                "the run"
            )
        array[...] = found


def taken(state: State, key: str, name: str, *, like: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of an array of ``state`` whose leading axis may be of any length.

    Args:
        state: what was saved.
        key: of the array.
        name: of the module, for the message.
        like: an array of the dtype and trailing shape that are expected.

    Raises:
        CheckpointError: if it is missing or has another dtype or trailing shape.
    """
    found = state.get(key)
    if found is None or found.dtype != like.dtype or found.shape[1:] != like.shape[1:] or found.ndim != like.ndim:
        raise CheckpointError(
            f"reward module {name!r}: expected {key!r}, {like.dtype} rows of shape {like.shape[1:]}, found "
            f"{'nothing' if found is None else f'{found.dtype} {found.shape}'}; resume with the configuration of the "
            "run"
        )
    return found.copy()


def with_prefix(prefix: str, state: State) -> State:
    """Return the arrays of a part of a module, under names that tell it from the other parts."""
    return {prefix + key: value for key, value in state.items()}


def without_prefix(prefix: str, state: State) -> State:
    """Return the part of ``state`` that :func:`with_prefix` named so."""
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
