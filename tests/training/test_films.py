"""Videos that a run makes beside its evaluations: they change nothing, and those of failures show failures."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from robo_rl.evaluation import EvaluationResult
from robo_rl.evaluation.evaluate import EpisodeOutcome
from robo_rl.training import films

from .test_first_evaluation import lines, train


def test_later_evaluations_do_not_depend_on_videos(tmp_path: Path) -> None:
    filmed, plain = tmp_path / "filmed", tmp_path / "plain"
    words = ["run.evaluation_interval=40", "agent.sampled_actions=true", "agent.learning_starts=10"]
    words += ["agent.batch_size=16", "agent.random_steps=10"]
    train(filmed, *words, "run.video_episodes=1")
    train(plain, *words)
    assert (filmed / "videos" / "start.mp4").exists() and not (plain / "videos").exists()
    assert lines(filmed, "evaluation") == lines(plain, "evaluation") != []
    assert lines(filmed, "train") == lines(plain, "train") != []


def test_a_video_of_a_failure_that_succeeds_when_repeated_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome(index: int, success: bool) -> EpisodeOutcome:
        return EpisodeOutcome(index, success, 0.0, 1, False)

    def evaluate(*_: Any, first: int, video: Path, **others: Any) -> EvaluationResult:
        video.touch()
        return EvaluationResult("reach", 0, 10.0, (outcome(first, first == 1),), video)

    def add_poster(video: Path) -> None:
        video.with_suffix(".jpg").touch()

    monkeypatch.setattr(films, "evaluate", evaluate)
    monkeypatch.setattr(films, "add_poster", add_poster)
    agent = SimpleNamespace(state=lambda: {"x": np.zeros(1)}, load=lambda state: None)
    run: Any = SimpleNamespace(
        video=tmp_path / "final.mp4",
        settings=SimpleNamespace(video_episodes=3),
        config=OmegaConf.create({}),
        components=SimpleNamespace(evaluation_backend=lambda: None),
        agent=agent,
    )
    outcomes = tuple(outcome(index, False) for index in range(3))
    films.film_failures(run, EvaluationResult("reach", 0, 10.0, outcomes))
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        *("failure_001.jpg", "failure_001.mp4", "failure_003.jpg", "failure_003.mp4")
    ]
