"""Motion of an arm in one control period, and the arm's state in an observation."""

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, EnvSpec, Observation, RobotDescription

from .kinematics import Kinematics

Array = NDArray[np.float64]
Action = NDArray[np.float32]


class Motion:
    """The motion that one action commands in one control period. Its arrays must not be written to.

    Either the joint motion or the displacement is given; the other is computed on first use. The displacement is six
    plain numbers: filters read each of them separately, and for so few that is faster than an array.

    Args:
        kinematics: map between the two.
        start: joint positions (n,) [rad].
        joints: joint motion (n,) [rad].
        displacement: see :attr:`displacement`.
        uncut: see :attr:`uncut`; None if nothing is cut off.
    """

    __slots__ = ("_displacement", "_joints", "_kinematics", "_start", "_uncut")

    def __init__(
        self,
        kinematics: Kinematics,
        start: Array,
        joints: Array | None = None,
        displacement: list[float] | None = None,
        uncut: list[float] | None = None,
    ) -> None:
        self._kinematics, self._start = kinematics, start
        self._joints, self._displacement, self._uncut = joints, displacement, uncut

    @property
    def joints(self) -> Array:
        """Joint motion (n,) [rad]."""
        if self._joints is None:
            self._joints = self._kinematics.joint_motion(self._start, np.array(self.displacement))
        return self._joints

    @property
    def displacement(self) -> list[float]:
        """Motion of the end effector (6) in the base frame: translation [m], rotation vector [rad].

        What the robot's own controller cuts off at its workspace is not included.
        """
        if self._displacement is None:
            assert self._joints is not None
            self._displacement = self._kinematics.jacobian(self._start).dot(self._joints).tolist()
        return self._displacement

    @property
    def uncut(self) -> list[float]:
        """The displacement (6) including what is cut off; the same list if nothing is."""
        return self.displacement if self._uncut is None else self._uncut


class ArmReader:
    """Reads the arm's part of ``state`` by the names of its elements.

    Args:
        spec: names of the elements.
        robot: names of the joints.

    Attributes:
        places: indices of the first elements in ``state``, as in the struct ``Filters`` of ``native/filters.h``.

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
        self.places = {
            "joints_place": self._positions.start,
            "position_place": self._position.start,
            "columns_place": self._columns.start,
            "force_place": self._force.start,
            "torque_place": self._torque.start,
        }
        self._content = b""
        self._joints: Array = np.zeros(0)
        self._values: list[float] = []
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
        """Return joint positions (n,) [rad], which must not be written to."""
        self._convert(observation)
        return self._joints

    def joint_velocities(self, observation: Observation) -> Array:
        """Return joint velocities (n,) [rad/s]."""
        return observation["state"][self._velocities].astype(np.float64)

    def position(self, observation: Observation) -> Array:
        """Return the end effector's position (3,) in the base frame [m]."""
        return np.array(self.coordinates(observation))

    def coordinates(self, observation: Observation) -> list[float]:
        """Return the end effector's position (3) in the base frame as plain numbers [m]."""
        self._convert(observation)
        return self._values[self._position]

    def rotation(self, observation: Observation) -> Array:
        """Return the end effector's rotation matrix (3, 3) in the base frame, which must not be written to."""
        self._convert(observation)
        if self._rotation is None:  # plain numbers are faster than arrays for three elements
            a, b, c, d, e, f = self._values[self._columns]
            third = b * f - c * e, c * d - a * f, a * e - b * d
            self._rotation = np.array([[a, d, third[0]], [b, e, third[1]], [c, f, third[2]]])
        return self._rotation

    def contact(self, observation: Observation) -> tuple[float, float]:
        """Return the magnitudes of the contact force [N] and the contact torque [Nm] at the wrist."""
        self._convert(observation)
        x, y, z = self._values[self._force]
        roll, pitch, yaw = self._values[self._torque]
        return float((x * x + y * y + z * z) ** 0.5), float((roll * roll + pitch * pitch + yaw * yaw) ** 0.5)

    def opening(self, observation: Observation) -> float | None:
        """Return the gripper's opening, 0 closed to 1 open; None if it is not observed."""
        return None if self._opening is None else float(observation["state"][self._opening])

    def _convert(self, observation: Observation) -> None:
        """Convert the elements of ``state`` unless its content, compared by value as arrays are reused, is the last."""
        state = observation["state"]
        content = state.tobytes()
        if content != self._content:
            self._values, self._content, self._rotation = state.tolist(), content, None
            self._joints = state[self._positions].astype(np.float64)
