"""Simulation of a task as the servo driver uses it, and its arm as a serial port for other programs."""

from pathlib import Path
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArmPose, ArmTarget, ConfigError, EnvBackend, MonotonicClock, RobotDescription

from .config import VIRTUAL, ServoArmConfig
from .virtual_arm import ServoDriven, VirtualServoArm

Array = NDArray[np.float64]


class ServoModel(Protocol):
    """Kinematics of the arm and meaning of its actions; :class:`robo_rl.sim.arm_model.ArmModel` is one."""

    fingers: tuple[str, ...]
    finger_strokes: Array
    home_opening: float

    def begin(self, joints: Array) -> None: ...

    def pose(self, joints: Array) -> ArmPose: ...

    def velocity(self, joints: Array, velocities: Array) -> tuple[Array, Array]: ...

    def target(self, joints: Array, action: NDArray[np.float32]) -> ArmTarget: ...

    def joints_towards(self, joints: Array, pose: ArmPose) -> Array: ...


class SimulatedServoArm(EnvBackend, Protocol):
    """Simulation of a task for an arm; :class:`robo_rl.sim.backend.ArmBackend` is one."""

    @property
    def robot(self) -> RobotDescription: ...

    def as_model(self) -> ServoModel: ...

    def as_servos(self) -> ServoDriven: ...


def require_arm(config: ServoArmConfig, simulation: EnvBackend) -> SimulatedServoArm:
    """Return ``simulation``.

    Raises:
        ConfigError: if it has no arm.
    """
    if not hasattr(simulation, "as_servos"):
        raise ConfigError(f"robot {config.name!r} needs a task with a simulated arm; {simulation.spec.task!r} has none")
    return cast(SimulatedServoArm, simulation)


def serve_arm(config: ServoArmConfig, simulation: EnvBackend) -> VirtualServoArm:
    """Return the task's simulated arm behind a virtual servo bus at ``robot.port``, for other programs.

    Raises:
        ConfigError: if the task has no arm, or no port can be made there.
    """
    path = None if config.port == VIRTUAL else Path(config.port)
    if path is not None and (path.exists() or path.is_symlink() or Path("/dev") in path.absolute().parents):
        raise ConfigError(
            f"robot.port: no virtual port can be {path}: give virtual, or a path outside /dev where nothing exists"
        )
    try:
        return VirtualServoArm(config, require_arm(config, simulation).as_servos(), MonotonicClock(), path)
    except OSError as error:
        raise ConfigError(f"robot.port: no virtual port can be made at {path}: {error.strerror}") from error
