"""Evaluation of a policy that may decide only every few control steps (SRL, Patel and Siegelmann 2025)."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Observation, Policy, require
from .evaluate import EvaluationResult


class SlowPolicy:
    """A policy that decides only in every ``period``-th control step of an episode.

    If a chunk is longer than the period, its remaining actions are discarded. If it is shorter, its last action is
    repeated. A policy without chunks repeats its action.

    Args:
        policy: the policy that decides.
        action_chunk: number of actions that it decides at once.
        period: control steps from one decision to the next, 1 or more.
    """

    def __init__(self, policy: Policy, action_chunk: int, period: int) -> None:
        self._policy = policy
        self._chunk = action_chunk
        self._period = period
        self._step = 0
        self._action: NDArray[np.float32] = np.zeros(0, np.float32)

    def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
        """Return the action (A,) of this step; ``observation`` matters only if a decision is due."""
        since_decision = self._step % self._period
        self._step += 1
        if since_decision == 0:
            self._policy.forget_plan(explore=explore)
        if since_decision < self._chunk:
            self._action = self._policy.act(observation, explore=explore)
        return self._action

    def forget_plan(self, *, explore: bool) -> None:
        """Decide again in the next step."""
        self._step = 0


@dataclass(frozen=True, slots=True)
class DecisionPeriods:
    """Evaluations of one policy from the same start states, for several decision periods.

    Attributes:
        periods: control steps from one decision to the next, ascending.
        results: results of the evaluations, one for each period.
    """

    periods: tuple[int, ...]
    results: tuple[EvaluationResult, ...]

    @property
    def score_name(self) -> str:
        """Name of the score: ``success_rate`` if success is known, otherwise ``return_mean``."""
        is_success_known = all(result.success_rate is not None for result in self.results)
        return "success_rate" if is_success_known else "return_mean"

    @property
    def scores(self) -> list[float]:
        """The score of each period."""
        if self.score_name == "return_mean":
            return [result.return_mean for result in self.results]
        return [rate.value for rate in (result.success_rate for result in self.results) if rate is not None]

    @property
    def frequency_averaged_score(self) -> float:
        """The frequency-averaged score (FAS) of :attr:`scores`."""
        return frequency_averaged_score(self.periods, self.scores)

    def to_json(self) -> dict[str, Any]:
        """Return scores and periods as a JSON object, without the individual episodes."""
        rows = []
        for period, result in zip(self.periods, self.results, strict=True):
            rate = result.success_rate
            rows.append(
                {
                    "period": period,
                    "decisions_per_second": result.control_rate / period,
                    "success_rate": None if rate is None else asdict(rate),
                    "return_mean": result.return_mean,
                }
            )
        return {
            "score": self.score_name,
            "frequency_averaged_score": self.frequency_averaged_score,
            "periods": rows,
        }


def check_periods(periods: Sequence[int]) -> None:
    """Check that ``periods`` are positive numbers of control steps in ascending order.

    Raises:
        ConfigError: if they are not.
    """
    is_ascending = all(before < after for before, after in zip((0, *periods), periods, strict=False))
    require(is_ascending, "decision_periods", "whole numbers of 1 or more, each above the one before", list(periods))


def frequency_averaged_score(periods: Sequence[int], scores: Sequence[float]) -> float:
    """Return the area under ``scores`` over the decision period, divided by the width of the axis.

    The axis is linear in control steps, and the score is interpolated linearly between the periods. The result is
    therefore the mean score over all periods from the first to the last, in the unit of the score. With one period it
    is the score of that period.
    """
    if len(periods) == 1:
        return float(scores[0])
    return float(np.trapezoid(scores, periods) / (periods[-1] - periods[0]))


def evaluate_decision_periods(
    measure: Callable[[Policy], EvaluationResult], policy: Policy, action_chunk: int, periods: Sequence[int]
) -> DecisionPeriods:
    """Evaluate ``policy`` once for each of ``periods``.

    Args:
        measure: evaluates a policy, from the same start states in each call.
        policy: the policy that decides.
        action_chunk: number of actions that it decides at once.
        periods: control steps from one decision to the next, one or more values in ascending order.

    Raises:
        ConfigError: if ``periods`` is empty, not ascending or not positive.
    """
    check_periods(periods)
    require(len(periods) > 0, "decision_periods", "one or more", 0)
    results = tuple(measure(SlowPolicy(policy, action_chunk, period)) for period in periods)
    return DecisionPeriods(tuple(periods), results)
