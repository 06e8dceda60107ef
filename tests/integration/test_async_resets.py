"""Arms and cars that begin their episodes themselves, where actors are processes of their own."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.replay import EpisodeStore

from ..rigs.command_line import robo_rl
from ..rigs.run_folder import records

COMMON = [
    "runtime=async",
    "runtime.threads=1",
    "agent.hidden=[32]",
    "agent.ensemble_size=2",
    "agent.update_to_data=1",
    "agent.batch_size=32",
    "agent.learning_starts=10",
    "agent.random_steps=0",
    "demonstrations.episodes=0",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "logging.progress=false",
]
RUNS = {
    # As slow as ten robots, so that an actor that starts a second later finds work left.
    "arm": [
        "task=pick_cube",
        "reset=homing",
        "task.max_episode_steps=15",
        "runtime.actors=2",
        "run.env_steps=200",
        "runtime.real_time_factor=10",
    ],
    "car": ["task=drive", "task.max_episode_steps=40", "run.env_steps=120"],
}


@pytest.mark.parametrize("name", RUNS)
def test_actors_begin_where_their_robots_stand_and_tell_what_that_came_to(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run"
    robo_rl("train", *COMMON, *RUNS[name], f"run.dir={folder}")
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    episodes = records(folder, "episode")
    with EpisodeStore.open(folder / "replay" / "episodes") as store:
        steps = [store.episode(number) for number in range(len(store))]
    actors = {episode[0].actor for episode in steps}
    assert summary["practice"].keys() == actors and len(actors) == number_of_actors(name)
    for actor, practice in summary["practice"].items():
        assert practice["manual_resets"] == 0
        assert practice["learning_seconds"] > 0
        mine = [episode for episode in steps if episode[0].actor == actor]
        assert [episode[0].episode for episode in mine] == list(range(len(mine)))
        if name == "arm":
            assert practice["resets"] >= len(mine) - 1 >= 2
            assert practice["recovery_seconds"] > 0
            assert practice["reset_success_rate"] == 1.0
            for before, after in pairwise(mine):
                # What a reset does is stored nowhere: the next episode begins elsewhere, at home.
                last, first = before[-1].next_observation["state"], after[0].observation["state"]
                assert not np.array_equal(last, first)
    assert any("practice/manual_resets" in episode for episode in episodes)


def number_of_actors(name: str) -> int:
    return 2 if "runtime.actors=2" in RUNS[name] else 1
