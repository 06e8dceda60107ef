"""The sequential comparison of two success rates: its error rates, its power, and the evidence."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from robo_rl.core import ConfigError
from robo_rl.evaluation.sequential import Decision, SequentialTest, evidence

COMPARISONS = 10_000
PAIRS = 60
TEST = SequentialTest(PAIRS, 0.05)
STANDARD_ERRORS = 3.0


def decided(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Look at comparisons (n, pairs) after each pair; return how often each policy is chosen, and the mean pairs."""
    wins, losses = (first & ~second).cumsum(axis=1), (~first & second).cumsum(axis=1)
    needed = TEST.boundary[wins + losses]
    ends = (wins >= needed) | (losses >= needed)
    stop = np.where(ends.any(axis=1), ends.argmax(axis=1), PAIRS - 1)
    rows = np.arange(len(stop))
    for_first, for_second = ((counts >= needed)[rows, stop].mean() for counts in (wins, losses))
    return float(for_first), float(for_second), float(stop.mean()) + 1


def simulated(first: float, second: float, spread: float, seed: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return successes (n, pairs) of two policies; ``spread`` is the influence of the start state on both."""
    rng = np.random.default_rng(seed)
    start = rng.uniform(-spread, spread, (COMPARISONS, PAIRS))
    return tuple(rng.random((COMPARISONS, PAIRS)) < rate + start for rate in (first, second))  # type: ignore[return-value]


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.75, 0.95])
@pytest.mark.parametrize("shared", [False, True])
def test_equally_good_policies_are_rarely_declared_different(rate: float, shared: bool) -> None:
    spread = min(rate, 1 - rate) if shared else 0.0
    first, second, _ = decided(*simulated(rate, rate, spread, seed=round(100 * rate)))
    for wrong, limit in ((first + second, TEST.error), (first, TEST.error / 2), (second, TEST.error / 2)):
        assert wrong <= limit + STANDARD_ERRORS * math.sqrt(limit / COMPARISONS)


@pytest.mark.parametrize(("pairs", "error"), [(1, 0.05), (10, 0.05), (60, 0.05), (60, 0.01), (300, 0.1)])
def test_error_rate_is_computed_exactly_and_nearly_used_up(pairs: int, error: float) -> None:
    test = SequentialTest(pairs, error)
    # A decisive outcome in each pair is the worst case: the walk is then as long as it can be.
    always = test.power(1.0, 0.0), test.power(0.5, 0.5)
    assert always[1].first + always[1].second <= error
    walk = np.random.default_rng(0).random((COMPARISONS, pairs)) < 0.5
    wins = walk.cumsum(axis=1)
    needed = test.boundary[1:]
    wrong = float(((wins >= needed) | (np.arange(1, pairs + 1) - wins >= needed)).any(axis=1).mean())
    assert wrong <= error + STANDARD_ERRORS * math.sqrt(error / COMPARISONS)
    assert wrong >= 0.5 * error or pairs < 20


@pytest.mark.parametrize(("first", "second"), [(0.9, 0.5), (0.5, 0.8), (0.7, 0.6)])
def test_power_is_that_of_simulated_comparisons(first: float, second: float) -> None:
    power = TEST.power(first, second)
    chosen = decided(*simulated(first, second, 0.0, seed=1))
    assert chosen[:2] == pytest.approx((power.first, power.second), abs=0.02)
    assert chosen[2] == pytest.approx(power.pairs, abs=0.6)


def test_a_clear_difference_takes_half_the_pairs_of_a_fixed_number_at_little_loss_of_power() -> None:
    first, second = simulated(0.8, 0.4, 0.0, seed=2)
    power = TEST.power(0.8, 0.4)
    wins, losses = (first & ~second).sum(axis=1), (~first & second).sum(axis=1)
    fixed = np.array([sign_test(int(win), int(loss)) for win, loss in zip(wins, losses, strict=True)]) <= TEST.error
    assert power.first > 0.95 and fixed.mean() - power.first < 0.04
    assert power.pairs < PAIRS / 2


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p-value of McNemar's exact test."""
    number = wins + losses
    tail = sum(math.comb(number, count) for count in range(max(wins, losses), number + 1)) / 2**number
    return min(1.0, 2 * tail)


def test_evidence_is_the_average_likelihood_ratio() -> None:
    coins = 0.5 + (np.arange(100_000) + 0.5) / 200_000
    for wins, losses in ((0, 0), (3, 1), (2, 7), (12, 4)):
        ratios = (2 * coins) ** wins * (2 * (1 - coins)) ** losses
        assert evidence(wins, losses) == pytest.approx(ratios.mean(), rel=1e-6)


def test_a_comparison_ends_when_no_further_pair_can_decide_it() -> None:
    fewest = int(np.flatnonzero(TEST.boundary <= np.arange(PAIRS + 1))[0])
    assert TEST.decide(fewest, 0, fewest) == Decision.FIRST
    assert TEST.decide(0, fewest, fewest) == Decision.SECOND
    assert TEST.decide(0, 0, 0) == TEST.decide(fewest - 1, 0, fewest - 1) == Decision.OPEN
    assert TEST.decide(0, 0, PAIRS - fewest) == Decision.OPEN
    assert TEST.decide(0, 0, PAIRS - fewest + 1) == TEST.decide(10, 10, PAIRS) == Decision.NONE


@pytest.mark.parametrize(("pairs", "error"), [(0, 0.05), (1001, 0.05), (10, 0.0), (10, 0.6)])
def test_values_out_of_range_are_refused(pairs: int, error: float) -> None:
    with pytest.raises(ConfigError, match=r"^(pairs|error) must be "):
        SequentialTest(pairs, error)
