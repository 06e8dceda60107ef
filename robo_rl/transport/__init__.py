"""The transport between actors and learner: gRPC with a versioned schema, authentication and limits on message size."""

from .client import LearnerLink
from .codec import RecordDecoder, RecordEncoder
from .config import TransportConfig
from .control import COMMANDS, is_command, send_command, wanted_actors
from .keys import make_keys
from .policy import PolicyMessage, pack_policy, unpack_policy
from .server import LearnerServer
from .service import SOCKET, new_socket_folder
from .views import ActorView, LinkStatus

__all__ = [
    "COMMANDS",
    "SOCKET",
    "ActorView",
    "LearnerLink",
    "LearnerServer",
    "LinkStatus",
    "PolicyMessage",
    "RecordDecoder",
    "RecordEncoder",
    "TransportConfig",
    "is_command",
    "make_keys",
    "new_socket_folder",
    "pack_policy",
    "send_command",
    "unpack_policy",
    "wanted_actors",
]
