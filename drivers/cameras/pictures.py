"""Pictures of one camera, one after another."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DriverError

from .config import CameraConfig
from .opening import open_capture


class CameraPictures:
    """Pictures of a camera; iterating opens it.

    Args:
        config: the camera. An empty ``device`` means that there is none.
    """

    def __init__(self, config: CameraConfig) -> None:
        self.device = config.device
        self._config = config

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Yield RGB pictures (H, W, 3), until the iterator is closed or a video file ends.

        Raises:
            DriverError: if the camera cannot be opened, or a device or stream stops.
        """
        capture = open_capture(self._config)
        try:
            while capture.grab():
                picture = capture.retrieve()
                if picture is not None:
                    yield picture
        finally:
            capture.close()
        if not self._config.is_file:
            raise DriverError(f"{self.device} gives no more pictures")
