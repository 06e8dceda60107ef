"""robo-rl stop, rearm and enable: commands that stop robots and release them. They act at once, without Hydra."""

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Sequence
from pathlib import Path

from ..core import ConfigError, DeadmanSwitch, DriverError, Interruption, deadman_file, nearest
from ..core.emergency import default_file
from ..core.latch import Latch
from ..operators.rearming import Hold, find_holds, release_holds

CONFIRMATION = "rearm"


OPTIONS = {"stop": ("file", "robot", "reason"), "rearm": ("file", "robot"), "enable": ("file",)}


def run(command: str, words: Sequence[str]) -> int:
    """Run ``stop``, ``rearm`` or ``enable`` with ``KEY=VALUE`` options; return the exit code.

    Raises:
        ConfigError: if an option is unknown, or a person is needed and there is no terminal.
        DriverError: if robots could not be stopped, or not every stop could be released.
    """
    options = dict.fromkeys(OPTIONS[command], "")
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in options:
            raise ConfigError(f"robo-rl {command} has no option {word!r}: {nearest(key, options)}")
        options[key] = value
    file, robot = options["file"], options.get("robot", "")
    if file and robot:
        raise ConfigError("give file or robot, not both: a robot with safety.emergency_stop.file obeys that file")
    if command == "stop":
        _stop(Latch(Path(file) if file else default_file(robot or None)), robot, options["reason"])
    elif command == "rearm":
        latch = Latch(Path(file)) if file else None
        reason = None if latch is None else latch.pressed()
        if latch is None:
            _rearm(find_holds(robot or None), find_holds())
        else:
            _rearm([] if reason is None else [Hold(str(latch.file), reason, latch.rearm)])
    else:
        switch = DeadmanSwitch(deadman_file(Path(file).expanduser() if file else default_file()), timeout=1.0)
        with Interruption() as interruption:
            enable(switch, interruption)
        return 0 if interruption.signal is None else 128 + interruption.signal
    return 0


def _stop(latch: Latch, robot: str, reason: str) -> None:
    subject, release = (
        (f"Robot {robot} is", f"robo-rl rearm robot={robot}") if robot else ("Robots are", "robo-rl rearm")
    )
    if not latch.press(reason or "robo-rl stop"):
        raise DriverError(
            f"{subject.upper()} NOT STOPPED: {latch.file} cannot be written. Use the button that cuts the power"
        )
    print(f"{subject} stopped. When all is safe: {release}   ({latch.file})")


def _rearm(holds: Sequence[Hold], others: Sequence[Hold] = (), ask: Callable[[str], str] = input) -> None:
    """Release the latches that hold robots still, after a person has confirmed it, and report those that remain.

    Args:
        holds: the holds to release.
        others: all holds, to report those that remain.
        ask: asks the person at the terminal.

    Raises:
        ConfigError: if there is no terminal.
        DriverError: if a hold could not be released.
    """
    remaining = [hold for hold in others if all(hold.what != released.what for released in holds)]
    if not holds:
        print("No emergency stop is pressed")
    else:
        if not sys.stdin.isatty():
            raise ConfigError("only a person re-arms: run robo-rl rearm in a terminal")
        listed = "\n".join(f"  {hold.what}: {hold.description}" for hold in holds)
        question = f"Stopped:\n{listed}\nIs everybody clear of the robot? Type {CONFIRMATION!r} to let it move: "
        if ask(question).strip() != CONFIRMATION:
            print("Still stopped")
            return
    released, failed = release_holds(holds)
    for line in released:
        print(line)
    for hold in remaining:
        print(f"Still stopped: {hold.what}: {hold.reason}")
    if failed:
        raise DriverError("; ".join(failed))


def enable(switch: DeadmanSwitch, interruption: Interruption) -> None:
    """Let robots move while the space bar of this terminal is held, until q is pressed or a signal arrives."""
    descriptor = sys.stdin.fileno()
    if not os.isatty(descriptor):
        raise ConfigError("the deadman switch is a key that a person holds: run robo-rl enable in a terminal")
    modes = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)  # before the prompt, because it discards previous input
        print("Hold the space bar: robots move while it is held. q ends.", flush=True)
        while interruption.signal is None:
            if select.select([descriptor], [], [], 0.1)[0]:
                keys = os.read(descriptor, 1024)
                if not keys or b"q" in keys:
                    return
                if b" " in keys:
                    switch.beat()
    finally:
        switch.end()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
