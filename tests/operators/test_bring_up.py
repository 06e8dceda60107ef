"""Checks of a robot before its first training: a simulated arm with faults instead of a driver."""

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.core import ConfigError, DriverError, EnvBackend, Step
from robo_rl.operators.bring_up import BringUp
from robo_rl.operators.checks import FAIL, PASS, SKIP, WARN, BringUpConfig, Check
from robo_rl.operators.dialog import Pictures
from robo_rl.safety import make_safe_backend
from robo_rl.sim import make_backend
from robo_rl.sim.config import ControllerConfig, ObservationConfig

SETTINGS: dict[str, Any] = {
    **{"output": "setup", "listen": 1.0, "resets": 2, "joint_motion": 0.05, "translation": 0.02},
    **{"seconds": 1.0, "gripper": True, "exercise": 5.0, "ask": False, "device": "terminal", "seed": 0},
    **{"reference": None, "largest_shift": 5.0, "largest_brightness_change": 0.2},
}
JOINTS = {"action_space": "joint_delta"}
SPACES: dict[str, dict[str, Any]] = {
    "joint_delta": JOINTS,
    "joint_position": {"action_space": "joint_position"},
    "position": {"action_space": "end_effector_delta", "action_axes": "full"},
    "own_frame": {
        "action_space": "end_effector_delta", "action_axes": "x+y+yaw", "action_frame": "end_effector"
    },
}  # fmt: skip


class Robot:
    """A simulated arm with the methods of a driver.

    Args:
        backend: simulated arm.
        distort: changes actions on their way to the arm.
        age: age of the messages of the only source [s].
    """

    def __init__(
        self, backend: EnvBackend, distort: Callable[[np.ndarray], np.ndarray], age: float, load: float
    ) -> None:
        self._backend, self._distort, self._age, self._load = backend, distort, age, load
        self.rate = SimpleNamespace(overruns=0, periods=100)
        self.problem = self.reset_problem = self.stopped = ""
        self.steps, self.ends_at = 0, -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def connect(self) -> None:
        if self.problem:
            raise DriverError(self.problem)

    def sources(self) -> dict[str, SimpleNamespace]:
        now_ns = self._backend.clock.now_ns()
        measured_ns = now_ns // 20_000_000 * 20_000_000 - round(1e9 * self._age)  # 50 Hz
        return {
            "joints": SimpleNamespace(origin="joint_states", measured_ns=measured_ns, max_age=0.1),
            "ready": SimpleNamespace(origin="ready", measured_ns=0, max_age=None),
        }

    def reset(self, seed: int | None = None) -> Step:
        if self.reset_problem:
            raise DriverError(self.reset_problem)
        self.stopped = ""
        return self._loaded(self._backend.reset(seed))

    def step(self, action: np.ndarray) -> Step:
        step = self._loaded(self._backend.step(self._distort(action)))
        self.steps += 1
        return replace(step, truncated=True) if self.steps == self.ends_at else step

    def stop(self, reason: str) -> None:
        self.stopped = reason
        self._backend.stop(reason)

    def _loaded(self, step: Step) -> Step:
        place = self._backend.spec.observation["state"].names.index("wrist_force_z")
        step.observation["state"][place] += self._load
        return step


class Session:
    """The checks of a simulated Panda.

    Args:
        controller: options of its controller.
        distort: changes actions on their way to the arm.
        age: age of the messages of its only source [s].
        load: force at the wrist [N].
        task: options of the task.
        settings: options of the checks.
    """

    def __init__(
        self,
        controller: dict[str, Any],
        distort: Callable[[np.ndarray], np.ndarray] = lambda action: action,
        age: float = 0.0,
        load: float = 0.0,
        task: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        options = {"controller": ControllerConfig(**controller), "max_episode_steps": 1_000_000} | (task or {})
        self.robot = Robot(make_backend("pick_cube", **options), distort, age, load)
        safe = make_safe_backend(self.robot)  # type: ignore[arg-type]  # the arm has its other methods
        self.announced: list[str] = []
        self.pictures: list[Pictures] = []
        dialog = SimpleNamespace(announce=self.announced.append, show=self.pictures.append)
        self.bring_up = BringUp(safe, BringUpConfig(**SETTINGS | settings), dialog)  # type: ignore[arg-type]

    def run(self) -> dict[str, Check]:
        """Return the checks by name."""
        checks = list(self.bring_up.checks())
        json.dumps([check.to_json() for check in checks])
        return {check.name: check for check in checks}


def checks_of(*arguments: Any, **options: Any) -> dict[str, Check]:
    return Session(*arguments, **options).run()


@pytest.mark.parametrize("space", SPACES)
def test_a_robot_without_faults_passes(space: str) -> None:
    session = Session(SPACES[space])
    checks = session.run()
    outcomes = {name: check.outcome for name, check in checks.items()}
    assert outcomes.pop("wrist") in (PASS, SKIP)
    assert set(outcomes.values()) == {PASS}, checks
    axes = [name for name in outcomes if name.startswith("axis")]
    assert len(axes) == {"joint_delta": 7, "joint_position": 7, "position": 6, "own_frame": 3}[space]
    assert ("gripper" in outcomes) == (space != "own_frame")
    assert checks["source joints"].figures["rate"] == pytest.approx(50, rel=0.05)
    assert 0.01 < checks["exercise"].figures["furthest"] < 0.3
    assert session.robot.stopped == "all checks were made", "it does not wait in an episode"
    assert session.announced[0] == "The robot resets 2 times"


def test_motion_is_announced_as_it_is_seen() -> None:
    session = Session(SPACES["position"], exercise=0)
    session.run()
    assert "x: the end effector moves 2.0 cm forwards (+x), and back" in session.announced
    assert "yaw: the end effector turns 3 degrees counterclockwise, seen from above, and back" in session.announced
    session = Session(JOINTS, exercise=0)
    session.run()
    first, *_, last = (text for text in session.announced if text.startswith("joint"))
    assert first.startswith("joint1: the end effector moves 2.") and "cm left (+y)" in first
    assert last == "joint7: the end effector turns 3 degrees clockwise, seen from above, and back", "it points down"


def element(number: int, factor: float) -> Callable[[np.ndarray], np.ndarray]:
    def distort(action: np.ndarray) -> np.ndarray:
        changed = action.copy()
        changed[number] *= factor
        return changed

    return distort


@pytest.mark.parametrize(
    ("factor", "outcome", "text"),
    [(-1.0, FAIL, "the wrong way"), (0.0, FAIL, "hardly moves"), (0.3, WARN, "robo-rl identify"), (2.0, WARN, "overs")],
)
@pytest.mark.parametrize("space", ["joint_delta", "position"])
def test_an_axis_that_moves_otherwise_is_found(space: str, factor: float, outcome: str, text: str) -> None:
    checks = checks_of(SPACES[space], element(1, factor), exercise=0)
    name = "axis joint2" if space == "joint_delta" else "axis y"
    assert checks[name].outcome == outcome and text in checks[name].text, checks[name]
    others = {check.outcome for key, check in checks.items() if key.startswith("axis") and key != name}
    assert others == {PASS}


def test_exchanged_axes_are_found() -> None:
    def exchange(action: np.ndarray) -> np.ndarray:
        changed = action.copy()
        changed[[1, 3]] = action[[3, 1]]
        return changed

    checks = checks_of(JOINTS, exchange, exercise=0)
    for name in ("axis joint2", "axis joint4"):
        assert checks[name].outcome == FAIL and "but others move" in checks[name].text


def test_an_arm_that_runs_away_is_stopped() -> None:
    def turn(action: np.ndarray) -> np.ndarray:
        return np.float32([*action[:2], 1.0, *action[3:]])

    checks = checks_of(JOINTS, turn)
    assert checks["rest"].outcome == FAIL and "joint joint3 moved by" in checks["rest"].text
    assert checks["axes, exercise"].outcome == SKIP and not any(name.startswith("axis") for name in checks)

    checks = checks_of(JOINTS, lambda action: (8 * action).clip(-1, 1), joint_motion=0.1, seconds=4.0)
    assert checks["axes"].outcome == FAIL and "far more than was commanded" in checks["axes"].text
    assert checks["exercise"].outcome == SKIP


def test_an_end_effector_that_drifts_away_in_the_exercise_is_stopped() -> None:
    session = Session(SPACES["position"])

    def drift(action: np.ndarray) -> np.ndarray:
        begun = any(text.startswith("All axes") for text in session.announced)
        return np.float32([1, 0, 0, 0, 0, 0, action[-1]]) if begun else action

    session.robot._distort = drift
    checks = session.run()
    assert checks["exercise"].outcome == FAIL and "the end effector moved by 0." in checks["exercise"].text
    assert session.robot.stopped


def test_loads_and_ages_and_missing_robots_are_named() -> None:
    checks = checks_of(JOINTS, load=60.0, exercise=0)
    assert checks["wrist"].outcome == WARN and "robot.tare.seconds" in checks["wrist"].text
    checks = checks_of(JOINTS, age=0.5)
    assert checks["reset, rest, axes, exercise"].outcome == SKIP
    assert checks["source joints"].outcome == FAIL and "ms old (100 ms are allowed)" in checks["source joints"].text
    session = Session(JOINTS)
    session.robot.problem = "nobody publishes joint_states"
    checks = session.run()
    assert checks["connection"] == Check("connection", FAIL, "nobody publishes joint_states")
    assert checks["motion"].outcome == SKIP
    session = Session(JOINTS)
    session.robot.reset_problem = "the force sensor cannot be tared"
    checks = session.run()
    assert checks["reset"].outcome == FAIL and "cannot be tared" in checks["reset"].text
    assert checks["rest, axes, exercise"].outcome == SKIP


def test_a_source_without_a_message_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    never = {"door": SimpleNamespace(origin="door", measured_ns=None, max_age=None)}
    session = Session(JOINTS, exercise=0)
    monkeypatch.setattr(session.robot, "sources", lambda: never)
    check = session.run()["source door"]
    assert (check.outcome, check.text) == (FAIL, "door: no message")


def test_an_episode_that_ends_fails_a_check() -> None:
    session = Session(JOINTS)
    session.robot.ends_at = 40
    checks = session.run()
    assert checks["axes"].outcome == FAIL and "the episode has ended" in checks["axes"].text


@pytest.mark.parametrize("space", ["joint_delta", "position"])
def test_an_axis_moves_in_the_direction_with_room(space: str) -> None:
    """The arm begins at a side of its workspace, and at the upper limit of a joint."""
    low, high = ([0.2, -0.5, 0.0], [0.51, 0.5, 0.8]) if space == "position" else ([0.2, -0.5, 0.0], [0.8, 0.5, 0.8])
    session = Session(SPACES[space] | {"workspace_low": low, "workspace_high": high}, exercise=0)
    jogger = session.bring_up._jogger
    assert jogger is not None
    if space == "joint_delta":
        upper = [*jogger.robot.position_upper[:3], -2.36, *jogger.robot.position_upper[4:]]
        jogger.robot = replace(jogger.robot, position_upper=tuple(upper))
    checks = session.run()
    name = "axis x" if space == "position" else "axis joint4"
    assert checks[name].outcome == PASS and checks[name].figures["commanded"] < 0, checks[name]


@pytest.mark.parametrize(("element", "text"), [(-1.0, "the wrong way"), (0.0, "hardly")])
def test_grippers_are_checked(element: float, text: str) -> None:
    def distort(action: np.ndarray) -> np.ndarray:
        return np.float32([*action[:-1], element * action[-1] if element else -1.0])

    check = checks_of(JOINTS, distort, exercise=0)["gripper"]
    assert check.outcome == FAIL and text in check.text
    assert checks_of(JOINTS, distort, exercise=0, gripper=False)["gripper"].outcome == SKIP


def test_a_picture_of_each_camera_is_kept() -> None:
    cameras = ObservationConfig(cameras=("front",), height=32, width=48)
    session = Session(JOINTS, exercise=0, task={"observation": cameras})
    check = session.run()["picture front"]
    assert check.outcome == PASS and "48 x 32 pixels" in check.text
    assert session.bring_up.pictures["front"].shape == (32, 48, 3)


@pytest.mark.parametrize(
    ("name", "value"), [("listen", 0.0), ("joint_motion", 1.0), ("exercise", -1.0), ("resets", 0), ("seed", -1)]
)
def test_options_have_bounds(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=name):
        BringUpConfig(**SETTINGS | {name: value})
