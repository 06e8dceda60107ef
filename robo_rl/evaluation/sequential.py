"""A sequential comparison of two success rates by pairs of episodes, with an error rate that holds whenever it stops.

Both policies act once from each start state. A pair is decisive if only one of them succeeded. If neither policy is
more likely to be that one, each decisive pair is a fair coin, whatever the success rates are and however much they
depend on the start state (McNemar 1947; Armitage, "Restricted sequential procedures", Biometrika 1957).

The evidence that the first policy is better is the likelihood ratio of its wins to those of a fair coin, averaged over
all coins that favour it. By Ville's inequality it exceeds ``1 / error`` with a probability of at most ``error`` at any
time, if the policy is not better (Robbins, "Statistical methods related to the law of the iterated logarithm", 1970).
Because the number of pairs is limited, the probability for a smaller threshold can be computed exactly, and
:class:`SequentialTest` uses the smallest threshold that keeps ``error``. Snyder et al., "Is your imitation learning
policy better than mine?", RSS 2025, compare tests of this kind for robots.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..core import require

MOST_PAIRS = 1000
"""Most pairs of a test, for which its boundary takes a second to compute."""
_BISECTIONS = 20


class Decision(StrEnum):
    """State of a comparison of two policies."""

    OPEN = "open"
    FIRST = "first"
    SECOND = "second"
    NONE = "none"


@dataclass(frozen=True)
class Power:
    """What a test achieves for given success rates.

    Attributes:
        first: probability that it decides for the first policy.
        second: probability that it decides for the second policy.
        pairs: expected number of pairs until it decides or ends.
    """

    first: float
    second: float
    pairs: float


@dataclass(frozen=True)
class SequentialTest:
    """A two-sided test whether one of two policies succeeds more often.

    The test may be looked at after each pair, and stopped for any reason before its end, without a higher error rate.

    Args:
        pairs: largest number of pairs; it must not be raised afterwards.
        error: largest probability of a decision for one of two policies that are equally good. Half of it bounds the
            probability of a decision for the worse one.

    Raises:
        ConfigError: if a value is out of range.
    """

    pairs: int
    error: float

    def __post_init__(self) -> None:
        require(1 <= self.pairs <= MOST_PAIRS, "pairs", f"in [1, {MOST_PAIRS}]", self.pairs)
        require(0 < self.error <= 0.5, "error", "in (0, 0.5]", self.error)

    @cached_property
    def threshold(self) -> float:
        """The evidence that decides."""
        table = log_evidence(self.pairs)
        low, high = 0.0, math.log(2 / self.error)  # the second keeps the error by Ville's inequality
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            # Decisions for either policy exclude each other, and are equally probable.
            if _first_crossings(_wins_needed(table, middle), 0.5)[:, 0].sum() <= self.error / 2:
                high = middle
            else:
                low = middle
        return math.exp(high)

    @cached_property
    def boundary(self) -> NDArray[np.int64]:
        """Wins (pairs + 1,) that decide after 0, 1, ... decisive pairs; more than these pairs where none decide."""
        return _wins_needed(log_evidence(self.pairs), math.log(self.threshold))

    def decide(self, wins: int, losses: int, pairs: int) -> Decision:
        """Return the state of the comparison.

        Args:
            wins: number of pairs in which only the first policy succeeded.
            losses: number of pairs in which only the second policy succeeded.
            pairs: number of all pairs so far.

        Returns:
            ``OPEN`` if further pairs may decide; ``NONE`` if none can any more.
        """
        ahead = np.arange(self.pairs - pairs + 1)
        needed = self.boundary[wins + losses + ahead]
        if wins >= needed[0]:
            return Decision.FIRST
        if losses >= needed[0]:
            return Decision.SECOND
        return Decision.OPEN if (max(wins, losses) + ahead >= needed).any() else Decision.NONE

    def power(self, first: float, second: float) -> Power:
        """Return what the test achieves for two success rates, with episodes that are independent of each other.

        A common start state makes the outcomes of a pair more alike, and the test more powerful.
        """
        win, loss = first * (1 - second), (1 - first) * second
        decisive = win + loss
        if decisive == 0:
            return Power(0.0, 0.0, float(self.pairs))
        crossings = _first_crossings(self.boundary, win / decisive)
        # Probability that there are at least n decisive pairs after each number of pairs.
        reached = np.zeros((self.pairs + 1, self.pairs + 1))
        counts = np.eye(1, self.pairs + 1)[0]
        for number in range(self.pairs + 1):
            reached[number] = counts[::-1].cumsum()[::-1]
            counts = counts * (1 - decisive) + np.concatenate([[0.0], counts[:-1]]) * decisive
        decided = reached @ crossings
        expected = float((1 - decided[:-1].sum(axis=1)).sum())
        return Power(float(decided[-1, 0]), float(decided[-1, 1]), expected)


def evidence(wins: int, losses: int) -> float:
    """Return how much more likely the outcomes are if the first policy is better than if both are equally good."""
    return math.exp(log_evidence(wins + losses)[wins + losses, wins])


def log_evidence(pairs: int) -> NDArray[np.float64]:
    """Return the logarithm of the evidence for the first policy after n decisive pairs with w wins (n, w).

    Coins between 1/2 and 1 have equal weight. The integral of ``2 (2 p)^w (2 (1 - p))^(n - w)`` over them is
    ``2^(n + 1) / ((n + 1) C(n, w))`` times the probability of at most w heads in n + 1 fair tosses.
    """
    factorials = np.concatenate([[0.0], np.log(np.arange(1, pairs + 2)).cumsum()])
    table = np.full((pairs + 1, pairs + 1), -np.inf)
    tosses = np.zeros(pairs + 2)
    tosses[0] = 1.0
    for number in range(pairs + 1):
        tosses[1:] = (tosses[1:] + tosses[:-1]) / 2
        tosses[0] /= 2
        wins = np.arange(number + 1)
        choices = factorials[number] - factorials[wins] - factorials[number - wins]
        at_most = np.maximum(tosses[: number + 1].cumsum(), np.finfo(np.float64).tiny)
        table[number, : number + 1] = (number + 1) * math.log(2) - math.log(number + 1) - choices + np.log(at_most)
    return table


def _wins_needed(table: NDArray[np.float64], threshold: float) -> NDArray[np.int64]:
    """Return the fewest wins (n,) after each number of decisive pairs whose log evidence (n, w) reaches a threshold."""
    reaches = table >= threshold
    numbers = np.arange(len(reaches))
    return np.where(reaches.any(axis=1), reaches.argmax(axis=1), numbers + 1)


def _first_crossings(boundary: NDArray[np.int64], win: float) -> NDArray[np.float64]:
    """Return the probabilities (n, 2) that the first or the second policy is decided for after n decisive pairs.

    Args:
        boundary: wins (n,) that decide.
        win: probability that a decisive pair is a win of the first policy.
    """
    probabilities = np.zeros((len(boundary), 2))
    walk = np.eye(1, len(boundary))[0]  # by the number of wins
    for number in range(1, len(boundary)):
        walk[1:] = walk[1:] * (1 - win) + walk[:-1] * win
        walk[0] *= 1 - win
        needed = int(boundary[number])
        if needed > number:
            continue
        probabilities[number] = walk[needed : number + 1].sum(), walk[: number - needed + 1].sum()
        walk[needed:] = walk[: number - needed + 1] = 0.0
    return probabilities
