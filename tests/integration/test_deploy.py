"""robo-rl deploy, and robo-rl eval of what it wrote, as commands on runs."""

import json
import shutil
import sys

import pytest
from omegaconf import OmegaConf

from robo_rl.cli import main

from ..rigs.command_line import robo_rl
from ..rigs.deployed import make_agent, write
from ..rigs.guide import SMALL


def fails(words, capsys):
    """Return the one line with which a command fails."""
    with pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    assert caught.value.code == 2, captured
    (line,) = captured.err.splitlines()
    return line


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of runs of agents with few steps, each with its policy as policy.onnx."""
    folder = tmp_path_factory.mktemp("runs")
    offline = ["run.env_steps=0", "agent.hidden=[32]", "agent.batch_size=32", "agent.pretrain_steps=50"]
    offline += [word for word in SMALL if word.startswith(("demonstrations", "run.final", "run.video", "runtime"))]
    chosen = {"rlpd": SMALL, "sampled": [*SMALL, "agent.sampled_actions=true"], "flow": [*offline, "agent=flow"]}
    for name, words in chosen.items():
        robo_rl("train", "task=reach", f"run.dir={folder / name}", *words)
        output = folder / name / "policy.onnx"
        printed = robo_rl("deploy", f"run={folder / name}", f"output={output}", "observations=50")
        assert f"{output} holds the policy of agent {name.replace('sampled', 'rlpd')} for reach" in printed
        assert "Largest difference from PyTorch on 50 random observations" in printed
    return folder


@pytest.mark.parametrize("name", ["rlpd", "sampled", "flow"])
def test_the_file_does_in_an_evaluation_what_the_run_does(name, runs, tmp_path):
    results = []
    for words in ([], [f"policy={runs / name / 'policy.onnx'}"]):
        output = tmp_path / f"{len(words)}.json"
        robo_rl("eval", f"run={runs / name}", *words, "episodes=5", f"output={output}", "decision_periods=[1,2]")
        results.append(json.loads(output.read_text()))
    one, two = results
    assert [each["success"] for each in one["episodes"]] == [each["success"] for each in two["episodes"]]
    assert [each["length"] for each in one["episodes"]] == [each["length"] for each in two["episodes"]]
    assert two["return_mean"] == pytest.approx(one["return_mean"], abs=1e-3)


def test_only_the_policy_of_the_run_explores_in_an_evaluation(runs, capsys):
    assert "policy of step" in robo_rl("eval", f"run={runs / 'rlpd'}", "explore=true", "episodes=1")
    line = fails(["eval", f"run={runs / 'rlpd'}", f"policy={runs / 'rlpd' / 'policy.onnx'}", "explore=true"], capsys)
    assert "explore must be false with policy, decision_periods or execution" in line


def test_the_safety_filters_of_the_run_hold(runs, tmp_path):
    """With a speed limit near zero every action is changed, so the second one ends the episode."""
    run = tmp_path / "run"
    shutil.copytree(runs / "rlpd", run)
    config = OmegaConf.load(run / "config.yaml")
    config.safety.speed.linear, config.safety.violation_budget = 1e-6, 2
    OmegaConf.save(config, run / "config.yaml")
    output = tmp_path / "result.json"
    robo_rl("eval", f"run={run}", f"policy={run / 'policy.onnx'}", "episodes=2", f"output={output}")
    assert [each["length"] for each in json.loads(output.read_text())["episodes"]] == [2, 2]


def test_another_task_is_refused_with_both_named(runs, capsys):
    line = fails(
        ["eval", f"run={runs / 'rlpd'}", f"policy={runs / 'rlpd' / 'policy.onnx'}", "+task.control_rate=20"], capsys
    )
    assert "was trained for task 'reach' and does not match task 'reach': control_rate: expected 10.0, found 20" in line


def test_a_policy_of_another_task_is_refused(runs, tmp_path, capsys):
    write(make_agent("bc"), "bc", tmp_path / "policy.onnx")
    line = fails(["eval", f"run={runs / 'rlpd'}", f"policy={tmp_path / 'policy.onnx'}"], capsys)
    assert "policy.onnx was trained for task 'toy' and does not match task 'reach': " in line
    assert "action: expected shape (2,), found (3,)" in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["deploy", "run=RUN", "output=policy.txt"], "output: expected NAME.onnx (ONNX) or NAME.h (a C99 header)"),
        (["deploy", "run=RUN"], "output is required"),
        (["deploy", "run=RUN/nowhere", "output=RUN/x.onnx"], "is not a run folder"),
        (["deploy", "run=RUN", "output=RUN/x.onnx", "checkpoint=7"], "has no checkpoint '7'"),
        (["deploy", "run=RUN", "output=RUN/x.onnx", "observations=0"], "observations must be from 1 to 1,000,000"),
        (["deploy", "run=RUN", "output=RUN/x.onnx", "seed=-1"], "seed must be 0 or more"),
        (["deploy", "run=RUN", "output=RUN/my-policy.h"], "the name of a header is the prefix of its C functions"),
        (["eval", "run=RUN", "policy=RUN/nowhere.onnx"], "nowhere.onnx cannot be read"),
        (["eval", "run=RUN", "policy=RUN/config.yaml"], "is not a usable ONNX model"),
        (
            ["eval", "run=RUN", "policy=RUN/policy.onnx", "checkpoint=newest"],
            "checkpoint must be left out where",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(words, message, runs, capsys):
    assert message in fails([word.replace("RUN", str(runs / "rlpd")) for word in words], capsys)
    assert not (runs / "rlpd" / "x.onnx").exists()


def test_without_the_packages_it_says_what_to_install(runs, capsys, monkeypatch):
    for name in ("onnx_policy", "onnx_file"):
        monkeypatch.delitem(sys.modules, f"robo_rl.deployment.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    file = runs / "rlpd" / "x.onnx"
    for words in (["deploy", f"run={runs / 'rlpd'}", f"output={file}"], ["eval", f"run={runs / 'rlpd'}", "policy=x"]):
        assert "pip install 'robo-rl[deploy]'" in fails(words, capsys)
