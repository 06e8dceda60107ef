"""Colours and depth of one camera, each read as pictures of their own."""

import threading
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DriverError

from .config import CameraConfig
from .frames import DepthCamera, Frames

NEAREST, FARTHEST = 1, 255
"""Pixel values of the least and the largest distance; 0 is an unknown one."""


def picture_of(depth: NDArray[np.float32], low: float, high: float) -> NDArray[np.uint8]:
    """Return a picture (H, W, 3) with three equal channels of a depth image.

    Args:
        depth: distances (H, W) [m]; 0 is unknown.
        low: distance of the pixel value 1, and of all that is nearer [m].
        high: distance of the pixel value 255, and of all that is farther [m].
    """
    share = np.clip((depth - low) / (high - low), 0, 1)
    grey = np.where(depth > 0, np.rint(NEAREST + share * (FARTHEST - NEAREST)), 0).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


class _Shared:
    """Camera that several captures read at once: no program can open it twice.

    Args:
        config: its configuration.
    """

    everywhere: ClassVar[dict[str, "_Shared"]] = {}
    lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, config: CameraConfig) -> None:
        self.config, self.users = config, 0
        self._reading = threading.Lock()
        self._newest: tuple[int, Frames | None] = (0, None)
        if config.maker == "oak":
            from .oak import Oak

            self._camera: DepthCamera = Oak(config)
        else:
            from .realsense import RealSense

            self._camera = RealSense(config)

    @classmethod
    def open(cls, config: CameraConfig) -> "_Shared":
        """Return the camera, which is opened unless it is open."""
        own = replace(config, depth=())
        with cls.lock:
            shared = cls.everywhere.get(config.device)
            if shared is None:
                shared = cls.everywhere[config.device] = cls(own)
            elif shared.config != own:
                raise DriverError(f"{config.device} is open with other options; they must agree except for depth")
            shared.users += 1
            return shared

    def close(self) -> None:
        """Release the camera if nobody else reads it."""
        with self.lock:
            self.users -= 1
            if not self.users:
                del self.everywhere[self.config.device]
                self._camera.close()

    def after(self, number: int) -> tuple[int, Frames] | None:
        """Return the newest pictures after those with ``number``, with their number; wait for them if need be."""
        with self._reading:  # one reader waits for the camera, and the others then find its pictures
            if self._newest[0] <= number:
                self._newest = self._newest[0] + 1, self._camera.read()
            newest, frames = self._newest
        return None if frames is None else (newest, frames)


class DepthCapture:
    """Reader of the colours or the depth of a RealSense or OAK.

    Args:
        config: configuration of the camera.

    Raises:
        DriverError: if the camera does not exist, cannot be opened, rejects a setting, or is open with other options.
    """

    period = 0.0

    def __init__(self, config: CameraConfig) -> None:
        self._config, self._number = config, 0
        self._frames: Frames | None = None
        self._camera = _Shared.open(config)

    def grab(self) -> bool:
        """Wait up to 2 s for the next picture; return whether there is one."""
        newest = self._camera.after(self._number)
        if newest is None:
            return False
        self._number, self._frames = newest
        return True

    def retrieve(self) -> NDArray[np.uint8] | None:
        """Return the picture (H, W, 3) that :meth:`grab` waited for; None if the camera has no depth."""
        if self._frames is None or not self._config.depth:
            return None if self._frames is None else self._frames.colours
        depth = self._frames.depth
        return None if depth is None else picture_of(depth, *self._config.depth)

    def close(self) -> None:
        """Release the camera, unless another capture reads it."""
        self._camera.close()
