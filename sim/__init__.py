"""Simulated arms, a simulated car, and their tasks in MuJoCo.

Importing this package registers the tasks with Gymnasium and is quick: MuJoCo is imported with the first backend, or
with the first use of a class that a task of another package is made of, such as :class:`Task`.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from robo_rl.core.lazy import imported_on_use

from .tasks import TASKS

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from .backend import ArmBackend
    from .config import ArmConfig, ControllerConfig, TaskConfig
    from .episode import SimulatedBackend, SimulatedTask
    from .simulation import ArmSimulation
    from .tasks.base import FunctionExpert, Task
else:
    __getattr__ = imported_on_use(__name__, __file__)

ENVIRONMENTS = {name: f"robo_rl/{class_name}-v0" for name, class_name in TASKS.built_in.items()}
"""Ids for ``gymnasium.make`` by name of the task."""


def make_backend(name: str, **values: Any) -> "SimulatedBackend":
    """Return the simulated task ``name``.

    Args:
        name: name of the task, a key of ``TASKS``.
        values: fields of the task's configuration, ``TASKS[name].config_class``.

    Raises:
        ConfigError: if there is no such task or field, or a value is out of range.
    """
    from dataclasses import fields

    from robo_rl.core import ConfigError, nearest

    if name not in TASKS:
        raise ConfigError(f"unknown task {name!r}; {nearest(name, TASKS)}")
    task_class = TASKS[name]
    valid = [field.name for field in fields(task_class.config_class)]
    for key in values:
        if key not in valid:
            raise ConfigError(f"task {name!r} has no field {key!r}; {nearest(key, valid)}")
    return task_class(task_class.config_class(name=name, **values)).make_backend()


def register_configs() -> None:
    """Register every task with Hydra: ``task=pick_cube task.cube_size=0.05``.

    A task with a file in configs/task, which is made from its configuration, is registered as ``NAME_schema``.
    """
    from .gymnasium_config import register_gymnasium_task

    for name in TASKS:
        _register(name)
    register_gymnasium_task()


def _register(name: str) -> None:
    """Register the task ``name`` of ``TASKS`` with Hydra."""
    from importlib.resources import files

    from robo_rl.core.choices import store_choice

    has_file = files("robo_rl.configs").joinpath("task", f"{name}.yaml").is_file()
    store_choice("task", f"{name}_schema" if has_file else name, partial(_task_node, name))


def _task_node(name: str) -> "DictConfig":
    """Return the configuration of the task ``name`` of ``TASKS``."""
    from robo_rl.core import config_node

    node = config_node(make_backend, TASKS[name].config_class)
    node.name = name
    return node


def register_task(name: str, task_class: "type[SimulatedTask]") -> None:
    """Register a task of another package with :func:`make_backend`, and with Hydra: ``task=NAME``.

    A package calls this in the function that its entry point ``robo_rl.config`` names.

    Args:
        name: name of the task.
        task_class: class of the task.

    Raises:
        ConfigError: if there is another task of that name.
    """
    from robo_rl.core import ConfigError

    if name in TASKS and TASKS[name] is not task_class:
        raise ConfigError(f"there is a task {name!r} already: {TASKS[name].__module__} has it; choose another name")
    TASKS.add(name, task_class)
    _register(name)


def register_environments() -> None:
    """Register every task with ``gymnasium.make``. Importing this package already calls this."""
    from gymnasium.envs.registration import register, registry

    for name, environment_id in ENVIRONMENTS.items():
        if environment_id not in registry:
            register(
                id=environment_id,
                entry_point="robo_rl.sim.gymnasium_adapter:make_environment",
                kwargs={"name": name},
            )


register_environments()

__all__ = [
    "ENVIRONMENTS",
    "TASKS",
    "ArmBackend",
    "ArmConfig",
    "ArmSimulation",
    "ControllerConfig",
    "FunctionExpert",
    "Task",
    "TaskConfig",
    "make_backend",
    "register_configs",
    "register_environments",
    "register_task",
]
