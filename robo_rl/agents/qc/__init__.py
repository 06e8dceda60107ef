"""Q-chunking: reinforcement learning of a policy that takes the best of several chunks sampled from a flow."""

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node

from .agent import QC, make_qc
from .config import QCConfig

__all__ = ["QC", "QCConfig", "make_qc", "register_configs"]


def register_configs() -> None:
    """Register ``qc_schema`` in the group ``agent``."""
    ConfigStore.instance().store(
        group="agent", name="qc_schema", node=config_node("robo_rl.agents.qc.make_qc", QCConfig)
    )
