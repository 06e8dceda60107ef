"""The keyboard of a real (pseudo) terminal: keys in, pictures out, and the terminal as it was afterwards."""

import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator

import numpy as np
import pyte
import pytest

from robo_rl.core import DriverError, ManualClock
from robo_rl.drivers.teleop import TeleopConfig
from robo_rl.drivers.teleop.keyboard import KeyboardTeleop

from ..rigs.command_line import heeding
from ..rigs.specs import steered_spec

NAMES = ("x", "y", "z", "yaw", "gripper")
COLUMNS, ROWS = 60, 20
END = b"\x1b[K\x1b[J"

SPEC = steered_spec(NAMES)

CHILD = """
import sys, time
import numpy as np
from robo_rl.core import EnvSpec
from robo_rl.drivers.teleop import make_teleop
import json
device = make_teleop("keyboard", EnvSpec.from_json(json.loads(sys.argv[1])))
device.show(np.zeros((8, 8, 3), np.uint8), ["ready"])
if sys.argv[2] == "fail":
    raise RuntimeError("a defect")
while "stop" not in device.read().buttons:
    time.sleep(0.01)
sys.exit(7)
"""


class Terminal:
    """The far side of a pseudo terminal: types keys, and takes what is printed while ``reading`` is set."""

    def __init__(self) -> None:
        self.far, self.near = os.openpty()
        fcntl.ioctl(self.near, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.printed = b""
        self.reading = threading.Event()
        self.reading.set()
        self._closing = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def type(self, keys: bytes) -> None:
        os.write(self.far, keys)
        time.sleep(0.02)  # until the kernel has handed it over

    def wait_for(self, text: bytes, times: int = 1, device: KeyboardTeleop | None = None) -> None:
        """Wait, while ``device`` is read, until ``text`` was printed last, and so many times in all."""
        deadline = time.monotonic() + 60
        while not self.printed.endswith(text) or self.printed.count(text) < times:
            assert time.monotonic() < deadline, self.printed[-200:]
            if device is not None:
                device.read()
            time.sleep(0.01)

    def screen(self) -> pyte.Screen:
        """Return what the terminal shows."""
        screen = pyte.Screen(COLUMNS, ROWS)
        pyte.ByteStream(screen).feed(self.printed)
        return screen

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen().display]

    def hang_up(self) -> None:
        self._closing = True
        self._thread.join()
        os.close(self.far)
        self.far = -1

    def close(self) -> None:
        if self.far >= 0:
            self.hang_up()
        os.close(self.near)

    def _read(self) -> None:
        while not self._closing:
            if self.reading.is_set() and select.select([self.far], [], [], 0.01)[0]:
                self.printed += os.read(self.far, 65536)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal()
    yield opened
    opened.close()


@pytest.fixture
def device(terminal: Terminal) -> Iterator[KeyboardTeleop]:
    opened = KeyboardTeleop(SPEC, TeleopConfig(), terminal.near, terminal.near, ManualClock(10**12))
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("keys", "action"),
    [
        (b"w", [1, 0, 0, 0, -1]),
        (b"W", [1, 0, 0, 0, -1]),
        (b"\x1b[D", [0, 0, 0, 1, -1]),
        (b"\x1bOC", [0, 0, 0, -1, -1]),
        (b"\x1b[1;2D", [0, 0, 0, 1, -1]),
        (b"\x1b[3~\x1b[15~", [0, 0, 0, 0, -1]),
        (b"aq \x1b[D", [0, 1, -1, 1, 1]),
        (b"\xc3\xa4", [0, 0, 0, 0, -1]),
    ],
)
def test_keys_as_terminals_send_them(
    terminal: Terminal, device: KeyboardTeleop, keys: bytes, action: list[float]
) -> None:
    assert device.read().action.tolist() == [0, 0, 0, 0, -1]
    terminal.type(keys)
    said = device.read()
    assert said.action.tolist() == action
    assert said.buttons == frozenset()


@pytest.mark.parametrize(
    ("keys", "button"), [(b"\r", "success"), (b"\n", "success"), (b"\x7f", "discard"), (b"\x08", "discard")]
)
def test_buttons(terminal: Terminal, device: KeyboardTeleop, keys: bytes, button: str) -> None:
    terminal.type(keys)
    assert device.read().buttons == {button}
    assert device.read().buttons == frozenset()


def test_the_escape_key_and_a_sequence_in_two_parts_are_told_apart(terminal: Terminal) -> None:
    clock = ManualClock(10**12)
    device = KeyboardTeleop(SPEC, TeleopConfig(), terminal.near, terminal.near, clock)
    terminal.type(b"\x1b")
    assert device.read().buttons == frozenset()
    terminal.type(b"[D")
    said = device.read()
    assert (said.action[3], said.buttons) == (1, frozenset())
    terminal.type(b"\x1b")
    assert device.read().buttons == frozenset()
    clock.advance_ns(60_000_000)
    assert device.read().buttons == {"stop"}
    device.close()


def test_a_terminal_that_hangs_up_says_stop(terminal: Terminal, device: KeyboardTeleop) -> None:
    terminal.hang_up()
    device.show(np.zeros((32, 32, 3), np.uint8), ["nobody sees this"])
    assert device.read().buttons == {"stop"}


def test_the_picture_is_drawn_in_half_blocks_with_text_below(terminal: Terminal, device: KeyboardTeleop) -> None:
    picture = np.zeros((32, 32, 3), np.uint8)
    picture[:16] = (255, 0, 0)
    picture[16:, 16:] = (0, 0, 255)
    for times in (1, 2, 3):  # drawn over each other, not below each other
        device.show(picture, ["episode 1 of 3", "x" * 200])
        terminal.wait_for(END, times, device)
    lines = terminal.lines()
    drawn = [row for row, line in enumerate(lines) if line.startswith("\u2580")]
    assert drawn == list(range(15))  # 20 rows less 2 lines, 2 of help and a margin
    width = len(lines[0])
    assert width == 30  # square: a line is two pixels high
    buffer = terminal.screen().buffer
    assert (buffer[0][0].fg, buffer[0][0].bg) == ("ff0000", "ff0000")
    assert (buffer[14][0].fg, buffer[14][width - 1].fg) == ("000000", "0000ff")
    assert lines[15] == "episode 1 of 3"
    assert lines[16] == "x" * (COLUMNS - 1)
    assert lines[17].startswith("w s: forward, back   a d: left, right")
    assert lines[18].startswith("enter: success")


def test_without_a_picture_the_text_stands_alone(terminal: Terminal, device: KeyboardTeleop) -> None:
    device.show(np.full((32, 32, 3), 200, np.uint8), ["with a picture"])
    terminal.wait_for(END, 1, device)
    device.show(None, ["without"])
    terminal.wait_for(END, 2, device)
    shown = [line for line in terminal.lines() if line]
    assert shown[0] == "without"
    assert len(shown) == 3


def test_a_terminal_that_takes_nothing_holds_nothing_up(terminal: Terminal, device: KeyboardTeleop) -> None:
    terminal.reading.clear()
    picture = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    for number in range(20):
        device.show(picture, [f"picture {number}"])  # far more than a terminal buffers
    terminal.type(b"w")
    assert device.read().action[0] == 1
    terminal.reading.set()
    while b"picture 20" not in terminal.printed:
        device.show(picture, ["picture 20"])
    terminal.wait_for(END, 1, device)
    shown = terminal.lines()
    assert "picture 20" in shown and "picture 0" in terminal.printed.decode()
    assert "picture 19" not in terminal.printed.decode()


def test_closing_gives_the_terminal_back(terminal: Terminal) -> None:
    before = termios.tcgetattr(terminal.near)
    device = KeyboardTeleop(SPEC, TeleopConfig(), terminal.near, terminal.near, ManualClock())
    assert not termios.tcgetattr(terminal.near)[3] & (termios.ICANON | termios.ECHO)
    terminal.type(b"rm -r *\n")
    device.close()
    device.close()
    assert termios.tcgetattr(terminal.near) == before
    assert not select.select([terminal.near], [], [], 0)[0], "keys typed before must not reach the shell"
    terminal.wait_for(b"\x1b[?25h\x1b[?1049l")


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("escape", 7),
        ("fail", 1),
        (signal.SIGINT, -signal.SIGINT),
        (signal.SIGTERM, 128 + signal.SIGTERM),
        (signal.SIGHUP, 128 + signal.SIGHUP),
    ],
    ids=str,
)
def test_whatever_ends_the_program_the_terminal_is_given_back(terminal: Terminal, how: object, status: int) -> None:
    before = termios.tcgetattr(terminal.near)
    arguments = heeding(sys.executable, "-c", CHILD, json.dumps(SPEC.to_json()), "fail" if how == "fail" else "wait")
    child = subprocess.Popen(arguments, stdin=terminal.near, stdout=terminal.near, stderr=subprocess.PIPE)
    while b"ready" not in terminal.printed and child.poll() is None:
        time.sleep(0.01)
    if isinstance(how, signal.Signals):
        child.send_signal(how)
    elif how == "escape":
        terminal.type(b"\x1b")
    _, errors = child.communicate(timeout=30)
    assert child.returncode == status, errors.decode()
    terminal.wait_for(b"\x1b[?25h\x1b[?1049l")
    assert termios.tcgetattr(terminal.near) == before


def test_no_terminal_is_a_driver_error() -> None:
    read_end, write_end = os.pipe()
    with pytest.raises(DriverError, match="needs a terminal"):
        KeyboardTeleop(SPEC, TeleopConfig(), read_end, write_end)
    os.close(read_end)
    os.close(write_end)
