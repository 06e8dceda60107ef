"""Third-party Gymnasium environments as tasks of the command line."""

from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node

from .gymnasium_options import GymnasiumConfig

if TYPE_CHECKING:
    from .gymnasium_backend import GymnasiumBackend


def make_gymnasium_backend(**fields: Any) -> "GymnasiumBackend":
    """Make a backend of the environment that the fields of :class:`GymnasiumConfig` describe."""
    from .gymnasium_backend import GymnasiumBackend  # imports Gymnasium only when it is used

    return GymnasiumBackend(GymnasiumConfig(**fields))


def register_gymnasium_task() -> None:
    """Register ``gymnasium_schema`` in the group ``task``; configs/task/gymnasium.yaml is made from it."""
    node = config_node(make_gymnasium_backend, GymnasiumConfig)
    ConfigStore.instance().store(group="task", name="gymnasium_schema", node=node)
