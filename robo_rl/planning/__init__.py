"""Planning in the simulator, which shows what a reward asks for before anything is trained."""

from hydra.core.config_store import ConfigStore

from ..core import config_node
from .config import PlannerConfig
from .planner import Planner


def register_configs() -> None:
    """Register the schema of configs/planner with Hydra."""
    ConfigStore.instance().store(group="planner", name="planner_schema", node=config_node(None, PlannerConfig))


__all__ = ["Planner", "PlannerConfig", "register_configs"]
