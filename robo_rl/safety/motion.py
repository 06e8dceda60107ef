"""What an action asks the arm to do, and back."""

import math

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, EnvSpec, Observation, RobotDescription, shortest

from .kinematics import Kinematics

Array = NDArray[np.float64]
Action = NDArray[np.float32]

AXES = ("x", "y", "z", "roll", "pitch", "yaw")


class Motion:
    """What one action asks for in one control period. Nothing in it is to be written to.

    Either the joint motion or the displacement is given; the other is computed when it is asked for.

    Args:
        kinematics: between them.
        start: joint positions (n,) [rad].
        joints: joint motion (n,) [rad].
        displacement: as :attr:`displacement`.
        uncut: as :attr:`uncut`; None: as ``displacement``.
    """

    __slots__ = ("_displacement", "_joints", "_kinematics", "_start", "_uncut")

    def __init__(
        self,
        kinematics: Kinematics,
        start: Array,
        joints: Array | None = None,
        displacement: Array | None = None,
        uncut: Array | None = None,
    ) -> None:
        self._kinematics, self._start = kinematics, start
        self._joints, self._displacement, self._uncut = joints, displacement, uncut

    @property
    def joints(self) -> Array:
        """Joint motion (n,) [rad]."""
        if self._joints is None:
            self._joints = self._kinematics.joint_motion(self._start, self.displacement)
        return self._joints

    @property
    def displacement(self) -> Array:
        """Motion of the end effector (6,) in the base frame: translation [m], rotation vector [rad].

        What the robot's own controller cuts off at its workspace is not in it.
        """
        if self._displacement is None:
            assert self._joints is not None
            self._displacement = self._kinematics.jacobian(self._start).dot(self._joints)
        return self._displacement

    @property
    def uncut(self) -> Array:
        """The displacement (6,) with what is cut off; the same array where nothing is."""
        return self.displacement if self._uncut is None else self._uncut


class ArmReader:
    """Reads the arm's part of ``state`` by the names of its elements.

    Args:
        spec: names the elements.
        robot: names the joints.

    Raises:
        ConfigError: if an element is not observed.
    """

    def __init__(self, spec: EnvSpec, robot: RobotDescription) -> None:
        self._names = spec.observation["state"].names
        self._positions = self._find([f"{name}_position" for name in robot.joints])
        self._velocities = self._find([f"{name}_velocity" for name in robot.joints])
        self._position = self._find([f"end_effector_{axis}" for axis in "xyz"])
        self._columns = self._find([f"end_effector_r{row}{column}" for column in (1, 2) for row in (1, 2, 3)])
        self._force = self._find([f"wrist_force_{axis}" for axis in "xyz"])
        self._torque = self._find([f"wrist_torque_{axis}" for axis in "xyz"])
        self._opening = self._names.index("gripper_opening") if "gripper_opening" in self._names else None
        self._read = b""
        self._state: Array = np.zeros(0)
        self._rotation: Array | None = None

    def _find(self, names: list[str]) -> slice:
        for name in names:
            if name not in self._names:
                raise ConfigError(
                    f"safety needs the element {name!r} in the observation 'state', which has "
                    f"{', '.join(self._names)}; observe it, or choose safety=none"
                )
        first = self._names.index(names[0])
        if self._names[first : first + len(names)] != tuple(names):
            raise ConfigError(f"safety expects {', '.join(names)} to follow one another in the observation 'state'")
        return slice(first, first + len(names))

    def joint_positions(self, observation: Observation) -> Array:
        """Return (n,) [rad]."""
        return self._values(observation)[self._positions]

    def joint_velocities(self, observation: Observation) -> Array:
        """Return (n,) [rad/s]."""
        return self._values(observation)[self._velocities]

    def position(self, observation: Observation) -> Array:
        """Return the end effector's position (3,) in the base frame [m]."""
        return self._values(observation)[self._position]

    def rotation(self, observation: Observation) -> Array:
        """Return the end effector's rotation matrix (3, 3) in the base frame; not to be written to."""
        values = self._values(observation)
        if self._rotation is None:  # plain numbers: of three that is faster than arrays
            a, b, c, d, e, f = values[self._columns].tolist()
            third = b * f - c * e, c * d - a * f, a * e - b * d
            self._rotation = np.array([[a, d, third[0]], [b, e, third[1]], [c, f, third[2]]])
        return self._rotation

    def force(self, observation: Observation) -> float:
        """Return the magnitude of the contact force at the wrist [N]."""
        x, y, z = observation["state"][self._force].tolist()
        return float((x * x + y * y + z * z) ** 0.5)

    def torque(self, observation: Observation) -> float:
        """Return the magnitude of the contact torque at the wrist [Nm]."""
        x, y, z = observation["state"][self._torque].tolist()
        return float((x * x + y * y + z * z) ** 0.5)

    def opening(self, observation: Observation) -> float | None:
        """Return the gripper's opening, 0 closed to 1 open; None where it is not observed."""
        return None if self._opening is None else float(observation["state"][self._opening])

    def _values(self, observation: Observation) -> Array:
        """Return the elements of ``state``; not to be written to. One observation is converted once."""
        state = observation["state"]
        content = state.tobytes()
        if content != self._read:
            self._state, self._read, self._rotation = state.astype(np.float64), content, None
        return self._state


class ActionMap:
    """Between actions (A,) in [-1, 1] and motion of the arm, for every action space of an arm.

    The gripper's element, where there is one, is the last and is never changed by motion.

    Args:
        spec: action space, frame, names and scales.
        robot: joints and their ranges.
        kinematics: between joints and end effector.
        reader: of the observation.

    Raises:
        ConfigError: if the action space is not one of an arm.
    """

    def __init__(self, spec: EnvSpec, robot: RobotDescription, kinematics: Kinematics, reader: ArmReader) -> None:
        self.space = spec.action_space
        self.period = 1.0 / spec.control_rate
        self.joint_count = len(robot.joints)
        self._kinematics = kinematics
        self._reader = reader
        self._box = robot.controller_holds_workspace and (np.array(robot.workspace_low), np.array(robot.workspace_high))
        self._sides = list(zip(robot.workspace_low, robot.workspace_high, strict=True))
        self._local = spec.action_frame == "end_effector"
        self._asked = (b"", b"")
        self._motion = Motion(kinematics, np.zeros(0))
        names = spec.action.names
        self.has_gripper = bool(names) and names[-1] == "gripper"
        size = spec.action.shape[0]
        self.moves = slice(0, size - 1 if self.has_gripper else size)
        # Displacement of the end effector (6, k) by one unit of each element; unused where elements are joints.
        self.directions = np.zeros((6, self.moves.stop))
        if self.space == "end_effector_delta":
            self._axes = np.array([AXES.index(name) for name in names[self.moves]])
            translation, rotation = spec.extra.get("translation_scale", 1.0), spec.extra.get("rotation_scale", 1.0)
            self._scales = np.array([translation] * 3 + [rotation] * 3)[self._axes]
            self.directions[self._axes, np.arange(len(self._axes))] = self._scales
        elif self.space == "joint_delta":
            self._scales = np.full(len(robot.joints), robot.joint_delta)
        elif self.space == "joint_position":
            self._lower = np.array(robot.command_lower)
            self._endless = robot.endless if robot.endless.any() else None
            self._scales = (np.array(robot.command_upper) - self._lower) / 2
        else:
            raise ConfigError(f"safety knows no action space {self.space!r} of an arm; choose safety=none")

    @property
    def moves_joints(self) -> bool:
        """Whether an action's elements are joints."""
        return self.space != "end_effector_delta"

    @property
    def moves_base_axes(self) -> bool:
        """Whether an action's elements are end-effector axes of the base frame."""
        return not self.moves_joints and not self._local

    @property
    def moves_end_effector_frame(self) -> bool:
        """Whether an action's elements are axes of the end effector's own frame."""
        return not self.moves_joints and self._local

    @property
    def controller_box(self) -> tuple[Array, Array] | None:
        """Corners (3,) at which the robot's own controller cuts end-effector actions off [m], if it does."""
        return self._box or None

    @property
    def resolution(self) -> Array:
        """Largest rounding error of a joint motion (n,) where the elements of actions are joints [rad]."""
        return np.ldexp(self._scales, -25) if self.moves_joints else np.zeros(self.joint_count)

    @property
    def top_velocity(self) -> Array:
        """Largest joint velocity (n,) that actions can ask for where they are joint deltas [rad/s]; else infinite."""
        if self.space == "joint_delta":
            return np.asarray(self._scales / self.period)
        return np.full(self.joint_count, np.inf)

    def elements(self, displacement: Array) -> Array:
        """Return the elements (k,) for a ``displacement`` (6,). Only where they are axes of the base frame."""
        values: Array = displacement[self._axes] / self._scales
        return values

    def motion(self, observation: Observation, action: Action) -> Motion:
        """Return what ``action`` asks for; not to be written to. What is asked twice is computed once."""
        asked = (observation["state"].tobytes(), action.tobytes())
        if asked != self._asked:
            self._motion, self._asked = self._computed_motion(observation, action), asked
        return self._motion

    def _displacement(self, observation: Observation, action: Action) -> Array:
        displacement: Array = self.directions.dot(action[self.moves].astype(np.float64))
        if self._local:
            rotation = self._reader.rotation(observation)
            displacement[:3], displacement[3:] = rotation @ displacement[:3], rotation @ displacement[3:]
        return displacement

    def _computed_motion(self, observation: Observation, action: Action) -> Motion:
        joints = self._reader.joint_positions(observation)
        if self.space == "end_effector_delta":
            displacement = uncut = self._displacement(observation, action)
            if self._box:
                displacement = self._cut_off(observation, uncut)
            return Motion(self._kinematics, joints, displacement=displacement, uncut=uncut)
        values = action[self.moves].astype(np.float64)
        if self.space == "joint_delta":
            change = self._scales * values
        else:
            change = self._shortest(self._lower + self._scales * (values + 1) - joints)
        return Motion(self._kinematics, joints, joints=change)

    def _shortest(self, difference: Array) -> Array:
        return difference if self._endless is None else shortest(difference, self._endless)

    def _cut_off(self, observation: Observation, displacement: Array) -> Array:
        """Return what the robot's own controller leaves of a ``displacement`` (6,) at the sides of its box."""
        shift = displacement[:3].tolist()
        ways = zip(self._reader.position(observation).tolist(), shift, self._sides, strict=True)
        kept = [  # plain numbers: of three that is faster than arrays
            move if low <= here + move <= high else min(max(here + move, low), high) - here
            for here, move, (low, high) in ways
        ]
        return displacement if kept == shift else np.array([*kept, *displacement[3:]])

    def linear(self, observation: Observation, action: Action) -> tuple[Array, Array]:
        """Return ``matrix`` (n, k) and ``offset`` (n,): joint motion near that of ``action`` [rad].

        It is ``matrix @ elements + offset``, where ``elements`` (k,) are the arm's part of an action. What the robot's
        own controller cuts off is left out.
        """
        joints = self._reader.joint_positions(observation)
        if self.space == "joint_delta":
            return np.diag(self._scales), np.zeros(len(joints))
        if self.space == "joint_position":
            moved = self._scales * action[self.moves].astype(np.float64)
            return np.diag(self._scales), self.motion(observation, action).joints - moved
        directions = self.directions
        if self._local:
            rotation = self._reader.rotation(observation)
            directions = np.concatenate([rotation @ directions[:3], rotation @ directions[3:]])
        return self._kinematics.joint_motion(joints, directions), np.zeros(len(joints))

    def with_elements(self, action: Action, values: Array) -> Action:
        """Return ``action`` with other elements for the arm; the gripper's stays."""
        changed = action.copy()
        changed[self.moves] = np.minimum(np.maximum(values, -1.0), 1.0)  # half the time of np.clip
        return changed

    def with_joints(self, observation: Observation, action: Action, change: Array) -> Action:
        """Return ``action`` with joint motion ``change`` (n,) [rad]. Only where an action's elements are joints."""
        if self.space == "joint_delta":
            return self.with_elements(action, change / self._scales)
        # Endless joints are commanded in [-pi, pi), as they are observed.
        target = self._shortest(self._reader.joint_positions(observation) + change)
        return self.with_elements(action, (target - self._lower) / self._scales - 1)

    def with_displacement(self, action: Action, displacement: Array) -> Action:
        """Return ``action`` with a displacement (6,). Only where its elements are axes of the base frame."""
        return self.with_elements(action, self.elements(displacement))

    def scaled(self, observation: Observation, action: Action, factor: float) -> Action:
        """Return ``action`` with the arm's motion times ``factor``; 0 stands still."""
        if self.space == "joint_position":
            motion = self.motion(observation, action)
            return self.with_joints(observation, action, factor * motion.joints)
        return self.with_elements(action, factor * action[self.moves].astype(np.float64))

    def slowed(self, observation: Observation, action: Action, factor: float) -> Action:
        """Return ``action`` so slow that the arm makes ``factor`` of its motion at most, beside a wall too.

        Of an action that the robot's own controller cuts off at its workspace, a share may still be the whole motion.
        """
        made = self.motion(observation, action)
        motion, asked = made.displacement, made.uncut
        if asked is motion:
            return self.scaled(observation, action, factor)
        if self.moves_base_axes:
            return self.with_displacement(action, factor * motion)
        # Other actions keep their direction: what is left of it is cut off as before, so it is no longer than this.
        left, whole = math.hypot(*motion[:3].tolist()), math.hypot(*asked[:3].tolist())
        return self.scaled(observation, action, factor * left / whole if left < whole else factor)

    def hold(self, observation: Observation, action: Action) -> Action:
        """Return the action that stands still, with the gripper as ``action`` has it."""
        if self.space == "joint_position":
            return self.with_joints(observation, action, np.zeros(len(self._scales)))
        return self.with_elements(action, np.zeros(len(self._scales)))

    def with_measured_gripper(self, observation: Observation, action: Action) -> Action:
        """Return ``action`` with the gripper told to be where it is measured, if it is."""
        opening = self._reader.opening(observation)
        if not self.has_gripper or opening is None:
            return action
        changed = action.copy()
        changed[-1] = min(max(1 - 2 * opening, -1.0), 1.0)
        return changed
