"""Policies that decide only now and then, and the score over how often they do, against sums by hand."""

import json

import numpy as np
import pytest

from robo_rl.core import ConfigError, Observation
from robo_rl.evaluation import EpisodeOutcome, EvaluationResult, evaluate, evaluate_decision_periods
from robo_rl.evaluation.decision_periods import SlowPolicy, frequency_averaged_score

from .test_rollout import Line


class Chunks:
    """Decides ``h`` actions: 0.1 times the observation plus 0.001 for each step since the decision."""

    def __init__(self, h: int) -> None:
        self.h = h
        self.left: list[float] = []

    def act(self, observation: Observation, *, explore: bool) -> np.ndarray:
        if not self.left:
            self.left = [0.1 * float(observation["state"][0]) + 0.001 * k for k in range(self.h)]
        return np.array([self.left.pop(0)], np.float32)

    def forget_plan(self, *, explore: bool) -> None:
        self.left = []


@pytest.mark.parametrize(("h", "period"), [(1, 1), (1, 4), (4, 1), (4, 3), (4, 4), (4, 7), (3, 8)])
def test_what_is_done_at_each_step_of_two_episodes(h: int, period: int) -> None:
    policy = SlowPolicy(Chunks(h), h, period)
    for _ in range(2):
        policy.forget_plan(explore=False)
        for t in range(17):
            (action,) = policy.act({"state": np.array([t], np.float32)}, explore=False)
            since = t % period
            assert action == pytest.approx(0.1 * (t - since) + 0.001 * min(since, h - 1), abs=1e-6), t


def test_each_period_is_evaluated_from_the_same_starts() -> None:
    backend = Line(limit=6, solvable=False, reports_success=False)
    periods = evaluate_decision_periods(lambda policy: evaluate(backend, policy, 3, 7), Chunks(2), 2, [1, 2, 5])
    assert backend.seeds[:3] == backend.seeds[3:6] == backend.seeds[6:9]
    for period, result in zip((1, 2, 5), periods.results, strict=True):
        for index, outcome in enumerate(result.episodes):
            x, total = float(np.random.default_rng(backend.seeds[index]).random()), 0.0
            decided = 0.0
            for t in range(6):
                since = t % period
                decided = x if since == 0 else decided
                action = 0.1 * decided + 0.001 * min(since, 1)
                x, total = x + 0.1 * action, total + action**2
            assert outcome.total_reward == pytest.approx(total, rel=1e-4)
    one, two, five = (result.return_mean for result in periods.results)
    assert periods.score_name == "return_mean"
    # By hand: trapezia of widths 1 and 3 over an axis of width 4.
    expected = ((one + two) / 2 * 1 + (two + five) / 2 * 3) / 4
    assert periods.frequency_averaged_score == pytest.approx(expected)


def result_of(successes: list[bool | None]) -> EvaluationResult:
    episodes = [EpisodeOutcome(k, solved, 2.0, 5, True) for k, solved in enumerate(successes)]
    return EvaluationResult("line", 0, 10.0, tuple(episodes))


def test_where_success_is_known_it_is_the_score_and_json_says_so() -> None:
    made = iter([result_of([True] * 4), result_of([True, True, False, False]), result_of([False] * 4)])
    periods = evaluate_decision_periods(lambda _: next(made), Chunks(1), 1, [1, 2, 4])
    assert periods.scores == [1.0, 0.5, 0.0]
    assert periods.frequency_averaged_score == pytest.approx((0.75 * 1 + 0.25 * 2) / 3)
    data = json.loads(json.dumps(periods.to_json()))
    assert data["score"] == "success_rate"
    assert data["frequency_averaged_score"] == pytest.approx(1.25 / 3)
    assert [row["period"] for row in data["periods"]] == [1, 2, 4]
    assert [row["decisions_per_second"] for row in data["periods"]] == [10, 5, 2.5]
    assert data["periods"][1]["success_rate"]["value"] == 0.5
    assert data["periods"][1]["return_mean"] == 2


def test_a_constant_score_is_its_own_average_whatever_the_periods() -> None:
    for periods in ([1], [3], [1, 2], [1, 2, 4, 8, 16], [2, 3, 11]):
        assert frequency_averaged_score(periods, [0.3] * len(periods)) == pytest.approx(0.3)


@pytest.mark.parametrize("periods", [[0, 1], [2, 2], [4, 2], [-1]])
def test_periods_that_do_not_ascend_are_refused(periods: list[int]) -> None:
    message = r"decision_periods must be whole numbers of 1 or more, each above the one before, got \["
    with pytest.raises(ConfigError, match=message):
        evaluate_decision_periods(lambda _: result_of([True]), Chunks(1), 1, periods)
    with pytest.raises(ConfigError, match="decision_periods must be one or more, got 0"):
        evaluate_decision_periods(lambda _: result_of([True]), Chunks(1), 1, [])


def test_a_chunk_that_is_not_used_up_does_not_reach_into_the_next_episode() -> None:
    backend = Line(limit=4, solvable=False)
    result = evaluate(backend, Chunks(3), 2, 7)
    for index, outcome in enumerate(result.episodes):
        x, total, decided = float(np.random.default_rng(backend.seeds[index]).random()), 0.0, 0.0
        for t in range(4):
            decided = x if t % 3 == 0 else decided
            action = 0.1 * decided + 0.001 * (t % 3)
            x, total = x + 0.1 * action, total + action**2
        assert outcome.total_reward == pytest.approx(total, rel=1e-4)
