"""What the learner makes of steps from actors; tests/integration/test_async_training.py has it as a whole."""

import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.cli import main
from robo_rl.core import RewardWeights, Transition, Verdict
from robo_rl.learner import Checkpoint
from robo_rl.replay.intake import IntakeTotals
from robo_rl.training.asynchronous import AsyncTraining
from robo_rl.training.base import Training
from robo_rl.training.safety_record import SafetyRecord

from ..transport_rig import steps_of


def test_returns_are_those_of_their_episode_also_where_one_was_cut_without_a_word() -> None:
    """The robot was stopped after 3 of 7 steps, so none of them says that it was the last."""
    steps = [dataclasses.replace(step, rewards={"success": 1.0}) for step in steps_of(1, [7, 4])]
    steps[8] = dataclasses.replace(steps[8], verdict=Verdict(changed=True, reasons=("speed",)))
    arriving: list[Transition] = [*steps[:3], *steps[7:]]
    logged: list[dict[str, Any]] = []
    stops: list[tuple[str, str, int]] = []
    training = AsyncTraining.__new__(AsyncTraining)
    vars(training).update(
        intake=SimpleNamespace(take=lambda: arriving),
        online=SimpleNamespace(append=lambda _: None, end_episodes=lambda _: None, terms=("success",)),
        parts=SimpleNamespace(reward=RewardWeights()),
        sampler=SimpleNamespace(gamma=0.99),
        server=SimpleNamespace(actors=dict),
        logger=SimpleNamespace(log=lambda kind, step, **values: logged.append(values)),
        _operators=SimpleNamespace(note_step=lambda *_: None, note_stop=lambda *stop: stops.append(stop)),
        step=0,
        _scorer=None,
        _watch=lambda *_: None,
        _safety=SafetyRecord(),
        _newest={},
        _acted=set(),
        _episodes={},
    )
    training._take()
    assert [(line["episode_return"], line["length"], line["stopped"]) for line in logged] == [
        (3.0, 3, "left"),
        (4.0, 4, None),
    ]
    assert logged[1]["safety/changed_steps"] == 1
    assert stops == [("robot", "left", 3)]
    assert training.step == 7


def test_people_are_told_while_no_step_can_be_stored() -> None:
    reasons = iter(["", "no space left", "no space left", "", ""])
    said: list[str] = []
    logged: list[str | None] = []
    training = AsyncTraining.__new__(AsyncTraining)
    vars(training).update(
        intake=SimpleNamespace(blocked=lambda: next(reasons), totals=lambda: IntakeTotals(0, 0, 0, 0)),
        server=SimpleNamespace(actors=dict, take_notes=list, refusals={}),
        logger=SimpleNamespace(message=said.append, log=lambda kind, step, **values: logged.append(values["blocked"])),
        step=0,
        _blocked="",
        _newest={},
        _acted=set(),
        _ratio=lambda: None,
        _waited_seconds=0.0,
    )
    for _ in range(5):
        training._report(0.0)
    assert said == ["No steps are taken in: no space left. Actors keep theirs", "Steps are taken in again"]
    assert logged == [None, "no space left", "no space left", None, None]


def test_a_reset_that_learns_is_refused_before_anything_is_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["task=reach", "runtime=async", "reset=learned"]
    with pytest.raises(SystemExit) as ended:
        main(["train", *words, "demonstrations.episodes=0", f"run.dir={tmp_path}/run"])
    assert ended.value.code == 2
    assert "reset=learned needs runtime=local" in capsys.readouterr().err
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert not (tmp_path / "run" / "replay").exists()


def test_a_run_that_goes_on_waits_for_nobodys_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes that cannot be scored yet are held back; what modules were told of the others, they knew."""
    done: list[str] = []
    training = AsyncTraining.__new__(AsyncTraining)
    monkeypatch.setattr(Training, "_load", lambda self, checkpoint: None)
    scorer = SimpleNamespace(load=lambda state: done.append(state))
    online = SimpleNamespace(score_held=lambda given, online: done.append(f"scored, online={online}"))
    vars(training).update(_scorer=scorer, online=online)
    training._load(SimpleNamespace(parts={"reward": "loaded"}))
    assert done == ["scored, online=True", "loaded"]


def test_the_identity_of_a_run_is_on_the_disk_before_an_actor_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = AsyncTraining.__new__(AsyncTraining)
    training.folder = tmp_path
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="no disk"):
            training._run_identity()
    assert list(tmp_path.iterdir()) == []
    identity = training._run_identity()
    assert len(identity) == 32 and training._run_identity() == identity


def refuse(descriptor: int) -> None:
    raise OSError("no disk")


@pytest.mark.parametrize(("stored", "expected"), [(900, None), (1000, 1000)])
def test_where_a_run_was_good_is_forgotten_with_the_step(
    monkeypatch: pytest.MonkeyPatch, stored: int, expected: int | None
) -> None:
    training = AsyncTraining.__new__(AsyncTraining)
    evaluations = SimpleNamespace(steps_to_95=1000, load=lambda *_: None)
    vars(training).update(step=stored, learner=SimpleNamespace(updates=0), _evaluations=evaluations)
    monkeypatch.setattr(training, "_open_wire", lambda: None)
    training._go_on(Checkpoint(1000, {}, {}))
    assert evaluations.steps_to_95 == expected
