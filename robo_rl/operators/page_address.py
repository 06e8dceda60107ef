"""Addresses of pages, for browsers on this machine and on phones in the same network."""

import dataclasses
import fcntl
import hashlib
import io
import ipaddress
import os
import socket
import ssl
from pathlib import Path

from omegaconf import DictConfig

from ..core import ConfigError, importing_extra, section, user_folder
from ..transport import certifies, is_private, make_keys
from ..web import AUTHORITY_PATH, LAN, WebConfig

ROUTED = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses for documentation (RFC 5737, RFC 3849), behind the default route of a machine that has one."""
OTHERWISE = (
    ": give its address in the network of the phone, as web.address=ADDRESS:PORT web.certificates=keys (robo-rl keys "
    "'hosts=[ADDRESS]' makes them)"
)


def page_settings(config: DictConfig) -> WebConfig:
    """Return the section ``web``, with the host ``lan`` replaced by the address of this machine in its network.

    Certificates for that address are made in the user's own folder unless ``web.certificates`` is given, and kept: a
    phone that trusts their authority once trusts all pages of this user.

    Raises:
        ConfigError: if this machine has no address in a private network, or certificates cannot be made.
    """
    settings: WebConfig = section(config, "web")
    if not settings.is_local:
        with importing_extra("web", "pages for other devices need the package segno"):
            import segno  # noqa: F401
    if settings.host != LAN:
        return settings
    host = network_address()
    folder = settings.certificates or str(_make_certificates(host))
    (port,) = settings.ports
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return dataclasses.replace(settings, address=address, certificates=folder)


def network_address() -> str:
    """Return the address of this machine in the private network of its default route. Nothing is sent.

    Raises:
        ConfigError: if there is no such network, or its addresses are public.
    """
    for family, behind in ROUTED:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((behind, 9))  # of a datagram socket: this only chooses the route
            except OSError:
                continue
            host = str(probe.getsockname()[0])
        if ipaddress.ip_address(host).is_loopback:
            continue
        if not is_private(host):
            raise ConfigError(
                f"web.address {LAN}: {host}, the address of this machine, is not in a private network{OTHERWISE}"
            )
        return host
    raise ConfigError(f"web.address {LAN}: this machine has no network with a default route{OTHERWISE}")


def link_text(link: str, settings: WebConfig) -> str:
    """Return the address of a page. For other devices, add a QR code and the address of the authority's certificate."""
    if settings.is_local:
        return link
    import segno

    code = io.StringIO()
    segno.make(link).terminal(code, compact=True)
    if not has_own_authority(settings):
        return f"{link}\n{code.getvalue().rstrip()}"
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(_authority(settings).read_text())).digest()
    return (
        f"{link}\n{code.getvalue()}To open it without a warning, install the certificate at "
        f"{link.partition('/#')[0]}{AUTHORITY_PATH} on that device, if its SHA-256 fingerprint there is\n"
        f"{digest.hex(':').upper()}"
    )


def has_own_authority(settings: WebConfig) -> bool:
    """Return whether the certificates of a page are of an authority that browsers do not know."""
    return _authority(settings).exists()


def _authority(settings: WebConfig) -> Path:
    return Path(settings.certificates or "", AUTHORITY_PATH.removeprefix("/"))


def _make_certificates(host: str) -> Path:
    folder = user_folder("state", "certificates of pages", " or web.certificates") / "pages"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # several commands may start at the same time
        if not certifies(folder, host):
            make_keys(folder, [host], [], private=True)
    finally:
        os.close(descriptor)
    return folder
