"""Detection of reward hacking: a training reward that rises while success or held-out rewards do not."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from robo_rl.core import finite_number, whole_number

_PATIENCE = 3
"""Number of evaluations within which success may follow the reward."""

_SOLVED = 0.95
"""Success rate from which no further rise is expected."""

_NAMED = 3
"""Number of episodes that a warning names."""


@dataclass(frozen=True)
class _Episode:
    """A training episode: mean reward of a step, success, and mean reward of a step by held-out module."""

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
        """Return whether this mean is above ``other`` by more than two standard errors."""
        return self.value - other.value > 2 * math.hypot(self.error, other.error)


@dataclass(frozen=True)
class _Interval:
    """Training between two evaluations: mean rewards of a step, and the success rate of the second evaluation."""

    step: int
    reward: _Mean
    success: float | None
    held_out: Mapping[str, _Mean]


class RewardWatch:
    """Warns if the training reward rises and the quantities that should rise with it do not.

    Evaluations divide the training into intervals. The success rate and the reward of each held-out module should rise
    with the training reward; a held-out module is computed, but not part of that reward. For each such quantity, the
    newest interval is compared with the interval in which the quantity was highest (the earliest one of equals). If
    that was 3 or more evaluations ago, and the mean reward of a step has since risen by more than two standard errors,
    the policy may exploit the reward. There is no warning about success from 95 % on, and a warning about a held-out
    module only if its reward has fallen by more than two standard errors. The interval in which a module begins to
    return rewards is not used for this module.
    """

    def __init__(self) -> None:
        self._episodes: list[_Episode] = []
        self._intervals: list[_Interval] = []

    def add_episode(
        self, number: int, total_reward: float, steps: int, success: bool | None, held_out: Mapping[str, float]
    ) -> None:
        """Add a training episode.

        Args:
            number: number of the episode, for warnings.
            total_reward: sum of the training reward over its steps.
            steps: number of steps.
            success: whether it succeeded; None if unknown.
            held_out: sum over its steps of the reward of each held-out module, by name. A module that has not learned
                yet is left out; afterwards it is part of every episode.
        """
        means = {name: total / steps for name, total in held_out.items()}
        self._episodes.append(_Episode(number, total_reward / steps, success, means))

    def evaluated(self, step: int, success_rate: float | None) -> str | None:
        """End an interval with an evaluation at environment step ``step``; return a warning or None.

        An interval with fewer than two episodes is not ended.

        Args:
            step: environment step of the evaluation.
            success_rate: success rate in the evaluation; None if unknown.
        """
        if len(self._episodes) < 2:
            return None
        episodes, self._episodes = self._episodes, []
        held_out = {name: _mean([episode.held_out[name] for episode in episodes]) for name in episodes[0].held_out}
        newest = _Interval(step, _mean([episode.reward for episode in episodes]), success_rate, held_out)
        self._intervals.append(newest)
        findings = []
        if success_rate is not None and success_rate < _SOLVED:
            best = max(self._intervals, key=lambda interval: interval.success or 0.0)  # the first of equals
            if self._rose_since(best):
                findings.append(
                    f"{_describe_rise(best, newest)}, success has gone from {best.success:.0%} to {success_rate:.0%}"
                )
        for name in held_out:
            best = max(
                (interval for interval in self._intervals if name in interval.held_out),
                key=partial(_held_out, name=name),
            )
            before, after = best.held_out[name], newest.held_out[name]
            if self._rose_since(best) and before.above(after):
                values = f"{before.value:.3f} to {after.value:.3f}"
                findings.append(f"{_describe_rise(best, newest)}, {name}, which does not count, has gone from {values}")
        if not findings:
            return None
        failures = sorted(
            (episode for episode in episodes if not episode.success), key=lambda episode: -episode.reward
        )[:_NAMED]
        named = ", ".join(f"{failure.number} ({failure.reward:.2f})" for failure in failures) or "none of them failed"
        return (
            f"The reward may be exploited: {'; '.join(findings)}. Training episodes with the most reward and no "
            f"success: {named}"
        )

    def _rose_since(self, best: _Interval) -> bool:
        """Return whether ``best`` was long enough ago, and the reward has risen since."""
        newest = self._intervals[-1]
        return len(self._intervals) - 1 - self._intervals.index(best) >= _PATIENCE and newest.reward.above(best.reward)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {
            "episodes": [asdict(episode) for episode in self._episodes],
            "intervals": [asdict(interval) for interval in self._intervals],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore ``state``."""
        self._episodes = [_saved_episode(each) for each in state["episodes"]]
        self._intervals = [_saved_interval(each) for each in state["intervals"]]


def _saved_episode(saved: Mapping[str, Any]) -> _Episode:
    held_out = {name: finite_number(value) for name, value in saved["held_out"].items()}
    success = None if saved["success"] is None else bool(saved["success"])
    return _Episode(whole_number(saved["number"]), finite_number(saved["reward"]), success, held_out)


def _saved_interval(saved: Mapping[str, Any]) -> _Interval:
    held_out = {name: _saved_mean(mean) for name, mean in saved["held_out"].items()}
    success = None if saved["success"] is None else finite_number(saved["success"])
    return _Interval(whole_number(saved["step"]), _saved_mean(saved["reward"]), success, held_out)


def _saved_mean(saved: Mapping[str, Any]) -> _Mean:
    return _Mean(finite_number(saved["value"]), finite_number(saved["error"]))


def _held_out(interval: _Interval, name: str) -> float:
    return interval.held_out[name].value


def _mean(values: Sequence[float]) -> _Mean:
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return _Mean(mean, math.sqrt(variance / len(values)))


def _describe_rise(best: _Interval, newest: _Interval) -> str:
    return f"since step {best.step} it has risen from {best.reward.value:.3f} to {newest.reward.value:.3f} a step"
