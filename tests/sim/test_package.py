"""Tasks by name: factory, Hydra, Gymnasium, and what importing the package costs."""

import subprocess
import sys

import pytest
from hydra import compose, initialize
from omegaconf import OmegaConf

from robo_rl.core import ConfigError
from robo_rl.sim import TASKS, make_backend, register_configs
from robo_rl.sim.config import ArmConfig
from robo_rl.sim.tasks.pick_cube import PickCubeConfig
from robo_rl.sim.tasks.reach import ReachConfig


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="unknown task 'pick_cub'; did you mean 'pick_cube'"):
        make_backend("pick_cub")
    with pytest.raises(ConfigError, match="task 'pick_cube' has no field 'cube_sise'; did you mean 'cube_size'"):
        make_backend("pick_cube", cube_sise=0.04)


@pytest.mark.parametrize(
    ("config_class", "values", "message"),
    [
        (PickCubeConfig, {"cube_size": 0.09}, "cube_size must be in"),
        (PickCubeConfig, {"area_size": 0.5}, "area_size must be in"),
        (PickCubeConfig, {"lift_height": 0.0}, "lift_height must be in"),
        (PickCubeConfig, {"max_episode_steps": 0}, "max_episode_steps must be 1 or more"),
        (PickCubeConfig, {"area_centre": (0.5,)}, "area_centre must be 2 values"),
        (PickCubeConfig, {"area_centre": (0.5, 0.0, 0.1)}, "area_centre must be 2 values"),
        (ReachConfig, {"goal_low": (0.3, 0.2)}, "goal_low must be 3 values"),
        (ReachConfig, {"goal_low": (0.3, 0.2), "goal_high": (0.5, 0.4)}, "goal_low must be 3 values"),
        (ReachConfig, {"goal_high": (0.5, 0.4)}, "goal_high must be 3 values"),
        (ReachConfig, {"tolerance": 0.0}, "tolerance must be above 0"),
        (ReachConfig, {"goal_low": (0.9, 0.0, 0.0)}, "goal_low must be no more than goal_high"),
    ],
)
def test_values_out_of_range_are_refused_by_name(config_class, values, message):
    with pytest.raises(ConfigError, match=message):
        config_class(**values)


def test_hydra_offers_every_task_with_its_options():
    register_configs()
    with initialize(version_base="1.3"):
        config = compose(overrides=["+task=pick_cube", "task.cube_size=0.05", "task.arm.home_noise=0.0",
                                    "task.observation.cameras=[front]"]).task  # fmt: skip
        assert config._target_ == "robo_rl.sim.make_backend"
        values = {key: value for key, value in OmegaConf.to_object(config).__dict__.items() if key != "_target_"}
        backend = make_backend(**values)
        assert backend.config.cube_size == 0.05
        assert backend.config.arm == ArmConfig(**{**values["arm"].__dict__})
        assert set(backend.spec.observation) == {"state", "object", "images/front"}
        for name in TASKS:
            choice = f"{name}_schema" if name in ("drive", "plug_insert", "wipe") else name  # others have no file
            assert compose(overrides=[f"+task={choice}"]).task.name == name


def test_importing_the_package_registers_with_gymnasium_and_leaves_mujoco_for_later():
    code = """
import sys, gymnasium, robo_rl.sim
print(gymnasium.spec("robo_rl/PickCube-v0").kwargs, "mujoco" in sys.modules, "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "{'name': 'pick_cube'} False False"
