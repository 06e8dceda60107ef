"""The part of an observation that a reward module looks at, as one vector."""

import math
from collections.abc import Sequence

import numpy as np

from robo_rl.core import Batch, CheckpointError, ConfigError, EnvSpec, State, generator, nearest

from ..vision.images import (
    CELLS,
    COLOURS,
    CONVOLUTIONAL,
    FINE_CELLS,
    ImagesConfig,
    cell_colours,
    each_moved,
    features,
    moved,
)
from .module import Floats

TRAINERS = "classifier, vice, stages, preferences and annotations"
"""Modules that can train a convolutional network."""

STILL = (0, 0)
"""No move of images."""


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
