"""Quality of service of a topic, with the names of ROS 2."""

from dataclasses import dataclass
from typing import Literal

from robo_rl.core import Options, option, require

Reliability = Literal["reliable", "best_effort"]
Durability = Literal["volatile", "transient_local"]
History = Literal["keep_last", "keep_all"]


@dataclass(frozen=True)
class QoSProfile(Options):
    """Quality of service that a publisher offers or a subscription requests.

    A best-effort publisher does not serve a reliable subscription, nor a volatile publisher a transient-local (latched)
    subscription; the reverse works.

    Attributes:
        depth: number of messages kept; at 1 kHz a depth of 10 overflows when either side stands still for 10 ms.
        reliability: ``reliable`` repeats lost messages, ``best_effort`` does not.
        durability: ``transient_local`` publishers send the last ``depth`` messages to later subscriptions.
        history: ``keep_all`` has no depth; its publisher waits for slow reliable subscriptions.
        lifespan: age after which a message is not delivered any more [s]; None: no limit.
    """

    depth: int = option(10, low=1)
    reliability: Reliability = "reliable"
    durability: Durability = "volatile"
    history: History = "keep_last"
    lifespan: float | None = option(None, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, allowed in (
            ("reliability", ("reliable", "best_effort")),
            ("durability", ("volatile", "transient_local")),
            ("history", ("keep_last", "keep_all")),
        ):
            require(getattr(self, key) in allowed, key, " or ".join(allowed), getattr(self, key))

    def serves(self, requested: "QoSProfile") -> bool:
        """Return whether a publisher of this profile matches a subscription of the profile ``requested``."""
        reliable = self.reliability == "reliable" or requested.reliability == "best_effort"
        durable = self.durability == "transient_local" or requested.durability == "volatile"
        return reliable and durable

    def __str__(self) -> str:
        depth = "all" if self.history == "keep_all" else str(self.depth)
        return f"{self.reliability}, {self.durability}, depth {depth}"


LATCHED = QoSProfile(depth=1, durability="transient_local")
"""Profile with one message that later subscriptions also receive: robot descriptions, static transforms."""

SERVICES = QoSProfile(depth=1000)
"""Profile of requests and replies. ROS 2's own depth of 10 loses a burst of goals, which nothing repeats."""
ROSOUT = QoSProfile(depth=1000, durability="transient_local", lifespan=10.0)
ACTION_STATUS = QoSProfile(depth=1, durability="transient_local")
