"""What reward modules share: defaults of the protocol, and the part of an observation that they look at."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    Batch,
    CheckpointError,
    Comparisons,
    ConfigError,
    DataError,
    EnvSpec,
    Experience,
    Metrics,
    State,
    nearest,
)

Floats = NDArray[np.float32]


class Module:
    """Base of reward modules, with the answers of one that is fixed and judges single states.

    See :class:`robo_rl.core.RewardModule` for the meaning of each.
    """

    learned: bool = False
    whole_episodes: bool = False
    judges_state: bool = True

    def __init__(self) -> None:
        self.version = 0

    @property
    def waiting(self) -> bool:
        """Nobody is asked."""
        return False

    def fit(self, episodes: Sequence[Batch]) -> None:
        """Nothing to prepare."""

    def observe(self, batch: Batch) -> None:
        """Nothing to take note of."""

    def update(self, experience: Experience) -> Metrics:
        """Nothing to learn."""
        return {}

    def discount(self) -> float | None:
        """Return None: the agent's own discount is right."""
        return None

    def comparisons(self) -> Comparisons | None:
        """Return None: nothing is compared."""
        return None

    def ready(self, first: Batch) -> bool:
        """Return True: nobody is asked."""
        return True


CELLS = 16
"""Images are averaged over cells, at most this many along each side."""


class VectorInput:
    """The chosen keys of an observation as one vector; images as colours in [0, 1] of at most 16 x 16 cells.

    Attributes:
        keys: that are looked at.
        size: F, number of elements.

    Args:
        keys: observation keys; None: all that are not images.
        spec: of the environment.
        option: name of the configuration key, for messages.

    Raises:
        ConfigError: if a key is not there, or there is nothing to look at.
    """

    def __init__(self, keys: Sequence[str] | None, spec: EnvSpec, option: str) -> None:
        chosen = [key for key in spec.observation if not key.startswith("images/")] if keys is None else list(keys)
        for key in chosen:
            if key not in spec.observation:
                raise ConfigError(f"{option}: this task has no observation {key!r}: {nearest(key, spec.observation)}")
        if not chosen:
            raise ConfigError(f"{option}: name at least one observation key; {nearest('', spec.observation)}")
        self.keys = chosen
        nothing = {f"next_observation/{key}": np.zeros(spec.observation[key].shape, np.uint8) for key in chosen}
        self.size = self({"action": np.zeros(spec.action.shape, np.float32), **nothing}).shape[-1]

    def __call__(self, batch: Batch, prefix: str = "next_observation") -> Floats:
        """Return the vectors (..., F) of rows with any leading axes."""
        leading = batch["action"].shape[:-1]
        parts = []
        for key in self.keys:
            values = batch[f"{prefix}/{key}"]
            part = cell_colours(values) if key.startswith("images/") else values
            parts.append(part.reshape(*leading, -1))
        return np.concatenate(parts, axis=-1, dtype=np.float32)

    def trajectory(self, episode: Batch) -> Floats:
        """Return the L + 1 observations (L + 1, F) of an episode of L steps."""
        return np.concatenate([self(episode, "observation")[:1], self(episode)])


def cell_colours(images: NDArray[np.uint8]) -> Floats:
    """Return the mean colours (..., h, w, C) in [0, 1] of cells of images (..., H, W, C), with h and w at most 16.

    Cells are squares of pixels or rectangles, all alike; what is left over at the right and below is left out.
    """
    *leading, height, width, channels = images.shape
    tall, wide = -(-height // CELLS), -(-width // CELLS)
    rows, columns = height // tall, width // wide
    cells = images[..., : rows * tall, : columns * wide, :].reshape(*leading, rows, tall, columns, wide, channels)
    colours: Floats = cells.mean(axis=(-4, -2), dtype=np.float32) / np.float32(255)
    return colours


def image_keys(cameras: Sequence[str] | None, spec: EnvSpec, option: str) -> tuple[str, ...]:
    """Return the observation keys of ``cameras``, or of all where that is None.

    Args:
        cameras: their names.
        spec: of the environment.
        option: name of the configuration key, for messages.

    Raises:
        ConfigError: if the task has no cameras, or not these, or one has no colours.
    """
    known = [key.removeprefix("images/") for key in spec.observation if key.startswith("images/")]
    if not known:
        raise ConfigError(f"{option}: the task has no cameras to look through: task.observation.cameras=[front,view]")
    for camera in known if cameras is None else cameras:
        if camera not in known:
            raise ConfigError(f"{option}: this task has no camera {camera!r}: {nearest(camera, known)}")
        if spec.observation[f"images/{camera}"].shape[-1] % 3:
            raise ConfigError(f"{option}: {camera!r} has no colours")
    return tuple(f"images/{camera}" for camera in (known if cameras is None else cameras))


def require_episodes(episodes: Sequence[Batch], name: str) -> None:
    """Raise :class:`DataError` if there are no demonstrations to prepare from."""
    if not episodes:
        raise DataError(
            f"reward module {name!r} is made from demonstrations and there are none: set demonstrations.episodes to 1 "
            "or more, and demonstrations.path where the task has no scripted expert"
        )


def long_enough(trajectories: Sequence[Floats], least: int, name: str) -> list[Floats]:
    """Return those of ``least`` observations or more: a demonstration that began near its end shows too little.

    Raises:
        DataError: if there is none.
    """
    kept = [each for each in trajectories if len(each) >= least]
    if not kept:
        longest = max(map(len, trajectories))
        raise DataError(
            f"reward module {name!r} needs demonstrations of {least} observations, the longest has {longest}: record "
            "longer ones, or let the module look for less (its configuration says what)"
        )
    return kept


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
