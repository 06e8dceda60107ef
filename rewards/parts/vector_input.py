"""Input of a reward module: the chosen part of an observation as one vector."""

import math
from collections.abc import Sequence

import numpy as np

from robo_rl.core import Batch, CheckpointError, ConfigError, EnvSpec, State, generator, nearest

from ..vision.encoder_config import COLOURS, CONVOLUTIONAL, ImagesConfig
from ..vision.images import (
    CELLS,
    FINE_CELLS,
    cell_colours,
    each_moved,
    features,
    images_encoder,
    moved,
)
from .module import Floats

TRAINERS = "classifier, vice, stages, preferences and annotations"
"""Modules that can train a convolutional network."""

STILL = (0, 0)
"""Move that leaves images in place."""


class VectorInput:
    """Chosen keys of an observation as one vector; ``images`` determines the representation of images.

    Attributes:
        keys: observation keys that are used.
        size: F, number of elements.
        pictures: shapes (h, w, C) of the images for a convolutional network, which are the last elements.
        encodes: whether a frozen network encodes the images. A large batch is many times faster than single images, so
            a fixed module then scores whole episodes.

    Args:
        keys: observation keys; None for all except images.
        images: representation of images.
        spec: spec of the environment.
        option: configuration key of the module, for messages.
        trains: whether the module can train a convolutional network.

    Raises:
        ConfigError: if a key does not exist, no key is chosen, or the network for images is not available.
        DataError: if the files of that network are damaged.
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
        image_inputs = [key for key in chosen if key.startswith("images/")]
        if not image_inputs and images.model != COLOURS:
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
        self._encoder = images_encoder(images)
        self.encodes = self._encoder is not None
        if self._encoder is not None:
            image_keys([key.removeprefix("images/") for key in image_inputs], spec, f"{option}.keys")
        self.keys = [key for key in chosen if key not in image_inputs] + image_inputs if convolutional else chosen
        self._cells = FINE_CELLS if convolutional else CELLS
        self._has_views = bool(image_inputs) and not convolutional
        self.pictures = tuple(
            cell_colours(np.zeros(spec.observation[key].shape, np.uint8), FINE_CELLS).shape
            for key in (image_inputs if convolutional else ())
        )
        blank = {f"next_observation/{key}": np.zeros(spec.observation[key].shape, np.uint8) for key in chosen}
        self.size = self({"action": np.zeros(spec.action.shape, np.float32), **blank}).shape[-1]
        self._plain = self.size - sum(math.prod(shape) for shape in self.pictures)

    def __call__(self, batch: Batch, prefix: str = "next_observation", move: Sequence[int] = STILL) -> Floats:
        """Return the vectors (..., F) of rows with any leading axes.

        Args:
            batch: rows.
            prefix: ``observation`` for the observations before the step.
            move: shift of images down and right [pixels]; the border is repeated.
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
        """Return the moves of ``views`` views of images, by up to ``largest`` pixels. The first is :data:`STILL`.

        There are no others if there are no images, or if each minibatch moves them (:meth:`varied`). The moves are the
        same for all images, so that the features of a view of a repeated image are cached.
        """
        if not (self._has_views and largest):
            return [STILL]
        shifts = generator(seed, "views").integers(-largest, largest + 1, (views - 1, 2))
        return [STILL, *((int(down), int(right)) for down, right in shifts)]

    def scaling(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Return the shift (F,) to subtract from vectors (n, F), and the scale (F,) to divide by afterwards.

        These are the mean and the deviation (1 if that is 0) of each element. All elements of pictures share constants,
        because a convolution runs over them.
        """
        shift, deviation = vectors.mean(0), vectors.std(0)
        scale = np.where(deviation > 1e-6, deviation, np.float32(1))
        shift[self._plain :], scale[self._plain :] = 0.5, 0.25
        return shift, scale

    def varied(self, vectors: Floats, noise: Floats, shift: int, rng: np.random.Generator) -> Floats:
        """Return augmented examples (n, F): with normal noise, and with pictures moved at random.

        Args:
            vectors: examples (n, F).
            noise: deviations (F,) of the noise; the elements of pictures get none.
            shift: largest move of a picture [pixels]; each picture gets its own move (random crops).
            rng: random generator.
        """
        examples = vectors.copy()
        examples[:, : self._plain] += noise[: self._plain] * rng.standard_normal(
            (len(examples), self._plain), np.float32
        )
        begin = self._plain
        for shape in self.pictures:
            end = begin + math.prod(shape)
            moves = rng.integers(-shift, shift + 1, (len(examples), 2))
            pictures = examples[:, begin:end].reshape(-1, *shape)
            examples[:, begin:end] = each_moved(pictures, moves).reshape(len(examples), -1)
            begin = end
        return examples

    def state(self) -> State:
        """Return a hash of the network that encodes images, which vectors depend on besides the configuration."""
        if self._encoder is None:
            return {}
        return {"input/encoder": np.frombuffer(bytes.fromhex(self._encoder.fingerprint), dtype=np.uint8)}

    def check(self, state: State, name: str) -> None:
        """Check that the saved module encoded images with the same network.

        Raises:
            CheckpointError: if it did not.
        """
        local, saved = (arrays.get("input/encoder", np.zeros(0, np.uint8)) for arrays in (self.state(), state))
        if not np.array_equal(local, saved):
            raise CheckpointError(
                f"reward module {name!r} was saved with another network for images: resume with the configuration and "
                "the model of the run"
            )


def image_keys(cameras: Sequence[str] | None, spec: EnvSpec, option: str) -> tuple[str, ...]:
    """Return the observation keys of ``cameras``.

    Args:
        cameras: names of cameras; None for all.
        spec: spec of the environment.
        option: name of the configuration key, for messages.

    Raises:
        ConfigError: if the task has no cameras or lacks one of these, or a camera has no colours.
    """
    available = [key.removeprefix("images/") for key in spec.observation if key.startswith("images/")]
    if not available:
        raise ConfigError(f"{option}: the task has no cameras: task.observation.cameras=[front,view]")
    for camera in available if cameras is None else cameras:
        if camera not in available:
            raise ConfigError(f"{option}: this task has no camera {camera!r}: {nearest(camera, available)}")
        if spec.observation[f"images/{camera}"].shape[-1] % 3:
            raise ConfigError(f"{option}: {camera!r} has no colours")
    return tuple(f"images/{camera}" for camera in (available if cameras is None else cameras))
