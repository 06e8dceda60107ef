"""What the learner makes of steps from actors; tests/integration/test_async_training.py has it as a whole."""

import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from omegaconf import OmegaConf

from robo_rl.app import AsyncRuntimeConfig
from robo_rl.core import RewardWeights, Transition, Verdict
from robo_rl.learner import Checkpoint
from robo_rl.replay import ReplayRing
from robo_rl.replay.intake import IntakeTotals
from robo_rl.training import report
from robo_rl.training.arrivals import Arrivals, StoredSteps
from robo_rl.training.evaluations import Evaluations
from robo_rl.training.experience import Experience
from robo_rl.training.report import RuntimeReport
from robo_rl.training.safety_record import SafetyRecord
from robo_rl.training.schedule import Evaluated
from robo_rl.training.wire import Wire, actor_processes, run_identity

from ..rigs.command_line import exit_code
from ..rigs.replay_episodes import SPEC
from ..rigs.transport_rig import steps_of


def test_returns_are_those_of_their_episode_also_where_one_was_cut_without_a_word() -> None:
    """The robot was stopped after 3 of 7 steps, so none of them says that it was the last."""
    steps = [dataclasses.replace(step, rewards={"success": 1.0}) for step in steps_of(1, [7, 4])]
    steps[8] = dataclasses.replace(steps[8], verdict=Verdict(changed=True, reasons=("speed",)))
    arriving: list[Transition] = [*steps[:3], *steps[7:]]
    logged: list[dict[str, Any]] = []
    stops: list[tuple[str, str, int]] = []
    run = SimpleNamespace(
        components=SimpleNamespace(agent=None),
        experience=experience(ReplayRing(20, dataclasses.replace(SPEC, reward_terms=("success",)))),
        evaluations=SimpleNamespace(watch=None),
        logger=SimpleNamespace(recent_episodes=[], log=lambda kind, step, **values: logged.append(values)),
        safety=SafetyRecord(),
        step=0,
    )
    wire = SimpleNamespace(intake=SimpleNamespace(take=lambda: arriving), server=SimpleNamespace(actors=dict))
    operators = SimpleNamespace(note_step=lambda *_: None, note_stop=lambda *stop: stops.append(stop))
    arrivals = Arrivals(run, wire, operators)
    arrivals.take()
    assert [(line["episode_return"], line["length"], line["stopped"]) for line in logged] == [
        (3.0, 3, "left"),
        (4.0, 4, None),
    ]
    assert logged[1]["safety/changed_steps"] == 1
    assert stops == [("robot", "left", 3)]
    assert run.step == 7
    assert arrivals.actors == {"robot"}
    assert arrivals.take_newest() == [steps[10]] and arrivals.take_newest() == []


def test_people_are_told_while_no_step_can_be_stored() -> None:
    reasons = iter(["", "no space left", "no space left", "", ""])
    messages: list[str] = []
    logged: list[str | None] = []
    run = SimpleNamespace(
        logger=SimpleNamespace(
            message=messages.append, log=lambda kind, step, **values: logged.append(values["blocked"])
        ),
        step=0,
    )
    wire = SimpleNamespace(
        intake=SimpleNamespace(blocked=lambda: next(reasons), totals=lambda: IntakeTotals(0, 0, 0, 0)),
        server=SimpleNamespace(actors=dict, take_notes=list, refusals={}),
        practising=list,
        spooled=lambda: 0,
    )
    arrivals, pace = SimpleNamespace(take_newest=list), SimpleNamespace(ratio=None, waited_seconds=0.0)
    reports = RuntimeReport(run, wire, arrivals, pace)
    assert reports.is_due
    for _ in range(5):
        reports.write()
    assert not reports.is_due
    assert messages == ["No steps are accepted: no space left. Actors keep theirs", "Steps are accepted again"]
    assert logged == [None, "no space left", "no space left", None, None]


def test_a_reset_that_learns_is_refused_before_anything_is_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["task=reach", "runtime=async", "reset=learned"]
    assert exit_code("train", *words, "demonstrations.episodes=0", f"run.dir={tmp_path}/run") == 2
    assert "reset=learned needs runtime=local" in capsys.readouterr().err
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert not (tmp_path / "run" / "replay").exists()


def test_a_run_that_goes_on_waits_for_nobodys_answer() -> None:
    """Episodes that cannot be scored yet are held back; what modules were told of the others, they knew."""
    done: list[str] = []
    scorer = SimpleNamespace(load=lambda state: done.append(state))

    def score_held(given: object, online: bool) -> NDArray[np.intp]:
        assert given is scorer
        done.append(f"scored, online={online}")
        return np.zeros(0, np.intp)

    online = SimpleNamespace(score_held=score_held, rows=SimpleNamespace(values=lambda slots: slots))
    run = SimpleNamespace(experience=experience(online, scorer), step=0)
    intake, pace = SimpleNamespace(totals=lambda: SimpleNamespace(stored=5)), SimpleNamespace(learned=3.0)
    stored = StoredSteps(run, intake, pace)
    stored.load(Checkpoint(7, {"reward": "loaded"}, {}))
    assert done == ["scored, online=True", "loaded"]
    assert run.step == 5 and stored.evaluated == Evaluated(learned=3.0)


def test_the_identity_of_a_run_is_on_the_disk_before_an_actor_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="no disk"):
            run_identity(tmp_path)
    assert list(tmp_path.iterdir()) == []
    identity = run_identity(tmp_path)
    assert len(identity) == 32 and run_identity(tmp_path) == identity


def refuse(descriptor: int) -> None:
    raise OSError("no disk")


@pytest.mark.parametrize(("stored", "expected"), [(900, None), (1000, 1000)])
def test_where_a_run_was_good_is_forgotten_with_the_step(stored: int, expected: int | None) -> None:
    spec = SimpleNamespace(reports_success=True)
    parts = SimpleNamespace(reward=RewardWeights(), evaluation_backend=lambda: SimpleNamespace(spec=spec))
    evaluations = Evaluations(None, parts, None, None)
    evaluations.load({"score": None, "steps_to_95": 1000, "watch": None}, updates=0, step=stored)
    assert evaluations.steps_to_95 == expected


def test_the_oldest_policy_that_acts_is_told_by_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([10.0, 11.0, 14.0])
    monkeypatch.setattr(report, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    sent: list[int] = []
    logged: list[dict[str, Any]] = []
    run = SimpleNamespace(
        agent=SimpleNamespace(policy_state=dict),
        learner=SimpleNamespace(updates=4),
        logger=SimpleNamespace(log=lambda kind, step, **values: logged.append(values)),
        step=0,
    )
    wire = SimpleNamespace(
        intake=SimpleNamespace(blocked=str, totals=lambda: IntakeTotals(0, 0, 0, 0)),
        server=SimpleNamespace(
            actors=dict, take_notes=list, refusals={}, publish=lambda version, _: sent.append(version)
        ),
        practising=list,
        spooled=lambda: 0,
    )
    newest = [SimpleNamespace(policy_version=version) for version in (-1, 4, 6)]
    pace = SimpleNamespace(ratio=None, waited_seconds=0.0)
    reports = RuntimeReport(run, wire, SimpleNamespace(take_newest=lambda: newest), pace)
    for version in (4, 6):
        run.learner.updates = version
        reports.publish()
    reports.write()
    assert sent == [4, 6]
    assert (logged[0]["staleness_steps"], logged[0]["staleness_seconds"]) == (2, 4.0)


@pytest.mark.parametrize(("min_ratio", "held"), [(0.0, []), (0.5, [(0, 7)])])
def test_actors_wait_where_nothing_is_learned_unless_they_never_do(
    tmp_path: Path, min_ratio: float, held: list[tuple[int, int]]
) -> None:
    wire = Wire(OmegaConf.create(), tmp_path, AsyncRuntimeConfig(min_ratio=min_ratio), actor_processes)
    guided: list[tuple[int, int]] = []
    server: Any = SimpleNamespace(guide=lambda *, room, stop, env_steps: guided.append((room, env_steps)))
    wire.server = server
    wire.hold(7)
    assert guided == held


def experience(online: Any, scorer: Any = None) -> Experience:
    """Return what is learned from, without demonstrations, with the reward of the task or ``scorer``."""
    reward = RewardWeights() if scorer is None else SimpleNamespace(scorer=scorer)
    components: Any = SimpleNamespace(reward=reward, agent=SimpleNamespace(config=SimpleNamespace(gamma=0.99)))
    return Experience(components, online, None, SimpleNamespace(gamma=0.99), relabel_rows=0)
