"""The share of steps with interventions, and advice on when to intervene."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

WINDOW = 10
"""Number of episodes over which the share is computed, and again before them."""
RARE, FREQUENT = 0.05, 0.5
"""Shares of intervened steps up to which, and above which, they count as rare and as frequent."""
CHANGE = 0.1
"""Difference between two shares that counts as a change."""
LONG = 0.5
"""Share of an episode above which a mean intervention is long."""


class InterventionRate(NamedTuple):
    """The interventions in the last episodes of a run.

    Attributes:
        episodes: number of these episodes, at most ``WINDOW``.
        share: share of their steps that were intervened.
        earlier: the same in the ``WINDOW`` episodes before them; None if there are fewer.
        length: mean length of an intervention, as a share of a mean episode.
    """

    episodes: int
    share: float
    earlier: float | None
    length: float

    def __str__(self) -> str:
        before = "" if self.earlier is None else f", {self.earlier:.0%} in the {WINDOW} before"
        return f"{self.share:.0%} of the steps of the last {self.episodes} episodes{before}"

    def advice(self) -> str:
        """Return how to intervene from now on, in one sentence.

        HIL-SERL (Luo et al. 2024) recommends to intervene often at first, but briefly, and ever less as the policy
        succeeds; long interventions that lead to success make values too optimistic.
        """
        if self.share == 0:
            return "The policy no longer needs help: let it act alone"
        if self.share > RARE and self.length > LONG:
            return "Interventions finish the task for the policy, whose values become too optimistic: correct briefly"
        if self.share <= RARE:
            return "Help is rarely needed: intervene only to prevent damage, or where a mistake repeats"
        if self.earlier is not None and self.share > self.earlier + CHANGE:
            return "The policy needs more help than before: check that corrections and reward agree"
        if self.earlier is not None and self.share < self.earlier - CHANGE:
            return "The policy needs less help than before: let it correct small mistakes itself"
        if self.share > FREQUENT:
            return "Give control back after each correction, so that the policy can try what it has learned"
        return "Correct early and briefly"


def intervention_rate(episodes: Sequence[Mapping[str, Any]]) -> InterventionRate | None:
    """Return the interventions in the last of ``episodes``, records of the kind ``episode``.

    Returns:
        None if nobody intervened in the last two windows of episodes.
    """
    known = [record for record in episodes[-2 * WINDOW :] if record.get("intervened_steps") is not None]
    if not any(record["intervened_steps"] for record in known):
        return None
    recent, before = known[-WINDOW:], known[:-WINDOW]
    share = _share(recent)
    length = share * len(recent) / max(_sum(recent, "interventions"), 1)
    return InterventionRate(len(recent), share, _share(before) if len(before) == WINDOW else None, length)


def _share(records: Sequence[Mapping[str, Any]]) -> float:
    """Return the share of intervened steps in ``records``."""
    return _sum(records, "intervened_steps") / max(_sum(records, "length"), 1)


def _sum(records: Sequence[Mapping[str, Any]], key: str) -> float:
    return sum(float(record.get(key) or 0) for record in records)
