"""Training from Python: the runs and policies that robo_rl.train and robo_rl.load return."""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra

import robo_rl
from robo_rl import cli
from robo_rl.core import CheckpointError, ConfigError, DivergenceError, SpecError

from ..rigs.command_line import SMALL_AGENT
from ..rigs.point_world import ARGUMENTS, LIMIT, PointWorld
from ..rigs.run_folder import newest_state

SHORT = [
    *SMALL_AGENT,
    "agent.implementation=torch",
    "run.evaluation_interval=12",
    "run.evaluation_episodes=2",
    "run.final_evaluation_episodes=2",
    "run.video_episodes=0",
]
REACH = [*SHORT, "demonstrations.episodes=1", "task.max_episode_steps=8"]
POINT = [word for word in SHORT if "pretrain" not in word] + [f"task.max_episode_steps={LIMIT}"]


@pytest.fixture(scope="module")
def reach(tmp_path_factory: pytest.TempPathFactory) -> robo_rl.Run:
    folder = tmp_path_factory.mktemp("runs") / "of reach"  # a space has to be quoted for Hydra
    return robo_rl.train("reach", steps=24, seed=3, folder=folder, overrides=REACH)


def test_importing_robo_rl_is_quick() -> None:
    program = """
import sys
import robo_rl
assert {"train", "load", "Run", "Policy", "__version__"} <= set(dir(robo_rl))
heavy = {"torch", "hydra", "omegaconf", "numpy", "gymnasium", "mujoco"} & sys.modules.keys()
sys.exit(f"imported: {heavy}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        robo_rl.trian  # noqa: B018


def test_a_run_has_its_results(reach: robo_rl.Run) -> None:
    assert (reach.task, reach.seed, reach.env_steps, reach.status) == ("reach", 3, 24, "completed")
    assert reach.curve.steps.tolist() == [0, 12, 24]
    assert np.all((reach.curve.success_rate >= 0) & (reach.curve.success_rate <= 1))
    assert np.isfinite(reach.curve.return_mean).all()
    assert reach.success_rate is not None and reach.success_rate.episodes == 2
    assert {"episode", "evaluation"} <= {line["kind"] for line in reach.metrics}
    assert "task reach, agent rlpd, seed 3, completed after 24 steps, success " in repr(reach)
    assert "95 % interval" in str(reach.success_rate)


def test_the_command_line_trains_the_same_policy(reach: robo_rl.Run, tmp_path: Path) -> None:
    words = ["train", "task=reach", "run.env_steps=24", "seed=3", f"run.dir={tmp_path / 'run'}", *REACH]
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    assert end.value.code == 0
    own, other = newest_state(reach.path), newest_state(tmp_path / "run")
    assert own.keys() == other.keys()
    assert all(np.array_equal(own[key], other[key]) for key in own if key.startswith(("policy", "agent")))


def test_a_policy_acts_evaluates_films_and_is_deployed(reach: robo_rl.Run, tmp_path: Path) -> None:
    policy = robo_rl.load(str(reach.path)).policy
    with gymnasium.make("robo_rl/Reach-v0") as env:
        observation, _ = env.reset(seed=0)
        first = policy(observation)
        assert env.action_space.contains(first)
        policy.reset()
        again, state = policy.predict(observation, state="as given", episode_start=np.array([True]))
        assert np.array_equal(first, again) and state == "as given"
        as_lists = {key: value.astype(np.float64).tolist() for key, value in observation.items()}
        policy.reset()
        assert np.array_equal(policy(as_lists), first)
        policy.reset()
        assert not np.array_equal(policy.predict(observation, deterministic=False)[0], first)
    with pytest.raises(SpecError, match=r"expected a mapping with keys \['object', 'state'\], got ndarray"):
        policy(observation["state"])
    with pytest.raises(SpecError, match="observation 'state': expected a float32 array of shape"):
        policy({**observation, "state": observation["state"][:3]})
    result = policy.evaluate(2, seed=5, task={"max_episode_steps": 4})
    assert len(result.episodes) == 2 and result.length_median <= 4 and result.success_rate is not None
    with pytest.raises(ConfigError, match="task has no option 'clearanc'"):
        policy.evaluate(task={"clearanc": 1})
    with pytest.raises(ConfigError, match="episodes must be 1 or more, got 0"):
        policy.evaluate(0)
    assert policy.video(tmp_path / "reach.mp4", episodes=1).stat().st_size > 0
    comparison = policy.deploy(tmp_path / "reach.h")
    assert (tmp_path / "reach.h").exists() and (comparison is None or comparison.difference < 1e-5)
    with pytest.raises(ConfigError, match=r"expected NAME\.onnx \(ONNX\) or NAME\.h"):
        policy.deploy(tmp_path / "reach.pt")


def test_a_run_is_resumed_and_its_policies_are_kept(reach: robo_rl.Run) -> None:
    resumed = reach.resume(steps=30)
    assert resumed.env_steps == 30 and reach.env_steps == 24
    assert resumed.load_policy("newest").step == resumed.load_policy("30").step == 30
    with pytest.raises(CheckpointError, match="has no checkpoint '7'; choose best, newest or a step of"):
        resumed.load_policy("7")
    with pytest.raises(ConfigError, match=r"a resumed run keeps its configuration: agent.gamma cannot be changed"):
        reach.resume(overrides=["agent.gamma=0.9"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "reech"}, "unknown task 'reech': did you mean 'reach'"),
        ({"task": "no_such:Env-v0"}, "task.env_id=no_such:Env-v0: cannot import no_such"),
        ({"task": "reach", "agent": "rlpdd"}, "unknown agent 'rlpdd': did you mean 'rlpd'"),
        ({"task": "reach", "steps": -1}, "run.env_steps must be 0 or more, got -1"),
        ({"task": "reach", "overrides": ["agent.gama=1"]}, "unknown option 'agent.gama': did you mean 'gamma'"),
        (
            {"task": "reach", "overrides": ["-m", "seed=0,1"]},
            r"expected a list of options, as \['agent.gamma=0.98'\], got",
        ),
        ({"task": "reach", "overrides": ["hydra.mode=MULTIRUN", "seed=0,1"]}, "expected a list of options, .* got"),
        ({"task": "reach", "overrides": {"agent.gamma": 1}}, "expected a list of options, .* got {'agent.gamma': 1}"),
        (
            {"task": lambda: PointWorld(), "overrides": ["runtime=async"]},
            "runtime=async makes environments in other processes, and only this program can make python/lambda-v0",
        ),
        ({"task": "reach", "overrides": "agent.gamma=1"}, "expected a list of options, .* got 'agent.gamma=1'"),
    ],
)
def test_errors_are_those_of_the_command_line(
    arguments: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        robo_rl.train(**arguments)


def test_what_is_no_run_is_not_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a run folder"):
        robo_rl.load(tmp_path)


class Interrupting(PointWorld):
    """A point world whose step 30 raises SIGINT, as Ctrl-C does."""

    steps = 0

    def step(self, action: Any) -> Any:
        Interrupting.steps += 1
        if Interrupting.steps == 30:
            signal.raise_signal(signal.SIGINT)
        return super().step(action)


def test_ctrl_c_stops_with_a_checkpoint(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match=r"stopped; robo_rl.load\(.*\).resume\(\) continues"):
        robo_rl.train(Interrupting, steps=60, folder=tmp_path / "run", overrides=POINT)
    run = robo_rl.load(tmp_path / "run")
    assert run.status == "interrupted" and 0 < run.env_steps < 60
    assert run.resume().env_steps == 60
    assert signal.getsignal(signal.SIGINT) is before


def test_divergence_is_an_error(tmp_path: Path) -> None:
    overrides = [*POINT, "agent.q_limit=1e-9", "run.rollbacks=0"]
    threads = torch.get_num_threads()
    overrides.append(f"runtime.threads={threads + 1}")
    with pytest.raises(DivergenceError, match=r"training diverged: robo_rl.load\('.*run'\) has the last good"):
        robo_rl.train(PointWorld, steps=60, folder=tmp_path / "run", overrides=overrides)
    assert torch.get_num_threads() == threads, "that of the program again"


def test_training_in_a_thread_within_a_hydra_application(tmp_path: Path) -> None:
    """Signals are left alone there, and the application's own Hydra continues."""
    runs = []
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        outer = GlobalHydra.instance().hydra
        thread = threading.Thread(
            target=lambda: runs.append(robo_rl.train(PointWorld, steps=20, folder=tmp_path / "run", overrides=POINT))
        )
        thread.start()
        thread.join()
        assert GlobalHydra.instance().hydra is outer and compose("top") is not None
    assert [run.env_steps for run in runs] == [20]


def test_an_environment_of_a_function_and_its_own_spaces(tmp_path: Path) -> None:
    ARGUMENTS.clear()
    run = robo_rl.train(lambda: PointWorld(start=0.5), steps=20, folder=tmp_path / "run", overrides=POINT)
    assert all(arguments["start"] == 0.5 for arguments in ARGUMENTS)
    position = np.array([0.5], np.float32)
    action = run.policy(position)
    assert PointWorld().action_space.contains(action)
    run.policy.reset()
    assert np.array_equal(run.policy.predict({"state": position})[0], action)
    with pytest.raises(SpecError, match=r"observation: .*expected shape"):
        run.policy(np.zeros(2))
    env_id = run.config["task"]["env_id"]
    entry = gymnasium.registry.pop(env_id)  # as in another program
    with pytest.raises(ConfigError, match=r"was made by a function of a Python program, .* robo_rl.load\(RUN"):
        run.policy.evaluate(1)
    assert robo_rl.load(run.path, environment=entry.entry_point).policy.evaluate(1).episodes
