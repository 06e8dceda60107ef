"""What a safety guard stops a robot for, and what it does then; tests/integration/test_guard.py has it on a robot."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.core import (
    ArraySpec,
    ConfigError,
    EmergencyStop,
    GuardBeat,
    ManualClock,
    Observation,
    OwnStop,
    SpecError,
    latch,
)
from robo_rl.drivers.robot.watch import Seen
from robo_rl.operators.guard import Guard, GuardConfig
from robo_rl.operators.pulse import Pulse
from robo_rl.safety import SafetyWatch, WatchConfig
from robo_rl.sim import make_backend

from ..rigs.command_line import exit_code

BACKEND = make_backend("reach")
ROBOT = BACKEND.robot
HOME = BACKEND.reset(0).observation
NAMES = BACKEND.spec.observation["state"].names
CONFIG = WatchConfig(position_tolerance=0.1, workspace_tolerance=0.05, speed_factor=1.5, load_factor=1.2)


def changed(values: Mapping[str, float]) -> Observation:
    state = HOME["state"].copy()
    for name, value in values.items():
        state[NAMES.index(name)] = value
    return {**HOME, "state": state}


@pytest.mark.parametrize(
    ("name", "direction", "limit", "said"),
    [
        ("joint2_position", 1, ROBOT.position_upper[1] + 0.1, "joint 2 is measured at"),
        ("joint4_velocity", -1, -1.5 * ROBOT.velocity[3], "joint 4 is measured at"),
        ("end_effector_z", 1, ROBOT.workspace_high[2] + 0.05, "the end effector is at"),
        ("end_effector_x", -1, ROBOT.workspace_low[0] - 0.05, "the end effector is at"),
        ("end_effector_vy", 1, 1.5 * ROBOT.linear_speed, "speed is .* m/s, above"),
        ("end_effector_wx", 1, 1.5 * ROBOT.angular_speed, "angular speed is .* rad/s, above"),
        ("wrist_force_z", -1, -1.2 * ROBOT.force, "contact force is .* N, above"),
        ("wrist_torque_y", 1, 1.2 * ROBOT.torque, "contact torque is .* Nm, above"),
    ],
)
def test_what_is_too_far_beyond_a_limit_stops(name: str, direction: int, limit: float, said: str) -> None:
    watch = SafetyWatch(BACKEND.spec, ROBOT, CONFIG)
    still = {element: 0.0 for element in NAMES if element.startswith(("end_effector_v", "end_effector_w", "wrist"))}
    assert not watch(changed({**still, name: limit - 1e-3 * direction}), 0, 0).stop
    verdict = watch(changed({**still, name: limit + 1e-3 * direction}), 0, 0)
    assert verdict.stop
    assert re.search(said, verdict.message)


def test_a_value_that_is_not_finite_stops() -> None:
    assert SafetyWatch(BACKEND.spec, ROBOT, CONFIG)(changed({"end_effector_x": np.nan}), 0, 0).stop


class Robot:
    """What is seen of it is set by the test; its own stop may not answer."""

    def __init__(self) -> None:
        self.seen = Seen(None, 0, {"/joint_states": float("inf")})
        self.damaged = False
        self.answers = True
        self.asked = 0

    def look(self) -> Seen:
        if self.damaged:
            raise SpecError("/joint_states: expected finite values")
        return self.seen

    def stop(self) -> tuple[bool, str]:
        self.asked += 1
        return self.answers, "asked"

    def rearm_facts(self) -> Mapping[str, str]:
        return {"service": "/rearm"}


class Steering:
    def __init__(self) -> None:
        self.buttons: set[str] = set()
        self.told: tuple[Any, ...] = ()

    def take_buttons(self) -> frozenset[str]:
        taken, self.buttons = frozenset(self.buttons), set()
        return taken

    def report(self, state: str, paused: bool, alarm: bool, facts: Mapping[str, str]) -> None:
        self.told = (state, paused, alarm)

    def close(self) -> None: ...


class Rig:
    def __init__(self, folder: Path) -> None:
        self.robot, self.steering, self.clock = Robot(), Steering(), ManualClock()
        self.button = EmergencyStop(folder / "stop")
        self.judge = SafetyWatch(BACKEND.spec, ROBOT, CONFIG)
        settings = GuardConfig(silence=1.0)
        self.guard = Guard(settings, self.robot, self.judge, self.button, self.steering, self.clock)

    def turn(self, seen: Seen | None = None) -> tuple[Any, ...]:
        self.robot.seen = seen or self.robot.seen
        self.guard.turn()
        return self.steering.told


GOOD = Seen(HOME, 0, {})
TOO_HIGH = Seen(changed({"end_effector_z": 9.0}), 0, {})


def test_a_stop_that_cannot_be_written_still_reaches_the_robot(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    rig = Rig(tmp_path / "folder")
    rig.turn(GOOD)
    monkeypatch.setattr(latch, "_write", refuse)
    rig.turn(TOO_HIGH)
    assert rig.robot.asked == 1
    assert f"{rig.button.file} CANNOT BE WRITTEN" in capfd.readouterr().err
    rig.button.rearm()


def test_a_vanished_folder_of_the_stop_reaches_the_robot(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "folder")
    rig.turn(GOOD)
    (tmp_path / "folder").rename(tmp_path / "elsewhere")
    assert rig.turn(GOOD)[2] and rig.robot.asked == 1
    assert OwnStop("robot").facts() == {"service": "/rearm"}, "robo-rl rearm knows how it is taken back"


def test_each_look_is_a_heartbeat_and_its_end_is_said(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    beat = GuardBeat("robot", clock=rig.clock)
    rig.turn(GOOD)
    assert not beat.missed() and beat.age() is not None
    rig.guard.close()
    assert beat.age() is None


class LaunchEnd:
    """The other end of the pipes, without a process; the clocks of both ends are the test's."""

    def __init__(self, clock: ManualClock) -> None:
        theirs, ours = os.pipe()
        hears, beats = os.pipe()
        self.end, self.guards = Pulse(hears, ours, clock), Pulse(theirs, beats, clock)


@pytest.mark.parametrize("fault", ["hangs", "hangs at once", "ends", "never began"])
def test_a_launch_that_hangs_or_ends_stops_the_robot(tmp_path: Path, fault: str) -> None:
    rig = Rig(tmp_path)
    launch = LaunchEnd(rig.clock)
    rig.guard = Guard(GuardConfig(), rig.robot, rig.judge, rig.button, rig.steering, rig.clock, "robot", launch.guards)
    for _ in range(1 if fault == "hangs at once" else 5 if fault != "never began" else 0):
        launch.end.turn()
        rig.turn(GOOD)
        rig.clock.advance_ns(200_000_000)
    assert rig.button.pressed() is None
    if fault == "ends":
        launch.end.close()
        rig.turn(GOOD)
    for _ in range(6):
        rig.turn(GOOD)
        rig.clock.advance_ns(200_000_000)
    said = {"ends": "has ended", "never began": None}.get(fault, "has been silent for 1 s")
    pressed = rig.button.pressed()
    assert pressed is None if said is None else said in str(pressed)


def test_a_guard_that_hangs_is_heard_no_more(tmp_path: Path) -> None:
    clock = ManualClock()
    launch = LaunchEnd(clock)
    for _ in range(3):
        launch.guards.turn()
        launch.end.turn()
        clock.advance_ns(400_000_000)
        assert not launch.end.is_silent
    for _ in range(3):
        launch.end.turn()
        clock.advance_ns(400_000_000)
    assert launch.end.is_silent and not launch.end.gone
    launch.guards.turn()
    launch.end.turn()
    assert not launch.end.is_silent, "it was loaded, not hung"


def test_it_waits_watches_stops_and_watches_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    assert rig.turn() == ("waits for /joint_states", True, False)
    assert rig.turn(GOOD) == ("watching", False, False)
    state, _, alarm = rig.turn(TOO_HIGH)
    assert state.startswith("stopped: safety guard: the end effector is at (") and alarm
    pressed = rig.button.pressed()
    assert pressed is not None and "9.000) m, outside" in pressed
    rig.turn(GOOD)
    assert rig.robot.asked == 1, "once"
    assert rig.steering.told[2], "it stays stopped until a person re-arms"
    rig.button.rearm()
    assert rig.turn() == ("watching", False, False)
    rig.button.press("somebody else")
    assert rig.turn() == ("stopped: somebody else", False, True)
    assert rig.robot.asked == 2, "a stop of others reaches the robot too"


def test_silence_counts_once_the_robot_was_there(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.turn(Seen(None, 0, {"/joint_states": 99.0}))
    assert rig.button.pressed() is None
    rig.turn(GOOD)
    assert rig.turn(Seen(None, 0, {"/joint_states": 0.9, "/pose": 0.2})) == ("watching", False, False)
    rig.turn(Seen(None, 0, {"/joint_states": 1.1, "/pose": 0.2}))
    assert rig.button.pressed() == "safety guard: /joint_states has been silent for 1.10 s"


def look_on_time(rig: Rig, seconds: float, seen: Seen) -> None:
    """Let the guard look at its rate for so long."""
    for _ in range(round(50 * seconds)):
        rig.clock.advance_ns(20_000_000)
        rig.turn(seen)


SILENT = Seen(None, 0, {"/joint_states": 5.0})


def test_a_guard_that_was_suspended_does_not_blame_the_robot(tmp_path: Path) -> None:
    """Messages of that time arrive a moment later."""
    rig = Rig(tmp_path)
    look_on_time(rig, 3.0, GOOD)
    rig.clock.advance_ns(5_000_000_000)
    rig.turn(SILENT)
    look_on_time(rig, 2.0, GOOD)
    assert rig.button.pressed() is None


def test_a_robot_that_stays_silent_is_stopped_soon_after_the_guard_was_suspended(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    look_on_time(rig, 3.0, GOOD)
    rig.clock.advance_ns(5_000_000_000)
    rig.turn(SILENT)
    look_on_time(rig, 0.9, SILENT)
    assert rig.button.pressed() is None
    look_on_time(rig, 0.2, SILENT)
    assert rig.button.pressed() is not None


@pytest.mark.parametrize("delay", [0.6, 1.5, 5.0])
def test_a_guard_that_is_always_late_still_judges_silence(tmp_path: Path, delay: float) -> None:
    rig = Rig(tmp_path)
    look_on_time(rig, 3.0, GOOD)
    for _ in range(6):
        rig.clock.advance_ns(round(delay * 1e9))
        rig.turn(SILENT)
        look_on_time(rig, 0.04, SILENT)
    assert rig.button.pressed() is not None


def test_limits_are_judged_at_once_when_the_guard_goes_on(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    look_on_time(rig, 3.0, GOOD)
    rig.clock.advance_ns(5_000_000_000)
    assert rig.turn(TOO_HIGH)[0].startswith("stopped: safety guard: the end effector is at (")


def test_an_arm_is_judged_while_a_camera_is_late(tmp_path: Path) -> None:
    """What is seen of it has no image then, which the spec has."""
    images = {**BACKEND.spec.observation, "images/front": ArraySpec((4, 4, 3), "uint8")}
    watch = SafetyWatch(replace(BACKEND.spec, observation=images), ROBOT, CONFIG)
    seen_too = {**HOME, "images/front": np.zeros((4, 4, 3), np.uint8)}
    assert not watch(HOME, 0, 0).stop and not watch(seen_too, 0, 0).stop
    rig = Rig(tmp_path)
    late = {"/camera": 0.9}
    assert rig.turn(Seen(HOME, 0, late))[0] == "waits for /camera"
    rig.turn(GOOD)
    assert rig.turn(Seen(HOME, 0, late)) == ("watching", False, False)
    assert rig.turn(Seen(TOO_HIGH.observation, 0, late))[0].startswith(
        "stopped: safety guard: the end effector is at ("
    )


def test_a_robot_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.turn(GOOD)
    rig.robot.answers, rig.robot.damaged = False, True
    for asked, seconds in ((1, 0.5), (1, 0.6), (2, 0.1), (2, 1.0)):
        rig.turn()
        assert rig.robot.asked == asked
        rig.clock.advance_ns(round(seconds * 1e9))
    rig.robot.answers = True
    for _ in range(3):
        rig.turn()
        rig.clock.advance_ns(2_000_000_000)
    assert rig.robot.asked == 3
    assert rig.button.pressed() == "safety guard: /joint_states: expected finite values"


def test_a_person_may_pause_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.turn(GOOD)
    rig.steering.buttons = {"pause"}
    assert rig.turn(TOO_HIGH) == ("paused", True, False)
    assert rig.button.pressed() is None
    rig.steering.buttons = {"pause"}
    rig.turn(TOO_HIGH)
    assert rig.button.pressed() is not None


def test_what_cannot_be_guarded_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        ([], "choose one, such as robot=virtual"),
        (["robot=virtual", "safety=none"], "choose safety=default"),
        (["robot=virtual", "guard.load_factor=0.5"], "guard.load_factor must be 1 or more, got 0.5"),
        (["robot=virtual", "guard.silence=0"], "guard.silence must be in (0, 604800]"),
    ):
        assert exit_code("guard", "task=reach", *words) == 2
        assert said in capsys.readouterr().err
    with pytest.raises(ConfigError, match="has no description of a robot"):
        SafetyWatch(BACKEND.spec, None, CONFIG)
