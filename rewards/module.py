"""What reward modules share: defaults of the protocol, and the part of an observation that they look at."""

import math
from collections.abc import Callable, Mapping, Sequence
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
    generator,
    nearest,
)

from .images import CELLS, COLOURS, CONVOLUTIONAL, FINE_CELLS, ImagesConfig, cell_colours, each_moved, features, moved

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

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Nothing to prepare."""
        return {}

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

    def state(self) -> State:
        """Return nothing: nothing is remembered."""
        return {}

    def load(self, state: State) -> None:
        """Go on from ``state``: nothing is remembered."""


class FunctionModule(Module):
    """A fixed module that a function computes, row by row.

    Args:
        function: returns rewards (n,), finite, for rows of :class:`robo_rl.core.RewardModule`.
        judges_state: whether it reads ``next_observation/...`` alone.
    """

    def __init__(self, function: Callable[[Batch], NDArray[np.floating]], judges_state: bool = True) -> None:
        super().__init__()
        self._function = function
        self.judges_state = judges_state

    def __call__(self, batch: Batch) -> Floats:
        """Return rewards (n,) of the rows."""
        return np.asarray(self._function(batch), np.float32)


TRAINERS = "classifier, vice, stages, preferences and annotations"
"""Modules that can train a convolutional network."""

STILL = (0, 0)
"""No move of images."""

_CHANGES = 0.1
"""From where to where an element must go, in deviations, to say something about how far an episode has come."""


def constant_elements(trajectories: Sequence[NDArray[np.floating]]) -> NDArray[np.bool_]:
    """Tell which elements (F,) stay what they are along each of ``trajectories`` (L, F), in units of their deviation.

    These say which demonstration it is (where a door stands), not what is done in it.
    """
    found: NDArray[np.bool_] = np.all([np.ptp(each, axis=0) < _CHANGES for each in trajectories], axis=0)
    return found


class VectorInput:
    """The chosen keys of an observation as one vector; images as ``images`` says.

    Attributes:
        keys: that are looked at.
        size: F, number of elements.
        pictures: shapes (h, w, C) of the images that a convolutional network is to see, which are the last elements.
        encodes: a network that is not trained further sees images. Many at once are many times as fast as one by one,
            so a module that is fixed then scores a whole episode at a time.

    Args:
        keys: observation keys; None: all that are not images.
        images: how images are seen.
        spec: of the environment.
        option: name of the module's configuration, for messages.
        trains: the module can train a convolutional network.

    Raises:
        ConfigError: if a key is not there, there is nothing to look at, or the network for images is not at hand.
        DataError: if that network's files are damaged.
    """

    def __init__(
        self, keys: Sequence[str] | None, images: ImagesConfig, spec: EnvSpec, option: str, *, trains: bool = False
    ) -> None:
        chosen = [key for key in spec.observation if not key.startswith("images/")] if keys is None else list(keys)
        for key in chosen:
            if key not in spec.observation:
                near = nearest(key, spec.observation)
                raise ConfigError(f"{option}.keys: this task has no observation {key!r}: {near}")
        if not chosen:
            raise ConfigError(f"{option}.keys: name at least one observation key; {nearest('', spec.observation)}")
        seen = [key for key in chosen if key.startswith("images/")]
        if not seen and images.model != COLOURS:
            raise ConfigError(
                f"{option}.images.model: {images.model} is for images and {option}.keys names none: "
                f"{option}.keys=[images/front]"
            )
        convolutional = images.model == CONVOLUTIONAL
        if convolutional and not trains:
            raise ConfigError(
                f"{option}.images.model: {TRAINERS} alone train a {CONVOLUTIONAL} network; here choose "
                f"{COLOURS}, tabletop or another model that is trained already"
            )
        self._encoder = images.load()
        self.encodes = self._encoder is not None
        if self._encoder is not None:
            image_keys([key.removeprefix("images/") for key in seen], spec, f"{option}.keys")
        self.keys = [key for key in chosen if key not in seen] + seen if convolutional else chosen
        self._cells = FINE_CELLS if convolutional else CELLS
        self._has_views = bool(seen) and not convolutional
        self.pictures = tuple(
            cell_colours(np.zeros(spec.observation[key].shape, np.uint8), FINE_CELLS).shape
            for key in (seen if convolutional else ())
        )
        nothing = {f"next_observation/{key}": np.zeros(spec.observation[key].shape, np.uint8) for key in chosen}
        self.size = self({"action": np.zeros(spec.action.shape, np.float32), **nothing}).shape[-1]
        self._plain = self.size - sum(math.prod(shape) for shape in self.pictures)

    def __call__(self, batch: Batch, prefix: str = "next_observation", move: Sequence[int] = STILL) -> Floats:
        """Return the vectors (..., F) of rows with any leading axes.

        Args:
            batch: rows.
            prefix: ``observation`` for those before the step.
            move: pixels, down and right, by which images are moved, the border repeated.
        """
        leading = batch["action"].shape[:-1]
        parts = []
        for key in self.keys:
            values = batch[f"{prefix}/{key}"]
            if key.startswith("images/"):
                values = values if tuple(move) == STILL else moved(values, *move)
                encoder = self._encoder
                values = cell_colours(values, self._cells) if encoder is None else features(values, encoder)
            parts.append(values.reshape(*leading, -1))
        return np.concatenate(parts, axis=-1, dtype=np.float32)

    def trajectory(self, episode: Batch, move: Sequence[int] = STILL) -> Floats:
        """Return the L + 1 observations (L + 1, F) of an episode of L steps."""
        return np.concatenate([self(episode, "observation", move)[:1], self(episode, move=move)])

    def moves(self, views: int, largest: int, seed: int) -> list[tuple[int, int]]:
        """Return the moves of ``views`` views of images, by up to ``largest`` pixels: first none, and that alone where
        no images are looked at, or each minibatch moves them (:meth:`varied`).

        They are the same for all images, so that a view of one that was seen before is the same too, and its features
        are known.
        """
        if not (self._has_views and largest):
            return [STILL]
        drawn = generator(seed, "views").integers(-largest, largest + 1, (views - 1, 2))
        return [STILL, *((int(down), int(right)) for down, right in drawn)]

    def scaling(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Return what is taken off each element of vectors (n, F), and what they are divided by then.

        It is their mean and deviation (where that is 0: 1), and for pictures, over which a convolution goes, the same
        for all elements.
        """
        shift, deviation = vectors.mean(0), vectors.std(0)
        scale = np.where(deviation > 1e-6, deviation, np.float32(1))
        shift[self._plain :], scale[self._plain :] = 0.5, 0.25
        return shift, scale

    def varied(self, vectors: Floats, noise: Floats, shift: int, rng: np.random.Generator) -> Floats:
        """Return examples (n, F) as a network is to see them once: with normal noise, and pictures moved at random.

        Args:
            vectors: examples.
            noise: deviations (F,), which those of pictures do not count.
            shift: pictures are moved by up to so many pixels, each by its own: random crops.
            rng: for the draws.
        """
        found = vectors.copy()
        found[:, : self._plain] += noise[: self._plain] * rng.standard_normal((len(found), self._plain), np.float32)
        begin = self._plain
        for shape in self.pictures:
            end = begin + math.prod(shape)
            moves = rng.integers(-shift, shift + 1, (len(found), 2))
            pictures = found[:, begin:end].reshape(-1, *shape)
            found[:, begin:end] = each_moved(pictures, moves).reshape(len(found), -1)
            begin = end
        return found

    def state(self) -> State:
        """Return what the vectors depend on besides the configuration: a hash of the network that sees images."""
        if self._encoder is None:
            return {}
        return {"input/encoder": np.frombuffer(bytes.fromhex(self._encoder.fingerprint), dtype=np.uint8)}

    def check(self, state: State, name: str) -> None:
        """Check that a module that was saved saw images by the same network.

        Raises:
            CheckpointError: if it did not.
        """
        ours, found = (each.get("input/encoder", np.zeros(0, np.uint8)) for each in (self.state(), state))
        if not np.array_equal(ours, found):
            raise CheckpointError(
                f"reward module {name!r} was saved with another network for images: resume with the configuration and "
                "the model of the run"
            )


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


def succeeded(episodes: Sequence[Batch], name: str) -> Sequence[Batch]:
    """Return the demonstrations but for those that ended in failure, which are no examples of what is wanted.

    Those of which nobody knows are kept.

    Raises:
        DataError: if there are none.
    """
    require_episodes(episodes, name)
    kept = [each for each in episodes if "success" not in each or each["success"][-1] != 0]
    if not kept:
        raise DataError(
            f"reward module {name!r} is made from demonstrations that succeed, and each of {len(episodes)} ended in "
            "failure: record some that succeed, or choose others by demonstrations.path"
        )
    if len(kept) < len(episodes):
        print(
            f"Reward module {name!r}: {len(episodes) - len(kept)} demonstrations that failed are left out", flush=True
        )
    return kept


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
