"""Excitation of an arm's joints: a sum of sines for each, with the same frequencies and different phases."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, require

from ..arm_model import ArmModel
from ..config import TaskConfig
from ..joint_controller import JointController
from ..simulation import ArmSimulation

Array = NDArray[np.float64]

FADING = 1.0
"""Time in which the motion begins and ends [s]."""
LINES = 16
"""Number of sines of a joint."""
ACCELERATION_SHARE = 0.5
"""Largest acceleration, as a share of that of the controller's reference."""
RANGE_SHARE = 0.9
"""Largest motion, as a share of the way from home to the nearer end of a joint's range."""
SMALLEST = 0.02
"""Smallest motion of the arm that is worth a recording [rad]."""


@dataclass(frozen=True)
class ExcitationConfig:
    """Motion that a fit learns from: the section ``excitation`` of configs/identify.yaml, which holds the defaults.

    Attributes:
        seconds: duration of an episode [s].
        amplitude: largest motion of a joint from home [rad or m].
        highest_frequency: highest frequency of the sines [Hz].
        speed: largest speed of joints and end effector, as a share of ``arm.velocity_limits`` and ``arm.speed_limit``.
            Safety filters measure the speed of a request from where the arm is, and the arm follows with a lag.
        workspace_margin: distance of the end effector from the edge of the workspace [m]. Amplitudes of all joints are
            reduced until it and the speed are kept.
    """

    seconds: float
    amplitude: float
    highest_frequency: float
    speed: float
    workspace_margin: float

    def __post_init__(self) -> None:
        require(4 <= self.seconds <= 600, "excitation.seconds", "in [4, 600]", self.seconds)
        require(0 < self.amplitude <= 3, "excitation.amplitude", "in (0, 3]", self.amplitude)
        require(self.highest_frequency >= 0.3, "excitation.highest_frequency", "0.3 or more", self.highest_frequency)
        require(0 < self.speed <= 1, "excitation.speed", "in (0, 1]", self.speed)
        require(0 <= self.workspace_margin < 1, "excitation.workspace_margin", "in [0, 1)", self.workspace_margin)


class Excitation:
    """Actions that excite the joints of an arm.

    Args:
        config: configuration of a task with the action space ``joint_position``.
        excitation: configuration of the motion.
    """

    def __init__(self, config: TaskConfig, excitation: ExcitationConfig) -> None:
        self._config, self._excitation = config, excitation
        self._simulation = ArmSimulation(config, lambda scene: None)
        assert isinstance(self._simulation.controller, JointController)
        self._lower, self._upper = self._simulation.controller.lower, self._simulation.controller.upper
        highest, rate = excitation.highest_frequency, config.control_rate
        expected = f"at most a fifth of the control rate of {rate:g} Hz"
        require(highest <= rate / 5, "excitation.highest_frequency", expected, highest)

    def positions(self, rng: np.random.Generator) -> Array:
        """Return the positions (T, n) that are commanded in an episode [rad or m].

        Raises:
            ConfigError: if hardly any motion around home is within the limits; the message names the limit.
        """
        config, settings = self._config, self._excitation
        home, rate = np.array(config.arm.home), config.control_rate
        times = np.arange(round(settings.seconds * rate)) / rate
        lowest = 1 / settings.seconds
        harmonics = np.unique(np.round(np.geomspace(1, settings.highest_frequency / lowest, LINES)))
        phases = rng.uniform(0, 2 * np.pi, (len(harmonics), len(home)))
        angles = 2 * np.pi * lowest * harmonics[:, None, None] * times[:, None] + phases[:, None, :]
        # Amplitudes fall with the frequency, so that every sine has the same speed.
        motion = (np.sin(angles) / harmonics[:, None, None] ** 0.7).sum(axis=0)
        edge = np.clip(np.minimum(times, times[-1] - times) / FADING, 0, 1)
        motion *= (edge**2 * (3 - 2 * edge))[:, None]
        speed, acceleration = np.gradient(motion, 1 / rate, axis=0), np.diff(motion, 2, axis=0) * rate**2
        room = RANGE_SHARE * np.minimum(home - self._lower, self._upper - home)
        largest = np.minimum.reduce(
            [
                np.minimum(settings.amplitude, room) / np.abs(motion).max(axis=0),
                settings.speed * np.array(config.arm.velocity_limits) / np.abs(speed).max(axis=0),
                ACCELERATION_SHARE * config.controller.joint_acceleration / np.abs(acceleration).max(axis=0),
            ]
        )
        positions: Array = home + self._share(home, largest * motion) * largest * motion
        return positions

    def actions(self, positions: Array) -> NDArray[np.float32]:
        """Return the actions (T, A) that command positions (T, n). The gripper stays as it is at home."""
        values = 2 * (positions - self._lower) / (self._upper - self._lower) - 1
        if self._simulation.actions.names[-1] == "gripper":
            opening = np.full((len(values), 1), 1 - 2 * self._config.arm.home_opening)
            values = np.hstack([values, opening])
        actions: NDArray[np.float32] = values.astype(np.float32)
        return actions

    def _share(self, home: Array, motion: Array) -> float:
        """Return the largest share of a motion (T, n) around home in which the end effector is slow, and inside."""
        options, margin = self._config.controller, self._excitation.workspace_margin
        meaning = ArmModel(self._simulation)
        low, high = np.array(options.workspace_low) + margin, np.array(options.workspace_high) - margin
        share = 1.0
        fastest = self._excitation.speed * self._config.arm.speed_limit / self._config.control_rate
        limit = "excitation.amplitude, excitation.speed or the joints' ranges are too small for"
        while share * np.abs(motion).max() > SMALLEST:
            places = np.array([meaning.pose(home + share * offset).position for offset in motion])
            steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
            is_inside = (places >= low).all() and (places <= high).all()
            if is_inside and steps.max() <= fastest:
                return share
            limit = (
                "arm.speed_limit is too small; choose a larger excitation.speed for"
                if is_inside
                else "the end effector leaves controller.workspace_low and workspace_high; choose another home, or a "
                "smaller excitation.workspace_margin, for"
            )
            share *= 0.9
        raise ConfigError(f"excitation: {limit} a motion of {SMALLEST:g} rad around arm.home")
