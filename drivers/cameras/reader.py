"""Camera reader in a separate thread, which always has the newest picture available."""

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, DriverError, announce

from .capture import scaled
from .config import CameraConfig
from .opening import open_capture

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
JOIN_SECONDS = 3.0
MOST_DAMAGED = 10
"""Number of consecutive damaged pictures after which the camera counts as lost."""

Image = NDArray[np.uint8]


class CameraReader:
    """Thread that reads a camera until it is closed, and opens a lost camera again.

    Pauses between failed attempts grow, up to :data:`LONGEST_PAUSE`. Losses and recoveries are announced once. A
    picture is stamped on arrival, before it is decoded. All pictures must have the size of the first.

    Args:
        name: name of the camera, for messages.
        config: configuration of the camera.
        size: width and height that pictures are scaled to [pixels].
        clock: monotonic clock.
        take: called in the camera's thread with each picture (height, width, 3) in RGB and its stamp [ns].

    Attributes:
        topic: name in messages, like the topic of a :class:`~robo_rl.drivers.ros2.Subscription`.
        problem: why there are no pictures now; empty if there are.
    """

    def __init__(
        self,
        name: str,
        config: CameraConfig,
        size: tuple[int, int],
        clock: Clock,
        take: Callable[[Image, int], None] | None = None,
    ) -> None:
        self._config, self._size, self._clock, self._take = config, size, clock, take
        self.topic = f"camera {name} ({config.device})"
        self.problem = "no picture yet"
        self._lost_ns: int | None = None
        self._shape: tuple[int, ...] = ()
        self._latest: tuple[Image, int] | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"camera {name}", daemon=True)
        self._thread.start()

    def latest(self) -> tuple[Image, int] | None:
        """Return the newest picture and its stamp (monotonic clock [ns]), or None before the first."""
        return self._latest

    def close(self) -> None:
        """End the thread. A thread that waits for a device ends when the device's time-out has passed."""
        self._closed.set()
        self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._closed.is_set():
            count, problem = self._read()
            if self._closed.is_set():
                return
            if count and self._config.is_file:
                if self._config.loop:
                    continue
                self._report_loss("the file has ended", "")
                return
            self._report_loss(problem, "; it is tried again")
            pause = FIRST_PAUSE if count else min(2 * pause, LONGEST_PAUSE)
            self._closed.wait(pause)

    def _read(self) -> tuple[int, str]:
        """Open the camera and read it to its end; return the number of pictures and the current problem."""
        count = damaged = 0
        try:
            capture = open_capture(self._config)
        except DriverError as error:
            return count, str(error)
        try:
            period_ns, due_ns = round(capture.period * 1e9), self._clock.now_ns()
            while not self._closed.is_set() and capture.grab():
                stamp_ns = self._clock.now_ns()
                image = capture.retrieve()
                damaged = damaged + 1 if image is None else 0
                if damaged == MOST_DAMAGED:
                    self._report_loss("its pictures are damaged, or have no three colours of 8 bit", "")
                if image is None or not self._has_its_shape(image):
                    continue
                self._put(scaled(image, self._size, smooth=not self._config.depth), stamp_ns)
                count += 1
                due_ns += period_ns
                if period_ns:
                    self._closed.wait(max(due_ns - self._clock.now_ns(), 0) * 1e-9)
        finally:
            capture.close()
        return count, "it gives no more pictures"

    def _has_its_shape(self, image: Image) -> bool:
        """Return whether a picture has the shape of the first one. Scaling would silently distort other shapes."""
        self._shape = self._shape or image.shape
        if image.shape != self._shape:
            sizes = [f"{width} x {height}" for height, width, _ in (self._shape, image.shape)]
            self._report_loss(f"its pictures had {sizes[0]} pixels, now they have {sizes[1]}", "; they are not used")
        return image.shape == self._shape

    def _put(self, image: Image, stamp_ns: int) -> None:
        self._latest = image, stamp_ns
        if self._take is not None:
            self._take(image, stamp_ns)
        if self._lost_ns is not None:
            announce(f"{self.topic} is back after {(stamp_ns - self._lost_ns) * 1e-9:.1f} s")
            self._lost_ns = None
        self.problem = ""

    def _report_loss(self, problem: str, consequence: str) -> None:
        if not self.problem:
            self._lost_ns = self._clock.now_ns()
            announce(f"{self.topic}: {problem}{consequence}")
        self.problem = problem
