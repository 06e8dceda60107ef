"""A watch on computed rewards: do success, and rewards that nothing is trained by, follow when they rise?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

_PATIENCE = 3
"""Evaluations that success may take to follow."""

_SOLVED = 0.95
"""Success rate from which nothing more is expected of it."""

_NAMED = 3
"""How many episodes a warning names."""


@dataclass(frozen=True)
class _Episode:
    """An episode: reward of a step, how it ended, and what each held-out module says of a step."""

    number: int
    reward: float
    success: bool | None
    held_out: Mapping[str, float]


@dataclass(frozen=True)
class _Mean:
    """Mean over episodes, and its standard error."""

    value: float
    error: float

    def above(self, other: "_Mean") -> bool:
        """Whether it is by more than two standard errors."""
        return self.value - other.value > 2 * math.hypot(self.error, other.error)


@dataclass(frozen=True)
class _Interval:
    """Training between two evaluations: means of a step, and the success rate after it."""

    step: int
    reward: _Mean
    success: float | None
    held_out: Mapping[str, _Mean]


class RewardWatch:
    """Warns when the reward that a policy is trained by goes up and what should follow it does not.

    Training is cut at evaluations. What should follow is success, and the reward of each held-out module: one that is
    computed, but does not count. The newest interval is compared with the one in which that was highest (the earliest
    of equals): if it was 3 evaluations ago or more and the reward of a step has risen since by more than two standard
    errors, the policy may have found a way to please the reward alone. Of success nothing is said from 95 % on, of a
    module only where it has fallen by more than two standard errors. An interval in which a module began to speak says
    nothing of it.
    """

    def __init__(self) -> None:
        self._episodes: list[_Episode] = []
        self._intervals: list[_Interval] = []

    def add_episode(
        self, number: int, total_reward: float, steps: int, success: bool | None, held_out: Mapping[str, float]
    ) -> None:
        """Take note of a training episode.

        Args:
            number: of the episode, to be named by.
            total_reward: sum over its steps.
            steps: their number.
            success: how it ended, where that is known.
            held_out: sum over its steps of each module that does not count, by name. One that has yet to learn is
                left out; from when it is not, it is there in every episode.
        """
        means = {name: total / steps for name, total in held_out.items()}
        self._episodes.append(_Episode(number, total_reward / steps, success, means))

    def evaluated(self, step: int, success_rate: float | None) -> str | None:
        """Close an interval at environment step ``step``, with the success rate found there, where the task tells.

        Return a warning or None. Where there was but one episode the interval goes on.
        """
        if len(self._episodes) < 2:
            return None
        episodes, self._episodes = self._episodes, []
        held_out = {name: _mean([each.held_out[name] for each in episodes]) for name in episodes[0].held_out}
        now = _Interval(step, _mean([each.reward for each in episodes]), success_rate, held_out)
        self._intervals.append(now)
        found = []
        if success_rate is not None and success_rate < _SOLVED:
            then = max(self._intervals, key=lambda each: each.success or 0.0)  # the first of equals
            if self._rose_since(then):
                found.append(f"{_told(then, now)}, success has gone from {then.success:.0%} to {success_rate:.0%}")
        for name in held_out:
            then = max((each for each in self._intervals if name in each.held_out), key=partial(_held_out, name=name))
            before, after = then.held_out[name], now.held_out[name]
            if self._rose_since(then) and before.above(after):
                values = f"{before.value:.3f} to {after.value:.3f}"
                found.append(f"{_told(then, now)}, {name}, which does not count, has gone from {values}")
        if not found:
            return None
        failures = sorted((each for each in episodes if not each.success), key=lambda each: -each.reward)[:_NAMED]
        named = ", ".join(f"{each.number} ({each.reward:.2f})" for each in failures) or "none of them failed"
        return (
            f"The reward may be exploited: {'; '.join(found)}. Training episodes with the most reward and no success: "
            f"{named}"
        )

    def _rose_since(self, then: _Interval) -> bool:
        """Whether ``then`` was long enough ago, and the reward has risen since."""
        now = self._intervals[-1]
        return len(self._intervals) - 1 - self._intervals.index(then) >= _PATIENCE and now.reward.above(then.reward)

    def state(self) -> dict[str, Any]:
        """Return JSON values to go on from."""
        return {
            "episodes": [asdict(episode) for episode in self._episodes],
            "intervals": [asdict(interval) for interval in self._intervals],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        self._episodes = [_Episode(**episode) for episode in state["episodes"]]
        self._intervals = [
            _Interval(
                each["step"],
                _Mean(**each["reward"]),
                each["success"],
                {name: _Mean(**mean) for name, mean in each["held_out"].items()},
            )
            for each in state["intervals"]
        ]


def _held_out(interval: _Interval, name: str) -> float:
    return interval.held_out[name].value


def _mean(values: Sequence[float]) -> _Mean:
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return _Mean(mean, math.sqrt(variance / len(values)))


def _told(then: _Interval, now: _Interval) -> str:
    return f"since step {then.step} it has risen from {then.reward.value:.3f} to {now.reward.value:.3f} a step"
