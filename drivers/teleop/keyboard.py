"""Teleoperation by the keyboard of a terminal that also draws pictures; works over ssh without a display."""

import atexit
import os
import re
import select
import signal
import sys
import termios
import threading
import time
import tty
from types import FrameType
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, DriverError, EnvSpec, Intervention, MonotonicClock

from .config import TeleopConfig
from .keys import KeyMotion

ESCAPE = b"\x1b"
ESCAPE_SECONDS = 0.05
"""Time after which a lone escape byte is the escape key [s]; the sequences of arrow keys arrive at once."""

DRAW_SECONDS = 0.02
"""Longest time that drawing may delay the control loop [s]."""
CLOSE_SECONDS = 1.0
"""Longest wait until a terminal has accepted the output that restores it [s]."""

_SEQUENCE = re.compile(rb"\x1b[\[O][0-9;]*[ -/]*([@-~])")
_UNFINISHED = re.compile(rb"\x1b([\[O][0-9;]*[ -/]*)?$")
_ARROWS = {b"A": "up", b"B": "down", b"C": "right", b"D": "left"}
_KEYS = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", " ": "space"}

_ENTER_SCREEN = b"\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE_SCREEN = b"\x1b[0m\x1b[?25h\x1b[?1049l"


class KeyboardTeleop:
    """Teleoperation by the keys of a terminal (see ``keys.py``).

    The terminal is in cbreak mode until :meth:`close` restores its modes, which also happens when the program ends by
    an exception, Ctrl-C, SIGTERM or SIGHUP. A terminal that hangs up presses ``stop``. A terminal that is slow or held
    by Ctrl-S gets fewer pictures and does not delay the control loop.

    Args:
        spec: spec of the robot.
        config: speeds and times.
        input_fd: file descriptor of the terminal to read.
        output_fd: file descriptor of the terminal to draw in.
        clock: monotonic clock.
        moves: whether keys move the robot; otherwise they only act as buttons.

    Raises:
        ConfigError: if the actions do not move an end effector.
        DriverError: if ``input_fd`` is not a terminal.
    """

    in_base_frame = True

    def __init__(
        self,
        spec: EnvSpec,
        config: TeleopConfig,
        input_fd: int | None = None,
        output_fd: int | None = None,
        clock: Clock | None = None,
        moves: bool = True,
    ) -> None:
        self._clock = clock or MonotonicClock()
        self._motion = KeyMotion(spec, config, self._clock, moves)
        self._input = sys.stdin.fileno() if input_fd is None else input_fd
        output = sys.stdout.fileno() if output_fd is None else output_fd
        if not os.isatty(self._input) or not os.isatty(output):
            raise DriverError(
                "keyboard teleoperation needs a terminal: standard input or output is none; run it in one"
            )
        try:
            # Opened again, because the non-blocking mode belongs to the open file, which other processes share.
            self._output = os.open(os.ttyname(output), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as error:
            raise DriverError(f"the terminal of standard output cannot be opened ({error.strerror})") from error
        self._undrawn = b""
        self._pending = b""
        self._pending_ns = 0
        self._modes: list[Any] | None = termios.tcgetattr(self._input)
        self._handlers: dict[int, Any] = {}
        atexit.register(self.close)
        self._end_on_signals()
        tty.setcbreak(self._input)
        self._draw(_ENTER_SCREEN)

    def read(self) -> Intervention:
        """Return the state of the keys. Never blocks."""
        self._draw(b"", seconds=0)
        for key in self._read_keys():
            self._motion.press(key)
        return self._motion.intervention()

    def reset(self, closed: bool = False) -> None:
        """Begin an episode or an intervention, with the gripper open or ``closed``."""
        self._motion.reset(closed)

    def show(self, picture: NDArray[np.uint8] | None, lines: list[str]) -> None:
        """Draw ``picture`` (height, width, 3) as large as the terminal allows, and ``lines`` below it.

        Nothing is drawn while the terminal has not accepted the previous drawing.
        """
        self._draw(b"")
        if self._undrawn:
            return
        try:
            columns, rows = os.get_terminal_size(self._output)
        except OSError:
            return  # the terminal is gone, which read() reports
        lines = [*lines, *self._motion.help()]
        parts = ["\x1b[H"]
        room = rows - len(lines) - 1
        if picture is not None and room > 0:
            parts += [f"{row}\x1b[0m\x1b[K\r\n" for row in _half_blocks(picture, columns, room)]
        parts.append("\r\n".join(f"{line[: columns - 1]}\x1b[K" for line in lines))
        parts.append("\x1b[J")
        self._draw("".join(parts).encode())

    def close(self) -> None:
        """Restore the terminal. May be called twice."""
        if self._modes is None:
            return
        modes, self._modes = self._modes, None
        atexit.unregister(self.close)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        try:
            termios.tcflush(self._input, termios.TCIFLUSH)  # keys that are still queued must not reach the shell
            termios.tcsetattr(self._input, termios.TCSANOW, modes)
            self._draw(_LEAVE_SCREEN, CLOSE_SECONDS)
        except (OSError, termios.error):
            pass  # the terminal is gone
        os.close(self._output)

    def _end_on_signals(self) -> None:
        """Turn signals that kill the process at once into an exception, which restores the terminal."""

        def end(number: int, _: FrameType | None) -> None:
            self.close()
            sys.exit(128 + number)

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) == signal.SIG_DFL:
                    self._handlers[number] = signal.signal(number, end)

    def _read_keys(self) -> list[str]:
        now = self._clock.now_ns()
        while select.select([self._input], [], [], 0)[0]:
            try:
                data = os.read(self._input, 1024)
            except OSError:
                data = b""  # Linux reports in this way that the other side of the terminal is gone
            if not data:
                return ["escape"]
            self._pending += data
            self._pending_ns = now
        keys = []
        while self._pending:
            key, remainder = _next_key(self._pending)
            if remainder == self._pending:  # an incomplete sequence, or the escape key
                if (now - self._pending_ns) * 1e-9 < ESCAPE_SECONDS:
                    break
                key, remainder = "escape", b""
            if key is not None:
                keys.append(key)
            self._pending = remainder
        return keys

    def _draw(self, data: bytes, seconds: float = DRAW_SECONDS) -> None:
        """Write the pending output and ``data``, as far as the terminal accepts it within ``seconds``."""
        self._undrawn += data
        deadline = time.monotonic() + seconds
        while self._undrawn and select.select([], [self._output], [], max(0.0, deadline - time.monotonic()))[1]:
            try:
                written = os.write(self._output, self._undrawn)
            except BlockingIOError:
                return
            except OSError:
                self._undrawn = b""  # the terminal is gone, which read() reports
                return
            self._undrawn = self._undrawn[written:]


def _next_key(data: bytes) -> tuple[str | None, bytes]:
    """Return the first key of ``data``, None if it has no function, and the rest; all of ``data`` if unfinished."""
    if data.startswith(ESCAPE):
        if match := _SEQUENCE.match(data):
            return _ARROWS.get(match[1]), data[match.end() :]
        if _UNFINISHED.match(data):
            return None, data
        return "escape", data[1:]
    character = chr(data[0])
    return _KEYS.get(character, character.lower()), data[1:]


def _half_blocks(picture: NDArray[np.uint8], columns: int, rows: int) -> list[str]:
    """Return ``picture`` (height, width, 3) as at most ``rows`` lines of text.

    A character shows two pixels, one above the other: an upper half block with a colour and a background colour.
    """
    height, width = picture.shape[:2]
    scale = min(columns / width, 2 * rows / height)
    size = (max(1, int(width * scale)), max(2, int(height * scale) // 2 * 2))
    pixels = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    lines = []
    for upper, lower in zip(pixels[::2].tolist(), pixels[1::2].tolist(), strict=True):
        cells = (
            f"\x1b[38;2;{a};{b};{c};48;2;{d};{e};{f}m\u2580" for (a, b, c), (d, e, f) in zip(upper, lower, strict=True)
        )
        lines.append("".join(cells))
    return lines
