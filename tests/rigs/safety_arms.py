"""A fake backend and helpers that the tests of safety share."""

from dataclasses import replace
from typing import Any

import numpy as np

from robo_rl.core import ArraySpec, EnvBackend, EnvSpec, ManualClock, RobotDescription, Step
from robo_rl.safety.actions import EndEffectorActions, JointActions, make_action_map
from robo_rl.safety.kinematics import Kinematics
from robo_rl.safety.motion import ArmReader
from robo_rl.sim import make_backend
from robo_rl.sim.config import ArmConfig, ControllerConfig

PANDA_ACCELERATION = (15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0)
PANDA_JERK = (7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0)


def arm(space: str = "end_effector_delta", axes: str = "xyz+gripper", task: str = "reach", **controller: Any):
    """A simulated arm without noise at home."""
    return make_backend(
        task,
        arm=ArmConfig(home_noise=0.0),
        controller=ControllerConfig(action_space=space, action_axes=axes, **controller),
    )


def parts(
    backend: EnvBackend, **limits: Any
) -> tuple[RobotDescription, Kinematics, ArmReader, JointActions | EndEffectorActions]:
    """The objects that filters are made of; ``limits`` replace those of the robot."""
    assert backend.robot is not None
    robot = replace(backend.robot, **limits)
    reader, kinematics = ArmReader(backend.spec, robot), Kinematics(robot)
    return robot, kinematics, reader, make_action_map(backend.spec, robot, kinematics, reader)


SPEC = EnvSpec(
    task="toy",
    observation={"state": ArraySpec((2,), names=("x", "v"), high=100.0), "images/a": ArraySpec((2, 2, 3), "uint8")},
    action=ArraySpec((1,), low=-1, high=1),
    action_space="toy",
    action_frame="toy",
    control_rate=10.0,
    max_episode_steps=50,
    reward_terms=("success",),
)


def steps(count: int, **changes: Step) -> list[Step]:
    """Steps 0.1 s apart with different pictures; ``changes`` replace them by number: ``n3=...``."""
    made = [
        Step(
            {"state": np.full(2, number, np.float32), "images/a": np.full((2, 2, 3), number, np.uint8)},
            {"success": 0.0},
            terminated=False,
            truncated=False,
            stamp_ns=number * 100_000_000,
        )
        for number in range(count)
    ]
    for name, step in changes.items():
        made[int(name[1:])] = step
    return made


def with_state(step: Step, state: np.ndarray) -> Step:
    return replace(step, observation=step.observation | {"state": state})


ACTION = np.array([0.5], np.float32)


class ScriptedBackend:
    """Returns given steps, one after another, and writes down what it is told."""

    def __init__(self, spec: EnvSpec, steps: list[Step], delays_ns: dict[int, int] | None = None) -> None:
        self.spec = spec
        self.robot = None
        self.clock = ManualClock()
        self._steps = steps
        self._delays_ns = delays_ns or {}
        self.actions: list[np.ndarray] = []
        self.stops: list[str] = []

    def reset(self, seed: int | None = None) -> Step:
        return self._give(0)

    def step(self, action: np.ndarray) -> Step:
        self.actions.append(action)
        return self._give(len(self.actions))

    def stop(self, reason: str) -> None:
        self.stops.append(reason)

    def close(self) -> None: ...

    def _give(self, number: int) -> Step:
        step = self._steps[number]
        self.clock.restart()
        self.clock.sleep_until_ns(step.stamp_ns)
        self.clock.advance_ns(self._delays_ns.get(number, 0))
        return step
