"""Storage of the steps of a run as they arrive, and the results of its episodes."""

from typing import Any

from ..core import Metrics, ReturnScaled, Transition
from ..telemetry import intervention_rate
from .earnings import Earnings
from .run import Run

FIRST_ADVICE = 5
"""Number of episodes before the first advice on interventions."""


class Episodes:
    """Stores the steps of a run, sums their rewards, logs episodes, and advises operators who intervene."""

    def __init__(self, run: Run) -> None:
        self._run = run
        agent = run.components.agent
        self._scaled = agent if isinstance(agent, ReturnScaled) else None
        self._advice = ""

    def insert(self, transition: Transition, earnings: Earnings) -> None:
        """Store a step, update reward modules, and add its reward to the return of its episode."""
        values = self._run.experience.insert(transition)
        if metrics := self._run.experience.update_rewards():
            self._run.logger.log("reward", self._run.step, **metrics)
        returns = earnings.add(values, self._run.experience.sampler.gamma)
        if self._scaled is not None:
            self._scaled.note_returns(returns)
        earnings.count(transition.source)
        earnings.reach(transition.next_observation)

    def cut(self, earnings: Earnings, actor: str | None = None) -> None:
        """Add the remaining reward of an episode that ends with the last stored step, which is not marked as last."""
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
        record = {**earnings.metrics(), **outcome}
        rate = intervention_rate([*self._run.logger.recent_episodes, record])
        shares = {} if rate is None else {"intervention_share": rate.share, "intervention_share_before": rate.earlier}
        self._run.logger.log("episode", self._run.step, **record, **shares, **safety, **practice)
        if rate is not None and rate.episodes >= FIRST_ADVICE and rate.advice() != self._advice:
            self._advice = rate.advice()
            self._run.logger.message(f"{self._advice} (intervened: {rate})")
        if watch is not None and scorer is not None:
            held_out = {name: earnings.terms[name] for name in scorer.held_out}
            watch.add_episode(number, earnings.total, length, success, held_out)
