"""Runs with constraints: resumed, asynchronous, reported, refused, and a training in which a cost falls."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from robo_rl.app.composition import measured_constraints
from robo_rl.core import ConfigError, RewardWeights
from robo_rl.learner import CheckpointFolder
from robo_rl.rewards.constraints import constrained
from robo_rl.sim import make_backend

from ..rigs.command_line import SMALL_AGENT, Forked, exit_code, finish, robo_rl
from ..rigs.robot_rig import PATIENCE, virtual_robot
from ..rigs.ros2_domain import free_domain
from ..rigs.run_folder import records

CONSTRAINTS = [
    "reward.constraints.slow={term: speed, most: 0.1}",
    "reward.constraints.smooth={keep: 'acceleration < 1 m/s2', most: 0.2}",
    "reward.constraints.solved={success: 0.9}",
]
COMMON = [
    "task=reach",
    "task.max_episode_steps=10",
    *SMALL_AGENT,
    "demonstrations.episodes=2",
    "run.env_steps=70",
    "run.evaluation_interval=30",
    "run.evaluation_episodes=2",
    "run.final_evaluation_episodes=2",
    "run.video_episodes=0",
    "runtime.threads=1",
]
NAMES = ("solved", "slow", "smooth")


def states(folder: Path) -> dict[str, np.ndarray]:
    parts = CheckpointFolder(folder / "checkpoints").load_newest().parts
    return {f"{part}/{key}": value for part, arrays in parts.items() for key, value in arrays.items()}


def test_a_resumed_run_equals_an_unbroken_one_and_both_state_what_is_kept(tmp_path: Path) -> None:
    unbroken, resumed = tmp_path / "unbroken", tmp_path / "resumed"
    output = robo_rl("train", *COMMON, *CONSTRAINTS, "agent.action_chunk=4", f"run.dir={unbroken}")
    robo_rl("train", *COMMON, *CONSTRAINTS, "agent.action_chunk=4", f"run.dir={resumed}", "run.env_steps=35")
    robo_rl("train", f"resume={resumed}", "run.env_steps=70")
    one, other = states(unbroken), states(resumed)
    assert one.keys() == other.keys()
    for key, value in one.items():
        np.testing.assert_array_equal(value, other[key], err_msg=key, strict=True)
    assert one["reward/module/constraint/slow/episodes"].any(), "the multipliers are part of the checkpoint"

    for name in NAMES:
        assert re.search(rf"Constraint {name} (not )?kept: ", output)
    summary = json.loads((unbroken / "summary.json").read_text())
    assert summary["constraints"].keys() == set(NAMES)
    slow = summary["constraints"]["slow"]
    assert slow["unit"] == "m/s" and slow["kept"] == (slow["value"] <= 0.1)
    assert summary["learner"].startswith("native"), "the native update is used"
    (line, *_) = records(unbroken, "reward")
    assert {f"constraint/{name}/{key}" for name in NAMES for key in ("value", "limit", "multiplier")} <= line.keys()
    assert {f"constraint/{name}" for name in NAMES} <= records(unbroken, "evaluation")[-1].keys()
    report = (unbroken / "report.html").read_text()
    assert "<h2>Constraints</h2>" in report and "multiplier of slow" in report and "acceleration &lt; 1 m/s2" in report


def test_actors_in_other_processes_move_the_multipliers(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    robo_rl("train", *COMMON, *CONSTRAINTS, "runtime=async", "run.evaluation_interval=0", f"run.dir={folder}")
    assert any("constraint/slow/value" in line for line in records(folder, "reward"))
    assert states(folder)["reward/module/constraint/slow/episodes"].any()
    assert "slow" in json.loads((folder / "summary.json").read_text())["constraints"]


def test_a_multiplier_rises_until_its_cost_has_fallen(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    robo_rl(
        "train",
        *COMMON,
        "agent=rlpd_without_demonstrations",
        "demonstrations.episodes=0",
        "agent.initial_temperature=0.001",
        "agent.actor_learning_rate=0.003",
        "agent.critic_learning_rate=0.003",
        "agent.gamma=0.9",
        "agent.random_steps=0",
        "reward.constraints.left={keep: 'end_effector_vy > 0 m/s', most: 0.2, integral: 0.2}",
        "run.env_steps=600",
        "run.evaluation_interval=0",
        f"run.dir={folder}",
    )
    lines = records(folder, "reward")
    values = [line["constraint/left/value"] for line in lines]
    multipliers = [line["constraint/left/multiplier"] for line in lines]
    assert max(multipliers) > 0.2
    assert np.mean(values[len(values) // 2 :]) < 0.6 * np.mean(values[:3]), values


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["reward.constraints.x={term: sped, most: 1}"], "there is no quantity, term or module 'sped'"),
        (["reward.constraints.x={keep: 'always speed < 1', most: 0.1}"], "is about more than one moment"),
        (["agent=iql", "reward.constraints.x={term: speed, most: 1}"], "give each a weight with"),
        (["run.hindsight=4", "reward.constraints.x={term: speed, most: 1}"], "compute constraint/x"),
    ],
)
def test_what_cannot_be_limited_is_refused(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("train", "task=reach", *options, f"run.dir={tmp_path / 'run'}") == 2
    assert message in capsys.readouterr().err


def test_what_a_robot_measures_is_limited(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    robot = ["robot=virtual", "robot.start_timeout=60", *PATIENCE, "run.evaluation_interval=0", "run.env_steps=40"]
    with free_domain() as environment, virtual_robot(environment, "virtual.watchdog.stop_after=5"):
        train = ["train", *COMMON, *robot]
        finish(Forked(*train, *CONSTRAINTS, f"run.dir={folder}", environment=environment))
    assert any(line.get("constraint/slow/value", 0) > 0 for line in records(folder, "reward"))


def test_what_a_robot_does_not_measure_is_refused() -> None:
    spec = make_backend("reach").spec
    reward = constrained(RewardWeights(), {"gentle": {"keep": "force < 10 N", "most": 0.1}}, spec)
    assert measured_constraints(reward, SimpleNamespace(spec=spec)) is reward  # type: ignore[arg-type]
    robot = SimpleNamespace(unmeasured=frozenset(["wrist_force_z"]), spec=spec)
    with pytest.raises(ConfigError, match=r"limits wrist_force_z, which the robot does not measure"):
        measured_constraints(reward, robot)  # type: ignore[arg-type]
