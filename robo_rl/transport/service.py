"""The four calls of the wire, and how both sides make channels of it."""

import contextlib
import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from robo_rl.core import ConfigError

from . import messages_pb2 as messages
from .config import UNIX, TransportConfig

PROTOCOL = 4
SERVICE = "robo_rl.transport.v1.Learner"
TOKEN_KEY = "robo-rl-token"
RETRY_KEY = "robo-rl-retry-seconds"
"""Of what accompanies a refusal for now: when to come again."""

SOCKET = "learner"
"""Name of a learner's socket in the folder that is made for it."""
_SOCKET_FOLDER = "robo-rl-"
_MAKING_SECONDS = 60.0
STRANGER_SECONDS = 5.0
"""How long a connection may say nothing before the learner closes it."""
MOST_CONNECTIONS = 256
"""Of a learner; more wait until one is closed."""


class Call(NamedTuple):
    """One call: its name, the classes of its request and reply, and whether replies are a stream."""

    name: str
    request: Any
    reply: Any
    streams: bool = False

    @property
    def path(self) -> str:
        return f"/{SERVICE}/{self.name}"


JOIN = Call("Join", messages.JoinRequest, messages.JoinReply)
EXCHANGE = Call("Exchange", messages.ExchangeRequest, messages.ExchangeReply)
WATCH = Call("Watch", messages.WatchRequest, messages.Notice, streams=True)
CONTROL = Call("Control", messages.ControlRequest, messages.ControlReply)


def channel_options(config: TransportConfig) -> list[tuple[str, Any]]:
    """Return the options of both sides: sizes, reconnection, and a channel of its own for each connection."""
    size = config.message_bytes
    return [
        ("grpc.max_receive_message_length", size),
        ("grpc.max_send_message_length", size),
        ("grpc.max_metadata_size", 16 << 10),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.so_reuseport", 0),
        # A connection that was lost is tried again within a second; the library's own default waits up to two minutes.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        # How long one attempt may take, handshakes included.
        ("grpc.min_reconnect_backoff_ms", int(1000 * config.timeout_seconds)),
    ]


def server_options(config: TransportConfig) -> list[tuple[str, Any]]:
    """Return the options of the learner: idle connections of strangers do not use up its files."""
    return [
        *channel_options(config),
        ("grpc.server_handshake_timeout_ms", int(1000 * STRANGER_SECONDS)),
        ("grpc.max_allowed_incoming_connections", MOST_CONNECTIONS),
    ]


def channel_maker(config: TransportConfig, name: str) -> Callable[[], grpc.Channel]:
    """Return what makes channels to the learner, each with a connection of its own; files are read once, here.

    Args:
        config: of the wire.
        name: whose certificate is shown: the actor's name, or ``operator``.

    Raises:
        ConfigError: if certificates cannot be read.
    """
    options = channel_options(config)
    if config.address is None:
        raise ConfigError("transport.address is missing: give the learner's, HOST:PORT or unix:/path")
    if config.certificates is None:
        return partial(grpc.insecure_channel, config.address, options)
    folder = Path(config.certificates)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=read_key(folder / "ca.pem"),
        private_key=read_key(folder / f"{name}.key"),
        certificate_chain=read_key(folder / f"{name}.pem"),
    )
    return partial(grpc.secure_channel, config.address, credentials, options)


def _server_credentials(config: TransportConfig) -> grpc.ServerCredentials | None:
    """Return what the learner shows and demands; None without certificates."""
    if config.certificates is None:
        return None
    folder = Path(config.certificates)
    pair = read_key(folder / "learner.key"), read_key(folder / "learner.pem")
    return grpc.ssl_server_credentials([pair], root_certificates=read_key(folder / "ca.pem"), require_client_auth=True)


def listen(server: grpc.Server, config: TransportConfig) -> str:
    """Have the learner's ``server`` listen where ``config`` says; return the address with the port that was taken.

    Raises:
        ConfigError: if that is not possible, or certificates cannot be read.
    """
    if config.address is None:
        raise ConfigError("transport.address is missing: give HOST:PORT or unix:/path to listen on")
    if config.host is None:
        path = Path(config.address.removeprefix(UNIX))
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _remove_dead_socket(path)
    credentials = _server_credentials(config)
    mask = os.umask(0o077)  # a socket is for this user alone, from the first moment
    try:
        if credentials is None:
            port = server.add_insecure_port(config.address)
        else:
            port = server.add_secure_port(config.address, credentials)
    except RuntimeError as error:
        raise ConfigError(
            f"cannot listen on transport.address {config.address}: is another learner there? ({error})"
        ) from error
    finally:
        os.umask(mask)
    if config.host is None:
        path.chmod(0o600)
        return config.address
    return f"{config.address.rpartition(':')[0]}:{port}"


def read_key(file: Path) -> bytes:
    """Return a certificate or key.

    Raises:
        ConfigError: if it cannot be read.
    """
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}); make it with robo-rl keys") from error


def metadata(token: str) -> list[tuple[str, str]]:
    """Return what every request carries beside its message."""
    return [(TOKEN_KEY, token)] if token else []


def new_socket_folder() -> Path:
    """Make a folder for the :data:`SOCKET` of a learner of this machine; remove those of this user's killed learners.

    Not in the run folder: the path of a socket may have 107 characters.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{_SOCKET_FOLDER}*"):
        with contextlib.suppress(OSError):  # of others, or removed meanwhile
            path = folder / SOCKET
            made = path.lstat()
            own = stat.S_ISSOCK(made.st_mode) and made.st_uid == os.getuid()
            # One that is being made does not listen yet.
            if own and time.time() - made.st_mtime > _MAKING_SECONDS and not _listens(path):
                shutil.rmtree(folder)
    return Path(tempfile.mkdtemp(prefix=_SOCKET_FOLDER))


def _remove_dead_socket(path: Path) -> None:
    """Remove the socket that a killed learner left behind.

    Raises:
        ConfigError: if somebody listens on it, or what is there is no socket.
    """
    if path.exists() and not path.is_socket():
        raise ConfigError(f"transport.address {UNIX}{path} is taken by something that is no socket; choose another")
    if _listens(path):
        raise ConfigError(
            f"cannot listen on transport.address {UNIX}{path}: another learner is there. Give this one and its actors "
            "an address of their own, unix:/path or HOST:PORT"
        )
    path.unlink(missing_ok=True)


def _listens(path: Path) -> bool:
    """Return whether a process listens on the socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:  # one that was stopped, with a full queue
            return True
        except OSError:
            return False
    return True
