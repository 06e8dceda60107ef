"""What a person beside a robot sees and says: in whose frame, in whose time."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robo_rl.actor import ActionChoice, Actor
from robo_rl.core import (
    ArraySpec,
    ConfigError,
    EnvBackend,
    EnvSpec,
    Intervention,
    ManualClock,
    RelativeBackend,
    RenderingError,
    Source,
)
from robo_rl.drivers.teleop import TeleopConfig
from robo_rl.drivers.teleop.keys import KeyMotion
from robo_rl.operators.panel import ActionFrame, Panel
from robo_rl.operators.takeover import Takeover
from robo_rl.recording.teleoperation import HumanChooser
from robo_rl.sim import make_backend
from robo_rl.sim.config import ControllerConfig

from ..rigs.specs import steered_spec

AXES = ("x", "y", "z", "roll", "pitch", "yaw")


class Keys:
    """A person who holds keys, and sees a screen."""

    in_base_frame = True

    def __init__(self, spec: EnvSpec, *keys: str) -> None:
        self._motion = KeyMotion(spec, TeleopConfig(), ManualClock())
        for key in keys:
            self._motion.hold(key)
        self.shown: list[tuple[bool, list[str]]] = []

    def read(self) -> Intervention:
        return self._motion.intervention()

    def reset(self, closed: bool = False) -> None: ...

    def show(self, picture: np.ndarray | None, lines: list[str]) -> None:
        self.shown.append((picture is not None, lines))

    def close(self) -> None: ...


@pytest.mark.parametrize("records", [False, True], ids=["takes over", "records"])
@pytest.mark.parametrize(
    ("frame", "key", "axis", "direction"),
    [
        *((frame, *key) for frame in ("base", "end_effector") for key in (("e", 2, 1), ("w", 0, 1), ("d", 1, -1))),
        ("relative", "d", 1, -1),
    ],
)
def test_a_person_drives_in_the_base_frame(frame: str, key: str, axis: int, direction: int, records: bool) -> None:
    """Up is up, whatever the frame of the policy's actions: that of a hand that points down, for one."""
    action_frame = "base" if frame == "base" else "end_effector"
    measured = make_backend("reach", controller=ControllerConfig(action_axes="xyz", action_frame=action_frame))
    backend: EnvBackend = RelativeBackend(measured) if frame == "relative" else measured
    panel = Panel(backend, Keys(backend.spec, key), clock=ManualClock())
    panel.look()
    policy = ActionChoice(np.zeros(3, np.float32), Source.POLICY)
    takeover, recording = Takeover(panel), HumanChooser(panel, 1, str)
    actor = Actor(backend, seed=0)
    actor.begin_episode()
    start = measured.arm.position(measured.data)
    steps = [actor.take_step(recording if records else lambda seen: takeover(seen, policy)) for _ in range(4)]
    moved = measured.arm.position(measured.data) - start
    assert {step.source for step in steps} == {Source.HUMAN}
    assert moved[axis] * direction > 0.05 and np.abs(np.delete(moved, axis)).max() < 0.01
    backend.close()


@pytest.mark.parametrize("names", [(*AXES, "gripper"), ("z", "x", "yaw")])
def test_actions_are_turned_into_the_frame_of_the_end_effector(names: tuple[str, ...]) -> None:
    elements = tuple(f"end_effector_r{row}{column}" for column in (1, 2) for row in (1, 2, 3))
    spec = steered_spec(names, action_frame="end_effector", observation={"state": ArraySpec((6,), names=elements)})
    frame, rng = ActionFrame(spec), np.random.default_rng(0)
    rotation = Rotation.from_rotvec([0.3, -1.0, 2.5]).as_matrix()
    observation = {"state": rotation[:, :2].T.ravel().astype(np.float32)}
    for action in rng.uniform(-1, 1, (20, len(names))).astype(np.float32):
        wanted = np.array([action[names.index(name)] if name in names else 0.0 for name in AXES])
        local = np.concatenate([rotation.T @ wanted[:3], rotation.T @ wanted[3:]])
        local[[name not in names for name in AXES]] = 0.0
        for part in (local[:3], local[3:]):  # what is too fast is shortened without a change of direction
            part /= max(1.0, np.abs(part).max())
        expected = [local[AXES.index(name)] if name in AXES else action[-1] for name in names]
        np.testing.assert_allclose(frame(observation, action), expected, atol=1e-6)


def test_a_person_is_refused_where_the_end_effectors_orientation_is_not_observed() -> None:
    spec = steered_spec(("x", "y", "z"), action_frame="end_effector")
    backend: Any = SimpleNamespace(spec=spec, clock=ManualClock())
    with pytest.raises(ConfigError, match=r"'test' are in the end effector's.* task\.controller\.action_frame=base"):
        Panel(backend, Keys(spec))
    leader = Keys(spec)
    leader.in_base_frame = False  # its actions are in the end effector's frame already
    Panel(backend, leader)
    Panel(backend, None)


class RobotClock:
    """A robot's: it goes on by itself, here by hand."""

    def __init__(self) -> None:
        self.now = 0

    def now_ns(self) -> int:
        return self.now

    def sleep_until_ns(self, deadline_ns: int) -> None:
        self.now = max(self.now, deadline_ns)


def test_a_robot_alone_keeps_its_time() -> None:
    """What holds up one command holds up none after it, and a robot may be faster than its task says."""
    clock, spec = RobotClock(), steered_spec(("x", "y", "z"))
    holdups = iter([1, 45, 1, 1, 1])

    class Slow(Keys):
        def read(self) -> Intervention:
            clock.now += next(holdups) * 1_000_000
            return super().read()

    backend: Any = SimpleNamespace(spec=spec, clock=clock, render=lambda: np.zeros((2, 2, 3), np.uint8))
    panel = Panel(backend, Slow(spec, "e"), clock=clock)
    takeover, delays = Takeover(panel), []
    for number in range(1, 5):
        observed = clock.now
        takeover({}, ActionChoice(np.zeros(3, np.float32), Source.POLICY))
        delays.append((clock.now - observed) // 1_000_000)
        clock.sleep_until_ns(number * 50_000_000)  # the backend's control period, twice as fast as the task's
    assert delays == [1, 45, 1, 1]
    panel.begin()
    takeover.wait("paused")
    assert clock.now == 200_000_000 + 100_000_000 + 1_000_000, "where nothing is stepped the panel waits"


@pytest.mark.parametrize(("clock", "appears"), [(RobotClock(), True), (ManualClock(), False)])
def test_a_robots_picture_appears_as_soon_as_there_is_one(clock: Any, appears: bool) -> None:
    """Whereas a simulator that cannot render never will, and each attempt would take its time."""
    problems = ["no picture yet", "/camera is 0.50 s old", "", "/camera is 0.60 s old", ""]
    left = list(problems)

    def render() -> np.ndarray:
        if problem := left.pop(0):
            raise RenderingError(problem)
        return np.zeros((2, 2, 3), np.uint8)

    backend: Any = SimpleNamespace(spec=steered_spec(("x",)), clock=clock, render=render)
    device = Keys(backend.spec)
    panel = Panel(backend, device, clock=ManualClock())
    for _ in problems:
        panel.turn("state", facts={})
    if appears:
        assert device.shown == [(not problem, ["state", *filter(None, [problem])]) for problem in problems]
    else:
        assert device.shown == [(False, ["state", "no picture yet"])] * 5 and len(left) == 4


def test_an_emergency_stop_that_does_not_reach_others_stays_on_the_screen() -> None:
    backend: Any = SimpleNamespace(spec=steered_spec(("x",)), clock=RobotClock(), render=lambda: None)
    device = Keys(backend.spec, "x")
    panel = Panel(backend, device, None, lambda: "/stop CANNOT BE WRITTEN", ManualClock())
    for _ in range(3):
        panel.turn("state", facts={})
    assert [lines[1:] for _, lines in device.shown] == [[], ["/stop CANNOT BE WRITTEN"], ["/stop CANNOT BE WRITTEN"]]
