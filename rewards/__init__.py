"""Reward modules and their composition; docs/reference/rewards.md describes them."""

from functools import partial

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from robo_rl.core import RewardWeights, config_node
from robo_rl.core.choices import store_choice
from robo_rl.core.lazy import ClassTable

from .composition import ComposedRewardConfig, TermConfig
from .options import ComposedOptions, WeightsOptions
from .parts.module import FunctionModule, Module
from .vision.config import ContrastConfig, PretrainingConfig

MODULES = ClassTable(
    "robo_rl.rewards.modules",
    annotations="annotations.AnnotationsConfig",
    classifier="classifier.ClassifierConfig",
    clip="clip.ClipConfig",
    code="code.CodeConfig",
    ensemble="ensemble.EnsembleConfig",
    gail="gail.GailConfig",
    interventions="interventions.InterventionsConfig",
    keypoints="keypoints.KeypointsConfig",
    novelty="novelty.NoveltyConfig",
    occupancy="occupancy.OccupancyConfig",
    optimal_transport="optimal_transport.OptimalTransportConfig",
    perceptual="perceptual.PerceptualConfig",
    preferences="preferences.PreferencesConfig",
    specification="specification.SpecificationConfig",
    stages="stages.StagesConfig",
    successes="successes.SuccessesConfig",
    toggles="toggles.TogglesConfig",
    vice="classifier.ViceConfig",
)
"""Configuration classes of the modules by their name in the group ``reward/module``."""

OPTIONS = ClassTable(
    "robo_rl.rewards.modules",
    optimal_transport="optimal_transport_options.OptimalTransportOptions",
    perceptual="perceptual_options.PerceptualOptions",
    stages="stages_options.StagesOptions",
)
"""Options of the modules that commands choose by default. They need no PyTorch."""


def register_configs() -> None:
    """Register the weighted sum of a task's terms, the composition and the modules with Hydra (group ``reward``)."""
    store = ConfigStore.instance()
    for name, made, options in (
        ("reward_schema", RewardWeights, WeightsOptions),
        ("composed_schema", ComposedRewardConfig, ComposedOptions),
    ):
        store.store(group="reward", name=name, node=config_node(made, options))
    for name in MODULES:
        store_choice("reward/module", name, partial(_module_node, name))
    trainer = config_node("robo_rl.rewards.vision.pretraining.make_trainer", PretrainingConfig)
    store.store(group="trainer", name="clip", node=trainer)
    trainer = config_node("robo_rl.rewards.vision.contrast.make_contrastive_trainer", ContrastConfig)
    store.store(group="contrastive_trainer", name="time_contrastive", node=trainer)
    store_choice("writer", "endpoint", _writer_node)


def register_module(name: str, config_class: type) -> None:
    """Register a module with Hydra: ``+reward/module@reward.modules.TERM=NAME``.

    A package calls this in the function that its entry point in the group ``robo_rl.config`` names.

    Args:
        name: name of the module in the group ``reward/module``.
        config_class: a frozen dataclass with a method ``make(name, spec, seed)`` that returns the module.
    """
    ConfigStore.instance().store(group="reward/module", name=name, node=config_node(config_class, config_class))


def _module_node(name: str) -> DictConfig:
    return config_node(MODULES.path(name), OPTIONS[name] if name in OPTIONS else MODULES[name])


def _writer_node() -> DictConfig:
    from .writing import WriterConfig

    return config_node("robo_rl.rewards.writing.Writer", WriterConfig)


__all__ = [
    "MODULES",
    "ComposedRewardConfig",
    "FunctionModule",
    "Module",
    "TermConfig",
    "register_configs",
    "register_module",
]
