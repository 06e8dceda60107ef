"""What comes before the first step of a run."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from robo_rl.core import Interruption
from robo_rl.training import demonstrations
from robo_rl.training.preparation import counted_updates

from ..rigs.command_line import exit_code

TRAIN = ["train", "task=reach", "agent=bc", "agent.hidden=[8]", "agent.pretrain_steps=100", "runtime.threads=1"]
TRAIN += ["demonstrations.episodes=1", "run.final_evaluation_episodes=1", "run.video_episodes=0"]


def train(*words: str) -> int:
    return exit_code(*TRAIN, *words)


def test_the_first_signal_ends_it_and_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    messages: list[str] = []
    with Interruption() as interruption, pytest.raises(SystemExit) as ended:
        for update in counted_updates(1000, "cloning", interruption, messages.append):
            if update == 3:
                os.kill(os.getpid(), signal.SIGINT)
    assert (ended.value.code, update, messages) == (130, 3, ["cloning 0/1,000 updates"])
    output = capfd.readouterr()
    assert "Ctrl-C again ends at once" in output.err and "Ended while cloning" in output.out


def test_what_may_wait_for_people_is_ended_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    went_on = False
    with Interruption() as interruption, pytest.raises(SystemExit) as ended, interruption.at_once("preparing rewards"):
        os.kill(os.getpid(), signal.SIGTERM)
        went_on = True
    assert (ended.value.code, went_on) == (143, False)
    assert "Ended while preparing rewards, before the first checkpoint" in capfd.readouterr().out
    with Interruption() as interruption:
        with interruption.at_once("preparing rewards"):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.signal == signal.SIGTERM, "and only there"


def test_a_run_that_is_ended_before_its_first_checkpoint_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked(self: Interruption, doing: str) -> None:
        raise SystemExit(130)

    monkeypatch.setattr(Interruption, "check", checked)
    assert train(f"run.dir={tmp_path}/runs/run") == 130
    assert list(tmp_path.iterdir()) == []


def test_people_are_told_where_a_run_is_and_what_it_does_before_its_first_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert train(f"run.dir={folder}") == 0
    first, recording, cloning, evaluating, *_ = capsys.readouterr().out.splitlines()
    assert first == f"Run folder {folder}"
    assert recording == "Recording 1 demonstration by a human-like script"
    assert (cloning, evaluating) == ("Cloning 0/100 updates", "Evaluating: 1 episode")


def test_few_and_failed_demonstrations_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = [SimpleNamespace(success=False)] * 2
    demonstrations._warn(tmp_path, 5, failed)
    few, none = capsys.readouterr().out.splitlines()
    assert few == f"demonstrations.episodes=5: {tmp_path} holds only 2"
    assert none == f"No demonstration of {tmp_path} ended in success: learning from 2 failures"
    demonstrations._warn(tmp_path, 2, [*failed[:1], SimpleNamespace(success=None)])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("source", "advice"), [("expert", "Use less noise"), ("human_like", "Use more time (task.max_episode_steps)")]
)
def test_advice_on_failed_demonstrations_names_no_option_of_other_commands(
    source: str, advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(f"run.dir={tmp_path}/run", "task.max_episode_steps=1", f"demonstrations.source={source}") == 2
    assert capsys.readouterr().err.endswith(f"1 were requested. {advice}\n")
    assert list(tmp_path.iterdir()) == []


def test_exploration_of_demonstrations_needs_some(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["agent=rlpd", "demonstrations.episodes=0", "agent.exploration=demonstrations", f"run.dir={tmp_path}/run"]
    assert (
        exit_code("train", "task=reach", "agent.hidden=[8]", "runtime.threads=1", "run.video_episodes=0", *words) == 2
    )
    assert "measures a clone: set demonstrations.episodes above 0" in capfd.readouterr().err
