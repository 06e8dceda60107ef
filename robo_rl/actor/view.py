"""Pictures of a robot for its operators."""

import cv2
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, EnvBackend, MonotonicClock, Observation, RenderingError

IMAGES = "images/"
PICTURE_SECONDS = 0.08
"""Shortest time between two sets of pictures [s]. It is below 0.1 s, so that rates of 10, 20 and 30 Hz all give ten per
second.
"""
SHARE = 0.3
"""Largest share of the time that is spent on pictures, because the acting loop makes them."""
JPEG_QUALITY = 80


class View:
    """Makes JPEG pictures of the observed camera images or, if there are none, of the rendered scene.

    At most one set of pictures is made every ``PICTURE_SECONDS``; fewer if they would take more than ``SHARE`` of the
    time, as a rendered scene may.
    """

    def __init__(self, backend: EnvBackend, clock: Clock | None = None) -> None:
        self._backend = backend
        self._clock = clock or MonotonicClock()
        self._due_ns = 0
        self.problem = ""
        """Reason why no pictures can be made; empty if they can."""

    def take(self, observation: Observation) -> dict[str, bytes]:
        """Return pictures by camera; none if the last ones were taken too recently, or rendering is not possible."""
        now = self._clock.now_ns()
        if self.problem or now < self._due_ns:
            return {}
        pictures = self._make(observation)
        taken_ns = self._clock.now_ns() - now
        self._due_ns = now + max(round(PICTURE_SECONDS * 1e9), round(taken_ns / SHARE))
        return pictures

    def _make(self, observation: Observation) -> dict[str, bytes]:
        images = {
            key.removeprefix(IMAGES): newest_frame(image)
            for key, image in observation.items()
            if key.startswith(IMAGES)
        }
        try:
            return {camera: jpeg(image) for camera, image in (images or {"scene": self._backend.render()}).items()}
        except RenderingError as error:
            self.problem = str(error)
            return {}


def newest_frame(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the last frame of an image of stacked frames: its last three channels, or the last one if it is grey."""
    return image[..., -3:] if image.shape[2] % 3 == 0 else image[..., -1:]


def jpeg(picture: NDArray[np.uint8]) -> bytes:
    """Return a picture (height, width, 3), or (height, width, 1) if it is grey, encoded as JPEG."""
    colours = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR) if picture.shape[2] == 3 else picture
    return bytes(cv2.imencode(".jpg", colours, (cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY))[1])
