"""Chunks of runs, files and servers executed while the next one is computed: robo-rl eval and residual runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from ..rigs.command_line import refusal, robo_rl
from ..rigs.lerobot_folder import use_stand_in, write_lerobot
from ..rigs.policy_server import service

COMMON = ["task=reach", "demonstrations.episodes=2", "run.evaluation_interval=0", "run.final_evaluation_episodes=2"]
COMMON += ["run.video_episodes=0", "runtime.threads=1"]
CLONE = ["agent=bc", "agent.action_chunk=6", "agent.hidden=[32]", "agent.batch_size=32", "agent.pretrain_steps=20"]
AGENT = ["agent=residual", "agent.hidden=[32]", "agent.batch_size=32", "agent.update_to_data=2"]
AGENT += ["agent.ensemble_size=3", "agent.learning_starts=10", "agent.actor_delay=10"]
MEANWHILE = ["execution.asynchronous=true", "execution.latency=0.15"]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that cloned demonstrations in chunks of six."""
    run = tmp_path_factory.mktemp("clone") / "run"
    robo_rl("train", *COMMON, *CLONE, "run.env_steps=0", f"run.dir={run}")
    return run


def evaluated(clone: Path, file: Path, *words: str) -> dict[str, Any]:
    robo_rl("eval", f"run={clone}", "episodes=3", f"output={file}", *words)
    result: dict[str, Any] = json.loads(file.read_text())
    return result


def test_an_evaluation_reports_what_latency_costs_and_repeats(clone: Path, tmp_path: Path) -> None:
    output = robo_rl("eval", f"run={clone}", "episodes=3", "execution.latency=0.15")
    assert "Decision in 150.0 ms (median; 99 % within 150.0 ms)" in output
    assert "Held still in" in output and "seams of chunks" in output
    plain = evaluated(clone, tmp_path / "plain.json")
    free = evaluated(clone, tmp_path / "free.json", "execution.latency=0")
    waiting = evaluated(clone, tmp_path / "waiting.json", "execution.latency=0.15")
    meanwhile = [evaluated(clone, tmp_path / f"{n}.json", *MEANWHILE) for n in range(2)]
    assert plain["execution"] is None and plain["episodes"] == free["episodes"]
    assert free["execution"]["held_steps"] == 0 < waiting["execution"]["held_steps"]
    assert meanwhile[0] == meanwhile[1]
    assert meanwhile[0]["execution"]["held_steps"] == 0
    assert meanwhile[0]["execution"]["decisions"] > waiting["execution"]["decisions"]


def test_files_and_servers_are_executed_as_their_run(clone: Path, tmp_path: Path) -> None:
    own = evaluated(clone, tmp_path / "own.json", *MEANWHILE)
    file = tmp_path / "policy.onnx"
    robo_rl("deploy", f"run={clone}", f"output={file}")
    written = evaluated(clone, tmp_path / "written.json", *MEANWHILE, f"policy={file}")
    with service(clone) as address:
        served = evaluated(clone, tmp_path / "served.json", *MEANWHILE, f"policy={address}")
        measured = evaluated(clone, tmp_path / "measured.json", "execution.asynchronous=true", f"policy={address}")
    lengths = [[episode["length"] for episode in each["episodes"]] for each in (own, written, served)]
    assert lengths[0] == lengths[1] == lengths[2]
    assert 0 < measured["execution"]["latency_median"] < 5


def test_a_policy_of_lerobot_is_executed_while_it_decides(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_stand_in(monkeypatch)
    folder = write_lerobot(tmp_path / "policy")
    result = evaluated(clone, tmp_path / "result.json", *MEANWHILE, f"policy={folder}")
    report = result["execution"]
    assert report["decisions"] > 3 and report["jerk_in_chunks"] is not None  # chunks of three
    config = json.loads((folder / "config.json").read_text()) | {"n_obs_steps": 2}
    (folder / "config.json").write_text(json.dumps(config))
    line = refusal(capsys, "eval", f"run={clone}", *MEANWHILE, f"policy={folder}")
    assert "decides on 2 consecutive observations" in line


def test_a_flow_continues_its_chunks(clone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow, way = tmp_path / "flow", [*MEANWHILE, "execution.blending=inpainting"]
    robo_rl("train", *COMMON, *CLONE, "agent=flow", "agent.flow_steps=3", "run.env_steps=0", f"run.dir={flow}")
    results = [evaluated(flow, tmp_path / f"{n}.json", *way) for n in range(2)]
    assert results[0] == results[1] and results[0]["execution"]["held_steps"] == 0
    free = evaluated(flow, tmp_path / "free.json", *MEANWHILE, "execution.blending=none")
    assert results[0]["execution"]["jerk_at_seams"] < free["execution"]["jerk_at_seams"]
    line = refusal(capsys, "eval", f"run={clone}", *way)
    assert "execution.blending=inpainting needs the policy of a run of agent=flow" in line


def test_the_base_of_a_residual_run_decides_meanwhile(
    clone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = [f"base.run={clone}", "base.execution.asynchronous=true"]
    run = [*COMMON, *AGENT, *base, "run.env_steps=20", f"run.dir={tmp_path / 'run'}"]
    line = refusal(capsys, "train", *run)
    assert "needs base.execution.latency, the emulated time of a decision [s], in simulation" in line
    line = refusal(capsys, "train", *run, "base.execution.latency=-1")
    assert "execution.latency must be null or in [0, 60], got -1.0" in line
    robo_rl("train", *run, "base.execution.latency=0.15")
    robo_rl("train", f"resume={tmp_path / 'run'}", "run.env_steps=30")
    assert "Decision in 150.0 ms" in robo_rl("eval", f"run={tmp_path / 'run'}", "episodes=1")
    slower = evaluated(tmp_path / "run", tmp_path / "slower.json", "execution.latency=0.3")["execution"]
    waiting = evaluated(tmp_path / "run", tmp_path / "waiting.json", "execution.asynchronous=false")["execution"]
    assert (slower["latency_median"], waiting["latency_median"]) == (0.3, 0.15)  # what is not given is as in training
    assert waiting["held_steps"] > slower["held_steps"] == 0


def test_options_that_exclude_one_another_are_refused(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = f"run={clone}"
    line = refusal(capsys, "eval", run, "execution.blending=none")
    assert "execution.blending must be given only where execution.asynchronous=true" in line
    line = refusal(capsys, "eval", run, *MEANWHILE, "decision_periods=[1,2]")
    assert "decision_periods must be left out where options of execution are given" in line
