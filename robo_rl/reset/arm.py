"""Control of an arm by waypoints instead of actions, for controllers that return it and its objects."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, EnvSpec, Observation, RobotDescription, vector_of_matrix

from .practice import Element

Array = NDArray[np.float64]

AXES = ("x", "y", "z", "roll", "pitch", "yaw")
GRIPPER = {"open": -1.0, "closed": 1.0}
"""Action of the gripper by its state."""


class NotReachedError(Exception):
    """The failure of an attempt, with the reason. Controllers handle it; users never see it."""


class ArmGuide:
    """A controller that leads an arm to waypoints by the actions of its environment.

    The actions pass through everything between policy and robot, such as safety filters.

    Args:
        spec: spec of the backend, with end-effector actions.
        robot: description of the robot, which names the joints.
        home_rotation: rotation (3, 3) of the end effector at home. If the actions rotate, they turn it to this one.
        act: takes one step and returns the observation after it.

    Raises:
        ConfigError: if the actions do not move the end effector in x, y and z.
    """

    def __init__(
        self,
        spec: EnvSpec,
        robot: RobotDescription,
        home_rotation: Array,
        act: Callable[[NDArray[np.float32]], Observation],
    ) -> None:
        names = spec.action.names
        if spec.action_space != "end_effector_delta" or not set("xyz") <= set(names):
            raise ConfigError(
                f"reset=homing leads arms by end_effector_delta actions with x, y and z; task {spec.task!r} has "
                f"{spec.action_space} with {', '.join(names)}: use reset=seeded"
            )
        self._moved = [AXES.index(name) for name in names if name in AXES]
        self._scales = np.repeat([spec.extra["translation_scale"], spec.extra.get("rotation_scale", 1.0)], 3)
        self._local = spec.action_frame == "end_effector"
        self._has_gripper = names[-1] == "gripper"
        self._rate = spec.control_rate
        self._home_rotation = home_rotation
        self._act = act
        self._joints = [joint_reader(spec, name) for name in robot.joints]
        self._position = [Element(spec, f"end_effector_{axis}") for axis in "xyz"]
        self._columns = [Element(spec, f"end_effector_r{row}{column}") for column in (1, 2) for row in (1, 2, 3)]
        self.observation: Observation = {}

    @property
    def joints(self) -> Array:
        """Joint positions (n,) [rad]."""
        return self.read(self._joints)

    @property
    def position(self) -> Array:
        """Position of the end effector (3,) in the base frame [m]."""
        return self.read(self._position)

    def read(self, elements: Sequence[Callable[[Observation], float]]) -> Array:
        """Return the values (n,) of elements of the newest observation."""
        return np.array([element(self.observation) for element in elements])

    def step(self, target: Array, gripper: str) -> None:
        """Take one step towards ``target`` (3,) [m]."""
        columns = self.read(self._columns)
        rotation = np.stack([columns[:3], columns[3:], np.cross(columns[:3], columns[3:])], axis=1)
        delta = np.concatenate([target - self.position, vector_of_matrix(self._home_rotation @ rotation.T)])
        if self._local:
            delta = (rotation.T @ delta.reshape(2, 3).T).T.ravel()
        delta /= self._scales
        delta[[axis for axis in range(6) if axis not in self._moved]] = 0.0
        for part in (delta[:3], delta[3:]):
            part /= max(1.0, float(np.abs(part).max()))  # shorter, in the same direction
        action = delta[self._moved]
        if self._has_gripper:
            action = np.append(action, GRIPPER[gripper])
        self.observation = self._act(action.astype(np.float32))

    def go(
        self, target: Callable[[], Array], gripper: str, tolerance: float, seconds: float, enough: float = 0.0
    ) -> None:
        """Move to ``target``, which is evaluated before each step, until it is within ``tolerance`` [m].

        Raises:
            NotReachedError: if the distance after ``seconds`` [s] exceeds both ``tolerance`` and ``enough`` [m].
        """
        for _ in range(max(1, round(seconds * self._rate))):
            if float(np.linalg.norm(target() - self.position)) <= tolerance:
                return
            self.step(target(), gripper)
        distance = float(np.linalg.norm(target() - self.position))
        if distance > max(tolerance, enough):
            raise NotReachedError(f"after {seconds:g} s the end effector is {distance:.3f} m from where it should be")

    def stay(self, gripper: str, seconds: float) -> None:
        """Hold the end effector at its position for ``seconds`` [s], so that the gripper can move."""
        position = self.position
        for _ in range(round(seconds * self._rate)):
            self.step(position, gripper)


def fixed(point: Array) -> Callable[[], Array]:
    """Return a constant target for :meth:`ArmGuide.go`."""
    return lambda: point


def joint_reader(spec: EnvSpec, joint: str) -> Callable[[Observation], float]:
    """Return a function that returns the observed position of a joint [rad]; endless joints have sine and cosine."""
    if f"{joint}_sin" not in spec.observation["state"].names:
        return Element(spec, f"{joint}_position")
    sine, cosine = Element(spec, f"{joint}_sin"), Element(spec, f"{joint}_cos")
    return lambda observation: math.atan2(sine(observation), cosine(observation))
