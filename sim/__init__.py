"""Simulated arms and tasks in MuJoCo."""

import os
import sys
from typing import Any

if "MUJOCO_GL" not in os.environ and sys.platform == "linux" and "DISPLAY" not in os.environ:
    os.environ["MUJOCO_GL"] = "egl"  # MuJoCo reads it when it is imported: headless rendering

from dataclasses import fields

from robo_rl.core import ConfigError, config_node, nearest

from .backend import ArmBackend
from .tasks import TASKS


def make_backend(name: str, **values: Any) -> ArmBackend:
    """Return the simulated task ``name``.

    Args:
        name: of the task, a key of ``TASKS``.
        values: fields of the task's configuration, ``TASKS[name].config_class``.

    Raises:
        ConfigError: if there is no such task or field, or a value is out of range.
    """
    if name not in TASKS:
        raise ConfigError(f"unknown task {name!r}; {nearest(name, TASKS)}")
    task_class = TASKS[name]
    valid = [field.name for field in fields(task_class.config_class)]
    for key in values:
        if key not in valid:
            raise ConfigError(f"task {name!r} has no field {key!r}; {nearest(key, valid)}")
    return ArmBackend(task_class(task_class.config_class(name=name, **values)))


def register_configs() -> None:
    """Offer every task to Hydra: ``task=pick_cube task.cube_size=0.05``."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    for name, task_class in TASKS.items():
        store.store(group="task", name=name, node=config_node(make_backend, task_class.config_class))


def register_environments() -> None:
    """Offer every task to ``gymnasium.make``, for example ``robo_rl/PickCube-v0``."""
    import gymnasium

    for name, task_class in TASKS.items():
        gymnasium.register(
            id=task_class.gymnasium_id,
            entry_point="robo_rl.sim.gymnasium_adapter:make_environment",
            kwargs={"name": name},
        )


__all__ = ["TASKS", "ArmBackend", "make_backend", "register_configs", "register_environments"]
