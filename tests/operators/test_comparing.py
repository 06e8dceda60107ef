"""Comparisons of policies: matched starts, blind order, marks of a person, and continuation after an interruption."""

import base64
import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from robo_rl.commands import report
from robo_rl.core import (
    ArraySpec,
    ConfigError,
    DataError,
    EnvSpec,
    Intervention,
    ManualClock,
    SafetyStop,
    Step,
    plain_text,
)
from robo_rl.evaluation.comparison import ComparedEpisode, ComparedPolicy, Comparison, ComparisonPlan
from robo_rl.evaluation.sequential import Decision
from robo_rl.operators.comparing import ComparisonJournal, compare
from robo_rl.operators.marks import MarkedBackend, SessionEnded, StartView
from robo_rl.operators.panel import Panel

from ..integration.test_report import configuration

STEPS = 5
PLAN = ComparisonPlan(
    "line", "runs/a", 10.0, (ComparedPolicy("good", 5), ComparedPolicy("bad", 3)), 20, 0.05, 1, "task", {}, 7
)


class Line:
    """A point on a line, from a start that the seed decides, which actions move; it is solved beyond 1.

    Args:
        reports_success: whether the task judges.
    """

    robot = None
    colour = 200

    def __init__(self, reports_success: bool = True) -> None:
        self.clock = ManualClock()
        self.starts: list[float] = []
        self.stopped: list[str] = []
        self.spec = EnvSpec(
            task="line",
            observation={"state": ArraySpec((1,))},
            action=ArraySpec((1,), low=-1, high=1),
            action_space="end_effector_delta",
            action_frame="base",
            control_rate=10.0,
            max_episode_steps=STEPS,
            reward_terms=("success",),
            reports_success=reports_success,
        )

    def reset(self, seed: int | None = None) -> Step:
        self.x, self.steps = float(np.random.default_rng(seed).uniform(0.2, 0.4)), 0
        self.starts.append(self.x)
        return self._step()

    def step(self, action: NDArray[np.float32]) -> Step:
        self.x += 0.3 * float(action[0])
        self.steps += 1
        return self._step()

    def _step(self) -> Step:
        solved = self.x > 1
        observation = {"state": np.array([self.x], np.float32)}
        ended = solved and self.spec.reports_success
        success = solved if self.spec.reports_success else None
        return Step(observation, {"success": float(solved)}, ended, self.steps == STEPS and not ended, 0, success)

    def render(self) -> NDArray[np.uint8]:
        return np.full((8, 8, 3), self.colour, np.uint8)

    def expert(self, seed: int) -> Any:
        raise ConfigError("none")

    def stop(self, reason: str) -> None:
        self.stopped.append(reason)

    def close(self) -> None: ...


class Push:
    """A policy with a fixed action."""

    def __init__(self, action: float) -> None:
        self.action = action

    def act(self, observation: Any, *, explore: bool) -> NDArray[np.float32]:
        return np.array([self.action], np.float32)

    def forget_plan(self, *, explore: bool) -> None: ...


class Device:
    """Buttons that a script presses, one set at each reading, and a screen that is remembered."""

    in_base_frame = False

    def __init__(self, readings: Iterator[str]) -> None:
        self.readings = readings
        self.lines: list[str] = []
        self.pictures: list[NDArray[np.uint8]] = []

    def read(self) -> Intervention:
        words = set(next(self.readings, "").split())
        return Intervention(np.array([1.0], np.float32), "drives" in words, frozenset(words - {"drives"}))

    def reset(self, closed: bool = False) -> None: ...

    def show(self, picture: NDArray[np.uint8], lines: list[str]) -> None:
        self.lines.append(lines[0])
        self.pictures.append(picture)

    def close(self) -> None: ...


GOOD, BAD = Push(1.0), Push(0.0)


def watched(line: Line, *readings: str, by_person: bool = True, confirms: bool = False) -> tuple[MarkedBackend, Device]:
    """Return a backend that a person with a device watches."""
    view, device = StartView(line), Device(iter(readings))
    panel = Panel(view, device, clock=ManualClock())
    return MarkedBackend(view, panel, by_person, confirms), device


def unwatched(line: Line) -> MarkedBackend:
    return MarkedBackend(StartView(line), None, by_person=False, confirms_start=False)


def test_the_better_policy_is_found_from_matched_starts_in_random_order(tmp_path: Path) -> None:
    line, lines = Line(), []
    with ComparisonJournal(tmp_path / "c.part", PLAN) as journal:
        result = compare(journal, unwatched(line), [GOOD, BAD], report=lines.append)
    (pair,) = result.pairs
    assert pair.decision == Decision.FIRST and pair.wins == pair.pairs < 10 and pair.losses == 0
    assert float(pair.difference.value) == float(pair.improvement.value) == 1.0
    assert line.starts[::2] == line.starts[1::2] and len(set(line.starts)) == pair.pairs
    order = [episode.policy for episode in result.episodes]
    assert len({tuple(order[at : at + 2]) for at in range(0, len(order), 2)}) == 2
    assert not re.search(r"good|bad", "".join(lines)), "the operator reads which policy acts"
    good, bad = result.policies
    assert good.success.value == 1.0 and good.cycle_time is not None and good.cycle_time.median == pytest.approx(0.3)
    assert bad.failures == {"time limit": pair.pairs}
    assert "good succeeds more often than bad, with an error probability of at most 5 %" in result.describe()[0]


def test_equal_policies_end_without_a_decision_and_three_share_the_error(tmp_path: Path) -> None:
    three = dataclasses.replace(PLAN, policies=(*PLAN.policies, ComparedPolicy("also bad", 0)), pairs=30)
    assert three.test.error == pytest.approx(0.05 / 3)
    with ComparisonJournal(tmp_path / "c.part", three) as journal:
        result = compare(journal, unwatched(Line()), [GOOD, BAD, BAD], report=lambda _: None)
    assert [pair.decision for pair in result.pairs] == [Decision.FIRST, Decision.FIRST, Decision.NONE]
    assert result.finished and len(result.outcomes()) < 30


def test_an_interrupted_comparison_continues_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "c.part"
    whole = ComparisonJournal(tmp_path / "whole.part", PLAN)
    expected = compare(whole, unwatched(Line()), [GOOD, BAD], report=lambda _: None)
    whole.close()

    def interrupt(_: str) -> None:
        if len(journal.comparison.episodes) == 3:
            raise KeyboardInterrupt

    # A plan of which nothing has taken place is replaced.
    ComparisonJournal(path, dataclasses.replace(PLAN, pairs=99)).close()
    with ComparisonJournal(path, PLAN) as journal, pytest.raises(KeyboardInterrupt):
        compare(journal, unwatched(Line()), [GOOD, BAD], report=interrupt)
    with path.open("ab") as file:  # as a process that was killed while it wrote
        file.write(b'{"start": 1, "pol')
    # Another command begins with another secret; that of the file counts.
    with ComparisonJournal(path, dataclasses.replace(PLAN, secret=99)) as journal:
        assert len(journal.comparison.episodes) == 3
        with pytest.raises(DataError, match="another process"):
            ComparisonJournal(path, PLAN)
        assert compare(journal, unwatched(Line()), [GOOD, BAD], report=lambda _: None) == expected
    with pytest.raises(ConfigError, match=r"pairs must be enough to decide with an error of 0.05.* at least 6, got 5"):
        dataclasses.replace(PLAN, pairs=5)
    with pytest.raises(ConfigError, match="other values of pairs: give the same options"):
        ComparisonJournal(path, dataclasses.replace(PLAN, pairs=21))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[2], lines[1]]) + "\n")
    with pytest.raises(DataError, match="episode 1 is not that of the plan"):
        ComparisonJournal(path, PLAN)


def test_a_person_judges_during_and_after_episodes_and_discards(tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, pairs=2, error=0.5, success="person")
    line = Line(reports_success=False)
    first = ["", "", "success"]  # one reading before the first step
    second = ["", "", "discard"]
    again = ["", *[""] * STEPS, "", "failure"]  # asked at the time limit
    third = ["", "drives", "drives success"]
    fourth = ["", "failure"]
    backend, device = watched(line, *first, *second, *again, *third, *fourth)
    reported: list[str] = []
    with ComparisonJournal(tmp_path / "c.part", plan) as journal:
        result = compare(journal, backend, [GOOD, BAD], report=reported.append)
    assert [episode.end for episode in result.episodes] == ["success", "time limit", "intervention", "marked as failed"]
    assert [episode.person for episode in result.episodes] == [True, False, True, False]
    assert [episode.interventions for episode in result.episodes] == [0, 0, 1, 0]
    assert line.starts[0] == line.starts[1] == line.starts[2]
    assert "Episode 2 was discarded and is repeated" in reported
    assert "episode 2 of at most 4: solved? Press Success or Failure" in device.lines
    assert not re.search(r"good|bad", "".join(device.lines))
    assert "discarded" in line.stopped and "marked by a person" in line.stopped


def test_a_person_restores_each_start_by_its_picture() -> None:
    line = Line()
    backend, device = watched(line, "", "pause", by_person=False, confirms=True)
    backend.announce("episode 1", repeats_start=False, asks=False)
    backend.reset(3)
    assert device.lines == ["episode 1: place everything as you like, then press Pause"] * 2
    line.colour = 50
    device.readings = iter(["", "pause"])
    backend.announce("episode 2", repeats_start=True, asks=False)
    backend.reset(3)
    assert device.lines[-1] == "episode 2: place everything as in the mixed picture, then press Pause"
    assert (device.pictures[-1] == (200 + 50) // 2).all()
    assert (backend.render() == 50).all()


def test_spot_checks_compare_the_person_with_the_task(tmp_path: Path) -> None:
    # The good policy is judged after three steps, the bad one at the time limit: with the task both times, or not.
    plan = dataclasses.replace(PLAN, pairs=2, error=0.5)
    backend, _ = watched(Line(), *["success"] * 100, by_person=False)
    with ComparisonJournal(tmp_path / "c.part", plan) as journal:
        result = compare(journal, backend, [GOOD, BAD], spot_checks=1.0, report=lambda _: None)
    assert result.agreement == (2, 4)
    assert result.describe()[-1] == "Task and person agreed in 2 of 4 episodes"
    assert result.pairs[0].wins == 2  # the judgement of the task counts


def test_a_person_ends_the_session_or_stops_the_robot(tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, success="person")
    for button, error, ends in (("stop", SessionEnded, []), ("emergency_stop", SafetyStop, ["robot stopped"])):
        backend, _ = watched(Line(reports_success=False), "", "", button)
        with ComparisonJournal(tmp_path / f"{button}.part", plan) as journal, pytest.raises(error):
            compare(journal, backend, [GOOD, BAD], report=lambda _: None)
        assert [each.end for each in journal.comparison.episodes] == ends, "a stop counts as a failure"


def test_later_pairs_do_not_change_a_decision() -> None:
    outcomes = [(True, False)] * 9 + [(False, True)] * 2 + [(True, True)] * 9
    episodes = [
        ComparedEpisode(start, place, success[place], 3, "success" if success[place] else "time limit")
        for start, success in enumerate(outcomes)
        for place in PLAN.order(start)
    ]
    comparison = Comparison(PLAN, tuple(episodes))
    assert comparison.finished and comparison.pairs[0].decision == Decision.FIRST
    assert Comparison(PLAN, tuple(episodes[:18])).finished


def test_the_result_is_one_file_that_report_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "comparison.json"
    plan = dataclasses.replace(PLAN, policies=(ComparedPolicy("<b>good</b>", 5), ComparedPolicy("bad", 3)))
    with ComparisonJournal(tmp_path / "c.part", plan) as journal:
        result = compare(journal, unwatched(Line()), [GOOD, BAD], clips=tmp_path, report=lambda _: None)
        result.write(file)
    assert Comparison.read(file) == result
    clips = sorted(path.name for path in tmp_path.glob("*.mp4"))
    assert clips == [f"episode_{at + 1:04}.mp4" for at, each in enumerate(result.episodes) if not each.success]
    value = json.loads(file.read_text())
    assert value["pairs"][0]["decision"] == "first"
    assert report.run(configuration("report", comparison=str(file))) == 0
    assert "&lt;b&gt;good" not in capsys.readouterr().out
    page = (tmp_path / "comparison.html").read_text()
    assert all(f'src="{clip}"' in page for clip in clips) and "<b>good</b>" not in page and "time limit" in page

    with pytest.raises(ConfigError, match="runs must be left out"):
        report.run(configuration("report", comparison=str(file), runs=["runs/a"]))
    for damage in ("{}", "[", json.dumps(value | {"episodes": [{}]}), json.dumps(value | {"plan": 3})):
        file.write_text(damage)
        with pytest.raises(DataError, match=r"comparison\.json"):
            Comparison.read(file)


@pytest.mark.parametrize("name", ["a\x1b[2Jb\x00c", "$\\frac{1$", "_hidden", "line\nbreak\u202e", "x" * 100_000])
def test_texts_of_a_foreign_comparison_control_no_terminal_and_break_no_picture(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    file = tmp_path / "comparison.json"
    with ComparisonJournal(tmp_path / "c.part", PLAN) as journal:
        result = compare(journal, unwatched(Line()), [GOOD, BAD], clips=None, report=lambda _: None)
    plan = dataclasses.replace(PLAN, task=name, policies=(ComparedPolicy(name, 5), ComparedPolicy("bad", 3)))
    episodes = [dataclasses.replace(each, end=name, note=name, clip="a.mp4") for each in result.episodes]
    Comparison(plan, tuple(episodes)).write(file)
    assert report.run(configuration("report", comparison=str(file))) == 0
    page, printed = (tmp_path / "comparison.html").read_text(), capsys.readouterr().out
    assert not recwarn.list, "Matplotlib misses no character, and its picture has room"
    assert not {*"\0\x1b\u202e"} & {*page, *printed} and len(printed) < 10_000 and len(page) < 1_000_000
    picture = base64.b64decode(re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)[0]).decode()
    shown = f"{plain_text(name, 80)} better than bad"
    assert f"<!-- {shown} -->" in picture
