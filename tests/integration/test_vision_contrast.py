"""Play is recorded, an encoder made of it, and a reward and an agent see through that."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.cli import main
from robo_rl.core import Source
from robo_rl.replay import EpisodeStore
from robo_rl.rewards.vision import contrast
from robo_rl.rewards.vision.encoder import load_encoder
from robo_rl.rewards.vision.encoder_config import EncoderConfig

from ..rigs.command_line import exit_code

PLAY = ["record", "task=reach", "record.source=play", "record.episodes=3"]
CAMERAS = ["task.observation.cameras=[ahead,side]", "task.observation.width=32", "task.observation.height=32"]
LONG = ["task.terminate_on_success=false", "task.max_episode_steps=12"]
SMALL = [
    "trainer.image_size=32",
    "trainer.channels=[8,8,8,16]",
    "trainer.batch_size=8",
    "trainer.episodes=2",
    "threads=1",
]


def robo_rl(*words: str) -> None:
    assert not exit_code(*words)


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("play") / "reach"
    robo_rl(*PLAY, *CAMERAS, *LONG, f"record.output={path}")
    return path


@pytest.fixture(scope="module")
def made(play: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder") / "made"
    robo_rl("vision", "contrast", f"play.paths=[{play}]", f"output={folder}", *SMALL, "trainer.steps=3", "seed=4")
    return folder


@pytest.mark.rendering
def test_play_wanders_from_what_the_expert_wants(play: Path) -> None:
    with EpisodeStore.open(play) as store:
        episodes = [store.arrays(number) for number in range(3)]
    assert all(len(each.source) == 12 and (each.source == Source.SCRIPT).all() for each in episodes)
    apart = np.concatenate([np.abs(each.executed_action - each.proposed_action).mean(1) for each in episodes])
    # The noise of a deviation of 0.3 moves an action by 0.24, moves without purpose by much more.
    assert (apart < 0.5).any() and (apart > 0.6).any()
    assert not np.array_equal(episodes[0].executed_action, episodes[1].executed_action)


@pytest.mark.rendering
def test_the_card_says_what_it_was_made_of(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = json.loads((made / "card.json").read_text())
    assert card["command"][:3] == ["robo-rl", "vision", "contrast"] and card["seed"] == 4 and card["steps"] == 3
    assert card["episodes"] == 2 and card["pictures"] == 2 * 2 * 13
    (held_out,) = card["held_out"]
    assert held_out["cameras"] == ["ahead", "side"] and held_out["episodes"] == 1
    assert 0 <= held_out["misalignment"] < 3
    assert {"config.json", "model.safetensors"} == set(card["sha256"])
    with pytest.raises(SystemExit) as caught:
        main(["vision", "contrast", f"output={made}", "play.paths=[x]"])
    assert caught.value.code == 2 and "already exists" in capsys.readouterr().err


@pytest.mark.rendering
def test_an_interrupted_training_keeps_the_encoder_as_it_is(
    play: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loss, steps = contrast.contrastive_loss, []

    def interrupted(*arguments: Any) -> Any:
        steps.append(1)
        if len(steps) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return loss(*arguments)

    monkeypatch.setattr(contrast, "contrastive_loss", interrupted)
    folder = tmp_path / "encoder"
    with pytest.raises(SystemExit) as caught:
        main(["vision", "contrast", f"play.paths=[{play}]", f"output={folder}", *SMALL, "trainer.steps=1000"])
    assert caught.value.code == 128 + signal.SIGINT
    assert "Stopped at step 2" in capsys.readouterr().out
    assert json.loads((folder / "card.json").read_text())["steps"] == 2
    assert load_encoder(EncoderConfig(model=f"local-dir:{folder}")).size == 16
    assert [each.name for each in tmp_path.iterdir()] == ["encoder"]


@pytest.mark.rendering
def test_a_reward_and_an_agent_see_through_it(made: Path, tmp_path: Path) -> None:
    goal = ["keys=[images/side]", f"images.model=local-dir:{made}", "hidden=[8]", "fit_steps=5", "views=2", "margin=0"]
    options = ["+reward/module@reward.modules.goal=vice", *(f"reward.modules.goal.{each}" for each in goal)]
    options += ["reward=composed", "agent=drq", f"agent.encoder.checkpoint={made}/model.safetensors"]
    options += ["agent.encoder.cached_views=2", "agent.batch_size=8", "agent.learning_starts=5", "agent.random_steps=5"]
    options += ["agent.pretrain_steps=1", "demonstrations.episodes=1", "run.env_steps=15", "run.evaluation_interval=0"]
    options += [
        "demonstrations.source=expert",
        "run.final_evaluation_episodes=1",
        "run.video_episodes=0",
        "runtime.threads=1",
        "logging.progress=false",
    ]
    robo_rl("train", "task=reach", *CAMERAS, "task.max_episode_steps=8", *options, f"run.dir={tmp_path / 'run'}")
    assert json.loads((tmp_path / "run/summary.json").read_text())["env_steps"] == 15


@pytest.mark.rendering
def test_data_that_will_not_do_is_named(play: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blind, single = tmp_path / "blind", tmp_path / "single"
    robo_rl(*PLAY, *LONG, f"record.output={blind}")
    robo_rl(*PLAY, *LONG, *CAMERAS, "record.episodes=1", f"record.output={single}")
    for options, message in (
        ([f"play.paths=[{blind}]"], f"play.paths: {blind} has no images"),
        ([f"play.paths=[{single}]"], f"{single} must hold at least two episodes, one to hold out, got 1"),
        ([f"play.paths=[{play}]", "play.cameras=[sdie]"], f"play.cameras: {play} has no 'sdie': did you mean 'side'"),
        (["play.paths=[]"], "play.paths must be at least one data set"),
        ([f"play.paths=[{tmp_path / 'nothing'}]"], "nothing"),
        ([f"play.paths=[{play}]", "play.held_out=1"], "play.held_out must be in (0, 1)"),
    ):
        assert exit_code("vision", "contrast", f"output={tmp_path / 'encoder'}", *SMALL, *options) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "encoder").exists()
