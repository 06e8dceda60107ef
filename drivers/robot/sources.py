"""The sources of a robot, topics and cameras, and the observations made of their messages."""

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
    """The open topics and cameras of a robot; selects the messages that make one observation.

    Args:
        node: of the driver.
        layout: makes observations of messages.
        clock: monotonic time.
        align_to: source to whose newest message the others are matched, if it is used.
        ignored: kinds of sources that are left out.

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
        """Release the cameras; the topics end with their node."""
        for camera in self._cameras.values():
            camera.close()

    def topic(self, name: str) -> str:
        """Return the topic of a source, or the place of its camera."""
        return (self._cameras.get(name) or self._listener.subscriptions[name]).topic

    def missing(self) -> list[str]:
        """Return a text for each source that has given nothing yet."""
        order = self.assembler.missing()
        order.sort(key=lambda name: (name in self._cameras, name not in self._listener.passed_over))
        return [self._absence(name) for name in order]

    def _absence(self, name: str) -> str:
        if name in self._cameras:
            return f"{self._cameras[name].topic}: {self._cameras[name].problem}"
        subscription, others = self._listener.subscriptions[name], self._listener.passed_over.get(name)
        if others is not None:
            wanted = ", ".join(sorted(self._layout.wanted[name]))
            return f"{subscription.topic} gives none of {wanted}, but {', '.join(others) or 'no names'}"
        publishers = subscription.matched_count
        said = "nobody publishes" if publishers == 0 else f"{publishers} publisher(s) but no message on"
        hint = self._listener.advice(name)
        return f"{said} {subscription.topic} ({self.used[name].type}){hint and f': {hint}'}"

    def newest(self) -> dict[str, Any]:
        """Return the newest message of each source; None where there was none."""
        return {name: self.assembler.newest(name) for name in self.used}

    def observe(self) -> Selection:
        """Return the messages of one observation.

        Raises:
            SafetyStop: if a source is too old, or the robot does not obey.
        """
        now_ns = self._clock.now_ns()
        self.check(now_ns)
        selection = self.assembler.select(now_ns)
        if selection is None:
            raise self._silence({})
        if not self._obeys(selection):
            raise SafetyStop("robot_stopped", "the robot says that it does not obey commands any more")
        return selection

    def observe_first(self, silence: float) -> Selection:
        """Return the first messages of an episode; they, and word that the robot obeys again, may be on their way.

        Args:
            silence: time that they may take longer than the largest age of a source [s].

        Raises:
            SafetyStop: if they do not come.
        """
        longest = max(source.max_age for source in self.used.values())
        deadline_ns = self._clock.now_ns() + round((longest + silence) * 1e9)
        while (now_ns := self._clock.now_ns()) < deadline_ns:
            selection = self.assembler.select(now_ns)
            if selection is not None and self._obeys(selection):
                return selection
            self._clock.sleep_until_ns(now_ns + POLL_NS)
        return self.observe()

    def check(self, now_ns: int) -> None:
        """Raise :class:`SafetyStop` if a source is too old."""
        if stale := self.assembler.stale(now_ns):
            raise self._silence(stale)

    def describe(self, stale: Mapping[str, float]) -> str:
        """Return the names, ages and likely faults of sources that are too old, by their age [s]."""
        return ", ".join(self._describe(name, age) for name, age in stale.items())

    def _describe(self, name: str, age: float) -> str:
        camera = self._cameras.get(name)
        old = "never came" if age == float("inf") else f"is {age:.2f} s old"
        problem = self._listener.advice(name) if camera is None else camera.problem
        why = f", {problem}" if problem else ""
        return f"{self.topic(name)} {old} ({self.used[name].max_age:g} s are allowed{why})"

    def _silence(self, stale: Mapping[str, float]) -> SafetyStop:
        unmatched = f"not every source has measured something when {self._align_to} did (robot.align_to)"
        return SafetyStop("driver_silent", f"the robot has fallen silent: {self.describe(stale) or unmatched}")

    def _obeys(self, selection: Selection) -> bool:
        return understood(self._layout.ready, selection.messages)


def understood(decode: Callable[Arguments, Result], *arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
    """Return what ``decode`` makes of messages.

    Raises:
        SafetyStop: if they contradict each other, or one of them has not what is expected.
    """
    try:
        return decode(*arguments, **keywords)
    except MismatchError as error:
        raise SafetyStop("observation_mismatch", str(error)) from error
    except SpecError as error:
        raise SafetyStop("observation_invalid", str(error)) from error
