"""Transport between actors and learner: gRPC with a versioned schema, authentication and message size limits."""

import os
from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from robo_rl.core import config_node
from robo_rl.core.lazy import imported_on_use

from .config import TransportConfig

if TYPE_CHECKING:
    from .client import LearnerLink
    from .codec import RecordDecoder, RecordEncoder
    from .control import COMMANDS, is_command, send_command, wanted_actors
    from .keys import certifies, is_private, make_keys
    from .server import LearnerServer
    from .service import SOCKET, new_socket_folder
    from .views import ActorView
else:
    __getattr__ = imported_on_use(__name__, __file__)

# By default, gRPC writes a line to the terminal for each failed handshake, and any client can cause many.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

__all__ = [
    "COMMANDS",
    "SOCKET",
    "ActorView",
    "LearnerLink",
    "LearnerServer",
    "RecordDecoder",
    "RecordEncoder",
    "TransportConfig",
    "certifies",
    "is_command",
    "is_private",
    "make_keys",
    "new_socket_folder",
    "register_configs",
    "send_command",
    "wanted_actors",
]


def register_configs() -> None:
    """Register the section ``transport`` of a command that sends commands to a run."""
    node = OmegaConf.create({"transport": config_node(None, TransportConfig)})
    ConfigStore.instance().store(name="control_schema", node=node)
