"""Import and export of data sets in formats of other projects; see docs/reference/interchange.md for their limits."""

from functools import partial
from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from robo_rl.core import config_node
from robo_rl.core.choices import store_choice
from robo_rl.core.lazy import ClassTable, imported_on_use

from .foreign import ForeignConfig

if TYPE_CHECKING:
    from .data import DataFormat, DataSet
    from .lerobot import LeRobot
    from .notes import ImportNotes
    from .rlds import Rlds
    from .robomimic import Robomimic
    from .rosbag import Rosbag
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = [
    "DataFormat",
    "DataSet",
    "ForeignConfig",
    "ImportNotes",
    "LeRobot",
    "Rlds",
    "Robomimic",
    "Rosbag",
    "register_configs",
]

FORMATS = ClassTable(
    __name__,
    lerobot="lerobot.LeRobot",
    rlds="rlds.Rlds",
    robomimic="robomimic.Robomimic",
    rosbag="rosbag.Rosbag",
)
"""Classes of the formats by name."""


def register_configs() -> None:
    """Register the formats (group ``format``) and the options for importing foreign data with Hydra."""
    for name in FORMATS:
        store_choice("format", name, partial(_format_node, name))
    ConfigStore.instance().store(name="foreign_schema", node={"foreign": config_node(None, ForeignConfig)})


def _format_node(name: str) -> DictConfig:
    return config_node(FORMATS[name], FORMATS[name])
