"""Reset controllers, which begin episodes: from a seed, where the robot stands, or after it has reset the scene."""

from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node
from robo_rl.core.lazy import imported_on_use

from .config import HomingConfig, LearnedConfig, RecoveryConfig, SeededConfig

if TYPE_CHECKING:
    from .making import make_homing, make_learned, make_recovery, make_seeded
else:
    __getattr__ = imported_on_use(__name__, __file__)


def register_configs() -> None:
    """Register ``reset=seeded``, ``reset=recovery`` and the schemas of configs/reset with Hydra."""
    store = ConfigStore.instance()
    store.store(group="reset", name="seeded", node=config_node("robo_rl.reset.make_seeded", SeededConfig))
    store.store(group="reset", name="homing_schema", node=config_node("robo_rl.reset.make_homing", HomingConfig))
    store.store(group="reset", name="learned_schema", node=config_node("robo_rl.reset.make_learned", LearnedConfig))
    store.store(group="reset", name="recovery", node=config_node("robo_rl.reset.make_recovery", RecoveryConfig))


__all__ = ["make_homing", "make_learned", "make_recovery", "make_seeded", "register_configs"]
