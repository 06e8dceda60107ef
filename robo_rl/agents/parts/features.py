"""Features of a frozen network for the replay buffer, computed once per image and random shift, not once per update."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, Batch, generator

from .augmentation import shift_images
from .encoder import ImageEncoder


class FrozenFeatures:
    """Features that the frozen network computes from randomly shifted views of each image.

    The shifts follow from the seed and the number that the replay buffer gives to an image, so that features computed
    again are the same.

    Attributes:
        views: number of views of each image.
        spec: spec of the features of one view, by observation key of the image.
        fingerprint: of everything that features depend on except the image and its number.

    Args:
        encoder: encoder with a frozen network.
        shapes: shapes of the images (H, W, C), by observation key.
        views: see :attr:`views`.
        shift: largest shift [pixels].
        seed: seed of the shifts.
    """

    def __init__(
        self, encoder: ImageEncoder, shapes: Mapping[str, tuple[int, ...]], views: int, shift: int, seed: int
    ) -> None:
        self.views = views
        sizes = {key: math.prod(encoder.map_shape(shape)) for key, shape in shapes.items()}
        self.spec = {key: ArraySpec((size,), "float16") for key, size in sizes.items()}
        self.fingerprint = f"{encoder.fingerprint}-{views}-{shift}-{seed}"
        self._encoder = encoder
        self._device = next(iter(encoder.frozen.values())).device
        self._shift = shift
        self._seed = seed

    @torch.inference_mode()
    def __call__(self, images: Batch, numbers: NDArray[np.intp]) -> Batch:
        """Return the features (n, views, F) by key of ``images`` (n, H, W, C), whose numbers are ``numbers`` (n,)."""
        features: Batch = {}
        for key in self.spec:
            shifts = np.stack([self._shifts(key, int(number)) for number in numbers])
            repeated = torch.from_numpy(images[key]).to(self._device).repeat_interleave(self.views, dim=0)
            shifted = shift_images(repeated, torch.from_numpy(shifts).to(self._device).flatten(0, 1))
            maps = self._encoder.frozen_maps(shifted).flatten(1)
            features[key] = maps.view(len(numbers), self.views, -1).half().numpy(force=True)
        return features

    def _shifts(self, key: str, number: int) -> NDArray[np.int64]:
        rng = generator(self._seed, "view", key, number)
        return rng.integers(-self._shift, self._shift + 1, (self.views, 2))
