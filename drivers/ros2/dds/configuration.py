"""ROS 2's environment variables as Cyclone DDS's configuration."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from robo_rl.core import require

_LARGEST_DOMAIN = 232
"""Above it ports leave the range of UDP."""

_PARTICIPANTS = 32
"""Processes of a machine that are looked for where discovery goes without multicast; ROS 2's own number."""

_LOOKING = "<InitialLocatorPruneDelay>inf</InitialLocatorPruneDelay><SPDPInterval>1 s</SPDPInterval>"
"""Peers are looked at all the time: who comes later than us may not look at us."""

_LOOPBACK = '<NetworkInterface address="127.0.0.1" priority="0"/>'
_NETWORK = '<NetworkInterface autodetermine="true" priority="1"/>'
"""The interface that Cyclone takes by itself; preferred, so that its address is looked at too."""


@dataclass(frozen=True)
class Discovery:
    """Domain and peers of a node, from ROS 2's environment variables.

    Attributes:
        domain: ``ROS_DOMAIN_ID``: nodes of different domains do not see each other.
        range: ``ROS_AUTOMATIC_DISCOVERY_RANGE``.
        localhost_only: ``ROS_LOCALHOST_ONLY``: loopback alone; ``range`` is LOCALHOST then, and peers do not count.
        static_peers: ``ROS_STATIC_PEERS``: addresses to look at in any case, separated by ``;``.
        base: ``CYCLONEDDS_URI``: Cyclone's own configuration, which counts more than what is made of the above.
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
        """Return what the environment says.

        Raises:
            ConfigError: if a variable has no allowed value.
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
        """Return the configurations to create a domain with: the first that Cyclone accepts.

        They are what rmw_cyclonedds makes of the environment, and what Cyclone 11 needs besides to find, and be found
        by, the Cyclone 0.10 of Humble and Jazzy: it hears nobody on interfaces that it was not told to use (so loopback
        is one, which it refuses where it is the only one or ``CYCLONEDDS_URI`` names one) and forgets peers that do not
        answer.

        Parts of a configuration are separated by commas, and later ones count more: ``CYCLONEDDS_URI`` is the last.
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
            # A tag of its own: participants with another tag are not answered.
            discovery = f"<ParticipantIndex>none</ParticipantIndex><Tag>ros_discovery_off_{os.getpid()}</Tag>"
        else:
            peers = (*(("127.0.0.1",) if local else ()), *(() if self.localhost_only else self.static_peers))
            listed = "".join(f"<Peer address={quoteattr(peer.strip())}/>" for peer in peers)
            discovery = (
                "<ParticipantIndex>auto</ParticipantIndex>"
                f"<MaxAutoParticipantIndex>{_PARTICIPANTS}</MaxAutoParticipantIndex>"
                + (f"{_LOOKING}<Peers>{listed}</Peers>" if listed else "")
            )
        return (
            f'<CycloneDDS><Domain id="any"><General>{general}</General><Discovery>{discovery}</Discovery>'
            "</Domain></CycloneDDS>"
        )
