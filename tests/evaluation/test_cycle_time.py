"""Time to success: in evaluations, of demonstrations, and where people read it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from robo_rl.core import ArraySpec, EnvSpec, Step
from robo_rl.evaluation import CycleTime, CycleTimes, cycle_time_lines, evaluate
from robo_rl.evaluation.aggregate import group_runs
from robo_rl.evaluation.report import RESULTS, results, write_report
from robo_rl.evaluation.runs import load_run
from robo_rl.monitoring.run_table import show

TIMES = {"median": 2.0, "percentile_90": 3.0, "successes_per_hour": 900.0}


def test_times_are_of_successes_and_the_hour_counts_failures() -> None:
    steps, successes = [10, 20, 30, 40, 100, 100], [True, True, True, True, False, None]
    cycle_time = CycleTime.of(steps, successes, control_rate=10.0)
    assert cycle_time is not None
    assert cycle_time.median == 2.5
    assert cycle_time.percentile_90 == pytest.approx(3.7)
    assert cycle_time.successes_per_hour == pytest.approx(3600 * 4 / 30)


@pytest.mark.parametrize(("steps", "successes"), [([], []), ([5, 7], [False, None]), ([0], [True])])
def test_without_a_success_there_is_none(steps: list[int], successes: list[bool | None]) -> None:
    assert CycleTime.of(steps, successes, 10.0) is None


class Script:
    """Backend whose success at each step is given, by episode; episodes end with the list."""

    def __init__(self, episodes: list[list[bool | None]]) -> None:
        self._episodes = iter(episodes)
        self.spec = EnvSpec(
            task="script",
            observation={"state": ArraySpec((1,))},
            action=ArraySpec((1,), low=-1, high=1),
            action_space="joint_delta",
            action_frame="joint",
            control_rate=2.0,
            max_episode_steps=50,
            reward_terms=("success",),
        )

    def reset(self, seed: int | None = None) -> Step:
        self._left = list(next(self._episodes))
        return self._step(None, ended=False)

    def step(self, action: Any) -> Step:
        success = self._left.pop(0)
        return self._step(success, ended=not self._left)

    def _step(self, success: bool | None, ended: bool) -> Step:
        observation = {"state": np.zeros(1, np.float32)}
        return Step(observation, {"success": float(bool(success))}, False, ended, 0, success)


class Still:
    def act(self, observation: Any, *, explore: bool) -> Any:
        return np.zeros(1, np.float32)

    def forget_plan(self, *, explore: bool) -> None: ...


def test_success_counts_from_when_it_lasts() -> None:
    no, yes = False, True
    backend: Any = Script([[no, yes, no, no, yes, yes, yes], [no, no, no, no], [no, yes, no], [yes], [None, None, yes]])
    result = evaluate(backend, Still(), 5, seed=0)
    assert [episode.steps_to_success for episode in result.episodes] == [5, None, None, 1, 3]
    cycle_time = result.cycle_time
    assert cycle_time is not None
    assert cycle_time.median == 1.5
    assert cycle_time.successes_per_hour == pytest.approx(3600 * 3 / ((5 + 4 + 3 + 1 + 3) / 2))
    assert json.loads(json.dumps(result.to_json()))["cycle_time"]["median"] == 1.5


def make_run(folder: Path, seed: int, **summary: Any) -> Path:
    folder.mkdir()
    (folder / "config.yaml").write_text("task: {name: peg_insert}\nagent: {gamma: 0.97}\n")
    line = {"step": 1000, "wall_seconds": 9.0, "kind": "evaluation", "success_rate": 0.5, "success_seconds_median": 2.0}
    line |= {"successes_per_hour": 900.0, "demonstrations_seconds_median": 5.0}
    (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    facts = {"status": "completed", "task": "peg_insert", "agent": "rlpd", "seed": seed, "env_steps": 1000}
    (folder / "summary.json").write_text(json.dumps(facts | {"wall_seconds": 9.0} | summary))
    return folder


def test_reports_show_it_beside_the_demonstrations(tmp_path: Path) -> None:
    slow = TIMES | {"median": 5.0}
    paths = [make_run(tmp_path / f"{seed}", seed, cycle_time=TIMES, demonstrations_cycle_time=slow) for seed in (1, 2)]
    runs = [load_run(path) for path in paths]
    assert CycleTimes.of_summary(runs[0].summary) == (CycleTime(**TIMES), CycleTime(**slow))
    row = dict(zip(RESULTS, results(group_runs(runs))[0], strict=True))
    assert row["time to success"] == "2.00 s [2.00, 2.00]"
    assert row["of the demonstrations'"] == "0.40 [0.40, 0.40]"
    page = write_report(runs, tmp_path / "report.html").read_text()
    assert "median time to success, 0.40 times the demonstrations" in page


def test_reports_of_runs_that_tell_nothing_of_it(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "a", 1, cycle_time=None))
    assert CycleTimes.of_summary(run.summary) == CycleTimes.of_summary(None) == (None, None)
    assert results(group_runs([run]))[0][-2:] == ["–", "–"]


def test_a_summary_with_another_kind_of_time_is_damaged(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "a", 1, cycle_time={"median": "fast"}))
    assert any("summary.json is damaged" in problem for problem in run.problems)


def test_top_shows_it(tmp_path: Path) -> None:
    console = Console(width=200, record=True)
    console.print(show(make_run(tmp_path / "a", 1), 0.0))
    assert "2 s to success  900 successes/h  5 s in demonstrations" in console.export_text()


def test_people_are_told_the_ratio() -> None:
    lines = list(cycle_time_lines(CycleTime(**TIMES), CycleTime(5.0, 6.0, 100.0)))
    assert lines == [
        "Time to success 2.0 s (median; 90 % within 3.0 s), 900 successes an hour without resets",
        "The demonstrations took 5.0 s (median; 90 % within 6.0 s): the policy takes 0.40 times as long",
    ]
    assert len(list(cycle_time_lines(CycleTime(**TIMES), None))) == 1
