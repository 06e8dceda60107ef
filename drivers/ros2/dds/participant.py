"""Participant of a node, in a DDS domain that all nodes of the process share."""

import threading
from contextlib import suppress

from cyclonedds.core import DDSException
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.qos import Policy, Qos

from robo_rl.core import DriverError

from . import library
from .configuration import Discovery

_lock = threading.Lock()
_domains: dict[int, tuple[Domain, Discovery, int]] = {}
"""Domains of this process: entity, settings, and number of nodes that use it."""


class Participant:
    """Participant in a domain. Closing the last participant of a domain ends the domain.

    Args:
        discovery: domain and peers.

    Raises:
        DriverError: if this process has opened the domain with other settings, or Cyclone DDS rejects the settings.
    """

    def __init__(self, discovery: Discovery) -> None:
        self._domain = discovery.domain
        with _lock:
            domain, settings, users = _domains.get(discovery.domain) or (self._open(discovery), discovery, 0)
            if settings != discovery:
                raise DriverError(
                    f"domain {discovery.domain} is open in this process with {settings}; a second node asked for "
                    f"{discovery}. All nodes of a process share the settings of a domain"
                )
            _domains[discovery.domain] = domain, settings, users + 1
        with library.QOS_CONVERSION:
            self.entity = DomainParticipant(discovery.domain, Qos(Policy.Userdata(b"enclave=/;")))
        self.handle: int = self.entity._ref

    def _open(self, discovery: Discovery) -> Domain:
        configurations = discovery.cyclone()
        for configuration in configurations[:-1]:
            with suppress(DDSException):
                return Domain(discovery.domain, configuration)
        try:
            return Domain(discovery.domain, configurations[-1])
        except DDSException as error:
            raise DriverError(
                f"Cyclone DDS could not open domain {discovery.domain}: {error}. Check the network interfaces, "
                f"ROS_STATIC_PEERS and CYCLONEDDS_URI. The configuration was {configurations[-1]}"
            ) from error

    def close(self) -> None:
        """Delete the participant and everything that belongs to it."""
        library.call("dds_delete", self.handle)
        with _lock:
            domain, settings, users = _domains.pop(self._domain)
            if users > 1:
                _domains[self._domain] = domain, settings, users - 1
            else:
                library.call("dds_delete", domain._ref)
