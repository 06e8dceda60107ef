"""What people see of a robot while it acts."""

import cv2
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, EnvBackend, MonotonicClock, Observation, RenderingError

IMAGES = "images/"
PICTURE_SECONDS = 0.2
JPEG_QUALITY = 80


class View:
    """Makes JPEG pictures of what the cameras see or, where none is observed, of the scene; a few a second.

    Args:
        backend: robot or simulator.
        clock: monotonic time.
    """

    def __init__(self, backend: EnvBackend, clock: Clock | None = None) -> None:
        self._backend = backend
        self._clock = clock or MonotonicClock()
        self._taken_ns: int | None = None
        self.problem = ""
        """Why there are no pictures; empty: there are."""

    def take(self, observation: Observation) -> dict[str, bytes]:
        """Return pictures by camera; none where the last were taken a moment ago, or there are none."""
        now = self._clock.now_ns()
        if self.problem or (self._taken_ns is not None and now - self._taken_ns < PICTURE_SECONDS * 1e9):
            return {}
        self._taken_ns = now
        # Of stacked frames the newest is last.
        images = {
            key.removeprefix(IMAGES): image[..., -3:] for key, image in observation.items() if key.startswith(IMAGES)
        }
        try:
            return {camera: jpeg(image) for camera, image in (images or {"scene": self._backend.render()}).items()}
        except RenderingError as error:
            self.problem = str(error)
            return {}


def jpeg(picture: NDArray[np.uint8]) -> bytes:
    """Return a picture (height, width, 3), or (height, width, 1) where it is grey, as a JPEG file."""
    colours = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR) if picture.shape[2] == 3 else picture
    return bytes(cv2.imencode(".jpg", colours, (cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY))[1])
