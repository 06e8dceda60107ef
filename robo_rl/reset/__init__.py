"""Reset controllers, which begin episodes: from a seed, where the robot stands, or after it has reset the scene."""

from typing import Any

from hydra.core.config_store import ConfigStore

from robo_rl.core import EnvSpec, ResetController, ReturnLearner, RobotDescription, config_node

from .config import HomingConfig, LearnedConfig, RecoveryConfig, ScriptConfig, SeededConfig, WaypointConfig
from .homing import HomingReset
from .learned import LearnedReset
from .recovery import RecoveryReset
from .states import TRANSITIONS, Event, PracticeMachine, PracticeState


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


def register_configs() -> None:
    """Register ``reset=seeded``, ``reset=recovery`` and the schemas of configs/reset with Hydra."""
    store = ConfigStore.instance()
    store.store(group="reset", name="seeded", node=config_node(make_seeded, SeededConfig))
    store.store(group="reset", name="homing_schema", node=config_node(make_homing, HomingConfig))
    store.store(group="reset", name="learned_schema", node=config_node(make_learned, LearnedConfig))
    store.store(group="reset", name="recovery", node=config_node(make_recovery, RecoveryConfig))


__all__ = [
    "TRANSITIONS",
    "Event",
    "HomingConfig",
    "HomingReset",
    "LearnedConfig",
    "LearnedReset",
    "PracticeMachine",
    "PracticeState",
    "RecoveryConfig",
    "RecoveryReset",
    "ScriptConfig",
    "SeededConfig",
    "WaypointConfig",
    "make_homing",
    "make_learned",
    "make_recovery",
    "make_seeded",
    "register_configs",
]
