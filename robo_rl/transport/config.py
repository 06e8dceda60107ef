"""Configuration of the transport."""

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from robo_rl.core import MAX_SECONDS, ConfigError, DataError, Options, option, read_secret, require, user_folder

from .images import CODINGS

UNIX = "unix:"
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
            encrypted unless ``certificates`` is given as well. Null: none.
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
        is_known = self.image_compression in CODINGS
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
        """Whether only this machine can reach the address."""
        if self.host is None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def token(self) -> str:
        """Return the secret, or an empty string without ``token_file``.

        Raises:
            ConfigError: if the file cannot be read, other users can read it, or it holds fewer than 16 characters.
        """
        if self.token_file is None:
            return ""
        try:
            token = read_secret(Path(self.token_file)).strip()
        except (OSError, DataError) as error:
            raise ConfigError(f"transport.token_file {self.token_file} cannot be read: {error}") from error
        require(len(token) >= 16, "the token in transport.token_file", "16 characters or more", f"{len(token)}")
        return token
