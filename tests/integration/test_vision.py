"""robo-rl vision pretrain, and what its models are for: rewards in training and in the benchmark."""

import json
from pathlib import Path

import numpy as np
import pytest

from robo_rl.cli import main
from robo_rl.learner import CheckpointFolder

from ..run_folder import records

VIEW = ["task.observation.cameras=[front,view]", "task.observation.width=64", "task.observation.height=64"]
TRAIN = [
    "task=reach",
    "reward=clip",
    "task.observation.cameras=[front]",
    "task.observation.width=32",
    "task.observation.height=32",
    "task.max_episode_steps=8",
    "+reward.terms.clip.potential=true",
    "+reward.terms.clip.normalise=true",
    "agent.hidden=[16]",
    "agent.backend=torch",
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
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert not caught.value.code


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one task, by the command."""
    folder = tmp_path_factory.mktemp("vision") / "model"
    tiny = [f"trainer.{key}=16" for key in ("vision_width", "text_width", "embedding", "batch_size")]
    robo_rl(
        "vision",
        "pretrain",
        *tiny,
        "trainer.vision_layers=1",
        "trainer.text_layers=1",
        "trainer.image_size=32",
        "trainer.steps=3",
        "view.observation.cameras=[front]",
        "view.observation.width=32",
        "view.observation.height=32",
        "pictures.tasks=[reach]",
        "pictures.steps=30",
        "pictures.held_out_steps=10",
        "seed=4",
        "threads=1",
        f"output={folder}",
    )
    return folder


@pytest.mark.rendering
def test_the_command_makes_a_model_and_says_how_good_it_is(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = json.loads((made / "card.json").read_text())
    assert card["pictures"] == 30 and card["held_out_pictures"] == 10 and card["seed"] == 4
    assert set(card["held_out_area_under_curve"]) == set(card["captions"])
    assert "the gripper is near the green ball" in card["captions"]
    assert card["config"]["trainer"]["image_size"] == 32
    assert {"open_clip_config.json", "open_clip_model.safetensors"} == set(card["sha256"])
    with pytest.raises(SystemExit) as caught:
        main(["vision", "pretrain", f"output={made}"])
    assert caught.value.code == 2
    assert "is there already" in capsys.readouterr().err


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
    assert scores and len(set(scores)) == len(scores) and all(np.isfinite(scores))


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
