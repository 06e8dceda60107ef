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


@dataclass(frozen=True)
class Discovery:
    """Whom a node looks for, as ROS 2's environment variables say it.

    Attributes:
        domain: ``ROS_DOMAIN_ID``: nodes of different domains do not see each other.
        range: ``ROS_AUTOMATIC_DISCOVERY_RANGE``.
        localhost_only: ``ROS_LOCALHOST_ONLY``: loopback alone, and nothing of the two others counts.
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

    def cyclone(self) -> str:
        """Return the configuration that a domain is created with, as rmw_cyclonedds makes it.

        Parts are separated by commas, and later ones count more: ``CYCLONEDDS_URI`` is the last.
        """
        parts = [self._own()] if self.localhost_only or self.range != "SYSTEM_DEFAULT" else []
        return ",".join([*parts, *([self.base] if self.base else [])])

    def _own(self) -> str:
        local = self.localhost_only or self.range == "LOCALHOST"
        general = '<Interfaces><NetworkInterface address="127.0.0.1"/></Interfaces>' if self.localhost_only else ""
        if local or self.range == "OFF":
            general += "<AllowMulticast>false</AllowMulticast>"
        if self.range == "OFF" and not local:
            # A tag of its own: participants with another tag are not answered.
            discovery = f"<ParticipantIndex>none</ParticipantIndex><Tag>ros_discovery_off_{os.getpid()}</Tag>"
        else:
            peers = (*(("127.0.0.1",) if local else ()), *(() if self.localhost_only else self.static_peers))
            listed = "".join(f"<Peer address={quoteattr(peer.strip())}/>" for peer in peers)
            discovery = (
                "<ParticipantIndex>auto</ParticipantIndex>"
                f"<MaxAutoParticipantIndex>{_PARTICIPANTS}</MaxAutoParticipantIndex>"
                + (f"<Peers>{listed}</Peers>" if listed else "")
            )
        return (
            f'<CycloneDDS><Domain id="any"><General>{general}</General><Discovery>{discovery}</Discovery>'
            "</Domain></CycloneDDS>"
        )
