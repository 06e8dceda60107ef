"""SIGKILL of one process of a training on a robot while it resets, steps or is held, and what came of it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from robo_rl.core import EmergencyStop, ResetLatch
from robo_rl.telemetry import Command, LiveWatch

from .robot_rig import PATIENCE
from .ros2_domain import free_domain

TARGETS = ("actor", "robot", "learner")
PHASES = ("reset", "step", "hold")
SILENT_SECONDS = 5.0
UNDER_WAY_SECONDS = 0.3
"""What was sent before a reset, as the hold that ends an episode, may arrive after it by so much."""
ROBOT = "virtual"
OPTIONS = [
    "task=reach",
    "robot=virtual",
    "demonstrations.episodes=0",
    "agent.hidden=[8]",
    "agent.ensemble_size=2",
    "agent.implementation=torch",
    "agent.update_to_data=1",
    "agent.batch_size=16",
    "agent.learning_starts=1000000",
    "run.env_steps=10000000",
    "run.evaluation_interval=0",
    "runtime.threads=1",
    "runtime.restarts=1000",
    "task.max_episode_steps=100000",
    "task.terminate_on_success=false",
    "robot.reset.service=slow_reset",
    "robot.implementation=dds",
    "robot.start_timeout=20",
    "robot.overruns=1000",
    "logging.progress=false",
    *PATIENCE,
]


class Outcome(NamedTuple):
    """What came of one try.

    Attributes:
        target: the process that was killed.
        phase: what the robot did then.
        resets_at_once: resets that were begun while another was under way.
        commands_in_resets: commands that the robot obeyed while it was reset, but for those under way before.
        silent_seconds: longest stand-still before the training's terminal said anything [s].
        back_seconds: from the kill, or from when a person let it go on, to the next step [s].
        person: whether a person had to say that the reset was over.
    """

    target: str
    phase: str
    resets_at_once: int
    commands_in_resets: int
    silent_seconds: float
    back_seconds: float
    person: bool


class RestartRig:
    """A robot, a learner and its actor as processes, and a person at the learner's terminal."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder, self._environment = folder, {**os.environ, **environment, "OMP_NUM_THREADS": "1"}
        self._journal = folder / "journal"
        self.lines: list[tuple[float, str]] = []
        self._robot = self._start_robot()
        self._learner = self._start_learner(f"run.dir={folder}/run")

    def begin(self) -> None:
        """Wait for the first steps and a checkpoint."""
        self._wait(self._steps, 120)
        LiveWatch(self._folder / "run").send(Command("checkpoint"))
        self._wait(lambda: any((self._folder / "run").glob("checkpoints/*")), 30)

    def close(self) -> None:
        for process in (self._learner, self._robot):
            process.kill()
            process.wait()
        self._wait(lambda: not self._actors(), 30)

    def attempt(self, target: str, phase: str) -> Outcome:
        """Kill ``target`` in ``phase``, bring all back as a person would, and judge."""
        self._wait(self._steps, 90)
        began = time.monotonic()
        self._come_to(phase)
        self._kill(target)
        killed = going = time.monotonic()
        if target == "robot":
            time.sleep(1.0)
            self._robot = self._start_robot()
        elif target == "learner":
            self._wait(lambda: not self._actors(), 60)
            self._learner = self._start_learner(f"resume={self._folder}/run")
        if phase == "hold":
            self._wait(lambda: bool(self._actors()), 60)
            time.sleep(3.0)
            moved = [at for at, event in self._events(killed) if event != "robot"]
            assert not moved, f"it moved though it was stopped: {moved}"
            going = time.monotonic()
            EmergencyStop(robot=ROBOT).rearm()
        person = self._until_it_steps(going)
        back = time.monotonic() - going
        return Outcome(target, phase, *self._judge(began), round(back, 2), person)

    def _until_it_steps(self, going: float) -> bool:
        """Wait; say that a reset is over where the terminal asks a person to, once it is; return whether it did."""
        person, latch = False, ResetLatch(ROBOT)
        deadline = time.monotonic() + 120
        while not any(event == "command" for _, event in self._events(going)) or not self._steps():
            assert time.monotonic() < deadline, f"it does not go on: {self.lines[-10:]}"
            requested = any(at > going and "robo-rl rearm robot=virtual" in line for at, line in self.lines)
            if requested and latch.is_held() and not latch.is_under_way() and not self._resetting():
                latch.release()
                person = True
            time.sleep(0.1)
        return person

    def _judge(self, began: float) -> tuple[int, int, float]:
        """Return resets at once, commands in resets, and the longest silence [s] since ``began``."""
        events = self._events(began)
        running = at_once = inside = 0
        reset_at = 0.0
        for at, event in events:
            if event == "robot":
                running = 0
            elif event == "reset begins":
                at_once += running > 0
                running += 1
                reset_at = at
            elif event == "reset ends":
                running = max(running - 1, 0)
            else:
                inside += running > 0 and at > reset_at + UNDER_WAY_SECONDS
        moved = [began, *(at for at, _ in events)]
        silent = 0.0
        for before, after in pairwise(moved):
            if after - before > SILENT_SECONDS:
                times = [at for at, _ in self.lines if before - 1.0 < at < after]
                silent = max(silent, min(times, default=after) - before)
        return at_once, inside, round(silent, 2)

    # --- phases ------------------------------------------------------------------------------------------------------

    def _come_to(self, phase: str) -> None:
        if phase == "reset":
            LiveWatch(self._folder / "run").send(Command("reset", "actor_0"))
            self._wait(self._resetting, 60)
            time.sleep(0.3)
        elif phase == "hold":
            EmergencyStop(robot=ROBOT).press("a person holds it")
            self._wait(lambda: not self._steps(), 30)

    def _events(self, since: float = 0.0) -> list[tuple[float, str]]:
        lines = self._journal.read_text().split("\n") if self._journal.exists() else []
        return [(at, event) for at, event in map(json.loads, filter(None, lines)) if at >= since]

    def _resetting(self) -> bool:
        events = [event for _, event in self._events() if event != "command"]
        return bool(events) and events[-1] == "reset begins"

    def _steps(self) -> bool:
        """Whether the robot is being commanded: ten times in the last second."""
        recent = self._events(time.monotonic() - 1.0)
        return len([1 for _, event in recent if event == "command"]) >= 10 and recent[-1][1] == "command"

    @staticmethod
    def _wait(condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{condition} within {seconds} s"
            time.sleep(0.05)

    # --- processes ---------------------------------------------------------------------------------------------------

    def _start_robot(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.rigs.restart_robot", str(self._journal), "task=reach"],
            env={**self._environment, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"},
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        return process

    def _start_learner(self, where: str) -> "subprocess.Popen[str]":
        words = [*OPTIONS, where] if where.startswith("run.dir") else [where]
        process = subprocess.Popen(
            [sys.executable, "-m", "robo_rl.cli", "train", *words],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines.append((time.monotonic(), "(a person starts the training)"))
        threading.Thread(target=self._read, args=(process,), daemon=True).start()
        return process

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.lines.append((time.monotonic(), line.rstrip()))
        self.lines.append((time.monotonic(), "(the training has ended, and the shell says so)"))

    def _actors(self) -> list[int]:
        """Return the process ids of this rig's actors."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if b"actor" in words and any(str(self._folder).encode() in word for word in words):
                found.append(int(path.parent.name))
        return found

    def _kill(self, target: str) -> None:
        if target == "actor":
            for process in self._actors():
                os.kill(process, signal.SIGKILL)
        else:
            chosen = self._robot if target == "robot" else self._learner
            chosen.kill()
            chosen.wait()


@contextmanager
def restart_rig(folder: Path) -> Iterator[RestartRig]:
    """Run a rig in a domain of its own."""
    with free_domain() as environment:
        rig = RestartRig(folder, environment)
        try:  # a robot that is left over would answer the tests that follow
            rig.begin()
            yield rig
        finally:
            rig.close()
