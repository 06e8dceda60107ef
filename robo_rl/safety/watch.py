"""Limits that a robot must keep whatever controls it, judged from observations alone, independently of any filter."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    PASSED,
    ConfigError,
    EnvSpec,
    Observation,
    ObservationGuard,
    Options,
    RobotDescription,
    Verdict,
    option,
)

from .motion import ArmReader
from .observations import PlausibleJoints, ValidObservation

Array = NDArray[np.float64]


@dataclass(frozen=True)
class WatchConfig(Options, section="guard"):
    """Excess over the limits of the safety filters at which a robot is stopped.

    Attributes:
        position_tolerance: distance of joints beyond their limits [rad].
        workspace_tolerance: distance of the end effector from its workspace [m].
        speed_factor: speeds of joints and end effector, as multiples of the largest that actions may request.
        load_factor: force and torque at the wrist, as multiples of the largest allowed.
    """

    position_tolerance: float = option(0.1, low=0)
    workspace_tolerance: float = option(0.05, low=0)
    speed_factor: float = option(1.5, low=1)
    load_factor: float = option(1.2, low=1)


class SafetyWatch:
    """Decides from each observation of an arm whether the arm has to be stopped.

    Args:
        spec: spec of the observations.
        robot: limits of the arm.
        config: tolerances beyond these limits.

    Raises:
        ConfigError: if an element that a limit applies to is not observed, or there is no description of the robot.
    """

    def __init__(self, spec: EnvSpec, robot: RobotDescription | None, config: WatchConfig) -> None:
        if robot is None:
            raise ConfigError(f"task {spec.task!r} has no description of a robot, so that no limits are known")
        reader = ArmReader(spec, robot)
        joints = PlausibleJoints(
            lower=np.array(robot.position_lower) - config.position_tolerance,
            upper=np.array(robot.position_upper) + config.position_tolerance,
            velocity=np.array(robot.velocity) * config.speed_factor,
            max_jump=np.inf,  # a reset may put a simulated arm anywhere
            endless=robot.endless,
            reader=reader,
        )
        self._images = tuple(key for key in spec.observation if key.startswith("images/"))
        vectors = {key: array for key, array in spec.observation.items() if key not in self._images}
        valid = ValidObservation(replace(spec, observation=vectors))
        self._guards: list[ObservationGuard] = [valid, joints, EndEffectorWatch(spec, robot, config)]

    def __call__(self, observation: Observation, stamp_ns: int, now_ns: int) -> Verdict:
        """Return the first verdict that stops, or :data:`PASSED`. Images are not checked, and may be missing."""
        vectors = {key: value for key, value in observation.items() if key not in self._images}
        verdicts = (guard(vectors, stamp_ns, now_ns) for guard in self._guards)
        return next((verdict for verdict in verdicts if verdict.stop), PASSED)


class EndEffectorWatch:
    """Checks the end effector's position, speeds and contact load; see :class:`SafetyWatch`."""

    def __init__(self, spec: EnvSpec, robot: RobotDescription, config: WatchConfig) -> None:
        self._reader = ArmReader(spec, robot)
        names = spec.observation["state"].names
        self._velocity = [names.index(f"end_effector_{kind}{axis}") for kind in "vw" for axis in "xyz"]
        self._low = np.array(robot.workspace_low) - config.workspace_tolerance
        self._high = np.array(robot.workspace_high) + config.workspace_tolerance
        self._limits = (
            ("speed", "m/s", robot.linear_speed * config.speed_factor),
            ("angular speed", "rad/s", robot.angular_speed * config.speed_factor),
            ("contact force", "N", robot.force * config.load_factor),
            ("contact torque", "Nm", robot.torque * config.load_factor),
        )

    def reset(self) -> None:
        """Do nothing: there is no state to reset."""

    def __call__(self, observation: Observation, stamp_ns: int, now_ns: int) -> Verdict:
        position = self._reader.position(observation)
        if (position < self._low).any() or (position > self._high).any():
            where = ", ".join(f"{value:.3f}" for value in position)
            box = f"{np.round(self._low, 3).tolist()} to {np.round(self._high, 3).tolist()}"
            return _stop("workspace", f"the end effector is at ({where}) m, outside {box}")
        velocity = observation["state"][self._velocity].astype(np.float64)
        values = (
            float(np.linalg.norm(velocity[:3])),
            float(np.linalg.norm(velocity[3:])),
            *self._reader.contact(observation),
        )
        for value, (name, unit, limit) in zip(values, self._limits, strict=True):
            if value > limit:
                return _stop(
                    name.replace(" ", "_"), f"the end effector's {name} is {value:.2f} {unit}, above {limit:.2f}"
                )
        return PASSED


def _stop(reason: str, message: str) -> Verdict:
    return Verdict(stop=True, reasons=(reason,), message=message)
