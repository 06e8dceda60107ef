"""Reader of the pictures of a Video4Linux device, a stream or a video file."""

import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DriverError

from .config import SETTINGS, CameraConfig
from .devices import find_devices

READ_TIMEOUT_MS = 2000
FILE_RATE = 30.0
"""Frame rate of a file that does not state one [Hz]."""
MAX_FILE_RATE = 1000.0


def scaled(image: NDArray[np.uint8], size: tuple[int, int], smooth: bool = True) -> NDArray[np.uint8]:
    """Return ``image`` (H, W, 3) as (height, width, 3), contiguous.

    Args:
        image: picture.
        size: width and height.
        smooth: whether pixels are means; otherwise each is one of the picture's, as depth needs.
    """
    if (image.shape[1], image.shape[0]) != size:
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA if smooth else cv2.INTER_NEAREST)  # type: ignore[assignment]
    return np.ascontiguousarray(image, dtype=np.uint8)


class Capture:
    """Reader of a camera. Reading waits up to 2 s for each picture of a device or stream.

    Raises:
        DriverError: if the camera does not exist, cannot be opened, or rejects a setting. If a device does not exist,
            the message lists the available cameras.
    """

    def __init__(self, config: CameraConfig) -> None:
        self._config = config
        _be_quiet()
        path = config.path
        if path is not None:
            _require_device(path)
            self._capture: Any = cv2.VideoCapture(path, cv2.CAP_V4L2)
            reason = "cannot be opened: another program may have it, or it is no camera (robo-rl cameras)"
        elif config.is_stream:
            limits = [cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, READ_TIMEOUT_MS, cv2.CAP_PROP_READ_TIMEOUT_MSEC, READ_TIMEOUT_MS]
            self._capture = cv2.VideoCapture(config.device, cv2.CAP_FFMPEG, limits)
            reason = "cannot be reached, or is no video"
        else:
            if not Path(config.device).is_file():
                raise DriverError(f"there is no video file {config.device}")
            self._capture = cv2.VideoCapture(config.device, cv2.CAP_FFMPEG)
            reason = "is no video"
        try:
            if not self._capture.isOpened():
                raise DriverError(f"{config.device} {reason}")
            if path is not None:
                self._set_device()
        except DriverError:
            self._capture.release()
            raise

    @property
    def period(self) -> float:
        """Time from picture to picture of a file [s]; 0 for devices and streams, which set their own pace."""
        if not self._config.is_file:
            return 0.0
        own = self._capture.get(cv2.CAP_PROP_FPS)
        return 1.0 / (self._config.fps or (own if 0 < own <= MAX_FILE_RATE else FILE_RATE))

    def grab(self) -> bool:
        """Wait for the next picture; return whether there is one."""
        return bool(self._capture.grab())

    def retrieve(self) -> NDArray[np.uint8] | None:
        """Return the picture (H, W, 3) in RGB that :meth:`grab` waited for; None if it is damaged."""
        good, image = self._capture.retrieve()
        if not good or image is None or image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
            return None
        colours: NDArray[np.uint8] = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        return colours

    def close(self) -> None:
        """Release the camera."""
        self._capture.release()

    def _set_device(self) -> None:
        config, capture = self._config, self._capture
        settings: dict[str, tuple[int, float]] = {}
        if config.format is not None:
            settings["format"] = cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*config.format)
        if config.width is not None and config.height is not None:
            settings["width"] = cv2.CAP_PROP_FRAME_WIDTH, config.width
            settings["height"] = cv2.CAP_PROP_FRAME_HEIGHT, config.height
        if config.fps is not None:
            settings["fps"] = cv2.CAP_PROP_FPS, config.fps
        for key, value in settings.values():
            # A device silently replaces an unsupported setting by the nearest supported one.
            capture.set(key, value)
        for name, (key, value) in settings.items():
            actual = capture.get(key)
            if abs(actual - value) > 0.5:
                value_text = (
                    int(actual).to_bytes(4, "little").decode(errors="replace") if name == "format" else f"{actual:g}"
                )
                difference = f"{name} {value_text}, not {getattr(config, name)}"
                raise DriverError(f"{config.device} has {difference}; robo-rl cameras shows what it can do")
        for name in sorted(config.settings, key=list(SETTINGS).index):
            value = config.settings[name]
            if not capture.set(getattr(cv2, SETTINGS[name]), value):
                raise DriverError(f"{config.device} does not take {name}={value:g}")


def _require_device(path: str) -> None:
    if not Path(path).exists():
        raise DriverError(f"{path} is not there; {cameras_here()}")
    if not os.access(path, os.R_OK | os.W_OK):
        raise DriverError(f"no access to {path}: sudo usermod -aG video $USER, then log in again")


def cameras_here() -> str:
    """Return a sentence that lists the cameras of this machine."""
    names = [f"{device.path} ({device.name})" for device in find_devices()]
    return f"cameras here: {', '.join(names)}" if names else "there are no cameras here"


def _be_quiet() -> None:
    """Silence OpenCV and FFmpeg, whose errors are reported separately, and shorten their 10 s wait for a device."""
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    os.environ.setdefault("OPENCV_VIDEOIO_V4L_SELECT_TIMEOUT", str(READ_TIMEOUT_MS // 1000))
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_ERROR)
