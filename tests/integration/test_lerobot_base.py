"""Runs that correct a LeRobot policy, and evaluations of one.

The stand-in for lerobot computes them, and LeRobot itself where ``ROBO_RL_LEROBOT_PYTHON`` names its interpreter: then
``benchmarks/lerobot_policies.py`` trains an ACT and a diffusion policy with LeRobot's own code.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.app.lerobot_base import LeRobotBase, open_lerobot
from robo_rl.core import EnvSpec
from robo_rl.learner import CheckpointFolder
from robo_rl.replay import SavedEpisodes
from robo_rl.residual import BASE_ACTION
from robo_rl.sim import make_backend

from ..rigs.command_line import refusal, robo_rl
from ..rigs.lerobot_folder import use_stand_in, write_lerobot, write_processors

REAL = os.environ.get("ROBO_RL_LEROBOT_PYTHON")
SHORT = ["run.evaluation_interval=0", "run.final_evaluation_episodes=2", "run.video_episodes=0", "runtime.threads=1"]
COMMON = ["task=reach", "demonstrations.episodes=2", *SHORT]
AGENT = ["agent=residual", "agent.hidden=[32]", "agent.batch_size=32", "agent.update_to_data=2"]
AGENT += ["agent.ensemble_size=3", "agent.learning_starts=10", "agent.actor_delay=10"]
CLONE = ["agent.hidden=[32]", "agent.batch_size=32", "agent.pretrain_steps=20", "run.env_steps=0"]
TRAIN = Path(__file__).parents[2] / "benchmarks" / "lerobot_policies.py"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_in(monkeypatch)


def test_a_run_corrects_a_copy_of_the_policy_and_resumes_without_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_stand_in(monkeypatch, "0.4.4")
    source, run = write_lerobot(tmp_path / "policy", "noise"), tmp_path / "run"
    scales = [{"registry_name": "scale", "config": {"factor": 0.5}, "state_file": f"{n}.safetensors"} for n in "ab"]
    write_processors(source, scales[:1], scales[1:])
    output = robo_rl("train", *COMMON, *AGENT, f"base.lerobot={source}", "run.env_steps=20", f"run.dir={run}")
    assert f"Base policy {source} (LeRobot, noise); residuals of up to 0.2" in output
    shutil.rmtree(source)
    robo_rl("train", f"resume={run}", "run.env_steps=30")
    robo_rl("eval", f"run={run}", "episodes=2")
    checkpoint = CheckpointFolder(run / "checkpoints").load_newest()
    episodes = SavedEpisodes(checkpoint.parts["replay"], EnvSpec.from_json(checkpoint.facts["spec"]))
    steps = [step for episode in episodes for step in episode]
    assert len(steps) == 30
    for step in steps:
        assert np.abs(step.proposed_action - step.observation[BASE_ACTION]).max() <= 0.2 + 1e-6
    base = LeRobotBase(open_lerobot(run / "base"))
    assert checkpoint.facts["spec"]["extra"]["base_policy"]["fingerprint"] == base.fingerprint


@pytest.mark.usefixtures("stand_in")
def test_a_policy_is_evaluated_in_the_environment_of_a_run(tmp_path: Path, capsys: Any) -> None:
    run, policy = tmp_path / "clone", write_lerobot(tmp_path / "policy", "noise")
    robo_rl("train", *COMMON, "agent=bc", *CLONE, f"run.dir={run}")
    results = []
    for name in ("one.json", "two.json"):
        robo_rl("eval", f"run={run}", f"policy={policy}", "episodes=3", f"output={tmp_path / name}")
        results.append(json.loads((tmp_path / name).read_text()))
    assert results[0] == results[1] and len(results[0]["episodes"]) == 3
    other = write_lerobot(tmp_path / "other", state=[9])
    line = refusal(capsys, "eval", f"run={run}", f"policy={other}")
    assert "does not match task 'reach'" in line and "the policy expects shape (9,)" in line
    line = refusal(capsys, "eval", f"run={run}", f"policy={policy}", "decision_periods=[1,2]")
    assert "decision_periods must be left out where policy names a folder" in line


@pytest.mark.usefixtures("stand_in")
def test_what_does_not_fit_is_named_and_nothing_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = write_lerobot(tmp_path / "policy", "crash")
    run = f"run.dir={tmp_path / 'run'}"
    line = refusal(capsys, "train", *COMMON, *AGENT, f"base.lerobot={policy}", run)
    assert "ended. It printed" in line and "the weights are strange" in line
    line = refusal(capsys, "train", *COMMON, *AGENT, f"base.lerobot={policy}", "base.policy=a.onnx", run)
    assert "base.lerobot must be left out where base.policy is given" in line
    line = refusal(capsys, "train", *COMMON, *AGENT, f"base.lerobot={tmp_path}", run)
    assert "is not a policy of LeRobot" in line and "config.json cannot be read" in line
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that cloned demonstrations, and policies that LeRobot trained on the same demonstrations."""
    folder = tmp_path_factory.mktemp("lerobot")
    robo_rl("train", *COMMON, "agent=bc", *CLONE, f"run.dir={folder / 'clone'}")
    assert REAL is not None
    script = "import lerobot.datasets.lerobot_dataset as data; print(data.CODEBASE_VERSION)"
    version = subprocess.run([REAL, "-c", script], check=True, capture_output=True, text=True).stdout.split()[-1]
    data = ["format=lerobot", f"format.version={version}", f"output={folder / 'data'}"]
    robo_rl("export", f"path={folder / 'clone' / 'demonstrations'}", *data)
    subprocess.run([REAL, str(TRAIN), "train", str(folder / "data"), str(folder), "--steps=5"], check=True)
    return folder


@pytest.mark.skipif(REAL is None, reason="ROBO_RL_LEROBOT_PYTHON names no interpreter with lerobot")
@pytest.mark.parametrize("kind", ["act", "diffusion"])
def test_actions_are_those_of_lerobot_bit_for_bit(kind: str, trained: Path, tmp_path: Path) -> None:
    """Two episodes with the base, and the same observations given to LeRobot's policy by its own code."""
    folder, backend = trained / kind / "checkpoints" / "last" / "pretrained_model", make_backend("reach")
    base = LeRobotBase(open_lerobot(folder))
    assert base.differences(backend.spec) == []
    rows: dict[str, list[np.ndarray]] = {"state": [], "object": [], "action": []}
    for seed in (0, 1):
        step = backend.reset(seed)
        base.begin_episode(seed)
        for _ in range(20):
            rows["state"].append(step.observation["state"])
            rows["object"].append(step.observation["object"])
            rows["action"].append(base.act(step.observation))
            step = backend.step(rows["action"][-1])
    backend.close()
    np.savez(tmp_path / "rows.npz", **{key: np.stack(value) for key, value in rows.items()})
    assert REAL is not None
    subprocess.run([REAL, str(TRAIN), "act", str(folder), str(tmp_path / "rows.npz"), "--length=20"], check=True)
    expected = np.load(tmp_path / "rows.actions.npy")
    assert np.abs(expected).max() > 0
    np.testing.assert_array_equal(np.stack(rows["action"]), expected.clip(-1, 1))


@pytest.mark.skipif(REAL is None, reason="ROBO_RL_LEROBOT_PYTHON names no interpreter with lerobot")
def test_a_run_corrects_lerobots_policy(trained: Path, tmp_path: Path) -> None:
    folder = trained / "act" / "checkpoints" / "last" / "pretrained_model"
    robo_rl("train", *COMMON, *AGENT, f"base.lerobot={folder}", "run.env_steps=20", f"run.dir={tmp_path / 'run'}")
    robo_rl("eval", f"run={trained / 'clone'}", f"policy={folder}", "episodes=2")
