"""A watch on computed rewards: does success follow when they rise?"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_PATIENCE = 3
"""Evaluations that success may take to follow."""

_SOLVED = 0.95
"""Success rate from which nothing more is expected of it."""

_NAMED = 3
"""How many episodes a warning names."""


@dataclass(frozen=True)
class _Episode:
    number: int
    reward: float
    success: bool | None


@dataclass(frozen=True)
class _Interval:
    """Training between two evaluations: mean reward of a step over episodes, its standard error, success after it."""

    step: int
    reward: float
    error: float
    success: float


class RewardWatch:
    """Warns when the reward that a policy is trained by goes up and success does not.

    Training is cut at evaluations. The newest part is compared with the one after which success was highest (the
    earliest of equals): if that was 3 evaluations ago or more, success is below 95 % and the reward of a step has
    risen since by more than two standard errors, the policy may have found a way to please the reward alone.
    """

    def __init__(self) -> None:
        self._episodes: list[_Episode] = []
        self._intervals: list[_Interval] = []

    def add_episode(self, number: int, total_reward: float, steps: int, success: bool | None) -> None:
        """Take note of a training episode.

        Args:
            number: of the episode, to be named by.
            total_reward: sum over its steps.
            steps: their number.
            success: how it ended, where that is known.
        """
        self._episodes.append(_Episode(number, total_reward / steps, success))

    def evaluated(self, step: int, success_rate: float) -> str | None:
        """Close an interval with the success rate found at environment step ``step``; return a warning or None."""
        episodes, self._episodes = self._episodes, []
        if len(episodes) < 2:
            return None
        rewards = [episode.reward for episode in episodes]
        mean = sum(rewards) / len(rewards)
        variance = sum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1)
        now = _Interval(step, mean, math.sqrt(variance / len(rewards)), success_rate)
        self._intervals.append(now)
        numbers = range(len(self._intervals))
        best = max(numbers, key=lambda number: (self._intervals[number].success, -number))
        then = self._intervals[best]
        risen = now.reward - then.reward > 2 * math.hypot(now.error, then.error)
        if numbers[-1] - best < _PATIENCE or success_rate >= _SOLVED or not risen:
            return None
        failures = sorted((each for each in episodes if not each.success), key=lambda each: -each.reward)[:_NAMED]
        named = ", ".join(f"{each.number} ({each.reward:.2f})" for each in failures) or "none of them failed"
        return (
            f"The reward may be exploited: since step {then.step} it has risen from {then.reward:.3f} to "
            f"{now.reward:.3f} a step, success has gone from {then.success:.0%} to {now.success:.0%}. "
            f"Training episodes with the most reward and no success: {named}"
        )

    def state(self) -> dict[str, Any]:
        """Return JSON values to go on from."""
        return {
            "episodes": [asdict(episode) for episode in self._episodes],
            "intervals": [asdict(interval) for interval in self._intervals],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        self._episodes = [_Episode(**episode) for episode in state["episodes"]]
        self._intervals = [_Interval(**interval) for interval in state["intervals"]]
