"""Gamepads in SDL's database of game controllers, with the same names for the axes and buttons of all."""

import importlib
import os
from collections.abc import Set
from typing import Any

from robo_rl.core import DriverError, importing_extra

from .motion import Polled
from .window import window_events

AXES = ("left_x", "left_y", "right_x", "right_y", "left_trigger", "right_trigger")
"""Axes in SDL's order. Right and down are positive; triggers range from 0 to 1."""
BUTTONS = (
    "a",
    "b",
    "x",
    "y",
    "back",
    "guide",
    "start",
    "left_stick",
    "right_stick",
    "left_shoulder",
    "right_shoulder",
    "up",
    "down",
    "left",
    "right",
)
"""Buttons in SDL's order. ``a`` is the lowest of the four on every gamepad."""

FULL = 32767
"""SDL's value of a full deflection."""


def load_controllers() -> tuple[Any, Any]:
    """Return pygame and its initialised module of game controllers.

    It needs neither a display nor a focused window. SDL is configured not to handle SIGTERM, so that the signal ends
    the program.

    Raises:
        ConfigError: if pygame is not installed.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_JOYSTICK_ALLOW_BACKGROUND_EVENTS", "1")
    os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")
    with importing_extra("teleop", "gamepads need pygame"):
        pygame, controllers = importlib.import_module("pygame"), importlib.import_module("pygame._sdl2.controller")
    controllers.init()
    return pygame, controllers


def find_gamepads() -> list[str]:
    """Return the names of the connected gamepads.

    Raises:
        ConfigError: if pygame is not installed.
    """
    _, controllers = load_controllers()
    return [controllers.name_forindex(index) for index in _usable(controllers)]


class GamepadReader:
    """Reader of the first connected gamepad. After it is unplugged, the next connected gamepad replaces it.

    A button that is pressed and released between two polls counts, because SDL queues presses. SDL queues them only
    with a display: that of a window if one is open, or a dummy display.

    Raises:
        ConfigError: if pygame is not installed.
        DriverError: if no gamepad is connected.
    """

    absence = "the gamepad was unplugged: nothing moves until it is back"

    def __init__(self) -> None:
        self._pygame, self._controllers = load_controllers()
        self._has_dummy_display = False
        self._was_connected = False
        self._pad: Any = self._find()
        if self._pad is None:
            unknown = [self._pygame.joystick.Joystick(i).get_name() for i in range(self._pygame.joystick.get_count())]
            advice = (
                f"SDL does not know the layout of {', '.join(unknown)}: describe it in SDL_GAMECONTROLLERCONFIG"
                if unknown
                else "plug one in; access to /dev/input/event* is needed"
            )
            raise DriverError(f"no gamepad: {advice}")

    def poll(self) -> Polled:
        """See :class:`~.motion.Reader`."""
        tapped = self._tapped()
        if self._pad is not None and not self._pad.attached():
            self._pad.quit()
            self._pad = None
        if self._pad is None:
            self._pad, self._was_connected = self._find(), False
            self._controllers.update()  # otherwise a new gamepad appears to be at rest, whatever is held
        if self._pad is None:
            return Polled(None, tapped=tapped)
        axes = {name: max(-1.0, self._pad.get_axis(number) / FULL) for number, name in enumerate(AXES)}
        return Polled(axes, {name for number, name in enumerate(BUTTONS) if self._pad.get_button(number)}, tapped)

    def close(self) -> None:
        """Release the gamepad. May be called twice."""
        if self._pad is not None:
            self._pad.quit()
            self._pad = None
        if self._has_dummy_display:
            self._pygame.display.quit()
            self._has_dummy_display = False

    def _tapped(self) -> Set[str]:
        """Return the buttons pressed since the last call, except those held when the gamepad was connected."""
        pygame = self._pygame
        if not pygame.display.get_init():
            self._open_dummy_display()
        # pygame fails to report the removal of a gamepad whose connection it has not reported.
        pygame.event.set_blocked((pygame.JOYDEVICEADDED, pygame.JOYDEVICEREMOVED))
        # Remove all events except those of a window, although only buttons count: a full queue accepts no more events.
        events = pygame.event.get(exclude=window_events(pygame))
        pressed = [event.button for event in events if event.type == pygame.CONTROLLERBUTTONDOWN]
        # excludes buttons that were held when the gamepad was connected
        was_connected, self._was_connected = self._was_connected, self._pad is not None
        return frozenset(BUTTONS[button] for button in pressed if was_connected and button < len(BUTTONS))

    def _open_dummy_display(self) -> None:
        """Open a dummy display. The environment is restored for programs that need a real one."""
        driver = os.environ.get("SDL_VIDEODRIVER")
        os.environ["SDL_VIDEODRIVER"] = "dummy"
        try:
            self._pygame.display.init()
        finally:
            del os.environ["SDL_VIDEODRIVER"]
            if driver is not None:
                os.environ["SDL_VIDEODRIVER"] = driver
        self._has_dummy_display = True

    def _find(self) -> Any:
        return next((self._controllers.Controller(index) for index in _usable(self._controllers)), None)


def _usable(controllers: Any) -> list[int]:
    return [index for index in range(controllers.get_count()) if controllers.is_controller(index)]
