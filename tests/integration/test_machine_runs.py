"""Runs whose task is that of a machine: local and asynchronous, resumed, evaluated, refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from robo_rl.learner import CheckpointFolder
from robo_rl.replay import EpisodeStore

from ..rigs.command_line import SMALL_AGENT, robo_rl
from ..rigs.run_folder import records

STATES = ("low", "high", "done")
STAGES = """
states:
  low: [{when: end_effector_z > 18 cm, to: high}]
  high: [{when: end_effector_z < 17 cm, to: low, reward: -0.1}, {when: task_success and speed < 1 m/s, to: done}]
success: [done]
"""
COMMON = [
    "task=reach",
    "reward=machine",
    "agent=rlpd_without_demonstrations",
    *SMALL_AGENT,
    "agent.pretrain_steps=0",
    "demonstrations.episodes=0",
    "run.counterfactual=0.5",
    "run.env_steps=70",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=2",
    "run.video_episodes=0",
    "runtime.threads=1",
]


@pytest.fixture
def machine(tmp_path: Path) -> str:
    (tmp_path / "stages.yaml").write_text(STAGES)
    return f"task.machine={tmp_path / 'stages.yaml'}"


def test_a_resumed_run_equals_an_unbroken_one_also_without_the_file(tmp_path: Path, machine: str) -> None:
    unbroken, resumed = tmp_path / "unbroken", tmp_path / "resumed"
    robo_rl("train", *COMMON, machine, f"run.dir={unbroken}")
    robo_rl("train", *COMMON, machine, f"run.dir={resumed}", "run.env_steps=35")  # in the middle of an episode
    (tmp_path / "stages.yaml").unlink()
    robo_rl("train", f"resume={resumed}", "run.env_steps=70")
    states = [CheckpointFolder(folder / "checkpoints").load_newest().parts for folder in (unbroken, resumed)]
    for part, arrays in states[0].items():
        for key, value in arrays.items():
            np.testing.assert_array_equal(value, states[1][part][key], err_msg=f"{part}/{key}", strict=True)
    first, second = (
        [
            {key: value for key, value in record.items() if key != "wall_seconds"}
            for record in records(folder, "episode")
        ]
        for folder in (unbroken, resumed)
    )
    assert first == second and {f"reached/{name}" for name in STATES} <= first[0].keys()
    output = robo_rl("eval", f"run={resumed}", "episodes=2", "video=null", f"output={tmp_path / 'result.json'}")
    result = json.loads((tmp_path / "result.json").read_text())
    assert re.search(r"Reached low \d+ %, high \d+ %, done \d+ %", output)
    assert result["reached"].keys() == set(STATES) and result["episodes"][0]["reached"].keys() == set(STATES)


def test_actors_in_other_processes_know_the_machine(tmp_path: Path, machine: str) -> None:
    folder = tmp_path / "run"
    robo_rl("train", *COMMON, machine, "runtime=async", f"run.dir={folder}")
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "completed" and summary["actors"]["refused"] == 0
    with EpisodeStore.open(folder / "replay" / "episodes") as store:
        assert store.spec.observation["machine"].names == tuple(f"machine_{name}" for name in STATES)
        observed = store.arrays(0, ("machine",)).observation["machine"]
        assert (observed.sum(-1) == 1).all() and observed[0].argmax() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["task.machine=null"], "the task has none: set task.machine=FILE"),
        (["agent.observation_keys=[state,object]"], "needs an agent that observes 'machine'"),
        (["run.hindsight=2"], "task.machine"),
        (["reset=homing"], "choose reset=seeded"),
        (["reward=novelty"], "needs the task's own rewards"),
        (["task.machine=missing.yaml"], "missing.yaml cannot be read"),
        (["task.observation.relative=true"], "names 'end_effector_w', which is not a signal"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, machine: str, options: list[str], message: str) -> None:
    if "end_effector_w" in message:
        (tmp_path / "stages.yaml").write_text(STAGES.replace("end_effector_z", "end_effector_w"))
    words = [word for word in COMMON if not word.startswith("reward=")]
    output = robo_rl("train", *words, machine, f"run.dir={tmp_path / 'run'}", *options, code=2)
    assert message in output
