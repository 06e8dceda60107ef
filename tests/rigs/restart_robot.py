"""A virtual robot whose reset takes seconds, as homing does, and who writes down when it is moved, and by what."""

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from robo_rl.app import build
from robo_rl.core import Interruption
from robo_rl.drivers.ros2 import open_node
from robo_rl.drivers.ros2.dds.services import DdsService

from .composition import composed_config

TRIGGER = "std_srvs/srv/Trigger"
RESET_SECONDS = 1.5


class Journal:
    """Lines of time (monotonic [s]) and event, which a killed process leaves whole."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def note(self, event: str) -> None:
        with self._lock:
            self._stream.write(json.dumps([time.monotonic(), event]) + "\n")


def main(journal: Journal, options: list[str]) -> None:
    """Be the robot until a signal comes; requests of resets are served in threads of their own, as they come."""
    config = composed_config("robot", *options)
    backend = build(config.task)
    arm = backend.as_robot()
    command = arm.command

    def obey(target: Any) -> None:
        journal.note("command")
        command(target)

    arm.command = obey
    robot = build(config.virtual, arm=arm)
    laboratory: Any = open_node("laboratory", implementation="dds")

    def home(answer: Any) -> None:
        journal.note("reset begins")
        time.sleep(RESET_SECONDS)
        done = threading.Event()
        outcome = []

        def act() -> None:
            outcome.append(robot._reset())
            done.set()

        robot._requests.put(act)
        done.wait()
        journal.note("reset ends")
        success, message = outcome[0]
        answer(laboratory.types.make(f"{TRIGGER}_Response", success=success, message=message))

    def handle(_: Any, answer: Any) -> None:
        threading.Thread(target=home, args=(answer,), daemon=True).start()

    service = DdsService(laboratory._endpoints, TRIGGER, "/slow_reset", laboratory._callbacks, handle)
    with Interruption() as interruption:
        journal.note("robot")
        print("ready", flush=True)
        robot.run(lambda: interruption.signal is not None)
    del service


if __name__ == "__main__":
    main(Journal(Path(sys.argv[1])), sys.argv[2:])
