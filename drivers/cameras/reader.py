"""A camera read in a thread of its own, so that its newest picture is always available."""

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, DriverError

from .capture import Capture, scaled
from .config import CameraConfig

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
JOIN_SECONDS = 3.0

Image = NDArray[np.uint8]


class CameraReader:
    """Reads a camera until it is closed. One that goes away is opened again, first at once, then ever more rarely.

    What is lost, and what is back, is printed once. A picture is stamped when it has come, before it is decoded.

    Args:
        name: of the camera, for messages.
        config: which camera.
        size: width and height that pictures are scaled to [pixels].
        clock: monotonic time.
        take: called with each picture (height, width, 3) in RGB and its stamp [ns], in the camera's thread.

    Attributes:
        topic: what it is called in messages, as the topic of a :class:`~robo_rl.drivers.ros2.Subscription`.
        problem: why there are no pictures now; empty where there are.
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
        self._latest: tuple[Image, int] | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"camera {name}", daemon=True)
        self._thread.start()

    def latest(self) -> tuple[Image, int] | None:
        """Return the newest picture and its stamp (monotonic clock [ns]), or None before the first."""
        return self._latest

    def close(self) -> None:
        """End the thread. One that waits for a device ends by itself, when the device's time is up."""
        self._closed.set()
        self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._closed.is_set():
            count, problem = self._film()
            if self._closed.is_set():
                return
            if count and self._config.is_file:
                if self._config.loop:
                    continue
                self._lost("the file has ended", "")
                return
            self._lost(problem, "; it is tried again")
            pause = FIRST_PAUSE if count else min(2 * pause, LONGEST_PAUSE)
            self._closed.wait(pause)

    def _film(self) -> tuple[int, str]:
        """Open the camera and read it to its end; return how many pictures came, and what is wrong now."""
        count = 0
        try:
            capture = Capture(self._config)
        except DriverError as error:
            return count, str(error)
        try:
            period_ns, due_ns = round(capture.period * 1e9), self._clock.now_ns()
            while not self._closed.is_set() and capture.grab():
                stamp_ns = self._clock.now_ns()
                image = capture.retrieve()
                if image is None:
                    continue
                self._put(scaled(image, self._size), stamp_ns)
                count += 1
                due_ns += period_ns
                if period_ns:
                    self._closed.wait(max(due_ns - self._clock.now_ns(), 0) * 1e-9)
        finally:
            capture.close()
        return count, "it gives no more pictures"

    def _put(self, image: Image, stamp_ns: int) -> None:
        self._latest = image, stamp_ns
        if self._take is not None:
            self._take(image, stamp_ns)
        if self._lost_ns is not None:
            print(f"{self.topic} is back after {(stamp_ns - self._lost_ns) * 1e-9:.1f} s", flush=True)
            self._lost_ns = None
        self.problem = ""

    def _lost(self, problem: str, then: str) -> None:
        if not self.problem:
            self._lost_ns = self._clock.now_ns()
            print(f"{self.topic}: {problem}{then}", flush=True)
        self.problem = problem
