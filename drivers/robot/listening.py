"""Subscriptions to the topics of a robot's sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from robo_rl.core import Clock

from ..ros2 import LATCHED, Node, QoSProfile, Subscription
from .assembly import ObservationAssembler, SourceTiming
from .config import IMAGES, TRANSFORMS, SourceConfig
from .namesakes import like
from .transforms import FrameSubscription
from .velocities import VelocityEstimator

DISCOVERY_NS = 2_000_000_000
"""Longest wait for the publishers of images, whose profiles determine the profile of the subscription [ns]."""
_POLL_NS = 20_000_000


@dataclass
class Arrivals:
    """Statistics of the images of one source.

    Attributes:
        reliability: reliability of the subscription.
        count: number of messages.
        size: size of the newest message [bytes].
        first_ns: monotonic time of the first message [ns].
    """

    reliability: str
    count: int = 0
    size: int = 0
    first_ns: int = 0

    def take(self, message: Any, now_ns: int) -> None:
        """Count a message."""
        self.first_ns = self.first_ns or now_ns
        self.count, self.size = self.count + 1, len(message.data)

    def describe(self, source: str, now_ns: int) -> str:
        """Return the statistics as a text, with advice if messages of that size are likely to get lost."""
        seconds = 1e-9 * (now_ns - self.first_ns)
        count = f"{self.count} image(s) of {1e-6 * self.size:.1f} MB in {seconds:.0f} s" if self.count else "no image"
        if self.reliability == "reliable":
            return f"{count}, reliable"
        return (
            f"{count} with best_effort, which loses an image with any of its packets: publish it reliable (and leave "
            f"robot.sources.{source}.reliability=auto), publish smaller or compressed ones, or raise the receiver's "
            "buffer (sysctl net.core.rmem_max=8388608)"
        )


class Listener:
    """Subscriptions that put the messages of sources into an assembler.

    A message whose names no source picks is ignored, such as a gripper's message on the topic of its arm.

    Args:
        node: node of the driver.
        sources: configurations by source.
        wanted: names that sources pick; see :class:`.layout.SourceLayout`.
        clock: monotonic clock.
        assembler: receives the messages.

    Attributes:
        subscriptions: subscriptions by source, except for cameras of this machine; sources of one topic share one.
        passed_over: names in the newest message, if it was ignored, by source.
        images: statistics of each source of images.
    """

    def __init__(
        self,
        node: Node,
        sources: Mapping[str, SourceConfig],
        wanted: Mapping[str, frozenset[str]],
        clock: Clock,
        assembler: ObservationAssembler,
    ) -> None:
        self._node, self._sources = node, sources
        self._wanted, self._clock, self._assembler = wanted, clock, assembler
        self.passed_over: dict[str, list[str]] = {}
        self.subscriptions: dict[str, Subscription] = {}
        reliabilities = _reliabilities_of(node, sources, clock)
        self.images = {
            name: Arrivals(reliability) for name, reliability in reliabilities.items() if _is_image(sources[name])
        }
        self._velocities = {
            name: VelocityEstimator(wanted[name], source.velocity_window)
            for name, source in sources.items()
            if source.velocity_window
        }
        sharing: dict[tuple[str, str, str, bool], list[str]] = {}
        for name, source in sources.items():
            if source.camera.device:
                continue
            if source.type == TRANSFORMS:
                self.subscriptions[name] = FrameSubscription(node, source, clock, partial(assembler.put, name))
                continue
            sharing.setdefault((source.type, source.topic, reliabilities[name], source.latched), []).append(name)
        for (kind, topic, reliability, latched), names in sharing.items():
            subscription = node.create_subscription(
                kind, topic, partial(self._receive, names), _quality_of(reliability, latched)
            )
            self.subscriptions |= dict.fromkeys(names, subscription)

    def advice(self, source: str) -> str:
        """Return the likely reason why a source provides nothing or too little; empty if none is known."""
        subscription, images = self.subscriptions[source], self.images.get(source)
        if images is not None and self._sources[source].reliability == "auto":
            offered = _reliability_for(self._node.offered(subscription.topic))
            if offered not in ("", images.reliability):
                return (
                    f"it is published {offered} and subscribed to {images.reliability}, as its publishers were "
                    "others, or not there, when robo-rl started: start robo-rl again"
                )
        if subscription.matched_count:
            return "" if images is None else images.describe(source, self._clock.now_ns())
        own, kind = subscription.topic, self._sources[source].type
        alike = [name for name, kinds in self._node.graph.topics.items() if kind in kinds and name != own]
        published = like(own, [name for name in alike if self._node.offered(name)])
        return f"published with this type are {', '.join(published)}" if published else ""

    def _receive(self, sources: list[str], message: Any) -> None:
        """Put a message into the assembler; called in the node's thread."""
        header = getattr(message, "header", None)
        stamp = None if header is None else (header.stamp.sec, header.stamp.nanosec)
        now_ns = self._clock.now_ns()
        for source in sources:
            if source in self._wanted and self._wanted[source].isdisjoint(message.name):
                self.passed_over[source] = list(message.name)
                continue
            self.passed_over.pop(source, None)
            if source not in self._velocities or self._velocities[source].fill(message, now_ns, stamp):
                if source in self.images:
                    self.images[source].take(message, now_ns)
                self._assembler.put(source, message, now_ns, stamp)


def timings_of(sources: Mapping[str, SourceConfig]) -> dict[str, SourceTiming]:
    """Return the age limit and delay of each source."""
    return {
        name: SourceTiming(None if source.latched else round(source.max_age * 1e9), round(source.delay * 1e9))
        for name, source in sources.items()
    }


def _is_image(source: SourceConfig) -> bool:
    return source.gives.startswith(IMAGES) and not source.camera.device


def _reliabilities_of(node: Node, sources: Mapping[str, SourceConfig], clock: Clock) -> dict[str, str]:
    """Return the reliability of the subscription for each source.

    With ``auto``, images have the reliability that their publishers offer: an image takes many packets, and best effort
    loses the image with any of them. A message of one packet is received with best effort, which matches every
    publisher.
    """
    chosen = {
        name: "best_effort" if source.reliability == "auto" else source.reliability for name, source in sources.items()
    }
    automatic = [name for name, source in sources.items() if source.reliability == "auto" and _is_image(source)]
    deadline_ns = clock.now_ns() + DISCOVERY_NS
    while automatic:
        offered = {name: node.offered(sources[name].topic) for name in automatic}
        if all(offered.values()) or clock.now_ns() >= deadline_ns:
            break
        clock.sleep_until_ns(clock.now_ns() + _POLL_NS)
    for name in automatic:
        chosen[name] = _reliability_for(offered[name]) or chosen[name]
    return chosen


def _reliability_for(offered: tuple[QoSProfile, ...]) -> str:
    """Return the reliability that suits publishers with these profiles; empty without publishers."""
    if not offered:
        return ""
    return "reliable" if all(profile.reliability == "reliable" for profile in offered) else "best_effort"


def _quality_of(reliability: str, latched: bool) -> QoSProfile:
    """Return the profile for the subscription of a source."""
    # SourceConfig has checked the value; Hydra's fields cannot be Literals.
    return LATCHED if latched else QoSProfile(depth=10, reliability=reliability)  # type: ignore[arg-type]
