"""Opening of cameras of all kinds, with the same interface."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .capture import Capture
from .config import CameraConfig


class PictureSource(Protocol):
    """Open camera.

    Attributes:
        period: time from picture to picture of a video file [s]; 0 for everything that sets its own pace.
    """

    @property
    def period(self) -> float: ...

    def grab(self) -> bool:
        """Wait for the next picture; return whether there is one."""
        ...

    def retrieve(self) -> NDArray[np.uint8] | None:
        """Return the picture (H, W, 3) that :meth:`grab` waited for; None if it is damaged."""
        ...

    def close(self) -> None:
        """Release the camera."""
        ...


def open_capture(config: CameraConfig) -> PictureSource:
    """Open a camera.

    Raises:
        DriverError: if the camera does not exist, cannot be opened, or rejects a setting.
    """
    if config.maker is None:
        return Capture(config)
    from .depth import DepthCapture

    return DepthCapture(config)
