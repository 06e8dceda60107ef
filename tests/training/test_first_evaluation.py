"""The evaluation before the first step: it begins the curve, and changes nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from robo_rl.evaluation.aggregate import group_runs, learning_curve
from robo_rl.evaluation.runs import load_run
from robo_rl.learner import CheckpointFolder

from ..rigs.command_line import exit_code

TRAIN = ["train", "task=reach", "agent.hidden=[16,16]", "agent.pretrain_steps=20", "runtime.threads=1"]
TRAIN += ["demonstrations.episodes=2", "run.final_evaluation_episodes=2", "run.evaluation_episodes=2"]
TRAIN += ["run.video_episodes=0", "run.env_steps=60"]
TRAIN += ["logging.train_interval=5", "task.max_episode_steps=20"]


def train(folder: Path, *words: str) -> None:
    assert not exit_code(*TRAIN, f"run.dir={folder}", *words)


def lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Return the lines of a kind in metrics.jsonl, without the time."""
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: line[key] for key in line.keys() - {"wall_seconds"}} for line in found if line["kind"] == kind]


@pytest.mark.parametrize("agent", ["rlpd", "sac", "qc"])
def test_it_begins_the_curve_and_leaves_the_training_as_it_was(
    agent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_curve, without = tmp_path / "with", tmp_path / "without"
    words = [f"agent={agent}", "agent.learning_starts=10", "agent.batch_size=16"]
    words.append("agent.offline_steps=20" if agent == "qc" else "agent.random_steps=10")
    train(with_curve, *words, "run.evaluation_interval=40")
    assert "Before the first step: success " in capsys.readouterr().out
    train(without, *words, "run.evaluation_interval=0")
    assert "Before the first step" not in capsys.readouterr().out
    assert [line["step"] for line in lines(with_curve, "evaluation")] == [0, 40, 60]
    assert [line["step"] for line in lines(without, "evaluation")] == [60]
    assert lines(with_curve, "train") == lines(without, "train") != []
    assert lines(with_curve, "episode") == lines(without, "episode") != []


def test_it_is_made_once_and_scores_the_first_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(folder, "run.evaluation_interval=40", "run.stop_at_return=-1000")
    assert json.loads((folder / "summary.json").read_text())["env_steps"] == 40, "the first evaluation ends no run"
    assert [line["step"] for line in lines(folder, "evaluation")] == [0, 40, 40]
    checkpoints = CheckpointFolder(folder / "checkpoints")
    assert checkpoints.load(0).facts["score"] == lines(folder, "evaluation")[0]["success_rate"]
    assert not exit_code("train", f"resume={folder}", "run.env_steps=50", "run.stop_at_return=null")
    assert [line["step"] for line in lines(folder, "evaluation")] == [0, 40, 40, 50]


def test_an_agent_that_learns_offline_has_the_final_evaluation_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(folder, "agent=bc", "run.evaluation_interval=40")
    assert [line["step"] for line in lines(folder, "evaluation")] == [0]


def test_the_curve_knows_cloning_and_demonstrations(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(folder, "run.evaluation_interval=40")
    curve = learning_curve(group_runs([load_run(folder)])[0], "success_rate")
    assert curve is not None and curve.steps[0] == 0
    assert (curve.first, curve.demonstrations) == (curve.value[0], 1.0)
