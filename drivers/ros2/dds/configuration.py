"""ROS 2's environment variables as Cyclone DDS's configuration."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import quoteattr

from robo_rl.core import require

Range = Literal["SUBNET", "LOCALHOST", "OFF", "SYSTEM_DEFAULT"]

_LARGEST_DOMAIN = 232
"""Above it ports leave the range of UDP."""

_PARTICIPANTS = 100
"""Processes of a machine that are looked for where discovery goes without multicast."""


@dataclass(frozen=True)
class Discovery:
    """Whom a node looks for, as ROS 2's environment variables say it.

    Attributes:
        domain: ``ROS_DOMAIN_ID``: nodes of different domains do not see each other.
        range: ``ROS_AUTOMATIC_DISCOVERY_RANGE``; LOCALHOST where ``ROS_LOCALHOST_ONLY`` is 1.
        localhost_only: ``ROS_LOCALHOST_ONLY``: besides, nothing is sent or received through other interfaces.
        static_peers: ``ROS_STATIC_PEERS``: addresses to look at in any case, separated by ``;``.
        base: ``CYCLONEDDS_URI``: Cyclone's own configuration, which all of the above is added to.
    """

    domain: int = 0
    range: Range = "SUBNET"
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
        return cls(
            domain=int(domain),
            range=environment.get("ROS_AUTOMATIC_DISCOVERY_RANGE") or "SUBNET",  # type: ignore[arg-type]
            localhost_only=environment.get("ROS_LOCALHOST_ONLY", "0") == "1",
            static_peers=tuple(peer for peer in environment.get("ROS_STATIC_PEERS", "").split(";") if peer.strip()),
            base=environment.get("CYCLONEDDS_URI", ""),
        )

    def cyclone(self) -> str:
        """Return the configuration that a domain is created with: URIs and XML, separated by commas."""
        general, discovery = "", ""
        if self.localhost_only:
            general += '<Interfaces><NetworkInterface address="127.0.0.1"/></Interfaces>'
        if self.localhost_only or self.range in ("LOCALHOST", "OFF"):
            general += "<AllowMulticast>false</AllowMulticast>"
        local = self.localhost_only or self.range == "LOCALHOST"
        if self.range == "OFF":
            # A tag of its own: participants with another tag are not answered.
            discovery += f"<ParticipantIndex>none</ParticipantIndex><Tag>ros_discovery_off_{os.getpid()}</Tag>"
        elif peers := (*(("127.0.0.1",) if local else ()), *self.static_peers):
            listed = "".join(f"<Peer address={quoteattr(peer.strip())}/>" for peer in peers)
            discovery += (
                f"<ParticipantIndex>auto</ParticipantIndex>"
                f"<MaxAutoParticipantIndex>{_PARTICIPANTS}</MaxAutoParticipantIndex><Peers>{listed}</Peers>"
            )
        own = (
            '<CycloneDDS><Domain id="any">'
            f"<General>{general}</General><Discovery>{discovery}</Discovery></Domain></CycloneDDS>"
        )
        return f"{self.base},{own}" if self.base else own
