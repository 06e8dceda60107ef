"""Teleoperation with a web page on a phone, a headset or a computer."""

from collections.abc import Mapping, Set
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, EnvSpec

from .config import ELEMENTS, FUNCTIONS, TeleopConfig
from .keys import BUTTONS, GRIPPER_KEY, action_names, motions_of
from .motion import AxisMotion, AxisTeleop, Polled


class Page(Protocol):
    """Page with which a person drives a robot; ``robo_rl.web.person`` serves it."""

    def poll(self, timeout: float) -> tuple[Mapping[str, float] | None, Set[str], Set[str]]:
        """Return the axes, the held buttons, and the buttons tapped since the last call.

        Axes are None, and no button is held, if no page has sent anything within ``timeout`` [s].
        """
        ...

    def describe(self, **facts: Any) -> None:
        """Add JSON values to what the page knows about the robot."""
        ...

    def show(self, pictures: Mapping[str, NDArray[np.uint8]], lines: list[str], closed: bool | None) -> None:
        """Show pictures (height, width, channels) by camera, lines of text, and whether the gripper is closed.

        The first camera is the main one. ``closed`` is None if there is no gripper. Never blocks.
        """
        ...

    def close(self) -> None: ...


class PageReader:
    """Reader of a page's axes and buttons.

    Args:
        page: the page.
        timeout: time without a message after which the page counts as disconnected [s].
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
    """Teleoperation by touch, by keys, or by the pose of a WebXR controller or phone.

    The touch, the held key or the grip is the deadman switch. The person loses control at once when it ends, when the
    page is left, or when its messages stop for a moment.

    Args:
        page: the page that the person uses.
        spec: spec of the robot.
        config: ``config.browser`` maps axes and buttons to functions.
        clock: monotonic clock.

    Raises:
        ConfigError: if the actions do not move an end effector or a vehicle.
    """

    def __init__(self, page: Page, spec: EnvSpec, config: TeleopConfig, clock: Clock) -> None:
        motion = AxisMotion(spec, config.browser, config.latch_seconds, clock, ELEMENTS, FUNCTIONS)
        super().__init__(PageReader(page, config.browser.timeout), motion)
        self._page = page
        page.describe(
            keys={
                "motions": motions_of(action_names(spec)),
                "buttons": {**BUTTONS, GRIPPER_KEY: "gripper"},
                "level": motion.level(config.speed),
            }
        )

    def show(self, picture: NDArray[np.uint8] | None, lines: list[str]) -> None:
        """Show ``picture`` (height, width, 3) and ``lines`` on the page."""
        self.show_cameras({} if picture is None else {"view": picture}, lines)

    def show_cameras(self, pictures: Mapping[str, NDArray[np.uint8]], lines: list[str]) -> None:
        """Show pictures (height, width, channels) by camera, the main one first, and ``lines`` on the page."""
        self._page.show(pictures, lines, self._motion.closed)
