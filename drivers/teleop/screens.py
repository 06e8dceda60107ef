"""Screens for devices without one."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Intervention

from .keyboard import KeyboardTeleop
from .window import WindowTeleop


class Screenless(Protocol):
    """A device that shows nothing."""

    @property
    def in_base_frame(self) -> bool:
        """Whether actions are in the base frame, whatever the robot's frame; else they are in the robot's."""
        ...

    def read(self) -> Intervention: ...

    def reset(self, closed: bool = False) -> None: ...

    def help(self) -> list[str]: ...

    def close(self) -> None: ...


class ScreenTeleop:
    """A device, and a terminal or window beside it, whose keys are buttons too: they do not move the robot.

    Args:
        device: moves the robot.
        screen: shows it.
    """

    def __init__(self, device: Screenless, screen: KeyboardTeleop | WindowTeleop) -> None:
        self._device, self._screen = device, screen
        self.in_base_frame = device.in_base_frame

    def read(self) -> Intervention:
        """Return what the person does now. Never blocks."""
        said = self._device.read()
        buttons = said.buttons | self._screen.read().buttons
        return Intervention(said.action, said.in_control, buttons, said.message)

    def reset(self, closed: bool = False) -> None:
        """Begin an episode or take over, with the gripper open or ``closed``."""
        self._device.reset(closed)

    def show(self, picture: NDArray[np.uint8] | None, lines: list[str]) -> None:
        """Show ``picture`` (height, width, 3) and ``lines`` below it."""
        self._screen.show(picture, [*lines, *self._device.help()])

    def close(self) -> None:
        """Let go of device and screen. May be called twice."""
        try:
            self._device.close()
        finally:
            self._screen.close()
