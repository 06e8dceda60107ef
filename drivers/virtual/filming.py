"""Cameras of the virtual robot, in a separate thread because a picture takes longer than a state."""

import threading

import cv2
import numpy as np
from numpy.typing import NDArray

from .config import VirtualRobotConfig
from .simulated import Simulated
from .topics import Topics

NOISY_PICTURES = 8
"""Number of pictures for which noise is drawn at once. Each picture gets a random section of it, because drawing new
numbers for every picture would take half as long as rendering it.
"""


class CameraThread:
    """Thread that renders and publishes the cameras' images on request, unless it is still busy with the last ones.

    Args:
        config: rate, and seed of the noise.
        robot: robot with the cameras.
        topics: publish the images.

    Attributes:
        noise: standard deviation of the noise on pixel values from 0 to 255.
    """

    def __init__(self, config: VirtualRobotConfig, robot: Simulated, topics: Topics) -> None:
        self._robot, self._topics = robot, topics
        self.noise = config.camera_noise
        self._period_ns = round(1e9 / config.camera_rate)
        self._due_ns = 0
        self._requested = threading.Event()
        self._closed = threading.Event()
        self._failure: Exception | None = None
        self._rng = np.random.default_rng(config.seed)
        self._drawn: tuple[float, int] | None = None  # deviation and picture size of the current noise
        self._noise = np.empty(0, np.int16)
        self._thread = threading.Thread(target=self._run, name="cameras", daemon=True)
        self._thread.start()

    def turn(self, now_ns: int) -> None:
        """Request a picture of each camera in the current state, if the next one is due.

        Raises:
            RenderingError: if this machine cannot render.
        """
        if self._failure is not None:
            raise self._failure
        if now_ns < self._due_ns or self._requested.is_set():
            return
        late_ns = now_ns - self._due_ns
        self._due_ns = now_ns + self._period_ns - (late_ns if late_ns < self._period_ns else 0)
        self._robot.look()
        self._requested.set()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._requested.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._closed.is_set():  # checked after each clear(), which may undo the set() of close()
                self._requested.wait()
                if self._closed.is_set():
                    break
                for camera in self._robot.cameras:
                    self._topics.publish_image(camera, self._noisy(self._robot.image(camera)))
                self._requested.clear()
        except Exception as error:  # raised again in the robot's own thread, which ends
            self._failure = error
        finally:
            self._robot.close_cameras()

    def _noisy(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        deviation = self.noise  # copied, because another thread may change it
        if deviation == 0:
            return image
        if self._drawn != (deviation, image.size):
            drawn = self._rng.standard_normal(NOISY_PICTURES * image.size, np.float32) * np.float32(deviation)
            self._noise, self._drawn = np.rint(drawn).astype(np.int16), (deviation, image.size)
        first = int(self._rng.integers(self._noise.size - image.size))
        noise = self._noise[first : first + image.size].reshape(image.shape)
        return np.asarray(cv2.add(image, noise, dtype=cv2.CV_8U), np.uint8)  # saturates
