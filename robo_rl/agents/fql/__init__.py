"""Flow Q-learning: reinforcement learning of a one-step policy that is kept close to a flow of the data."""

from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node
from robo_rl.core.lazy import imported_on_use

from .config import FQLConfig

if TYPE_CHECKING:
    from .agent import FQL, make_fql
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["FQL", "FQLConfig", "make_fql", "register_configs"]


def register_configs() -> None:
    """Register ``fql_schema`` in the group ``agent``."""
    ConfigStore.instance().store(
        group="agent", name="fql_schema", node=config_node("robo_rl.agents.fql.make_fql", FQLConfig)
    )
