"""Choices of configuration groups that are made when they are chosen."""

from dataclasses import dataclass

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from robo_rl.core import config_node
from robo_rl.core.choices import store_choice


@dataclass(frozen=True)
class Size:
    size: int = 3


def test_a_choice_is_made_once_when_it_is_first_read() -> None:
    made: list[DictConfig] = []

    def make_node() -> DictConfig:
        made.append(config_node(None, Size))
        return made[-1]

    store = ConfigStore.instance()
    store_choice("test_choices/inner", "small", make_node)
    try:
        assert store.list("test_choices/inner") == ["small.yaml"] and not made
        first, second = (store.load("test_choices/inner/small.yaml").node for _ in range(2))
        assert len(made) == 1
        first.size = 4
        assert second.size == 3, "each reader has its own values"
        assert OmegaConf.merge(first, second).size == 3, "but all have the same type"
    finally:
        del store.repo["test_choices"]
