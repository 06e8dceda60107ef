"""Slow motion of an arm along single axes, for checks of a robot."""

import math
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from ..core import EnvBackend, Observation, RobotDescription, SafetyStop, Step
from ..safety.actions import ActionMap, EndEffectorActions, JointPositionActions, make_action_map
from ..safety.kinematics import Kinematics
from ..safety.motion import ArmReader
from .checks import BringUpConfig

Array = NDArray[np.float64]
Action = NDArray[np.float32]

SETTLE_SECONDS = 0.5
"""Time for which an axis holds before its position is read [s]."""
SHORT = 0.002
"""Motion of the end effector that a person hardly sees [m]."""
DIRECTIONS = (("forwards (+x)", "backwards (-x)"), ("left (+y)", "right (-y)"), ("up (+z)", "down (-z)"))
"""Directions in the base frame, as in REP 103."""


@dataclass(frozen=True)
class ArmState:
    """Measured state of an arm.

    Attributes:
        joints: joint positions (n,) [rad or m].
        position: position of the end effector (3,) in the base frame [m].
        rotation: its rotation matrix (3, 3).
    """

    joints: Array
    position: Array
    rotation: Array

    def motion_to(self, end: "ArmState") -> Array:
        """Return the motion of the end effector (6): translation [m], rotation vector [rad], in the base frame."""
        vector, _ = cv2.Rodrigues(end.rotation @ self.rotation.T)
        return np.concatenate([end.position - self.position, vector.ravel()])


class Jogger:
    """An arm that moves along one axis of its actions at a time.

    Args:
        backend: robot with safety filters around it.
        robot: description of the robot.
        settings: options.

    Attributes:
        robot: as above.
        spec: spec of the robot.
        actions: map between actions and motion.
        reader: reads the arm's part of observations.
        rate: actions per second [Hz].
        resets: number of episodes that have begun, each with a seed of its own.
    """

    def __init__(self, backend: EnvBackend, robot: RobotDescription, settings: BringUpConfig) -> None:
        self._backend, self.robot, self._settings, self.spec = backend, robot, settings, backend.spec
        self._kinematics, self.reader = Kinematics(robot), ArmReader(self.spec, robot)
        self.actions: ActionMap = make_action_map(self.spec, robot, self._kinematics, self.reader)
        self.rate = self.spec.control_rate
        self.resets = 0
        self._last: Step | None = None

    def begin(self) -> Step:
        """Begin an episode."""
        self._last = self._backend.reset(self._settings.seed + self.resets)
        self.resets += 1
        return self._last

    def step(self, action: Action) -> Step:
        """Execute an action.

        Raises:
            SafetyStop: if a safety filter stops the robot.
        """
        self._last = self._backend.step(action)
        if self._last.ended and self._last.verdict is not None and self._last.verdict.stop:
            raise SafetyStop("stopped", self._last.verdict.message)
        return self._last

    @property
    def observation(self) -> Observation:
        """The newest observation."""
        assert self._last is not None
        return self._last.observation

    def state(self) -> ArmState:
        """Return the newest measured state."""
        observation, reader = self.observation, self.reader
        return ArmState(
            reader.joint_positions(observation).copy(), reader.position(observation), reader.rotation(observation)
        )

    def still(self) -> Action:
        """Return an action of zeros, with the gripper as it is. It holds still unless actions are joint positions."""
        still = np.zeros(self.spec.action.shape, np.float32)
        return self.actions.with_measured_gripper(self.observation, still)

    def motion(self, number: int) -> tuple[Array, float, str]:
        """Return the motion of an axis, its size and the unit of the size.

        The motion is that of the joints (n,) [rad or m] if actions move joints, otherwise that of the end effector (6)
        [m, rad] in the base frame.
        """
        settings, actions = self._settings, self.actions
        if actions.moves_joints:
            motion = np.zeros(actions.joint_count)
            motion[number] = settings.joint_motion
            return motion, settings.joint_motion, "rad"
        assert isinstance(actions, EndEffectorActions)
        axis, _ = actions.scales[number]
        size, unit = (settings.translation, "m") if axis < 3 else (settings.joint_motion, "rad")
        motion = np.zeros(6)
        motion[axis] = size
        if actions.own_frame:
            rotation = self.reader.rotation(self.observation)
            motion = np.concatenate([rotation @ motion[:3], rotation @ motion[3:]])
        return motion, size, unit

    def describe(self, expected: Array, start: ArmState) -> str:
        """Return a text about the motion of the end effector, for the result of :meth:`motion`."""
        shift, turn = expected[:3], float(np.linalg.norm(expected))
        if self.actions.moves_joints:
            ends = [self._kinematics.pose(joints)[0] for joints in (start.joints, start.joints + expected)]
            shift = np.subtract(ends[1], ends[0])
        axis = int(np.abs(shift).argmax())
        if abs(shift[axis]) < SHORT:
            return f"the end effector turns by {math.degrees(turn):.0f} degrees"
        return f"the end effector moves {100 * abs(shift[axis]):.1f} cm {DIRECTIONS[axis][int(shift[axis] < 0)]}"

    def move(self, number: int, size: float, start: ArmState) -> None:
        """Move an axis smoothly by ``size``, away from ``start`` or, if it is negative, back; then hold it.

        Raises:
            SafetyStop: if a joint moves much further than that, or a safety filter stops the robot.
        """
        fastest = math.inf if isinstance(self.actions, JointPositionActions) else 0.5 * self._scale(number)
        count = max(round(self._settings.seconds * self.rate), math.ceil(math.pi / 2 * abs(size) / fastest), 2)
        share = 0.5 - 0.5 * np.cos(math.pi * np.arange(count + 1) / count)
        unit = np.eye(self.actions.moves.stop)[number]
        ends = (0.0, size) if size > 0 else (-size, 0.0)
        offsets = ends[0] + (ends[1] - ends[0]) * share
        settled = [offsets[-1]] * round(SETTLE_SECONDS * self.rate)
        for before, after in pairwise([*offsets, *settled]):
            self.step(self.action(after * unit, (after - before) * unit, start))
            self._check_reach(start)

    def _scale(self, number: int) -> float:
        """Return the motion of an axis by one unit of its element [rad or m]."""
        if isinstance(self.actions, EndEffectorActions):
            return self.actions.scales[number][1]
        return self.robot.joint_delta

    def action(self, offset: Array, change: Array, start: ArmState) -> Action:
        """Return the action that takes the axes (k,) to ``offset`` from ``start``, by ``change`` in this period."""
        actions, template = self.actions, self.still()
        if isinstance(actions, JointPositionActions):
            measured = self.reader.joint_positions(self.observation)
            return actions.with_joints(self.observation, template, start.joints + offset - measured)
        scales = [self._scale(number) for number in range(len(change))]
        return actions.with_elements(template, (change / scales).tolist())

    def _check_reach(self, start: ArmState) -> None:
        """Stop the robot if a joint is much further away than its axis was commanded to go."""
        moved = np.abs(self.state().joints - start.joints)
        most = 2 * self._settings.joint_motion + 0.05 if self.actions.moves_joints else 0.5
        if moved.max() > most:
            name = self.robot.joints[int(moved.argmax())]
            text = f"joint {name} moved by {moved.max():.2f} rad, at most {most:.2f} were expected"
            self._backend.stop(text)
            raise SafetyStop("setup_motion", text)
