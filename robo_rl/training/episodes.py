"""The steps of a run as they arrive, and what its episodes come to."""

from typing import Any

from ..core import Metrics, Transition
from .earnings import Earnings
from .run import Run


class Episodes:
    """Stores the steps of a run, counts what they earn, and logs episodes."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def insert(self, transition: Transition, earnings: Earnings) -> None:
        """Store a step, let rewards learn, and count what it earned for its episode."""
        values = self._run.experience.insert(transition)
        if metrics := self._run.experience.update_rewards():
            self._run.logger.log("reward", self._run.step, **metrics)
        earnings.add(values, self._run.experience.sampler.gamma)

    def cut(self, earnings: Earnings, actor: str | None = None) -> None:
        """Count what an episode earned that ends after the step that was stored last, which does not say so."""
        earnings.add(self._run.experience.cut_episode(actor), self._run.experience.sampler.gamma)

    def end(
        self,
        number: int,
        length: int,
        earnings: Earnings,
        success: bool | None,
        stopped: str | None,
        practice: Metrics,
        **actor: str,
    ) -> None:
        """Log an episode that ended.

        Args:
            number: of the episode.
            length: its steps.
            earnings: what they earned.
            success: whether the task was done; None: nobody knows.
            stopped: why it was stopped; None: it was not.
            practice: what practice without resets came to.
            actor: whose it was, where there are several.
        """
        outcome: dict[str, Any] = {"length": length, "success": success, **actor, "stopped": stopped}
        safety, scorer, watch = self._run.safety.metrics(), self._run.experience.scorer, self._run.evaluations.watch
        self._run.logger.log("episode", self._run.step, **earnings.metrics(), **outcome, **safety, **practice)
        if watch is not None and scorer is not None:
            held_out = {name: earnings.terms[name] for name in scorer.held_out}
            watch.add_episode(number, earnings.total, length, success, held_out)
