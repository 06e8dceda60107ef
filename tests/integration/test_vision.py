"""robo-rl vision pretrain, and what its models are for: rewards in training and in the benchmark."""

import errno
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.cli import main
from robo_rl.learner import CheckpointFolder
from robo_rl.rewards.vision.encoder import ClipEncoder
from robo_rl.rewards.vision.encoder_config import EncoderConfig
from robo_rl.rewards.vision.pretraining import ClipTrainer

from ..rigs.command_line import exit_code
from ..rigs.run_folder import records

VIEW = ["task.observation.cameras=[front,view]", "task.observation.width=64", "task.observation.height=64"]
TRAIN = [
    "task=reach",
    "reward=clip",
    "task.observation.cameras=[front]",
    "task.observation.width=32",
    "task.observation.height=32",
    "task.max_episode_steps=8",
    "demonstrations.source=expert",
    "+reward.terms.clip.potential=true",
    "+reward.terms.clip.normalise=true",
    "agent.hidden=[16]",
    "agent.implementation=torch",
    "agent.ensemble_size=2",
    "agent.update_to_data=1",
    "agent.batch_size=8",
    "agent.learning_starts=5",
    "agent.random_steps=5",
    "agent.pretrain_steps=0",
    "demonstrations.episodes=2",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
    "logging.progress=false",
]


def robo_rl(*words: str) -> None:
    assert not exit_code(*words)


MODEL = [
    "vision",
    "pretrain",
    *(f"trainer.{key}=16" for key in ("vision_width", "text_width", "embedding", "batch_size")),
    "trainer.text_layers=1",
    "trainer.image_size=32",
    "tasks.reach.observation.cameras=[front]",
    "view.observation.width=32",
    "view.observation.height=32",
    "pictures.tasks=[reach]",
    "pictures.steps=15",
    "pictures.times.reach=2",
    "pictures.held_out_steps=10",
    "seed=4",
    "threads=1",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one task, by the command."""
    folder = tmp_path_factory.mktemp("vision") / "model"
    robo_rl(*MODEL, "trainer.steps=3", f"output={folder}")
    return folder


@pytest.mark.rendering
def test_the_command_makes_a_model_and_says_how_good_it_is(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = json.loads((made / "card.json").read_text())
    assert card["pictures"] == 30 and card["held_out_pictures"] == 10 and card["seed"] == 4
    assert set(card["held_out_area_under_curve"]) == set(card["captions"])
    assert "the gripper is near the green ball" in card["captions"]
    assert card["config"]["trainer"]["image_size"] == 32
    assert {"open_clip_config.json", "open_clip_model.safetensors"} == set(card["sha256"])
    assert exit_code("vision", "pretrain", f"output={made}") == 2
    assert "already exists" in capsys.readouterr().err


@pytest.mark.rendering
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_training_keeps_the_model_as_it_is(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loss = ClipTrainer._loss
    steps = []

    def interrupted(*arguments: Any) -> Any:
        steps.append(1)
        if len(steps) == 2:
            os.kill(os.getpid(), number)
        return loss(*arguments)

    monkeypatch.setattr(ClipTrainer, "_loss", interrupted)
    folder = tmp_path / "model"
    with pytest.raises(SystemExit) as caught:
        main([*MODEL, "trainer.steps=1000", f"output={folder}"])
    assert caught.value.code == 128 + number
    assert "Stopped at step 2: the model is kept as it is" in capsys.readouterr().out
    card = json.loads((folder / "card.json").read_text())
    assert card["steps"] == 2 and card["held_out_pictures"] == 10
    encoder = ClipEncoder(EncoderConfig(model=f"local-dir:{folder}"))
    assert np.isfinite(encoder.encode(np.zeros((1, 32, 32, 3), np.uint8))).all()
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


@pytest.mark.rendering
def test_a_full_disk_leaves_no_half_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, data: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    assert exit_code(*MODEL, "trainer.steps=1", f"output={tmp_path / 'model'}") == 2
    assert "No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rendering
def test_training_from_pictures_goes_on_bit_for_bit(made: Path, tmp_path: Path) -> None:
    goal = ["keys=[images/front]", f"images.model=local-dir:{made}", "margin=0", "hidden=[8]", "fit_steps=5", "views=3"]
    goal += ["interval=5", "updates=1", "learning_starts=5"]
    options = [f"reward.modules.clip.model=local-dir:{made}", "+reward/module@reward.modules.goal=vice"]
    options += [f"reward.modules.goal.{each}" for each in goal]
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    robo_rl("train", *TRAIN, *options, f"run.dir={unbroken}", "run.env_steps=30")
    robo_rl("train", *TRAIN, *options, f"run.dir={broken}", "run.env_steps=19")
    robo_rl("train", f"resume={broken}", "run.env_steps=30")
    one, other = (CheckpointFolder(run / "checkpoints").load_newest().parts for run in (unbroken, broken))
    assert one.keys() == other.keys()
    for part, arrays in one.items():
        for key, value in arrays.items():
            np.testing.assert_array_equal(value, other[part][key], err_msg=f"{part}/{key}", strict=True)
    assert {"module/clip/identity", "module/goal/input/encoder"} <= one["reward"].keys()
    scores = [line["reward/clip"] for line in records(unbroken, "episode")]
    assert len(set(scores)) > 1 and all(np.isfinite(scores))  # some are equal in bfloat16


@pytest.mark.rendering
def test_the_bundled_model_agrees_with_true_progress_and_not_with_a_distractor(tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    robo_rl(
        "reward",
        "benchmark",
        "task=open_door",
        *VIEW,
        "~reward/module@reward.modules.perceptual",
        "~reward/module@reward.modules.optimal_transport",
        "+reward/module@reward.modules.clip=clip",
        "+reward/module@reward.modules.distractor=clip",
        'reward.modules.distractor.goals=["the blue cube is lifted"]',
        'reward.modules.distractor.baselines=["the blue cube lies on the table"]',
        "benchmark.episodes=10",
        "benchmark.demonstrations=0",
        f"benchmark.output={output}",
    )
    modules = json.loads(output.read_text())["modules"]
    assert modules["clip"]["steps"] > 0.6
    assert modules["distractor"]["steps"] < modules["clip"]["steps"] - 0.2
