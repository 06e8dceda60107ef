"""Certificates for mutual TLS."""

import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path

from robo_rl.core import importing_extra, require

VALID_DAYS = 825
LEARNER = "learner"
OPERATOR = "operator"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
LEAST_DAYS = 30
"""Remaining validity below which certificates are made again [days]."""
PRIVATE = tuple(
    ipaddress.ip_network(network)
    for network in (
        *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
        *("::1/128", "fc00::/7", "fe80::/10"),
    )
)
"""Networks that cannot be reached from the Internet (RFC 1918, 6598, 3927, 4193 and 4291)."""


def certifies(folder: Path, host: str) -> bool:
    """Return whether :func:`make_keys` made a certificate for ``host`` that is valid for :data:`LEAST_DAYS` or more.

    Raises:
        ConfigError: if the certificate is damaged, or the package ``cryptography`` is missing.
    """
    with importing_extra("distributed", "certificates need the package cryptography"):
        from .certificates import is_certified

    return is_certified(folder, LEARNER, host, LEAST_DAYS)


def is_private(host: str) -> bool:
    """Return whether ``host`` is an address in one of the :data:`PRIVATE` networks."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in PRIVATE)


def make_keys(
    folder: Path, hosts: Sequence[str], actors: Sequence[str], days: int = VALID_DAYS, private: bool = False
) -> list[Path]:
    """Make a private authority and certificates for the learner, each actor and the operator.

    An existing authority is kept, so that actors can be added later. Existing certificates are replaced; the learner's
    new certificate keeps the hosts of the old one. After an interrupted call, the same call completes the files.

    Args:
        folder: folder for ``NAME.pem`` and ``NAME.key`` (readable only by its owner), and ``ca.pem``, ``ca.key``.
        hosts: names and addresses by which actors reach the learner, in addition to those of an existing certificate.
        actors: names of the actors.
        days: validity of the certificates [days]; that of the authority is valid for twice as long.
        private: limit a new authority to addresses in the :data:`PRIVATE` networks. Whoever trusts it then trusts it
            for no site on the Internet, even if its key is stolen (RFC 5280, section 4.2.1.10).

    Returns:
        The files that were written.

    Raises:
        ConfigError: if a name or host is invalid, the folder holds damaged files or those of another program, or the
            package ``cryptography`` is missing.
    """
    with importing_extra("distributed", "robo-rl keys needs the package cryptography"):
        from .certificates import AUTHORITY, Authority

    require(days >= 1, "days", "1 or more", days)
    for name in actors:
        is_usable = NAME.fullmatch(name) is not None and name not in (LEARNER, OPERATOR, AUTHORITY)
        require(
            is_usable, "an actor's name", f"letters, digits, - _ . and not {LEARNER}, {OPERATOR} or {AUTHORITY}", name
        )
    require(bool(hosts), "hosts", "at least one name or address", list(hosts))
    for host in hosts if private else ():
        require(is_private(host), "hosts", "addresses in private networks", host)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = Authority(folder, days, PRIVATE if private else ())
    authority.certify_server(LEARNER, hosts)
    for name in (OPERATOR, *actors):
        authority.certify_client(name)
    return authority.written
