"""Log of a run with separate actors, besides its episodes: transport counters and the age of acting policies."""

import time
from collections import OrderedDict
from typing import Any

from .arrivals import Arrivals
from .pace import Pace
from .run import Run
from .wire import Wire

REPORT_SECONDS = 1.0
REMEMBERED_POLICIES = 1000


class RuntimeReport:
    """Transport counters every second, and the policies that were published.

    Args:
        run: the run.
        wire: the run's wire.
        arrivals: returns the newest steps.
        pace: the run's pace.
    """

    def __init__(self, run: Run, wire: Wire, arrivals: Arrivals, pace: Pace) -> None:
        self._run, self._wire, self._arrivals, self._pace = run, wire, arrivals, pace
        self._published: OrderedDict[int, float] = OrderedDict()
        self._written = 0.0
        self._blocked = ""  # why no step is accepted, as last reported

    @property
    def is_due(self) -> bool:
        """Whether the last report is a second old."""
        return time.monotonic() - self._written >= REPORT_SECONDS

    def publish(self) -> None:
        """Send actors the current policy, and store the time."""
        version = self._run.learner.updates
        self._published[version] = time.monotonic()
        if len(self._published) > REMEMBERED_POLICIES:
            self._published.popitem(last=False)
        self._wire.server.publish(version, self._run.agent.policy_state())

    def write(self) -> None:
        """Log the transport counters and the age of the acting policies; report changes to operators."""
        now = self._written = time.monotonic()
        server, intake, logger = self._wire.server, self._wire.intake, self._run.logger
        for note in server.take_notes():
            logger.message(note)
        blocked = intake.blocked()
        if blocked != self._blocked:
            change = f"No steps are accepted: {blocked}. Actors keep theirs" if blocked else "Steps are accepted again"
            logger.message(change)
            self._blocked = blocked
        totals, actors = intake.totals(), server.actors().values()
        versions = [step.policy_version for step in self._arrivals.take_newest()]
        published = [version for version in versions if version in self._published]
        if doing := [f"{name} {actor.practice_state}" for name, actor in self._wire.practising()]:
            logger.status(", ".join(doing))
        logger.log(
            "runtime",
            self._run.step,
            actors=sum(actor.is_present for actor in actors),
            stored=totals.stored,
            refused=totals.refused,
            duplicates=totals.duplicates,
            open=totals.taken - totals.stored - totals.refused,
            spooled=self._wire.spooled(),
            held_seconds=sum(actor.held_seconds for actor in actors),
            refused_policies=sum(actor.refused_policies for actor in actors),
            refused_requests=sum(server.refusals.values()),
            blocked=blocked or None,
            ratio=self._pace.ratio,
            waited_seconds=self._pace.waited_seconds,
            staleness_steps=max((self._run.learner.updates - version for version in published), default=None),
            staleness_seconds=max((now - self._published[version] for version in published), default=None),
        )

    def summary(self) -> dict[str, Any]:
        """Return the entries of summary.json besides the results."""
        totals = self._wire.intake.totals()
        practice = {
            name: {key.removeprefix("practice/"): value for key, value in actor.practice.items()}
            for name, actor in self._wire.practising()
        }
        return {
            "actors": {
                "received": totals.taken,
                "stored": totals.stored,
                "refused": totals.refused,
                "in_open_episodes": totals.taken - totals.stored - totals.refused,
                "duplicates": totals.duplicates,
                "still_with_actors": self._wire.spooled(),
                "restarts": self._wire.actors.restarts,
            },
            "learner_steps_per_env_step": self._pace.ratio,
            "learner_waited_seconds": self._pace.waited_seconds,
            **({"practice": practice} if practice else {}),
        }
