"""Checks of a robot before its first training: a simulated arm in the place of a driver, with faults."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest

from robo_rl.core import ConfigError, DriverError, EnvBackend, Step
from robo_rl.operators.bring_up import BringUp
from robo_rl.operators.checks import FAIL, PASS, SKIP, WARN, BringUpConfig, Check
from robo_rl.safety import make_safe_backend
from robo_rl.sim import make_backend
from robo_rl.sim.config import ControllerConfig, ObservationConfig

SETTINGS: dict[str, Any] = {
    **{"output": "setup", "listen": 1.0, "resets": 2, "joint_motion": 0.05, "translation": 0.02},
    **{"seconds": 1.0, "exercise": 5.0, "ask": False, "seed": 0},
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
        self.problem = ""

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
            "silent": SimpleNamespace(origin="silent", measured_ns=None, max_age=None),
        }

    def reset(self, seed: int | None = None) -> Step:
        return self._loaded(self._backend.reset(seed))

    def step(self, action: np.ndarray) -> Step:
        return self._loaded(self._backend.step(self._distort(action)))

    def _loaded(self, step: Step) -> Step:
        place = self._backend.spec.observation["state"].names.index("wrist_force_z")
        step.observation["state"][place] += self._load
        return step


def checks_of(
    tmp_path: Any,
    controller: dict[str, Any],
    distort: Callable[[np.ndarray], np.ndarray] = lambda action: action,
    age: float = 0.0,
    load: float = 0.0,
    problem: str = "",
    observation: ObservationConfig | None = None,
    **settings: Any,
) -> dict[str, Check]:
    """Return the checks of the Panda by name."""
    backend = make_backend(
        "pick_cube",
        max_episode_steps=1_000_000,
        controller=ControllerConfig(**controller),
        observation=observation or ObservationConfig(),
    )
    robot = Robot(backend, distort, age, load)
    robot.problem = problem
    safe = make_safe_backend(robot)  # type: ignore[arg-type]
    announced: list[str] = []
    bring_up = BringUp(safe, BringUpConfig(**SETTINGS | settings), tmp_path, announced.append)
    checks = list(bring_up.checks())
    json.dumps([check.to_json() for check in checks])
    return {check.name: check for check in checks} | {"announced": Check("", "", "\n".join(announced))}


@pytest.mark.parametrize("space", SPACES)
def test_a_robot_without_faults_passes(space: str, tmp_path: Any) -> None:
    checks = checks_of(tmp_path, SPACES[space])
    outcomes = {name: check.outcome for name, check in checks.items() if name != "announced"}
    assert outcomes.pop("wrist") in (PASS, SKIP)
    assert set(outcomes.values()) == {PASS}, checks
    axes = [name for name in outcomes if name.startswith("axis")]
    assert len(axes) == {"joint_delta": 7, "joint_position": 7, "position": 6, "own_frame": 3}[space]
    assert checks["source joints"].figures["rate"] == pytest.approx(50, rel=0.05)
    if space == "position":
        assert "x: the end effector moves 2.0 cm forwards (+x), and back" in checks["announced"].text
    if space == "joint_delta":
        assert "joint1: the end effector moves 2." in checks["announced"].text
        assert "cm left (+y)" in checks["announced"].text


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
def test_an_axis_that_moves_otherwise_is_found(
    space: str, factor: float, outcome: str, text: str, tmp_path: Any
) -> None:
    checks = checks_of(tmp_path, SPACES[space], element(1, factor), exercise=0)
    name = "axis joint2" if space == "joint_delta" else "axis y"
    assert checks[name].outcome == outcome and text in checks[name].text, checks[name]
    others = {check.outcome for key, check in checks.items() if key.startswith("axis") and key != name}
    assert others == {PASS}


def test_exchanged_axes_are_found(tmp_path: Any) -> None:
    def exchange(action: np.ndarray) -> np.ndarray:
        changed = action.copy()
        changed[[1, 3]] = action[[3, 1]]
        return changed

    checks = checks_of(tmp_path, JOINTS, exchange, exercise=0)
    for name in ("axis joint2", "axis joint4"):
        assert checks[name].outcome == FAIL and "but others move" in checks[name].text


def test_an_arm_that_runs_away_is_stopped(tmp_path: Any) -> None:
    checks = checks_of(tmp_path, JOINTS, lambda action: (action + np.float32([0, 0, 0.5, 0, 0, 0, 0, 0])).clip(-1, 1))
    assert checks["rest"].outcome == FAIL and "drift" in checks["rest"].text
    assert checks["axes, exercise"].outcome == SKIP and not any(name.startswith("axis") for name in checks)

    checks = checks_of(tmp_path, JOINTS, lambda action: (8 * action).clip(-1, 1), joint_motion=0.1, seconds=4.0)
    assert checks["axes"].outcome == FAIL and "joint joint1 moved by 0.2" in checks["axes"].text
    assert checks["exercise"].outcome == SKIP


def test_loads_and_ages_and_missing_robots_are_named(tmp_path: Any) -> None:
    checks = checks_of(tmp_path, JOINTS, load=60.0, age=0.5, exercise=0)
    assert checks["wrist"].outcome == WARN and "robot.tare.seconds" in checks["wrist"].text
    assert checks["source joints"].outcome == FAIL and "ms old (100 ms are allowed)" in checks["source joints"].text
    checks = checks_of(tmp_path, JOINTS, problem="nobody publishes joint_states")
    assert checks["connection"] == Check("connection", FAIL, "nobody publishes joint_states")
    assert checks["motion"].outcome == SKIP


def test_a_picture_of_each_camera_is_kept(tmp_path: Any) -> None:
    cameras = ObservationConfig(cameras=("front",), height=32, width=48)
    checks = checks_of(tmp_path / "pictures", JOINTS, exercise=0, observation=cameras)
    assert checks["picture front"].outcome == PASS and "48 x 32 pixels" in checks["picture front"].text
    picture = cv2.imread(str(tmp_path / "pictures" / "front.png"))
    assert picture is not None and picture.shape == (32, 48, 3)


@pytest.mark.parametrize(
    ("name", "value"), [("listen", 0.0), ("joint_motion", 1.0), ("exercise", -1.0), ("resets", 0), ("seed", -1)]
)
def test_options_have_bounds(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=name):
        BringUpConfig(**SETTINGS | {name: value})
