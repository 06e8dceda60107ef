"""Practice without resets through the command line: no manual reset, lap times, and a resume that is bit-exact."""

import json
from pathlib import Path

import numpy as np
import pytest

from ..rigs.command_line import robo_rl
from ..rigs.run_folder import newest_state, records

STEPS = 300
COMMON = [
    "task=drive",
    "agent.hidden=[16]",
    "agent.ensemble_size=2",
    "agent.update_to_data=1",
    "agent.batch_size=16",
    "agent.learning_starts=280",
    "agent.random_steps=220",
    "agent.pretrain_steps=5",
    "demonstrations.episodes=1",
    "demonstrations.source=expert",
    "demonstrations.noise=0",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
    "task.driver.speed=3",
]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    output = robo_rl("train", *COMMON, f"run.env_steps={STEPS}", f"run.dir={folder}")
    assert f"{STEPS}/{STEPS} steps  LEARNING" in output, "the progress line says what the car is doing"
    return folder


def test_random_driving_is_recovered_from_without_a_manual_reset(unbroken: Path) -> None:
    practice = json.loads((unbroken / "summary.json").read_text())["practice"]
    assert practice["recoveries"] >= 3
    assert practice["manual_resets"] == 0
    # Only the steps of episodes are learned from, and time passes in recoveries too.
    assert practice["learning_seconds"] == pytest.approx(STEPS / 20)
    assert practice["recovery_seconds"] > 1
    episodes = records(unbroken, "episode")
    assert sum(line["length"] for line in episodes) <= STEPS
    assert [line["practice/recoveries"] for line in episodes] == sorted(
        line["practice/recoveries"] for line in episodes
    )


def test_a_resumed_run_is_the_unbroken_one_bit_for_bit(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ends = [line["step"] for line in records(unbroken, "episode")]
    in_an_episode = ends[2] + 7
    assert in_an_episode not in ends
    robo_rl("train", *COMMON, f"run.env_steps={in_an_episode}", f"run.dir={folder}")
    robo_rl("train", f"resume={folder}", f"run.env_steps={STEPS}")
    expected, resumed = newest_state(unbroken), newest_state(folder)
    assert expected.keys() == resumed.keys()
    assert "run/actor/world/physics" in expected
    for key, value in expected.items():
        np.testing.assert_array_equal(value, resumed[key], err_msg=key, strict=True)
