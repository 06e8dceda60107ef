"""DrQ: soft actor-critic that learns from images with random shifts."""

from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node
from robo_rl.core.lazy import imported_on_use

from ..parts.encoder_config import EncoderConfig
from .config import DrQConfig

if TYPE_CHECKING:
    from .agent import DrQ, make_drq
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["DrQ", "DrQConfig", "EncoderConfig", "make_drq", "register_configs"]


def register_configs() -> None:
    """Register ``drq_schema`` in the group ``agent``."""
    ConfigStore.instance().store(
        group="agent", name="drq_schema", node=config_node("robo_rl.agents.drq.make_drq", DrQConfig)
    )
