"""Maps between actions and motion of an arm, one per action space."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from robo_rl.core import ConfigError, EnvSpec, Observation, RobotDescription, shortest

from .kinematics import Kinematics
from .motion import Action, ArmReader, Array, Motion

AXES = ("x", "y", "z", "roll", "pitch", "yaw")


class ActionMap(ABC):
    """Maps actions (A,) in [-1, 1] to motion of an arm, and back.

    The gripper's element, if there is one, is the last; motion never changes it. *Controls* (k,) are the numbers in
    which stops are planned: joint velocities [rad/s] if elements are joints, otherwise the arm's elements themselves.

    Args:
        spec: action space, frame, names and scales.
        robot: joints and their ranges.
        kinematics: map between joints and end effector.
        reader: reads the arm's part of observations.

    Attributes:
        period: control period [s].
        joint_count: number of joints.
        has_gripper: whether an action has an element for the gripper.
        moves: slice of the arm's elements of an action.
        moves_joints: whether these elements are joints.
        own_frame: whether these elements are axes of the end effector's own frame.
    """

    moves_joints: ClassVar[bool] = False
    own_frame = False

    def __init__(self, spec: EnvSpec, robot: RobotDescription, kinematics: Kinematics, reader: ArmReader) -> None:
        self.period = 1.0 / spec.control_rate
        self.joint_count = len(robot.joints)
        self._kinematics = kinematics
        self._reader = reader
        self._key = (b"", b"")
        self._motion = Motion(kinematics, np.zeros(0))
        names = spec.action.names
        self.has_gripper = bool(names) and names[-1] == "gripper"
        size = spec.action.shape[0]
        self.moves = slice(0, size - 1 if self.has_gripper else size)

    @property
    def resolution(self) -> Array:
        """Largest rounding error of a joint motion (n,), if the elements of actions are joints [rad]."""
        return np.zeros(self.joint_count)

    @property
    def top_velocity(self) -> Array:
        """Largest joint velocity (n,) that actions can command if they are joint deltas [rad/s]; otherwise infinite."""
        return np.full(self.joint_count, np.inf)

    def motion(self, observation: Observation, action: Action) -> Motion:
        """Return the motion that ``action`` commands. A repeated call returns the same object."""
        key = observation["state"].tobytes(), action.tobytes()
        if key != self._key:
            self._motion, self._key = self._motion_of(observation, action), key
        return self._motion

    @abstractmethod
    def _motion_of(self, observation: Observation, action: Action) -> Motion: ...

    @abstractmethod
    def linear(self, observation: Observation, action: Action) -> tuple[Array, Array]:
        """Return ``matrix`` (n, k) and ``offset`` (n,) of the joint motion near that of ``action`` [rad].

        The joint motion is ``matrix @ elements + offset``, where ``elements`` (k,) are the arm's part of an action. It
        ignores what the robot's own controller cuts off.
        """

    @abstractmethod
    def controls(self, observation: Observation, action: Action) -> Array:
        """Return the controls (k,) that ``action`` commands."""

    @abstractmethod
    def with_controls(self, observation: Observation, action: Action, controls: Array) -> Action:
        """Return ``action`` with other ``controls`` (k,)."""

    def with_elements(self, action: Action, values: Iterable[float]) -> Action:
        """Return ``action`` with other elements for the arm. The gripper's element is kept."""
        # Plain numbers are faster than arrays for so few. NaN stays NaN.
        limited = [-1.0 if value < -1.0 else 1.0 if value > 1.0 else value for value in values]
        changed = action.copy()
        changed[self.moves] = limited
        return changed

    def scaled(self, observation: Observation, action: Action, factor: float) -> Action:
        """Return ``action`` with the arm's motion times ``factor``; 0 holds still."""
        return self.with_elements(action, [factor * value for value in action[self.moves].tolist()])

    def slowed(self, observation: Observation, action: Action, factor: float) -> Action:
        """Return ``action`` with at most ``factor`` of the arm's motion, even beside a wall."""
        return self.scaled(observation, action, factor)

    def hold(self, observation: Observation, action: Action) -> Action:
        """Return the action that holds still, with the gripper as in ``action``."""
        return self.with_elements(action, [0.0] * self.moves.stop)

    def with_measured_gripper(self, observation: Observation, action: Action) -> Action:
        """Return ``action`` with the gripper's command at its measured opening, if the opening is observed."""
        opening = self._reader.opening(observation)
        if not self.has_gripper or opening is None:
            return action
        changed = action.copy()
        changed[-1] = min(max(1 - 2 * opening, -1.0), 1.0)
        return changed


class JointActions(ActionMap):
    """Actions whose elements are joints. Arguments as for :class:`ActionMap`.

    Attributes:
        scales: joint motion (n,) by one unit of each element [rad].
    """

    moves_joints = True
    scales: Array

    @property
    def resolution(self) -> Array:
        return np.ldexp(self.scales, -25)

    def linear(self, observation: Observation, action: Action) -> tuple[Array, Array]:
        change = self.scales * action[self.moves].astype(np.float64)
        return np.diag(self.scales), self.motion(observation, action).joints - change

    def controls(self, observation: Observation, action: Action) -> Array:
        return self.motion(observation, action).joints / self.period

    def with_controls(self, observation: Observation, action: Action, controls: Array) -> Action:
        return self.with_joints(observation, action, controls * self.period)

    @abstractmethod
    def with_joints(self, observation: Observation, action: Action, change: Array) -> Action:
        """Return ``action`` with joint motion ``change`` (n,) [rad]."""


class JointDeltaActions(JointActions):
    """The action space ``joint_delta``: elements are joint motion. Arguments as for :class:`ActionMap`."""

    def __init__(self, spec: EnvSpec, robot: RobotDescription, kinematics: Kinematics, reader: ArmReader) -> None:
        super().__init__(spec, robot, kinematics, reader)
        self._unit = float(robot.joint_delta)
        self.scales = np.full(self.joint_count, self._unit)

    @property
    def top_velocity(self) -> Array:
        return np.asarray(self.scales / self.period)

    def _motion_of(self, observation: Observation, action: Action) -> Motion:
        change = self.scales * action[self.moves].astype(np.float64)
        return Motion(self._kinematics, self._reader.joint_positions(observation), change)

    def with_joints(self, observation: Observation, action: Action, change: Array) -> Action:
        return self.with_elements(action, [part / self._unit for part in change.tolist()])


class JointPositionActions(JointActions):
    """The action space ``joint_position``: elements are joint positions. Arguments as for :class:`ActionMap`.

    A joint that is measured outside the range of commands is commanded as from the near end of that range: the same
    motion from where it is. Holding still and returning slowly could not be commanded otherwise.

    Attributes:
        lower: lowest commanded positions (n,) [rad].
        endless: which joints (n,) turn without end.
        nearest_low: lowest positions (n,) from which motion may be commanded; -inf for endless joints [rad].
        nearest_high: highest positions (n,) from which motion may be commanded; inf for endless joints [rad].
    """

    def __init__(self, spec: EnvSpec, robot: RobotDescription, kinematics: Kinematics, reader: ArmReader) -> None:
        super().__init__(spec, robot, kinematics, reader)
        self.lower = np.array(robot.command_lower)
        self.scales = (np.array(robot.command_upper) - self.lower) / 2
        self._ranges = list(zip(self.lower.tolist(), self.scales.tolist(), strict=True))
        self.endless = robot.endless
        self._turns = bool(robot.endless.any())
        self.nearest_low = np.where(robot.endless, -np.inf, self.lower)
        self.nearest_high = np.where(robot.endless, np.inf, robot.command_upper)

    def _motion_of(self, observation: Observation, action: Action) -> Motion:
        joints = self._reader.joint_positions(observation)
        values = action[self.moves].astype(np.float64)
        change = self._shortest(self.lower + self.scales * (values + 1) - self._origin(joints))
        return Motion(self._kinematics, joints, change)

    def _origin(self, joints: Array) -> Array:
        """Return the positions (n,) in the range of commands that are nearest to ``joints``."""
        return np.minimum(np.maximum(joints, self.nearest_low), self.nearest_high)

    def _shortest(self, difference: Array) -> Array:
        return shortest(difference, self.endless) if self._turns else difference

    def with_joints(self, observation: Observation, action: Action, change: Array) -> Action:
        # Endless joints are commanded in [-pi, pi), as they are observed.
        target = self._shortest(self._origin(self._reader.joint_positions(observation)) + change)
        pairs = zip(target.tolist(), self._ranges, strict=True)
        return self.with_elements(action, [(value - lower) / scale - 1 for value, (lower, scale) in pairs])

    def scaled(self, observation: Observation, action: Action, factor: float) -> Action:
        return self.with_joints(observation, action, factor * self.motion(observation, action).joints)

    def hold(self, observation: Observation, action: Action) -> Action:
        if not np.isfinite(self._reader.joint_positions(observation)).all():
            return np.full_like(action, np.nan)  # an infinite position would be commanded as the end of its range
        return self.with_joints(observation, action, np.zeros(self.joint_count))


class EndEffectorActions(ActionMap):
    """The action space ``end_effector_delta``: elements are axes of the end effector's motion.

    An end effector that is measured outside the controller's box moves no further out, and returns along each axis by
    no more than the action commands along that axis: what pushes outwards becomes motion back. Arguments as for
    :class:`ActionMap`.

    Attributes:
        directions: displacement of the end effector (6, k) by one unit of each element.
        scales: axis, an index of :data:`AXES`, of each element, and displacement along it by one unit [m or rad].
        controller_box: corners (3,) of the box at which the robot's own controller cuts actions off [m]; None if it
            does not.
    """

    def __init__(self, spec: EnvSpec, robot: RobotDescription, kinematics: Kinematics, reader: ArmReader) -> None:
        super().__init__(spec, robot, kinematics, reader)
        self.own_frame = spec.action_frame == "end_effector"
        self.controller_box = (
            (np.array(robot.workspace_low), np.array(robot.workspace_high))
            if robot.controller_holds_workspace
            else None
        )
        self._sides = list(zip(robot.workspace_low, robot.workspace_high, strict=True))
        axes = [AXES.index(name) for name in spec.action.names[self.moves]]
        translation, rotation = spec.extra.get("translation_scale", 1.0), spec.extra.get("rotation_scale", 1.0)
        self.scales = [(axis, float(translation if axis < 3 else rotation)) for axis in axes]
        self.directions = np.zeros((6, self.moves.stop))
        self._elements = [(-1, 0.0)] * 6  # of each axis: which element moves it, and its scale
        for element, (axis, scale) in enumerate(self.scales):
            self.directions[axis, element] = scale
            self._elements[axis] = element, scale

    def _motion_of(self, observation: Observation, action: Action) -> Motion:
        values = action.tolist()
        uncut = [scale * values[element] if scale else 0.0 for element, scale in self._elements]
        if self.own_frame:
            rotation = self._reader.rotation(observation)
            uncut = np.array(uncut).reshape(2, 3).dot(rotation.T).ravel().tolist()
        displacement = uncut if self.controller_box is None else self._cut_off(observation, uncut)
        return Motion(self._kinematics, self._reader.joint_positions(observation), None, displacement, uncut)

    def _cut_off(self, observation: Observation, displacement: list[float]) -> list[float]:
        """Return what the robot's own controller leaves of a ``displacement`` (6) at the sides of its box."""
        shift = displacement[:3]
        axes = zip(self._reader.coordinates(observation), shift, self._sides, strict=True)
        limited = [
            move if low <= coordinate + move <= high else _cut_off(low - coordinate, high - coordinate, move)
            for coordinate, move, (low, high) in axes
        ]
        return displacement if limited == shift else [*limited, *displacement[3:]]

    def linear(self, observation: Observation, action: Action) -> tuple[Array, Array]:
        joints = self._reader.joint_positions(observation)
        directions = self.directions
        if self.own_frame:
            rotation = self._reader.rotation(observation)
            directions = np.concatenate([rotation @ directions[:3], rotation @ directions[3:]])
        return self._kinematics.joint_motion(joints, directions), np.zeros(len(joints))

    def controls(self, observation: Observation, action: Action) -> Array:
        values = action[self.moves].astype(np.float64)
        motion = self.motion(observation, action)
        if motion.uncut is motion.displacement or self.own_frame:
            return values
        # A push further out of the box is what it becomes, so that a smaller one is nearer to a stop.
        for element, (axis, scale) in enumerate(self.scales):
            if motion.displacement[axis] * values[element] < 0:
                values[element] = motion.displacement[axis] / scale
        return values

    def with_controls(self, observation: Observation, action: Action, controls: Array) -> Action:
        return self.with_elements(action, controls.tolist())

    def with_displacement(self, action: Action, displacement: list[float]) -> Action:
        """Return ``action`` with a displacement (6). Only for actions whose elements are axes of the base frame."""
        return self.with_elements(action, [displacement[axis] / scale for axis, scale in self.scales])

    def slowed(self, observation: Observation, action: Action, factor: float) -> Action:
        """Return ``action`` with at most ``factor`` of the arm's motion, even beside a wall.

        If the robot's own controller cuts an action off at its workspace, a share of the action may still command the
        whole motion.
        """
        motion = self.motion(observation, action)
        displacement, uncut = motion.displacement, motion.uncut
        if uncut is displacement:
            return self.scaled(observation, action, factor)
        if not self.own_frame:
            return self.with_displacement(action, [factor * part for part in displacement])
        # The action keeps its direction. What is left of it is cut off as before, so it is no longer than this.
        cut_length, full_length = math.hypot(*displacement[:3]), math.hypot(*uncut[:3])
        return self.scaled(
            observation, action, factor * cut_length / full_length if cut_length < full_length else factor
        )


def _cut_off(low: float, high: float, move: float) -> float:
    """Return what is left of ``move`` if it should end between ``low`` and ``high``, and is no longer than before."""
    size = abs(move)
    return min(max(min(max(move, low), high), -size), size)


_MAPS: dict[str, type[JointDeltaActions] | type[JointPositionActions] | type[EndEffectorActions]] = {
    "joint_delta": JointDeltaActions,
    "joint_position": JointPositionActions,
    "end_effector_delta": EndEffectorActions,
}


def make_action_map(
    spec: EnvSpec, robot: RobotDescription, kinematics: Kinematics, reader: ArmReader
) -> JointActions | EndEffectorActions:
    """Return the map of an arm's action space; arguments as for :class:`ActionMap`.

    Raises:
        ConfigError: if the action space is not one of an arm.
    """
    if spec.action_space not in _MAPS:
        raise ConfigError(f"safety knows no action space {spec.action_space!r} of an arm; choose safety=none")
    return _MAPS[spec.action_space](spec, robot, kinematics, reader)
