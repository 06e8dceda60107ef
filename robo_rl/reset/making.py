"""Functions that make reset controllers from the fields of their configuration."""

from typing import Any

from robo_rl.core import EnvSpec, ResetController, ReturnLearner, RobotDescription

from .config import HomingConfig, LearnedConfig, RecoveryConfig
from .homing import HomingReset
from .learned import LearnedReset
from .recovery import RecoveryReset


def make_homing(spec: EnvSpec, robot: RobotDescription | None, seed: int, **fields: Any) -> ResetController:
    """Return a :class:`HomingReset` with the fields of :class:`HomingConfig`."""
    return HomingReset(HomingConfig(**fields), spec, robot, seed)


def make_learned(
    spec: EnvSpec, robot: RobotDescription | None, seed: int, learner: ReturnLearner, **fields: Any
) -> ResetController:
    """Return a :class:`LearnedReset` with the fields of :class:`LearnedConfig`.

    ``learner`` is built from the fields ``agent`` and ``reward``.
    """
    return LearnedReset(LearnedConfig(**fields), spec, learner)


def make_recovery(spec: EnvSpec, robot: RobotDescription | None, seed: int, **fields: Any) -> ResetController:
    """Return a :class:`RecoveryReset` with the fields of :class:`RecoveryConfig`."""
    return RecoveryReset(RecoveryConfig(**fields), spec, seed)


def make_seeded(spec: EnvSpec, robot: RobotDescription | None, seed: int) -> None:
    """Return None: without a controller, the backend's own reset begins every episode."""
