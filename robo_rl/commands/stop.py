"""robo-rl stop, rearm and enable: what a person stops robots with. They need no Hydra, so they act at once."""

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Sequence
from pathlib import Path

from ..core import ConfigError, DeadmanSwitch, DriverError, EmergencyStop, deadman_file, nearest
from .interruption import Interruption

CONFIRMATION = "rearm"


def run(command: str, words: Sequence[str]) -> int:
    """Run ``stop``, ``rearm`` or ``enable`` with ``KEY=VALUE`` options; return the exit code.

    Raises:
        ConfigError: if an option is unknown, or a person is needed and there is no terminal.
        DriverError: if robots could not be stopped.
    """
    options = {"file": "", "reason": "robo-rl stop"} if command == "stop" else {"file": ""}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in options:
            raise ConfigError(f"robo-rl {command} takes no {word!r}: {nearest(key, options)}")
        options[key] = value
    emergency = EmergencyStop(Path(options["file"]) if options["file"] else None)
    if command == "stop":
        if not emergency.press(options["reason"]):
            raise DriverError(
                f"ROBOTS ARE NOT STOPPED: {emergency.file} cannot be written. Use the button that cuts the power"
            )
        print(f"Robots are stopped. When all is safe: robo-rl rearm   ({emergency.file})")
    elif command == "rearm":
        _rearm(emergency)
    else:
        with Interruption() as interruption:
            enable(DeadmanSwitch(deadman_file(emergency.file), timeout=1.0), interruption)
        return 0 if interruption.signal is None else 128 + interruption.signal
    return 0


def _rearm(emergency: EmergencyStop, ask: Callable[[str], str] = input) -> None:
    reason = emergency.pressed()
    if reason is None:
        print("No emergency stop is pressed")
        return
    if not sys.stdin.isatty():
        raise ConfigError("only a person re-arms: run robo-rl rearm in a terminal")
    answer = ask(f"Stopped: {reason}. Is everybody clear of the robot? Type {CONFIRMATION!r} to let it move: ")
    if answer.strip() != CONFIRMATION:
        print("Still stopped")
        return
    emergency.rearm()
    print("Re-armed")


def enable(switch: DeadmanSwitch, interruption: Interruption) -> None:
    """Let robots move while the space bar of this terminal is held, until q is pressed, or a signal comes."""
    descriptor = sys.stdin.fileno()
    if not os.isatty(descriptor):
        raise ConfigError("the deadman switch is a key that a person holds: run robo-rl enable in a terminal")
    modes = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)  # before anybody is asked to press a key: it discards what was typed
        print("Hold the space bar: robots move while it is held. q ends.", flush=True)
        while interruption.signal is None:
            if select.select([descriptor], [], [], 0.1)[0]:
                keys = os.read(descriptor, 1024)
                if not keys or b"q" in keys:
                    return
                if b" " in keys:
                    switch.refresh()
    finally:
        switch.release()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
