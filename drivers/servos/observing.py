"""Conversion of readings of servos to the task's observation."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArmPose, ConfigError, EnvSpec, Observation

from .arm import ArmReading
from .config import ServoArmConfig

Array = NDArray[np.float64]

IMAGES = "images/"
AXES = ("x", "y", "z")
POSE = (
    *(f"end_effector_{axis}" for axis in AXES),
    *(f"end_effector_r{row}{column}" for column in (1, 2) for row in (1, 2, 3)),
)
VELOCITY = tuple(f"end_effector_{kind}{axis}" for kind in ("v", "w") for axis in AXES)
UNMEASURED = tuple(f"wrist_{kind}_{axis}" for kind in ("force", "torque") for axis in AXES)
"""Elements of ``state`` that are 0: the arm has no force sensor."""
OPENING = "gripper_opening"


class Kinematics(Protocol):
    """Kinematics of an arm."""

    def pose(self, joints: Array) -> ArmPose: ...

    def velocity(self, joints: Array, velocities: Array) -> tuple[Array, Array]: ...


class ServoLayout:
    """Layout that fills each element of the task's observation.

    Pose and velocity of the end effector are computed from the joints.

    Args:
        config: configuration of the arm.
        spec: the task's spec.
        joints: names of the task's joints.
        model: kinematics of the arm.
        knows_objects: whether the state of the task's objects is known.

    Attributes:
        image_age_ns: largest age of an image [ns].

    Raises:
        ConfigError: if nothing provides an element or image.
    """

    def __init__(
        self, config: ServoArmConfig, spec: EnvSpec, joints: tuple[str, ...], model: Kinematics, knows_objects: bool
    ) -> None:
        self._model, self._elements = model, spec.observation["state"].names
        self._joints = joints
        self.image_age_ns = round(max(config.max_age, 0.2) * 1e9)
        provided = {*self._named(joints), *POSE, *VELOCITY, *UNMEASURED, OPENING}
        if unknown := [name for name in self._elements if name not in provided]:
            raise ConfigError(f"robot {config.name!r}: nothing gives {', '.join(unknown)} of the observation 'state'")
        if "object" in spec.observation and not knows_objects:
            raise ConfigError(
                f"robot {config.name!r}: servos do not measure the task's objects; set task.observation.object=false "
                "and observe cameras (task.observation.cameras, robot.cameras), or use robot.port=virtual"
            )
        for key in spec.observation:
            if key.startswith(IMAGES) and key.removeprefix(IMAGES) not in config.cameras:
                raise ConfigError(
                    f"robot {config.name!r}: the task observes {key!r}, which no camera of robot.cameras gives"
                    + (" (virtual servos have no cameras)" if knows_objects else "")
                )

    def observation(self, reading: ArmReading, objects: Array | None) -> Observation:
        """Return the observation without images.

        Args:
            reading: reading of the servos.
            objects: state of the task's objects (m,), if it is known.
        """
        pose = self._model.pose(reading.positions)
        linear, angular = self._model.velocity(reading.positions, reading.velocities)
        values: Mapping[str, float] = (
            dict(zip(self._named(self._joints), (*reading.positions, *reading.velocities), strict=True))
            | dict(zip(POSE, (*pose.position, *pose.rotation[:, 0], *pose.rotation[:, 1]), strict=True))
            | dict(zip(VELOCITY, (*linear, *angular), strict=True))
            | dict.fromkeys(UNMEASURED, 0.0)
            | {OPENING: 0.0 if reading.opening is None else reading.opening}
        )
        observation: Observation = {"state": np.array([values[name] for name in self._elements], np.float32)}
        if objects is not None:
            observation["object"] = objects.astype(np.float32)
        return observation

    @staticmethod
    def _named(joints: tuple[str, ...]) -> list[str]:
        return [f"{name}_{kind}" for kind in ("position", "velocity") for name in joints]
