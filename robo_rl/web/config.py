"""Configuration of the pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from robo_rl.core import ConfigError, DataError, is_loopback, read_secret, require

TOKEN_CHARACTERS = 16
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8090
DEFAULT_PORTS = 100
"""Number of ports from the default one on, of which a page takes the first free one."""
LAN = "lan"
"""Host that stands for the address of this machine in its local network."""
AUTHORITY_PATH = "/ca.pem"
"""Path of the authority's certificate, for devices that are to trust the certificates of pages."""


@dataclass(frozen=True)
class WebConfig:
    """Address of the pages, and access to them.

    Attributes:
        address: ``HOST:PORT`` to listen on, with the name or address under which browsers reach it; port 0: any free
            port. A host that other machines can reach needs ``certificates``. The host ``lan`` stands for
            this machine's address in its local network, for a phone in that network; missing certificates are made.
            Null: 127.0.0.1:8090 or, while other pages are there, the next free port.
        certificates: folder made by ``robo-rl keys`` with this host among ``hosts``: its ``learner.pem`` and
            ``learner.key`` are used for HTTPS. Null: no encryption.
        token_file: file with the secret that a page must present, readable only by its owner; null: a new secret at
            each start.
    """

    address: str | None = None
    certificates: str | None = None
    token_file: str | None = None

    def __post_init__(self) -> None:
        if self.address is None:
            return
        port = self.address.rpartition(":")[2]
        valid = bool(self.host) and port.isdecimal() and int(port) < 65536
        require(valid, "web.address", "HOST:PORT", self.address)
        is_wildcard = self.host in ("0.0.0.0", "::")
        require(
            not is_wildcard, "web.address", "the name or address under which browsers reach this machine", self.host
        )
        if not self.is_local and self.host != LAN and self.certificates is None:
            raise ConfigError(
                f"web.address {self.address} can be reached from other machines: set web.certificates (make them with "
                f"robo-rl keys 'hosts=[{self.host}]'), or use web.address={LAN}:{port}"
            )

    @property
    def host(self) -> str:
        """Host of the address."""
        return DEFAULT_HOST if self.address is None else self.address.rpartition(":")[0].strip("[]")

    @property
    def ports(self) -> Sequence[int]:
        """Ports of which the page takes the first free one; 0: any free one."""
        if self.address is None:
            return range(DEFAULT_PORT, DEFAULT_PORT + DEFAULT_PORTS)
        return (int(self.address.rpartition(":")[2]),)

    @property
    def is_local(self) -> bool:
        """Whether the address is reachable from this machine alone."""
        return is_loopback(self.host)

    def token(self) -> str | None:
        """Return the secret in the file; None if no file is given.

        Raises:
            ConfigError: if the file cannot be read, others can read it, or it holds less than 16 characters.
        """
        if self.token_file is None:
            return None
        try:
            token = read_secret(Path(self.token_file)).strip()
        except (OSError, DataError) as error:
            raise ConfigError(f"web.token_file {self.token_file} cannot be read: {error}") from error
        is_long_enough = len(token) >= TOKEN_CHARACTERS
        require(is_long_enough, "the token in web.token_file", f"{TOKEN_CHARACTERS} characters or more", len(token))
        return token
