"""Configurations of commands, without a command line."""

from hydra import compose, initialize_config_module
from omegaconf import DictConfig

from robo_rl.app import register_all_configs


def composed_config(command: str, *words: str) -> DictConfig:
    """Return the configuration of a command with these options."""
    register_all_configs()
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        return compose(command, overrides=[*words])
