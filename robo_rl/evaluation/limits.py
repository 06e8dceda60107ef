"""Outcomes of the limits that a reward sets on what a policy does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Batch, Limit, Observation, Source, Step
from .statistics import Proportion


@dataclass(frozen=True, slots=True)
class LimitOutcome:
    """What episodes did about a limit.

    Attributes:
        limit: the limit.
        value: share of the steps, mean per step, or share of solved episodes.
        interval: 95 % Wilson interval of a share; None for a mean.
    """

    limit: Limit
    value: float
    interval: tuple[float, float] | None

    @classmethod
    def of(
        cls, limit: Limit, costs: Sequence[float], lengths: Sequence[int], solved: Proportion | None
    ) -> "LimitOutcome":
        """Return the outcome of episodes.

        Args:
            limit: the limit.
            costs: sum of the costs of each episode; not read for a limit on success.
            lengths: number of steps of each episode.
            solved: share of solved episodes; None if it is unknown, which counts as none.
        """
        if limit.kind == "success":
            share = Proportion.of(0, len(lengths)) if solved is None else solved
        elif limit.kind == "mean":
            return cls(limit, sum(costs) / max(sum(lengths), 1), None)
        else:
            share = Proportion.of(round(sum(costs)), max(sum(lengths), 1))
        return cls(limit, share.value, (share.low, share.high))

    @property
    def kept(self) -> bool:
        """Whether the value is within the limit."""
        return self.limit.kept(self.value)

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        low, high = (None, None) if self.interval is None else self.interval
        return {
            "kind": self.limit.kind,
            "subject": self.limit.subject,
            "limit": self.limit.bound,
            "unit": self.limit.unit,
            "value": self.value,
            "low": low,
            "high": high,
            "kept": self.kept,
        }


def limit_line(name: str, outcome: Mapping[str, Any]) -> str:
    """Describe an outcome, as :meth:`LimitOutcome.to_json` returns it, in a line."""
    kept = "kept" if outcome["kept"] else "not kept"
    return f"Constraint {name} {kept}: {outcome['subject']}, {measured_text(outcome)}; limit {limit_text(outcome)}"


def measured_text(outcome: Mapping[str, Any]) -> str:
    """Return the measured value of an outcome, with its unit or interval."""
    if outcome["kind"] == "mean":
        return f"mean {outcome['value']:.3g} {outcome['unit']}".rstrip()
    what = "violated in " if outcome["kind"] == "share" else ""
    of = "steps" if outcome["kind"] == "share" else "episodes"
    low, high = 100 * outcome["low"], 100 * outcome["high"]
    return f"{what}{100 * outcome['value']:.1f} % of the {of} (95 % interval {low:.1f} to {high:.1f} %)"


def limit_text(outcome: Mapping[str, Any]) -> str:
    """Return the limit of an outcome, with its unit."""
    if outcome["kind"] == "mean":
        return f"{outcome['limit']:g} {outcome['unit']}".rstrip()
    return f"{100 * outcome['limit']:g} %" + (" at least" if outcome["kind"] == "success" else "")


def row(before: Observation, action: NDArray[np.float32], after: Step) -> Batch:
    """Return a step of a policy as a single row (1, ...), as described in :class:`~robo_rl.core.RewardModule`."""
    executed = action if after.executed_action is None else after.executed_action
    success = -1 if after.success is None else int(after.success)
    rows: Batch = {
        "action": np.asarray(executed, np.float32)[None],
        "terminated": np.array([after.terminated]),
        "truncated": np.array([after.truncated]),
        "source": np.array([Source.POLICY], np.uint8),
        "success": np.array([success], np.int8),
    }
    rows |= {f"observation/{key}": value[None] for key, value in before.items()}
    rows |= {f"next_observation/{key}": value[None] for key, value in after.observation.items()}
    return rows | {f"term/{name}": np.array([value], np.float32) for name, value in after.rewards.items()}
