"""Reward modules and their composition."""

from hydra.core.config_store import ConfigStore

from robo_rl.core import RewardWeights, config_node


def register_configs() -> None:
    """Offer the weighted sum of a task's reward terms to Hydra (group ``reward``)."""
    ConfigStore.instance().store(group="reward", name="reward_schema", node=config_node(RewardWeights, RewardWeights))
