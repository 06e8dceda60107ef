"""Calls of the transport, and the channels and sockets that carry them."""

import contextlib
import os
import resource
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

from robo_rl.core import ConfigError, DataError, read_bytes

from . import messages_pb2 as messages
from .config import UNIX, TransportConfig

KEY_BYTES = 1 << 20
"""Largest size of a certificate or key file [bytes]."""

PROTOCOL = 4
SERVICE = "robo_rl.transport.v1.Learner"
TOKEN_KEY = "robo-rl-token"
RETRY_KEY = "robo-rl-retry-seconds"
"""Metadata key of a temporary refusal, with the time until the next attempt."""

SOCKET = "learner"
"""Name of a learner's socket in the folder that is created for it."""
_SOCKET_FOLDER = "robo-rl-"
_MAKING_SECONDS = 60.0
STRANGER_SECONDS = 5.0
"""Time limits for the handshake of a connection, and for a connection without a call, after which the learner closes it
[s].
"""
MOST_CONNECTIONS = 1024
"""Largest number of connections of a learner, if its process may open enough files; further ones are closed."""
MOST_CALLS = 100
"""Largest number of concurrent calls of one connection."""


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
    """Return the channel options of both sides: sizes, reconnection, and a separate connection for each channel."""
    size = config.message_bytes
    return [
        ("grpc.max_receive_message_length", size),
        ("grpc.max_send_message_length", size),
        ("grpc.max_metadata_size", 16 << 10),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.so_reuseport", 0),
        # Reconnect to a lost learner within a second; the default of gRPC waits up to two minutes.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        # Time limit of one attempt, including handshakes.
        ("grpc.min_reconnect_backoff_ms", int(1000 * config.timeout_seconds)),
    ]


def most_connections() -> int:
    """Return the number of connections that a learner accepts: :data:`MOST_CONNECTIONS`, or half of its file limit."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, files // 2)


def server_options(config: TransportConfig) -> list[tuple[str, Any]]:
    """Return the options of the learner's server, which limit the file descriptors that idle connections take."""
    return [
        *channel_options(config),
        ("grpc.server_handshake_timeout_ms", int(1000 * STRANGER_SECONDS)),
        ("grpc.max_allowed_incoming_connections", most_connections()),
        # The connection of an actor is never idle, because it receives notices.
        ("grpc.max_connection_idle_ms", int(1000 * STRANGER_SECONDS)),
        ("grpc.max_concurrent_streams", MOST_CALLS),
    ]


def channel_maker(config: TransportConfig, name: str) -> Callable[[], grpc.Channel]:
    """Return a function that opens a channel, with its own connection, to the learner.

    The certificates are read once, by this function.

    Args:
        config: configuration of the transport.
        name: name of the certificate to present: that of the actor, or ``operator``.

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
    """Return the learner's credentials, which demand a certificate of the client; None without certificates."""
    if config.certificates is None:
        return None
    folder = Path(config.certificates)
    pair = read_key(folder / "learner.key"), read_key(folder / "learner.pem")
    return grpc.ssl_server_credentials([pair], root_certificates=read_key(folder / "ca.pem"), require_client_auth=True)


def listen(server: grpc.Server, config: TransportConfig) -> str:
    """Bind the learner's ``server`` to ``config.address``; return the address with the actual port.

    Raises:
        ConfigError: if the address cannot be listened on, or certificates cannot be read.
    """
    if config.address is None:
        raise ConfigError("transport.address is missing: give HOST:PORT or unix:/path to listen on")
    if config.host is None:
        path = Path(config.address.removeprefix(UNIX))
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _remove_dead_socket(path)
    credentials = _server_credentials(config)
    mask = os.umask(0o077)  # so that only this user can ever open the socket
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
        return read_bytes(file, KEY_BYTES)
    except (DataError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{file} cannot be read ({reason}); make it with robo-rl keys") from error


def metadata(token: str) -> list[tuple[str, str]]:
    """Return the metadata that every request carries beside its message."""
    return [(TOKEN_KEY, token)] if token else []


def new_socket_folder() -> Path:
    """Create a folder for the :data:`SOCKET` of a learner, and remove those of this user's killed learners.

    The socket is not in the run folder, because the path of a socket has at most 107 characters.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{_SOCKET_FOLDER}*"):
        with contextlib.suppress(OSError):  # a folder of another user, or one removed meanwhile
            path = folder / SOCKET
            status = path.lstat()
            is_own = stat.S_ISSOCK(status.st_mode) and status.st_uid == os.getuid()
            # A new socket does not listen immediately.
            if is_own and time.time() - status.st_mtime > _MAKING_SECONDS and not _listens(path):
                shutil.rmtree(folder)
    return Path(tempfile.mkdtemp(prefix=_SOCKET_FOLDER))


def _remove_dead_socket(path: Path) -> None:
    """Remove the socket that a killed learner left behind.

    Raises:
        ConfigError: if a process listens on it, or ``path`` is not a socket.
    """
    if path.exists() and not path.is_socket():
        raise ConfigError(f"transport.address {UNIX}{path} is taken by something that is not a socket; choose another")
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
        except BlockingIOError:  # the queue of a stopped process is full
            return True
        except OSError:
            return False
    return True
