"""Gamepads, through SDL: any that its data base of game controllers knows, under the same names."""

import importlib
import os
from collections.abc import Set
from typing import Any

from robo_rl.core import ConfigError, DriverError

from .motion import Polled
from .window import window_events

AXES = ("left_x", "left_y", "right_x", "right_y", "left_trigger", "right_trigger")
"""Axes in SDL's order; right and down are positive, triggers are 0 to 1."""
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
"""Buttons in SDL's order; ``a`` is the lower one of the four on every gamepad."""

FULL = 32767
"""SDL's value of a full deflection."""


def load_controllers() -> tuple[Any, Any]:
    """Return pygame and its module of game controllers, begun.

    No display is needed, nor that a window has the focus. SIGTERM ends the program: SDL would keep it for itself.

    Raises:
        ConfigError: if pygame is not installed.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_JOYSTICK_ALLOW_BACKGROUND_EVENTS", "1")
    os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")
    try:
        pygame, controllers = importlib.import_module("pygame"), importlib.import_module("pygame._sdl2.controller")
    except ImportError as error:
        raise ConfigError("gamepads need pygame: pip install 'robo-rl[teleop]'") from error
    controllers.init()
    return pygame, controllers


def find_gamepads() -> list[str]:
    """Return the names of gamepads that are plugged in.

    Raises:
        ConfigError: if pygame is not installed.
    """
    _, controllers = load_controllers()
    return [controllers.name_forindex(index) for index in _usable(controllers)]


class GamepadReader:
    """The first gamepad that is plugged in, and after it was unplugged the first that is.

    A button that was pressed and let go between two looks counts: SDL queues what was pressed. It queues it where there
    is a display: that of a window, if one is open, or one that shows nothing.

    Raises:
        ConfigError: if pygame is not installed.
        DriverError: if there is no gamepad.
    """

    absence = "the gamepad was unplugged: nothing moves until it is back"

    def __init__(self) -> None:
        self._pygame, self._controllers = load_controllers()
        self._shows_nothing = False
        self._heard = False
        self._pad: Any = self._find()
        if self._pad is None:
            others = [self._pygame.joystick.Joystick(i).get_name() for i in range(self._pygame.joystick.get_count())]
            advice = (
                f"SDL does not know the layout of {', '.join(others)}: describe it in SDL_GAMECONTROLLERCONFIG"
                if others
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
            self._pad, self._heard = self._find(), False
            self._controllers.update()  # without it a new one is at rest, whatever is held
        if self._pad is None:
            return Polled(None, tapped=tapped)
        axes = {name: max(-1.0, self._pad.get_axis(number) / FULL) for number, name in enumerate(AXES)}
        return Polled(axes, {name for number, name in enumerate(BUTTONS) if self._pad.get_button(number)}, tapped)

    def close(self) -> None:
        """Let go of the gamepad. May be called twice."""
        if self._pad is not None:
            self._pad.quit()
            self._pad = None
        if self._shows_nothing:
            self._pygame.display.quit()
            self._shows_nothing = False

    def _tapped(self) -> Set[str]:
        """Return the buttons that went down since the last call; those that are held at first did not."""
        pygame = self._pygame
        if not pygame.display.get_init():
            self._show_nothing()
        # pygame fails to tell of one that is unplugged which it did not tell of before.
        pygame.event.set_blocked((pygame.JOYDEVICEADDED, pygame.JOYDEVICEREMOVED))
        # All but what a window wants, though buttons alone count: a queue that is full takes no more.
        events = pygame.event.get(exclude=window_events(pygame))
        pressed = [event.button for event in events if event.type == pygame.CONTROLLERBUTTONDOWN]
        heard, self._heard = self._heard, self._pad is not None  # what is held at first did not go down
        return frozenset(BUTTONS[button] for button in pressed if heard and button < len(BUTTONS))

    def _show_nothing(self) -> None:
        """Begin a display that no window needs; the environment is left as it was, for those that need a real one."""
        before = os.environ.get("SDL_VIDEODRIVER")
        os.environ["SDL_VIDEODRIVER"] = "dummy"
        try:
            self._pygame.display.init()
        finally:
            del os.environ["SDL_VIDEODRIVER"]
            if before is not None:
                os.environ["SDL_VIDEODRIVER"] = before
        self._shows_nothing = True

    def _find(self) -> Any:
        return next((self._controllers.Controller(index) for index in _usable(self._controllers)), None)


def _usable(controllers: Any) -> list[int]:
    return [index for index in range(controllers.get_count()) if controllers.is_controller(index)]
