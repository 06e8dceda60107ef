"""Videos that a run makes beside its evaluations: they change nothing, and those of failures show failures."""

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from robo_rl.evaluation import EvaluationResult
from robo_rl.evaluation.evaluate import EpisodeOutcome
from robo_rl.training import ending, films

from ..rigs.command_line import exit_code


class Sampling:
    """An agent that draws numbers while it acts."""

    def __init__(self) -> None:
        self.drawn = 0

    def state(self) -> dict[str, Any]:
        return {"drawn": np.array(self.drawn)}

    def load(self, state: dict[str, Any]) -> None:
        self.drawn = int(state["drawn"])


def test_a_repeated_failure_that_succeeds_is_not_shown_and_the_agent_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome(index: int, success: bool) -> EpisodeOutcome:
        return EpisodeOutcome(index, success, 0.0, 1, False)

    def evaluate(_: Any, agent: Sampling, *others: Any, first: int, video: Path, **more: Any) -> EvaluationResult:
        agent.drawn += 1
        video.touch()
        return EvaluationResult("reach", 0, 10.0, (outcome(first, first == 1),), video)

    def add_poster(video: Path) -> None:
        video.with_suffix(".jpg").touch()

    monkeypatch.setattr(films, "evaluate", evaluate)
    monkeypatch.setattr(films, "add_poster", add_poster)
    run: Any = SimpleNamespace(
        video=tmp_path / "final.mp4",
        settings=SimpleNamespace(video_episodes=3),
        config=OmegaConf.create({}),
        components=SimpleNamespace(evaluation_backend=lambda: None),
        agent=Sampling(),
    )
    outcomes = tuple(outcome(index, False) for index in range(3))
    films.film_failures(run, EvaluationResult("reach", 0, 10.0, outcomes))
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        *("failure_001.jpg", "failure_001.mp4", "failure_003.jpg", "failure_003.mp4")
    ]
    assert run.agent.drawn == 0, "otherwise later evaluations would depend on videos"


@pytest.mark.parametrize("step", ["write_durably", "film_failures"])
def test_a_full_disk_leaves_a_complete_run_complete(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(ending, step, fail)
    words = ["task=reach", "agent.hidden=[16,16]", "agent.pretrain_steps=0", "demonstrations.episodes=1"]
    words += ["run.env_steps=5", "run.evaluation_interval=0", "run.final_evaluation_episodes=1", "run.video_episodes=1"]
    assert not exit_code(
        "train", *words, "runtime.threads=1", "task.max_episode_steps=5", f"run.dir={tmp_path / 'run'}"
    )
    assert "Warning: evaluation.json or videos of failures are missing: OSError: " in capsys.readouterr().out
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "completed"
