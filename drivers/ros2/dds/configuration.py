"""Configuration of Cyclone DDS from ROS 2's environment variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from robo_rl.core import require

_LARGEST_DOMAIN = 232
"""Largest domain number. Ports of larger domains would leave the range of UDP."""

_PARTICIPANTS = 32
"""Number of processes on a machine that discovery without multicast looks for, as in ROS 2."""

_LOOKING = "<InitialLocatorPruneDelay>inf</InitialLocatorPruneDelay><SPDPInterval>1 s</SPDPInterval>"
"""Peers are contacted continuously, because a peer that starts later may not contact this node."""

_LOOPBACK = '<NetworkInterface address="127.0.0.1" priority="0"/>'
_NETWORK = '<NetworkInterface autodetermine="true" priority="1"/>'
"""Cyclone's default interface. It is preferred, so that its address is contacted too."""


@dataclass(frozen=True)
class Discovery:
    """Domain and peers of a node, from ROS 2's environment variables.

    Attributes:
        domain: ``ROS_DOMAIN_ID``; nodes of different domains do not see each other.
        range: ``ROS_AUTOMATIC_DISCOVERY_RANGE``.
        localhost_only: ``ROS_LOCALHOST_ONLY``: only loopback. ``range`` is then LOCALHOST, and static peers are
            ignored.
        static_peers: ``ROS_STATIC_PEERS``: additional addresses to contact, separated by ``;``.
        base: ``CYCLONEDDS_URI``: Cyclone's own configuration, which overrides everything derived from the above.
    """

    domain: int = 0
    range: str = "SUBNET"
    localhost_only: bool = False
    static_peers: tuple[str, ...] = ()
    base: str = ""

    def __post_init__(self) -> None:
        require(0 <= self.domain <= _LARGEST_DOMAIN, "ROS_DOMAIN_ID", f"0 to {_LARGEST_DOMAIN}", self.domain)
        allowed = ("SUBNET", "LOCALHOST", "OFF", "SYSTEM_DEFAULT")
        require(self.range in allowed, "ROS_AUTOMATIC_DISCOVERY_RANGE", " or ".join(allowed), self.range)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Discovery":
        """Return the settings of the environment.

        Raises:
            ConfigError: if a variable has an invalid value.
        """
        domain = environment.get("ROS_DOMAIN_ID") or "0"
        require(domain.isdecimal(), "ROS_DOMAIN_ID", f"0 to {_LARGEST_DOMAIN}", domain)
        localhost_only = environment.get("ROS_LOCALHOST_ONLY", "0") == "1"
        return cls(
            domain=int(domain),
            range="LOCALHOST" if localhost_only else environment.get("ROS_AUTOMATIC_DISCOVERY_RANGE") or "SUBNET",
            localhost_only=localhost_only,
            static_peers=tuple(peer for peer in environment.get("ROS_STATIC_PEERS", "").split(";") if peer.strip()),
            base=environment.get("CYCLONEDDS_URI", ""),
        )

    def cyclone(self) -> list[str]:
        """Return configurations to create a domain with, to be tried in order until Cyclone accepts one.

        They contain the settings that rmw_cyclonedds derives from the environment, and additional settings with which
        Cyclone 11 and the Cyclone 0.10 of Humble and Jazzy discover each other. Cyclone 11 only receives on the
        configured interfaces, so loopback is added. Cyclone rejects that if loopback is the machine's only interface or
        if ``CYCLONEDDS_URI`` names an interface. Cyclone 11 also forgets peers that do not answer.

        Parts of a configuration are separated by commas. Later parts override earlier ones, and ``CYCLONEDDS_URI`` is
        last.
        """
        if self.localhost_only:
            interfaces = [_LOOPBACK]
        elif self.range == "LOCALHOST":
            interfaces = [_NETWORK + _LOOPBACK, ""]
        else:
            interfaces = [""]
        return [",".join(part for part in (self._own(selected), self.base) if part) for selected in interfaces]

    def _own(self, interfaces: str) -> str:
        if self.range == "SYSTEM_DEFAULT":
            return ""
        local = self.range == "LOCALHOST"
        general = f"<Interfaces>{interfaces}</Interfaces>" if interfaces else ""
        if local or self.range == "OFF":
            general += "<AllowMulticast>false</AllowMulticast>"
        if self.range == "OFF":
            # A unique tag: participants with another tag are not answered.
            discovery = f"<ParticipantIndex>none</ParticipantIndex><Tag>ros_discovery_off_{os.getpid()}</Tag>"
        else:
            peers = (*(("127.0.0.1",) if local else ()), *(() if self.localhost_only else self.static_peers))
            peer_elements = "".join(f"<Peer address={quoteattr(peer.strip())}/>" for peer in peers)
            discovery = (
                "<ParticipantIndex>auto</ParticipantIndex>"
                f"<MaxAutoParticipantIndex>{_PARTICIPANTS}</MaxAutoParticipantIndex>"
                + (f"{_LOOKING}<Peers>{peer_elements}</Peers>" if peer_elements else "")
            )
        return (
            f'<CycloneDDS><Domain id="any"><General>{general}</General><Discovery>{discovery}</Discovery>'
            "</Domain></CycloneDDS>"
        )
