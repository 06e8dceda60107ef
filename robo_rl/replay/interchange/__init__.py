"""Import and export of data sets in formats of other projects; see docs/reference/interchange.md for their limits."""

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node

from .data import DataFormat, DataSet
from .foreign import ForeignConfig
from .lerobot import LeRobot
from .notes import ImportNotes
from .rlds import Rlds
from .robomimic import Robomimic
from .rosbag import Rosbag

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


def register_configs() -> None:
    """Register the formats (group ``format``) and the options for importing foreign data with Hydra."""
    store = ConfigStore.instance()
    formats = {"lerobot": LeRobot, "rlds": Rlds, "robomimic": Robomimic, "rosbag": Rosbag}
    for name, config_class in formats.items():
        store.store(group="format", name=name, node=config_node(config_class, config_class))
    store.store(name="foreign_schema", node={"foreign": config_node(None, ForeignConfig)})
