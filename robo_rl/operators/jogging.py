"""Slow motion of an arm along single axes, for checks of a robot."""

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import cv2
import mujoco
import numpy as np
from numpy.typing import NDArray

from ..core import EnvBackend, Observation, RobotDescription, SafetyStop, Step, shortest
from ..safety.actions import ActionMap, EndEffectorActions, JointPositionActions, make_action_map
from ..safety.kinematics import Kinematics
from ..safety.motion import ArmReader
from .checks import BringUpConfig

Array = NDArray[np.float64]
Action = NDArray[np.float32]

SLIDE = int(mujoco.mjtJoint.mjJNT_SLIDE)
SETTLE_SECONDS = 0.5
"""Time for which an axis holds before its position is read [s]."""
SHORT = 0.002
"""Motion of the end effector that is hardly visible [m]."""
DIRECTIONS = (("forwards (+x)", "backwards (-x)"), ("left (+y)", "right (-y)"), ("up (+z)", "down (-z)"))
"""Directions in the base frame, as in REP 103."""
SIDES = ("the front", "the left", "above")
"""Sides of the arm at which the axes of the base frame point."""


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


def pose_motion(start: ArmState, end: ArmState) -> Array:
    """Return the motion of the end effector (6): translation [m], rotation vector [rad], in the base frame."""
    vector, _ = cv2.Rodrigues(end.rotation @ start.rotation.T)
    return np.concatenate([end.position - start.position, vector.ravel()])


def is_translation(actions: ActionMap, robot: RobotDescription, number: int) -> bool:
    """Return whether an axis of actions moves a slide, or the end effector along an axis."""
    if isinstance(actions, EndEffectorActions):
        return actions.scales[number][0] < 3
    return int(robot.model.joint(robot.joints[number]).type[0]) == SLIDE


@dataclass(frozen=True)
class Jog:
    """The motion of an axis that is to be checked.

    Attributes:
        number: index of the axis among the elements of an action.
        size: signed motion [rad or m].
        unit: ``rad`` or ``m``.
        motion: expected motion of the joints (n,) [rad or m] if actions move joints, otherwise of the end effector (6)
            [m, rad], in the base frame.
    """

    number: int
    size: float
    unit: str
    motion: Array


class Jogger:
    """An arm that moves along one axis of its actions at a time.

    Args:
        backend: robot with safety filters around it, whose observations are those of its driver.
        robot: description of the robot.
        settings: options.

    Attributes:
        robot: as above.
        spec: spec of the robot.
        actions: map between actions and motion.
        reader: reads the arm's part of observations.
        rate: actions per second of the robot's time [Hz].
        reasons: number of actions that safety filters have changed, by reason.
    """

    def __init__(self, backend: EnvBackend, robot: RobotDescription, settings: BringUpConfig) -> None:
        self._backend, self.robot, self._settings, self.spec = backend, robot, settings, backend.spec
        self._kinematics, self.reader = Kinematics(robot), ArmReader(self.spec, robot)
        self.actions: ActionMap = make_action_map(self.spec, robot, self._kinematics, self.reader)
        self.rate = self.spec.control_rate
        self.reasons: Counter[str] = Counter()
        self._resets = 0
        self._last: Step | None = None

    def begin(self) -> Step:
        """Begin an episode, each with a seed of its own.

        Raises:
            SafetyStop: if the reset fails.
        """
        self._last = self._backend.reset(self._settings.seed + self._resets)
        self._resets += 1
        return self._last

    def step(self, action: Action, start: ArmState) -> Step:
        """Execute an action.

        Raises:
            SafetyStop: if the arm is much further away from ``start`` than any axis moves, or the episode ends.
        """
        self._last = step = self._backend.step(action)
        verdict = step.verdict
        if verdict is not None and verdict.changed:
            self.reasons.update(set(verdict.reasons))
        if step.ended:
            stopped = verdict is not None and verdict.stop
            raise SafetyStop("setup", verdict.message if verdict is not None and stopped else "the episode has ended")
        self._check_reach(start)
        return step

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

    def joint_motion(self, start: ArmState, end: ArmState) -> Array:
        """Return the motion of the joints (n,) from one state to another [rad or m]."""
        return shortest(end.joints - start.joints, self.robot.endless)

    def jog(self, number: int) -> Jog:
        """Return the motion of an axis from where the arm is, in the direction with more room."""
        start, size = self.state(), self.size(number)
        unit = "m" if is_translation(self.actions, self.robot, number) else "rad"
        if self.actions.moves_joints:
            room = self.robot.position_upper[number] - start.joints[number]
            size = size if room > start.joints[number] - self.robot.position_lower[number] or room > 4 * size else -size
            return Jog(number, size, unit, size * np.eye(self.actions.joint_count)[number])
        assert isinstance(self.actions, EndEffectorActions)
        axis, _ = self.actions.scales[number]
        motion = np.eye(6)[axis]
        if self.actions.own_frame:
            motion = np.concatenate([start.rotation @ motion[:3], start.rotation @ motion[3:]])
        ends = [start.position + sign * size * motion[:3] for sign in (1, -1)]
        rooms = [np.minimum(end - self.robot.workspace_low, self.robot.workspace_high - end).min() for end in ends]
        size = size if rooms[0] > 0.01 or rooms[0] >= rooms[1] else -size
        return Jog(number, size, unit, size * motion)

    def size(self, number: int) -> float:
        """Return the length of the motion of an axis [rad or m]."""
        return (
            self._settings.translation
            if is_translation(self.actions, self.robot, number)
            else self._settings.joint_motion
        )

    def describe(self, jog: Jog) -> str:
        """Return a text about the motion of the end effector."""
        start, motion = self.state(), jog.motion
        if self.actions.moves_joints:
            ends = [self._kinematics.pose(joints) for joints in (start.joints, start.joints + jog.motion)]
            states = [ArmState(start.joints, np.array(place), np.reshape(turn, (3, 3))) for place, turn in ends]
            motion = pose_motion(*states)
        axis = int(np.abs(motion[:3]).argmax())
        if abs(motion[axis]) >= SHORT:
            return f"the end effector moves {100 * abs(motion[axis]):.1f} cm {DIRECTIONS[axis][int(motion[axis] < 0)]}"
        turn = motion[3:]
        axis = int(np.abs(turn).argmax())
        way = "counterclockwise" if turn[axis] > 0 else "clockwise"
        return f"the end effector turns {math.degrees(np.linalg.norm(turn)):.0f} degrees {way}, seen from {SIDES[axis]}"

    def move(self, jog: Jog, start: ArmState, back: bool = False) -> None:
        """Move an axis smoothly away from ``start``, or ``back``; then hold it. The motion is not corrected on the way.

        Raises:
            SafetyStop: as :meth:`step`.
        """
        absolute = isinstance(self.actions, JointPositionActions)
        fastest = math.inf if absolute else 0.5 * self._scales[jog.number]
        shortest_time = math.ceil(math.pi / 2 * abs(jog.size) / fastest)
        count = max(round(self._settings.seconds * self.rate), shortest_time, 2)
        share = 0.5 - 0.5 * np.cos(math.pi * np.arange(count + 1) / count)
        offsets = jog.size * (1 - share if back else share)
        settled = [offsets[-1]] * max(round(SETTLE_SECONDS * self.rate), 1)
        axis = np.eye(self.actions.moves.stop)[jog.number]
        for before, after in pairwise([*offsets, *settled]):
            change = (after - before) * axis
            self.step(self.towards(after * axis, start) if absolute else self._by(change), start)

    def towards(self, offset: Array, start: ArmState) -> Action:
        """Return the action that moves the axes (k,) to ``offset`` [rad or m] from ``start``, from where they are."""
        actions, state = self.actions, self.state()
        if actions.moves_joints:
            change = offset - self.joint_motion(start, state)
            if isinstance(actions, JointPositionActions):
                return actions.with_joints(self.observation, self.still(), change)
            return self._by(change)
        assert isinstance(actions, EndEffectorActions)
        frame = start.rotation if actions.own_frame else np.eye(3)
        target = np.zeros(6)
        for (axis, _), part in zip(actions.scales, offset, strict=True):
            target[axis] = part
        turn, _ = cv2.Rodrigues(frame @ target[3:])
        goal = ArmState(start.joints, start.position + frame @ target[:3], turn @ start.rotation)
        motion, frame = pose_motion(state, goal), state.rotation if actions.own_frame else np.eye(3)
        motion = np.concatenate([frame.T @ motion[:3], frame.T @ motion[3:]])
        return self._by(np.array([motion[axis] for axis, _ in actions.scales]))

    def still(self) -> Action:
        """Return an action of zeros, with the gripper as it is, or open if its opening is not observed."""
        still = np.zeros(self.spec.action.shape, np.float32)
        if self.actions.has_gripper:
            still[-1] = -1.0
        return self.actions.with_measured_gripper(self.observation, still)

    def _by(self, change: Array) -> Action:
        """Return the action that moves the axes (k,) by ``change`` in one control period [rad or m]."""
        return self.actions.with_elements(self.still(), (change / self._scales).tolist())

    @property
    def _scales(self) -> list[float]:
        """Motions of the axes (k) by one unit of their elements [rad or m]."""
        if isinstance(self.actions, EndEffectorActions):
            return [scale for _, scale in self.actions.scales]
        return [self.robot.joint_delta] * self.actions.joint_count

    def _check_reach(self, start: ArmState) -> None:
        """Stop the robot if it is much further away from ``start`` than any axis moves."""
        state, settings = self.state(), self._settings
        distance, furthest = float(np.linalg.norm(state.position - start.position)), 2 * settings.translation + 0.03
        moved = np.abs(self.joint_motion(start, state))
        most = [2 * self.size(number) + 0.05 for number in range(len(moved))] if self.actions.moves_joints else [0.5]
        text = ""
        if (moved > most).any():
            number = int((moved - most).argmax())
            text = f"joint {self.robot.joints[number]} moved by {moved[number]:.2f}, far more than was commanded"
        elif not self.actions.moves_joints and distance > furthest:
            text = f"the end effector moved by {distance:.2f} m, far more than was commanded"
        if text:
            self._backend.stop(text)
            raise SafetyStop("setup", text)
