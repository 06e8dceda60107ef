"""Reward modules and their composition; docs/reference/rewards.md describes them."""

from hydra.core.config_store import ConfigStore

from robo_rl.core import RewardWeights, config_node

from .composition import ComposedReward, ComposedRewardConfig, TermConfig
from .modules.annotations import AnnotationsConfig
from .modules.classifier import ClassifierConfig, ViceConfig
from .modules.clip import ClipConfig
from .modules.code import CodeConfig
from .modules.ensemble import EnsembleConfig
from .modules.gail import GailConfig
from .modules.interventions import InterventionsConfig
from .modules.keypoints import KeypointsConfig
from .modules.novelty import NoveltyConfig
from .modules.occupancy import OccupancyConfig
from .modules.optimal_transport import OptimalTransportConfig
from .modules.perceptual import PerceptualConfig
from .modules.preferences import PreferencesConfig
from .modules.specification import SpecificationConfig
from .modules.stages import StagesConfig
from .modules.successes import SuccessesConfig
from .modules.toggles import TogglesConfig
from .parts.module import FunctionModule, Module
from .vision.config import ContrastConfig, PretrainingConfig
from .writing import WriterConfig

MODULES: dict[str, type] = {
    "annotations": AnnotationsConfig,
    "classifier": ClassifierConfig,
    "clip": ClipConfig,
    "code": CodeConfig,
    "ensemble": EnsembleConfig,
    "gail": GailConfig,
    "interventions": InterventionsConfig,
    "keypoints": KeypointsConfig,
    "novelty": NoveltyConfig,
    "occupancy": OccupancyConfig,
    "optimal_transport": OptimalTransportConfig,
    "perceptual": PerceptualConfig,
    "preferences": PreferencesConfig,
    "specification": SpecificationConfig,
    "stages": StagesConfig,
    "successes": SuccessesConfig,
    "toggles": TogglesConfig,
    "vice": ViceConfig,
}
"""Configuration classes of the modules by their name in the group ``reward/module``."""


def register_configs() -> None:
    """Register the weighted sum of a task's terms, the composition and the modules with Hydra (group ``reward``)."""
    store = ConfigStore.instance()
    store.store(group="reward", name="reward_schema", node=config_node(RewardWeights, RewardWeights))
    store.store(group="reward", name="composed_schema", node=config_node(ComposedRewardConfig, ComposedRewardConfig))
    for name, config_class in MODULES.items():
        register_module(name, config_class)
    trainer = config_node("robo_rl.rewards.vision.pretraining.make_trainer", PretrainingConfig)
    store.store(group="trainer", name="clip", node=trainer)
    trainer = config_node("robo_rl.rewards.vision.contrast.make_contrastive_trainer", ContrastConfig)
    store.store(group="contrastive_trainer", name="time_contrastive", node=trainer)
    store.store(group="writer", name="endpoint", node=config_node("robo_rl.rewards.writing.Writer", WriterConfig))


def register_module(name: str, config_class: type) -> None:
    """Register a module with Hydra: ``+reward/module@reward.modules.TERM=NAME``.

    A package calls this in the function that its entry point in the group ``robo_rl.config`` names.

    Args:
        name: name of the module in the group ``reward/module``.
        config_class: a frozen dataclass with a method ``make(name, spec, seed)`` that returns the module.
    """
    ConfigStore.instance().store(group="reward/module", name=name, node=config_node(config_class, config_class))


__all__ = [
    "MODULES",
    "ComposedReward",
    "ComposedRewardConfig",
    "FunctionModule",
    "Module",
    "TermConfig",
    "register_configs",
    "register_module",
]
