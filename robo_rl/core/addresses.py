"""The check that an address is one of this machine."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach ``host``: ``localhost`` or a loopback address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
