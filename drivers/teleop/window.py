"""Teleoperation by keys in a window that shows the robot."""

import importlib
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, DriverError, EnvSpec, Intervention, MonotonicClock, importing_extra

from .config import TeleopConfig
from .keys import KeyMotion

TEXT_SIZE = 20
LINE_HEIGHT = 24
EMPTY_SIZE = (640, 0)
"""Size of the area for the picture while there is none: width and height [pixels]."""
INVISIBLE = ("dummy", "offscreen")
"""Video drivers that SDL falls back on without a display. Their windows are invisible and receive no keys."""


class WindowTeleop:
    """Teleoperation by keys (see ``keys.py``) while the window has the keyboard focus; closing it presses ``stop``.

    Args:
        spec: spec of the robot.
        config: speeds and times.
        clock: monotonic clock.
        moves: whether keys move the robot; otherwise they only act as buttons.

    Raises:
        ConfigError: if pygame is not installed, or the actions do not move an end effector.
        DriverError: if there is no display.
    """

    in_base_frame = True

    def __init__(self, spec: EnvSpec, config: TeleopConfig, clock: Clock | None = None, moves: bool = True) -> None:
        self._motion = KeyMotion(spec, config, clock or MonotonicClock(), moves)
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        with importing_extra("teleop", "teleoperation in a window needs pygame"):
            self._pygame: Any = importlib.import_module("pygame")
        self._size = (0, 0)
        try:
            self._pygame.display.init()
            if self._pygame.display.get_driver() in INVISIBLE and "SDL_VIDEODRIVER" not in os.environ:
                self._pygame.display.quit()
                raise self._pygame.error("there is no display")
            self._resize(EMPTY_SIZE[0], LINE_HEIGHT * 4)
        except self._pygame.error as error:
            raise DriverError(
                f"no window can be opened ({error}): run on a machine with a display, or choose keyboard, in a "
                "terminal, instead of window"
            ) from error
        self._pygame.display.set_caption(f"robo-rl: {spec.task}")
        self._pygame.font.init()
        self._font = self._pygame.font.Font(None, TEXT_SIZE)

    def read(self) -> Intervention:
        """Return the state of the keys. Never blocks."""
        pygame = self._pygame
        for event in pygame.event.get(exclude=pygame.CONTROLLERBUTTONDOWN):  # these events are left for the gamepad
            if event.type == pygame.KEYDOWN:
                self._motion.hold(_name(pygame.key.name(event.key)))
            elif event.type == pygame.KEYUP:
                self._motion.release(_name(pygame.key.name(event.key)))
            elif event.type == pygame.WINDOWFOCUSLOST:
                self._motion.release_all()
            elif event.type == pygame.QUIT:
                self._motion.press("escape")
        return self._motion.intervention()

    def reset(self, closed: bool = False) -> None:
        """Begin an episode or an intervention, with the gripper open or ``closed``."""
        self._motion.reset(closed)

    def show(self, picture: NDArray[np.uint8] | None, lines: list[str]) -> None:
        """Show ``picture`` (height, width, 3) and ``lines`` below it."""
        lines = [*lines, *self._motion.help()]
        width, height = EMPTY_SIZE if picture is None else picture.shape[1::-1]
        self._resize(max(width, EMPTY_SIZE[0]), height + LINE_HEIGHT * len(lines))
        screen = self._pygame.display.get_surface()
        screen.fill((0, 0, 0))
        if picture is not None:
            data = np.ascontiguousarray(picture).tobytes()
            screen.blit(self._pygame.image.frombuffer(data, (width, height), "RGB"), (0, 0))
        for number, line in enumerate(lines):
            text = self._font.render(line, True, (255, 255, 255))
            screen.blit(text, (4, height + LINE_HEIGHT * number + 4))
        self._pygame.display.flip()

    def close(self) -> None:
        """Close the window. May be called twice."""
        self._pygame.display.quit()

    def _resize(self, width: int, height: int) -> None:
        if (width, height) != self._size:
            self._pygame.display.set_mode((width, height))
            self._size = (width, height)


def window_events(pygame: Any) -> tuple[int, ...]:
    """Return the types of events that a window reads. Other readers must leave them in the queue."""
    return pygame.KEYDOWN, pygame.KEYUP, pygame.WINDOWFOCUSLOST, pygame.QUIT


def _name(key: str) -> str:
    return "enter" if key == "return" else key
