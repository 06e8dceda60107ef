"""How episodes begin: by a seed, or where the robot stands, with a recovery from failures."""

from typing import Any

from hydra.core.config_store import ConfigStore

from robo_rl.core import EnvSpec, ResetController, config_node

from .config import RecoveryConfig, SeededConfig
from .recovery import RecoveryReset
from .states import TRANSITIONS, Event, PracticeMachine, PracticeState


def make_recovery(spec: EnvSpec, seed: int, **fields: Any) -> ResetController:
    """Return a :class:`RecoveryReset` with the fields of :class:`RecoveryConfig`."""
    return RecoveryReset(RecoveryConfig(**fields), spec, seed)


def make_seeded(spec: EnvSpec, seed: int) -> None:
    """Return that there is no controller: the backend's own reset begins every episode."""


def register_configs() -> None:
    """Offer ``reset=seeded`` and ``reset=recovery`` to Hydra."""
    store = ConfigStore.instance()
    store.store(group="reset", name="seeded", node=config_node(make_seeded, SeededConfig))
    store.store(group="reset", name="recovery", node=config_node(make_recovery, RecoveryConfig))


__all__ = [
    "TRANSITIONS",
    "Event",
    "PracticeMachine",
    "PracticeState",
    "RecoveryConfig",
    "RecoveryReset",
    "SeededConfig",
    "make_recovery",
    "make_seeded",
    "register_configs",
]
