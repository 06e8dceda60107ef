"""Statistics against closed forms, brute force, SciPy, rliable and coverage simulations."""

import itertools
import math

import numpy as np
import pytest

from robo_rl.core import ConfigError, DataError
from robo_rl.evaluation.statistics import (
    Proportion,
    align_curves,
    bootstrap_interval,
    interquartile_mean,
    steps_to_threshold,
    wilson_interval,
)

RNG = np.random.default_rng(1)


@pytest.mark.parametrize(("successes", "episodes"), [(0, 10), (1, 10), (7, 12), (50, 100), (100, 100)])
def test_wilson_ends_solve_the_score_equation(successes, episodes):
    z = 1.959963984540054
    share = successes / episodes
    for end in wilson_interval(successes, episodes):
        assert (share - end) ** 2 == pytest.approx(z * z * end * (1 - end) / episodes, abs=1e-12)


def test_wilson_of_published_example_and_of_a_perfect_score():
    # Newcombe, Statistics in Medicine 17 (1998), table I: 81 of 263.
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson_interval(100, 100) == pytest.approx((0.96300, 1.0), abs=1e-5)
    assert wilson_interval(0, 20)[0] == 0.0


def test_wilson_covers_as_it_claims_on_average():
    episodes = 40
    counts = np.arange(episodes + 1)
    ends = np.array([wilson_interval(int(count), episodes) for count in counts])
    weights = np.array([math.comb(episodes, int(count)) for count in counts], dtype=float)
    coverage = []
    for share in np.linspace(0.02, 0.98, 97):
        probability = weights * share**counts * (1 - share) ** (episodes - counts)
        coverage.append(probability[(ends[:, 0] <= share) & (share <= ends[:, 1])].sum())
    assert np.mean(coverage) == pytest.approx(0.95, abs=0.01)
    assert min(coverage) > 0.83


def test_proportion_refuses_what_cannot_be():
    with pytest.raises(ConfigError, match="episodes must be positive, got 0"):
        Proportion.of(0, 0)
    with pytest.raises(ConfigError, match=r"successes must be in \[0, 5\], got 6"):
        Proportion.of(6, 5)


@pytest.mark.parametrize("shape", [(3, 1), (4, 1), (5, 3), (10, 7), (1, 1)])
def test_interquartile_mean_equals_that_of_rliable(shape):
    metrics = pytest.importorskip("rliable.metrics")
    scores = RNG.normal(size=shape)
    assert interquartile_mean(scores) == pytest.approx(metrics.aggregate_iqm(scores))


def test_interquartile_mean_by_hand_and_with_leading_axes():
    scores = np.array([[-100.0], [1.0], [2.0], [4.0], [5.0], [6.0], [7.0], [900.0]])
    assert interquartile_mean(scores) == 4.25
    stacked = RNG.normal(size=(3, 2, 6, 4))
    expected = [[interquartile_mean(inner) for inner in outer] for outer in stacked]
    np.testing.assert_allclose(interquartile_mean(stacked), expected)


def test_bootstrap_of_the_mean_equals_the_exact_distribution():
    scores = np.array([[0.0], [1.0], [10.0]])
    exact = np.sort([np.mean(draw) for draw in itertools.product(scores[:, 0], repeat=3)])
    interval = bootstrap_interval(lambda x: x.mean(axis=(-2, -1)), scores, repetitions=50_000, confidence=0.5)
    # 27 equally likely samples: the quartiles fall on the 7th and the 21st.
    assert interval.low == pytest.approx(exact[6])
    assert interval.high == pytest.approx(exact[20])
    assert interval.value == pytest.approx(11 / 3)


def test_bootstrap_resamples_runs_within_tasks_only():
    scores = np.stack([np.zeros(6), np.full(6, 100.0)], axis=-1)  # Tasks differ, runs do not.
    interval = bootstrap_interval(interquartile_mean, scores)
    assert interval.low == interval.value == interval.high == 50.0


def test_bootstrap_of_curves():
    scores = RNG.normal(1, 1, (8, 3))
    curves = np.stack([scores, scores + 5])
    both = bootstrap_interval(interquartile_mean, curves, repetitions=500)
    # All points of a curve are resampled alike: shifted by 5, the interval is the same shifted by 5.
    np.testing.assert_allclose(both.low[1] - both.low[0], 5)
    np.testing.assert_allclose(both.high[1] - both.high[0], 5)


def test_bootstrap_is_reproducible_and_as_wide_as_theory_says():
    scores = RNG.normal(size=(1000, 1))
    first = bootstrap_interval(interquartile_mean, scores, repetitions=3_000, seed=3)
    again = bootstrap_interval(interquartile_mean, scores, repetitions=3_000, seed=3)
    assert (first.low, first.high) == (again.low, again.high)
    assert first.low != bootstrap_interval(interquartile_mean, scores, repetitions=3_000, seed=4).low
    # Asymptotic variance of the 25 % trimmed mean of a standard normal: 1.19 / n (Huber, Robust Statistics, 1981).
    assert first.high - first.low == pytest.approx(2 * 1.96 * math.sqrt(1.19 / 1000), rel=0.1)


def test_bootstrap_covers_nearly_as_it_claims_with_ten_runs():
    rng = np.random.default_rng(5)
    hits = 0
    for trial in range(300):
        interval = bootstrap_interval(interquartile_mean, rng.normal(size=(10, 4)), repetitions=400, seed=trial)
        hits += bool(interval.low <= 0 <= interval.high)
    assert 0.88 <= hits / 300 <= 0.985


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((0, 2)), [[np.nan]]])
def test_scores_that_are_none_are_refused(bad):
    with pytest.raises(DataError, match="expected scores"):
        interquartile_mean(bad)


def test_curves_are_aligned_without_looking_ahead():
    steps, values = align_curves([([0, 100, 300], [0.0, 0.5, 1.0]), ([50, 200, 250], [0.1, 0.2, 0.9])])
    np.testing.assert_array_equal(steps, [50, 100, 200, 250])
    np.testing.assert_array_equal(values[..., 0], [[0.0, 0.1], [0.5, 0.1], [0.5, 0.2], [0.5, 0.9]])


def test_curves_are_thinned_and_keep_their_ends():
    steps, values = align_curves([(np.arange(1000), np.arange(1000.0))], points=10)
    assert steps.size == 10 and steps[0] == 0 and steps[-1] == 999
    np.testing.assert_array_equal(values[:, 0, 0], steps)


def test_curves_without_a_common_range_leave_an_empty_grid():
    steps, values = align_curves([([0, 1], [0.0, 0.0]), ([5, 6], [0.0, 0.0])])
    assert steps.size == 0 and values.shape == (0, 2, 1)


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        ([], "at least one curve"),
        ([([0, 1], [0.0])], r"curve 0: expected as many steps as values, got \(2,\) and \(1,\)"),
        ([([0, 1], [0.0, 1.0]), ([1, 1], [0.0, 1.0])], "curve 1: expected finite increasing"),
    ],
)
def test_curves_that_are_none_are_refused(curves, message):
    with pytest.raises(DataError, match=message):
        align_curves(curves)


def test_steps_to_threshold_when_all_arrive():
    result = steps_to_threshold([1000, 2000, 3000, 10_000], [12_000] * 4)
    assert result.value == result.at_least == 2500  # The middle two.
    assert result.reached == result.runs == 4
    assert 1000 <= result.low < 2500 < result.high <= 10_000


def test_a_run_that_never_arrived_counts_and_is_not_dropped():
    one = steps_to_threshold([1000, 2000, 3000, None], [6000] * 4)
    assert one.value == 2500 and one.reached == 3  # Cut, as the slowest of four is.
    assert one.high == math.inf
    assert one.describe() == f"2,500 [{one.low:,.0f}, ∞] (3 of 4 runs)"
    two = steps_to_threshold([1000, None, 3000, None], [6000, 5000, 6000, 4000])
    assert two.value == math.inf
    assert two.at_least == 3500  # Middle two of 1000, 3000, 4000, 5000.
    assert two.describe() == "> 3,500 (2 of 4 runs)"
    none = steps_to_threshold([None, None, None], [600, 600, 600])
    assert none.describe(1 / 600) == "> 1.0 (0 of 3 runs)"


def test_a_single_run_has_no_interval_over_runs():
    assert steps_to_threshold([3500], [6000]).describe() == "3,500"
    with pytest.raises(DataError, match="1 runs and 2 horizons"):
        steps_to_threshold([1], [1, 2])
