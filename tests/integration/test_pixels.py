"""robo-rl train agent=drq from camera images: interrupted and resumed, evaluated, collected from."""

import json
from pathlib import Path

import numpy as np
import pytest

from robo_rl.learner import CheckpointFolder
from robo_rl.replay import EpisodeStore

from ..rigs.command_line import robo_rl

TRAIN = [
    "task=reach",
    "agent=drq",
    "task.observation.cameras=[front,wrist]",
    "task.observation.width=32",
    "task.observation.height=32",
    "task.observation.object=false",
    "agent.hidden=[16]",
    "agent.ensemble_size=2",
    "agent.batch_size=4",
    "agent.encoder.channels=[4,4]",
    "agent.encoder.latent=8",
    "agent.learning_starts=4",
    "agent.pretrain_steps=3",
    "logging.train_interval=1",
    "demonstrations.episodes=1",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
]


@pytest.mark.rendering
def test_trains_resumes_evaluates_and_collects(tmp_path: Path) -> None:
    robo_rl("train", *TRAIN, f"run.dir={tmp_path / 'unbroken'}", "run.env_steps=12")
    robo_rl("train", *TRAIN, f"run.dir={tmp_path / 'run'}", "run.env_steps=7")
    robo_rl("train", f"resume={tmp_path / 'run'}", "run.env_steps=12")
    states = []
    for name in ("unbroken", "run"):
        checkpoint = CheckpointFolder(tmp_path / name / "checkpoints").load_newest()
        assert checkpoint.step == 12
        states.append({f"{p}/{key}": value for p, state in checkpoint.parts.items() for key, value in state.items()})
    assert states[0].keys() == states[1].keys()
    for key, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][key], err_msg=key, strict=True)
    assert states[0]["replay/observation/images/front"].shape == (13, 32, 32, 3)

    robo_rl("eval", f"run={tmp_path / 'run'}", "episodes=1", f"output={tmp_path / 'result.json'}")
    assert len(json.loads((tmp_path / "result.json").read_text())["episodes"]) == 1
    robo_rl("collect", f"policy={tmp_path / 'run'}", f"output={tmp_path / 'data'}", "episodes=1")
    assert EpisodeStore.open(tmp_path / "data").spec.observation["images/wrist"].shape == (32, 32, 3)
