"""Configuration of the transport."""

import contextlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from robo_rl.core import (
    MAX_SECONDS,
    ConfigError,
    DataError,
    Options,
    is_loopback,
    option,
    read_secret,
    require,
    user_folder,
)

UNIX = "unix:"
COMPRESSIONS = (None, "zstd", "jpeg")
PATH_BYTES = 107
"""Longest path of a Unix socket."""


@dataclass(frozen=True)
class TransportConfig(Options, section="transport"):
    """Address of the learner, and authentication of learner and actors.

    Attributes:
        address: ``host:port`` where the learner listens and actors connect, or ``unix:/path/of/socket``, a socket that
            only this user can open; ``unix:`` alone is the one in this user's state folder. A host that other machines
            can reach needs ``certificates`` or ``token_file``. Null: none yet.
        certificates: folder made by ``robo-rl keys``: mutual TLS; an actor may only use the name in its certificate.
            Null: no encryption.
        token_file: file with a secret that every request must contain, readable only by its owner; the secret is not
            encrypted unless ``certificates`` is given as well. Null: none, or, for an address ``host:port`` that only
            this machine can reach and without ``certificates``, the file ``learner_token`` in this user's state folder,
            which is made when it is needed first: processes of other users are refused.
        image_compression: compression of images by actors: null (none), ``zstd`` (lossless), or ``jpeg`` (smaller,
            lossy: the learner uses the decompressed images, the actor those of its camera).
        message_bytes: largest accepted message [bytes].
        max_actors: largest number of actors connected to the learner at a time; others must try again later, until one
            has ended its session or has been silent for 5 s.
        requests_per_second: largest rate of requests that the learner accepts from one actor; further requests are
            refused with the time after which to repeat them, and nothing is lost. Null: no limit.
        bytes_per_second: largest rate of bytes in these requests, likewise.
        timeout_seconds: longest wait for an answer; a connection that is silent for longer is renewed [s].
    """

    address: str | None = None
    certificates: str | None = None
    token_file: str | None = None
    image_compression: str | None = None
    message_bytes: int = option(8 << 20, low=65536)
    max_actors: int = option(32, low=1)
    requests_per_second: float | None = option(None, low=0.1)
    bytes_per_second: float | None = option(None, low=1)
    timeout_seconds: float = option(4.0, above=0, high=MAX_SECONDS)

    def __post_init__(self) -> None:
        super().__post_init__()
        is_known = self.image_compression in COMPRESSIONS
        require(is_known, "transport.image_compression", "null, zstd or jpeg", self.image_compression)
        if self.address == UNIX:
            folder = user_folder("state", "the learner's socket", " or transport.address=unix:/path")
            object.__setattr__(self, "address", f"{UNIX}{folder / 'learner'}")
        if self.address is not None and self.address.startswith(UNIX):
            size = len(os.fsencode(self.address.removeprefix(UNIX)))
            require(size <= PATH_BYTES, "transport.address", f"a path of at most {PATH_BYTES} bytes", self.address)
        host = self.host
        if self.address is not None and host is not None:
            port = self.address.rpartition(":")[2]
            is_valid = bool(host) and port.isdecimal() and int(port) < 65536
            require(is_valid, "transport.address", "HOST:PORT or unix:/path", self.address)
        if self.certificates is None and self.token_file is None and not self.is_local:
            raise ConfigError(
                f"transport.address {self.address} can be reached from other machines: give transport.certificates "
                "(make them with robo-rl keys) or transport.token_file"
            )

    @property
    def host(self) -> str | None:
        """Host of the address; None for a Unix socket."""
        if self.address is None or self.address.startswith(UNIX):
            return None
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def is_local(self) -> bool:
        """Whether the address is reachable from this machine alone."""
        return self.host is None or is_loopback(self.host)

    def token(self) -> str:
        """Return the secret, or an empty string if none is needed.

        Raises:
            ConfigError: if the file cannot be read or made, other users can read it, or it holds fewer than 16
                characters.
        """
        if self.token_file is None and (self.host is None or self.certificates is not None):
            return ""
        file = _own_token_file() if self.token_file is None else Path(self.token_file)
        try:
            token = read_secret(file).strip()
        except (OSError, DataError) as error:
            raise ConfigError(f"transport.token_file {file} cannot be read: {error}") from error
        require(len(token) >= 16, f"the token in transport.token_file {file}", "16 characters or more", f"{len(token)}")
        return token


def _own_token_file() -> Path:
    """Return the file with the secret of this user's learners on this machine; make it if it is missing.

    Raises:
        ConfigError: if it cannot be made, or this user has no home folder.
    """
    file = user_folder("state", "the token of the learner", " or transport.token_file=FILE") / "learner_token"
    partial = file.with_name(f"{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                out.write(secrets.token_urlsafe(32))
            try:
                # Learner and actors may start at the same time. Linking a complete file makes the first one count, and
                # no process reads an incomplete one.
                with contextlib.suppress(FileExistsError):
                    os.link(partial, file)
            finally:
                partial.unlink()
    except OSError as error:
        raise ConfigError(f"{file} cannot be made ({error.strerror}): give transport.token_file=FILE") from error
    return file
