"""The steps of a run as they arrive, and the results of its episodes."""

from typing import Any

from ..core import Metrics, Transition
from .earnings import Earnings
from .run import Run


class Episodes:
    """Stores the steps of a run, sums their rewards, and logs episodes."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def insert(self, transition: Transition, earnings: Earnings) -> None:
        """Store a step, update reward modules, and add its reward to the return of its episode."""
        values = self._run.experience.insert(transition)
        if metrics := self._run.experience.update_rewards():
            self._run.logger.log("reward", self._run.step, **metrics)
        earnings.add(values, self._run.experience.sampler.gamma)

    def cut(self, earnings: Earnings, actor: str | None = None) -> None:
        """Add the remaining reward of an episode that ends after the step stored last, though not marked as such."""
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
            number: number of the episode.
            length: number of steps.
            earnings: return of the episode.
            success: whether the task was solved; None if unknown.
            stopped: reason for which it was stopped; None if it was not.
            practice: metrics of practice without resets.
            actor: name of its actor, if there are several.
        """
        outcome: dict[str, Any] = {"length": length, "success": success, **actor, "stopped": stopped}
        safety, scorer, watch = self._run.safety.metrics(), self._run.experience.scorer, self._run.evaluations.watch
        self._run.logger.log("episode", self._run.step, **earnings.metrics(), **outcome, **safety, **practice)
        if watch is not None and scorer is not None:
            held_out = {name: earnings.terms[name] for name in scorer.held_out}
            watch.add_episode(number, earnings.total, length, success, held_out)
