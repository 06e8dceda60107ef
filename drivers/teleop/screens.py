"""Screens for devices that have none."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Intervention

from .keyboard import KeyboardTeleop
from .window import WindowTeleop


class Screenless(Protocol):
    """Device that shows nothing."""

    @property
    def in_base_frame(self) -> bool:
        """Whether actions are in the base frame; otherwise they are in the frame of the robot's actions."""
        ...

    def read(self) -> Intervention: ...

    def reset(self, closed: bool = False) -> None: ...

    def help(self) -> list[str]: ...

    def close(self) -> None: ...


class ScreenTeleop:
    """Device with a terminal or window beside it. The keys of that screen act as buttons only."""

    def __init__(self, device: Screenless, screen: KeyboardTeleop | WindowTeleop) -> None:
        self._device, self._screen = device, screen
        self.in_base_frame = device.in_base_frame

    def read(self) -> Intervention:
        """Return the person's current action. Never blocks."""
        intervention = self._device.read()
        buttons = intervention.buttons | self._screen.read().buttons
        return Intervention(intervention.action, intervention.in_control, buttons, intervention.message)

    def reset(self, closed: bool = False) -> None:
        """Begin an episode or an intervention, with the gripper open or ``closed``."""
        self._device.reset(closed)

    def show(self, picture: NDArray[np.uint8] | None, lines: list[str]) -> None:
        """Show ``picture`` (height, width, 3) and ``lines`` below it."""
        self._screen.show(picture, [*lines, *self._device.help()])

    def close(self) -> None:
        """Release device and screen. May be called twice."""
        try:
            self._device.close()
        finally:
            self._screen.close()
