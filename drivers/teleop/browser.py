"""Teleoperation by a page in the browser of a phone, a headset or a computer."""

from collections.abc import Mapping, Set
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, EnvSpec

from .config import ELEMENTS, FUNCTIONS, TeleopConfig
from .motion import AxisMotion, AxisTeleop, Polled


class Page(Protocol):
    """The page that a person drives with; ``robo_rl.web.person`` serves it."""

    def poll(self, timeout: float) -> tuple[Mapping[str, float] | None, Set[str], Set[str]]:
        """Return axes, the buttons that are held, and those that were tapped since the last call.

        Axes are None, and nothing is held, where no page has said anything within ``timeout`` [s].
        """
        ...

    def show(self, picture: NDArray[np.uint8] | None, lines: list[str]) -> None:
        """Show a picture (height, width, 3) and lines of text. Never blocks."""
        ...

    def close(self) -> None: ...


class PageReader:
    """The axes and buttons of a page.

    Args:
        page: what the person holds.
        timeout: a page that was silent for longer is gone [s].
    """

    absence = "no page is connected, or its connection is too slow"

    def __init__(self, page: Page, timeout: float) -> None:
        self._page = page
        self._timeout = timeout

    def poll(self) -> Polled:
        return Polled(*self._page.poll(self._timeout))

    def close(self) -> None:
        self._page.close()


class BrowserTeleop(AxisTeleop):
    """Drives a robot by touch, or by the pose of a WebXR controller or phone, while the person touches or grips.

    That touch is the deadman switch: when it ends, the page is left, or nothing is heard of it for a moment, the person
    has handed back at once.

    Args:
        page: what the person holds, and sees.
        spec: of the robot.
        config: ``config.browser`` says what axes and buttons do.
        clock: monotonic time.

    Raises:
        ConfigError: if the actions are not those of an end effector or a vehicle.
    """

    def __init__(self, page: Page, spec: EnvSpec, config: TeleopConfig, clock: Clock) -> None:
        motion = AxisMotion(spec, config.browser, config.latch_seconds, clock, ELEMENTS, FUNCTIONS)
        super().__init__(PageReader(page, config.browser.timeout), motion)
        self._page = page

    def show(self, picture: NDArray[np.uint8] | None, lines: list[str]) -> None:
        """Show ``picture`` (height, width, 3) and ``lines`` on the page."""
        self._page.show(picture, lines)
