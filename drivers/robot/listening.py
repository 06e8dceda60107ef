"""What the topics of a robot's sources say, as it comes."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from robo_rl.core import Clock

from ..ros2 import LATCHED, Node, QoSProfile, Subscription
from .assembly import ObservationAssembler, SourceTiming
from .config import TRANSFORMS, SourceConfig
from .transforms import FrameSubscription


class Listener:
    """Puts what comes on the topics of sources into an assembler.

    A message with names, none of which a source takes, is passed over: a gripper's beside those of its arm.

    Args:
        node: of the driver.
        sources: by name.
        wanted: names that sources take, see :class:`.layout.SourceLayout`.
        clock: monotonic time.
        assembler: of these sources.

    Attributes:
        subscriptions: by source, but for cameras of this machine; sources of one topic share one.
        passed_over: names in the newest message that a source was not given, by source.
    """

    def __init__(
        self,
        node: Node,
        sources: Mapping[str, SourceConfig],
        wanted: Mapping[str, frozenset[str]],
        clock: Clock,
        assembler: ObservationAssembler,
    ) -> None:
        self._wanted, self._clock, self._assembler = wanted, clock, assembler
        self.passed_over: dict[str, list[str]] = {}
        self.subscriptions: dict[str, Subscription] = {}
        sharing: dict[tuple[str, str, str, bool], list[str]] = {}
        for name, source in sources.items():
            if source.camera.device:
                continue
            if source.type == TRANSFORMS:
                self.subscriptions[name] = FrameSubscription(node, source, clock, partial(assembler.put, name))
                continue
            sharing.setdefault((source.type, source.topic, source.reliability, source.latched), []).append(name)
        for (kind, topic, *_), names in sharing.items():
            subscription = node.create_subscription(
                kind, topic, partial(self._receive, names), _quality_of(sources[names[0]])
            )
            self.subscriptions |= dict.fromkeys(names, subscription)

    def _receive(self, sources: list[str], message: Any) -> None:
        """Called in the node's thread."""
        header = getattr(message, "header", None)
        stamp = None if header is None else (header.stamp.sec, header.stamp.nanosec)
        now_ns = self._clock.now_ns()
        for source in sources:
            if source in self._wanted and self._wanted[source].isdisjoint(message.name):
                self.passed_over[source] = list(message.name)
            else:
                self._assembler.put(source, message, now_ns, stamp)


def timings_of(sources: Mapping[str, SourceConfig]) -> dict[str, SourceTiming]:
    """Return how old what each source gives may be."""
    return {
        name: SourceTiming(None if source.latched else round(source.max_age * 1e9), round(source.delay * 1e9))
        for name, source in sources.items()
    }


def _quality_of(source: SourceConfig) -> QoSProfile:
    """Return the profile with which a source is listened to."""
    # SourceConfig has checked the value; Hydra's fields cannot be Literals.
    return LATCHED if source.latched else QoSProfile(depth=10, reliability=source.reliability)  # type: ignore[arg-type]
