"""Search for cameras, with a picture of each."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cv2

from robo_rl.core import DriverError

from .config import CameraConfig, FinderConfig
from .devices import Mode, find_devices
from .opening import open_capture


@dataclass(frozen=True)
class FoundCamera:
    """Result of the search for one camera.

    Attributes:
        device: value for ``camera.device`` in a robot's configuration.
        name: name that the driver of a device reports; empty for streams and files.
        modes: picture formats that a device supports.
        picture: file with its picture; None if none was taken.
        size: width and height of that picture [pixels].
        problem: why there is no picture; empty if there is no problem.
    """

    device: str
    name: str = ""
    modes: tuple[Mode, ...] = ()
    picture: Path | None = None
    size: tuple[int, int] = (0, 0)
    problem: str = ""


class CameraFinder:
    """Finder of this machine's cameras, and of the streams and files named in the configuration.

    Args:
        config: sources to search, and the folder for pictures.
    """

    def __init__(self, config: FinderConfig) -> None:
        self._config = config

    def find(self) -> Iterator[FoundCamera]:
        """Yield one camera after another."""
        for device in find_devices():
            path = device.link or device.path
            file = f"{Path(path).name}.png"
            yield self._look(FoundCamera(path, device.name, device.modes, problem=device.problem), file)
        for number, source in enumerate(self._config.also):
            yield self._look(FoundCamera(source), f"also{number}.png")

    def _look(self, camera: FoundCamera, file: str) -> FoundCamera:
        """Return ``camera`` with a picture of it."""
        config = self._config
        if config.output is None or camera.problem:
            return camera
        try:
            capture = open_capture(CameraConfig(device=camera.device))
        except DriverError as error:
            return replace(camera, problem=str(error))
        try:
            image, until = None, time.monotonic() + config.seconds
            while (image is None or time.monotonic() < until) and capture.grab():
                newest = capture.retrieve()
                image = image if newest is None else newest
        finally:
            capture.close()
        if image is None:
            return replace(camera, problem="it gives no pictures")
        path = Path(config.output) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
        return replace(camera, picture=path, size=(image.shape[1], image.shape[0]))
