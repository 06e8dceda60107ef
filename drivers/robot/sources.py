"""Sources of a robot: its topics and cameras, and the observations built from their messages."""

from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Any, ParamSpec, TypeVar

from robo_rl.core import Clock, SafetyStop, SpecError

from ..cameras.reader import CameraReader
from ..ros2 import Node
from .agreement import MismatchError
from .assembly import ObservationAssembler, Selection
from .layout import SourceLayout
from .listening import Listener, timings_of

POLL_NS = 5_000_000

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class RobotSources:
    """Open topics and cameras of a robot, with the selection of messages for one observation.

    Args:
        node: node of the driver.
        layout: builds observations from messages.
        clock: monotonic clock.
        align_to: source to whose newest message the others are matched, if it is used.
        ignored: kinds of sources to leave out.

    Attributes:
        used: configuration of each source that is not left out.
        assembler: keeps the newest messages.
    """

    def __init__(
        self,
        node: Node,
        layout: SourceLayout,
        clock: Clock,
        align_to: str | None = None,
        ignored: Container[str] = (),
    ) -> None:
        self._layout, self._clock = layout, clock
        self.used = {name: source for name, source in layout.used.items() if source.gives not in ignored}
        self._align_to = align_to if align_to in self.used else None
        self.assembler = ObservationAssembler(timings_of(self.used), self._align_to)
        self._listener = Listener(node, self.used, layout.wanted, clock, self.assembler)
        self._cameras: dict[str, CameraReader] = {}
        for name, source in self.used.items():
            if source.camera.device:
                height, width, _ = layout.spec.observation[source.gives].shape
                take = partial(self.assembler.put, name)
                self._cameras[name] = CameraReader(name, source.camera, (width, height), clock, take)

    def close(self) -> None:
        """Release the cameras. The topics close with their node."""
        for camera in self._cameras.values():
            camera.close()

    def topic(self, name: str) -> str:
        """Return the topic of a source, or the name of its camera."""
        return (self._cameras.get(name) or self._listener.subscriptions[name]).topic

    def missing(self) -> list[str]:
        """Return a text for each source that has provided nothing yet."""
        order = self.assembler.missing()
        order.sort(key=lambda name: (name in self._cameras, name not in self._listener.passed_over))
        return [self._absence(name) for name in order]

    def lost(self) -> list[str]:
        """Return a text for each source without a provider: no publisher, or a lost camera.

        Messages that stay valid until the next one need no publisher.
        """
        return [
            self._absence(name)
            for name, source in self.used.items()
            if not source.latched
            and (
                self._cameras[name].problem
                if name in self._cameras
                else self._listener.subscriptions[name].matched_count == 0
            )
        ]

    def _absence(self, name: str) -> str:
        if name in self._cameras:
            return f"{self._cameras[name].topic}: {self._cameras[name].problem}"
        subscription = self._listener.subscriptions[name]
        if other_names := self._other_names(name):
            return f"{subscription.topic} {other_names}"
        publishers = subscription.matched_count
        cause = "nobody publishes" if publishers == 0 else f"{publishers} publisher(s) but no message on"
        hint = self._listener.advice(name)
        return f"{cause} {subscription.topic} ({self.used[name].type}){hint and f': {hint}'}"

    def _other_names(self, name: str) -> str:
        """Return the names in a source's newest message if the source needs none of them; otherwise an empty string."""
        ignored = self._listener.passed_over.get(name)
        if ignored is None:
            return ""
        return f"gives none of {', '.join(sorted(self._layout.wanted[name]))}, but {', '.join(ignored) or 'no names'}"

    def newest(self) -> dict[str, Any]:
        """Return the newest message of each source, or None if it has none."""
        return {name: self.assembler.newest(name) for name in self.used}

    def observe(self) -> Selection:
        """Return the messages for one observation.

        Raises:
            SafetyStop: if a source is too old, or the robot does not execute commands.
        """
        now_ns = self._clock.now_ns()
        self.check(now_ns)
        selection = self.assembler.select(now_ns)
        if selection is None:
            raise self._silence({})
        if not self._is_ready(selection):
            raise SafetyStop("robot_stopped", "the robot says that it does not obey commands any more")
        return selection

    def observe_first(self, silence: float) -> Selection:
        """Return the first messages of an episode, after waiting for them and for the robot to report that it is ready.

        Args:
            silence: time that they may take beyond the largest ``max_age`` of all sources [s].

        Raises:
            SafetyStop: if they do not arrive.
        """
        longest = max(source.max_age for source in self.used.values())
        deadline_ns = self._clock.now_ns() + round((longest + silence) * 1e9)
        while (now_ns := self._clock.now_ns()) < deadline_ns:
            selection = self.assembler.select(now_ns)
            if selection is not None and self._is_ready(selection):
                return selection
            self._clock.sleep_until_ns(now_ns + POLL_NS)
        return self.observe()

    def check(self, now_ns: int) -> None:
        """Raise :class:`SafetyStop` if a source is too old."""
        if stale := self.assembler.stale(now_ns):
            raise self._silence(stale)

    def describe(self, stale: Mapping[str, float]) -> str:
        """Return names, ages and likely faults of the sources in ``stale``, which maps them to their ages [s]."""
        return ", ".join(self._describe(name, age) for name, age in stale.items())

    def _describe(self, name: str, age: float) -> str:
        camera = self._cameras.get(name)
        age_text = "never came" if age == float("inf") else f"is {age:.2f} s old"
        problem = (self._other_names(name) or self._listener.advice(name)) if camera is None else camera.problem
        why = f", {problem}" if problem else ""
        return f"{self.topic(name)} {age_text} ({self.used[name].max_age:g} s are allowed{why})"

    def _silence(self, stale: Mapping[str, float]) -> SafetyStop:
        unmatched = f"not every source has measured something when {self._align_to} did (robot.align_to)"
        return SafetyStop("driver_silent", f"the robot has fallen silent: {self.describe(stale) or unmatched}")

    def _is_ready(self, selection: Selection) -> bool:
        return understood(self._layout.ready, selection.messages)


def understood(decode: Callable[Arguments, Result], *arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
    """Call ``decode`` with messages and return its result.

    Raises:
        SafetyStop: if messages contradict each other, or one of them is not as expected.
    """
    try:
        return decode(*arguments, **keywords)
    except MismatchError as error:
        raise SafetyStop("observation_mismatch", str(error)) from error
    except SpecError as error:
        raise SafetyStop("observation_invalid", str(error)) from error
