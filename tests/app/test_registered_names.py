"""Names of a configuration that are registered are found without importing what other choices configure."""

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from robo_rl.app import needed_packages, register_all_configs
from robo_rl.core.choices import store_choice


def needed(target: str) -> list[str]:
    return needed_packages(OmegaConf.create({"task": {"_target_": target}}))


def test_a_choice_is_read_only_for_a_name_that_nothing_else_registers() -> None:
    made: list[DictConfig] = []

    def make_node() -> DictConfig:
        made.append(OmegaConf.create({"_target_": "heavy.make"}))
        return made[-1]

    register_all_configs()
    store_choice("test_registered_names", "heavy", make_node)
    try:
        allowed = needed("robo_rl.sim.make_backend")  # by other tests
        assert "robo_rl" not in allowed and not made
        assert needed("heavy.make") == allowed and len(made) == 1
        assert needed("light.make") == sorted([*allowed, "light"])
    finally:
        del ConfigStore.instance().repo["test_registered_names"]
