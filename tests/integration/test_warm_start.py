"""A run that starts from another: what it takes over, how it resumes, what is refused, and with actors elsewhere."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from robo_rl.app import load_agent
from robo_rl.cli import main
from robo_rl.core import Source
from robo_rl.learner import CheckpointFolder, load_checkpoint
from robo_rl.replay import EpisodeStore

from ..rigs.command_line import robo_rl
from ..rigs.hostile_runs import KINDS, make_hostile
from ..rigs.run_folder import newest_state, records

AGENT = ["agent.hidden=[32]", "agent.batch_size=32", "agent.update_to_data=2", "agent.learning_starts=10"]
CRITICS = ["agent.ensemble_size=3", "agent.pretrain_steps=20"]
COMMON = ["task=reach", *AGENT, *CRITICS, "demonstrations.episodes=2", "run.evaluation_interval=0"]
COMMON += ["run.final_evaluation_episodes=2", "run.video_episodes=0", "runtime.threads=1"]
STEPS = 60


def summary_of(folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return summary


def agent_state(folder: Path, step: int) -> dict[str, np.ndarray]:
    checkpoint = load_checkpoint(folder / "checkpoints" / f"step_{step:09d}")
    return dict(checkpoint.parts["agent"])


def assert_equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray], *prefixes: str) -> None:
    names = [name for name in one if name.startswith(prefixes)]
    assert names
    for name in names:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name, strict=True)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the task with a larger target, so to speak."""
    folder = tmp_path_factory.mktemp("start") / "easy"
    robo_rl("train", *COMMON, f"run.env_steps={STEPS}", f"run.dir={folder}")
    return folder


def test_policy_critics_and_replay_are_taken_over_and_named(start: Path, tmp_path: Path) -> None:
    folder, critics = tmp_path / "run", ["start.critics=true", "start.replay_ratio=0.25", "agent.actor_delay=1000"]
    critics.append("logging.train_interval=10")
    output = robo_rl("train", *COMMON, *critics, f"start.run={start}", f"run.env_steps={STEPS}", f"run.dir={folder}")
    (line,) = [line for line in output.splitlines() if line.startswith("Started from")]
    assert line.startswith(f"Started from easy (task reach, agent rlpd, step {STEPS}")
    parts = "policy, normalisation and critics; 60 steps of replay, 25 % of each minibatch"
    assert line.endswith(f": {parts}") and "Cloning" not in output
    facts = summary_of(folder)["started_from"]
    assert (facts["run"], facts["step"], facts["task"], facts["agent"]) == ("easy", STEPS, "reach", "rlpd")
    assert facts["git_commit"] == summary_of(start)["git_commit"]
    assert facts["replay"] == {"steps": STEPS, "ratio": 0.25}
    assert OmegaConf.load(folder / "config.yaml").agent.cloning_weight == 0.3  # not that of an untrained policy
    assert "Started from other runs" in (folder / "report.html").read_text()
    assert parts in (folder / "report.html").read_text()

    expected, first, last = agent_state(start, STEPS), agent_state(folder, 0), agent_state(folder, STEPS)
    policy = ("actor/", "averaged/", "normaliser/")
    assert_equal(expected, first, *policy, "critic/", "target_critic/", "temperature/")
    assert_equal(expected, last, *policy, "temperature/")
    assert not np.array_equal(first["critic/output/bias"], last["critic/output/bias"])
    assert int(first["updates"][0]) == 0 and not first["adam_first/critic/output/bias"].any()
    assert "actor_loss" not in records(folder, "train")[-1]

    own = load_checkpoint(start / "checkpoints" / f"step_{STEPS:09d}").parts["replay"]
    with EpisodeStore.open(folder / "prior") as store:
        stored = [step for number in range(len(store)) for step in store.episode(number)]
    assert len(stored) == STEPS
    np.testing.assert_array_equal(stored[0].executed_action, own["action"][0])


def test_the_first_steps_are_those_of_the_starting_policy(start: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    warm = [f"agent.learning_starts={STEPS + 1}", f"run.env_steps={STEPS}", f"run.dir={folder}"]
    robo_rl("train", *COMMON, f"start.run={start}", *warm, "agent.cloning_weight=1.5")
    assert OmegaConf.load(folder / "config.yaml").agent.cloning_weight == 1.5
    assert_equal(agent_state(folder, 0), agent_state(folder, STEPS), "actor/", "averaged/", "critic/", "updates")
    replay = load_checkpoint(folder / "checkpoints" / f"step_{STEPS:09d}").parts["replay"]
    trained = load_agent(folder, checkpoint="0")
    agent, episode = trained.agent, int(records(folder, "episode")[0]["length"])
    agent.forget_plan(explore=True)
    for slot in range(episode):
        assert replay["source"][slot] == Source.POLICY
        observation = {key: replay[f"observation/{key}"][slot] for key in trained.spec.observation}
        np.testing.assert_array_equal(agent.act(observation, explore=True), replay["proposed_action"][slot])


@pytest.mark.parametrize("reward", ["sparse", "interventions"])
def test_a_resumed_run_equals_an_unbroken_one_although_its_start_is_gone(
    start: Path, tmp_path: Path, reward: str
) -> None:
    source = tmp_path / "source"
    shutil.copytree(start, source)
    options = [f"start.run={source}", "start.critics=true", "start.replay_ratio=0.25", "agent.actor_delay=30"]
    options += [f"reward={reward}", "run.checkpoint_interval=1000"]
    for name, steps in (("unbroken", 90), ("broken", 50)):
        robo_rl("train", *COMMON, *options, f"run.env_steps={steps}", f"run.dir={tmp_path / name}")
    shutil.rmtree(source)
    output = robo_rl("train", f"resume={tmp_path / 'broken'}", "run.env_steps=90")
    assert "Started from" not in output
    first, second = newest_state(tmp_path / "unbroken"), newest_state(tmp_path / "broken")
    assert ("prior/terms" in first) == (reward == "interventions") or not any(n.startswith("prior/") for n in first)
    assert_equal(first, second, "")
    both = [summary_of(tmp_path / name)["started_from"] for name in ("unbroken", "broken")]
    assert both[0] == both[1] and both[0]["run"] == "source"


def test_a_run_that_stays_close_to_its_start_resumes_exactly(start: Path, tmp_path: Path) -> None:
    options = [f"start.run={start}", "agent.reference_weight=0.5", "agent.reference_steps=40"]
    options += ["run.checkpoint_interval=1000", "logging.train_interval=1"]
    for name, steps in (("unbroken", 70), ("broken", 40)):
        robo_rl("train", *COMMON, *options, f"run.env_steps={steps}", f"run.dir={tmp_path / name}")
    robo_rl("train", f"resume={tmp_path / 'broken'}", "run.env_steps=70")
    first, second = newest_state(tmp_path / "unbroken"), newest_state(tmp_path / "broken")
    assert_equal(first, second, "")
    expected, last = agent_state(start, STEPS), agent_state(tmp_path / "unbroken", 70)
    for name in (name for name in last if name.startswith("reference/")):
        np.testing.assert_array_equal(last[name], expected[name.replace("reference/", "averaged/")], err_msg=name)
    assert all(record["reference_kl"] >= 0 for record in records(tmp_path / "unbroken", "train") if record["step"])
    assert load_agent(tmp_path / "broken").step == 70


def test_agents_without_a_gaussian_policy_have_no_reference(
    start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for agent in ("qc", "dsrl", "bc"):
        with pytest.raises(SystemExit):
            main(["train", "task=reach", f"agent={agent}", f"start.run={start}", "agent.reference_weight=0.1"])
        assert "unknown option 'agent.reference_weight'" in capsys.readouterr().err


def test_with_actors_elsewhere_and_from_such_a_run(start: Path, tmp_path: Path) -> None:
    folder, again = tmp_path / "run", tmp_path / "again"
    options = ["runtime=async", "start.replay_ratio=0.25", "agent.actor_delay=10000", f"run.env_steps={STEPS}"]
    output = robo_rl("train", *COMMON, *options, f"start.run={start}", f"run.dir={folder}")
    assert f"Started from easy (task reach, agent rlpd, step {STEPS}" in output
    assert_equal(agent_state(start, STEPS), newest_agent(folder), "actor/", "averaged/")
    with EpisodeStore.open(folder / "replay" / "episodes") as store:
        steps = store.summary().steps
        assert store.summary().sources == {"policy": steps}
    options = [f"start.run={folder}", "start.replay_ratio=0.5", "start.checkpoint=newest", "run.env_steps=20"]
    robo_rl("train", *COMMON, *options, f"run.dir={again}")
    assert summary_of(again)["started_from"]["replay"]["steps"] == steps
    robo_rl("train", f"resume={folder}", f"run.env_steps={STEPS + 20}")
    assert_equal(agent_state(start, STEPS), newest_agent(folder), "actor/", "averaged/")
    assert summary_of(folder)["started_from"]["run"] == "easy"


def newest_agent(folder: Path) -> dict[str, np.ndarray]:
    return dict(CheckpointFolder(folder / "checkpoints").load_newest().parts["agent"])


@pytest.mark.parametrize("agent", ["sac", "redq", "simbav2", "qc", "hg_dagger"])
def test_other_agents_that_learn_from_their_steps_start_too(agent: str, tmp_path: Path) -> None:
    options = ["task=reach", f"agent={agent}", "agent.hidden=[16]", "agent.batch_size=16", "run.env_steps=15"]
    options += COMMON[7:]
    if agent != "hg_dagger":
        options.append("agent.learning_starts=5")
    options += ["agent.pretrain_steps=5"] if agent in ("qc", "hg_dagger") else ["agent.random_steps=0"]
    options += ["agent.offline_steps=5"] if agent == "qc" else []
    delay = ["agent.actor_delay=1000"] if agent in ("sac", "redq", "simbav2") else []
    critics = [] if agent == "hg_dagger" else ["start.critics=true"]
    robo_rl("train", *options, f"run.dir={tmp_path / 'one'}")
    robo_rl("train", *options, *delay, *critics, f"start.run={tmp_path / 'one'}", f"run.dir={tmp_path / 'other'}")
    expected, first = agent_state(tmp_path / "one", 15), agent_state(tmp_path / "other", 0)
    assert_equal(expected, first, "actor/", "flow/", *(["critic/"] if critics else []))
    if delay:
        assert_equal(expected, agent_state(tmp_path / "other", 15), "actor", "averaged/", "temperature/")


def refusal(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> str:
    """Return the one line of a run that does not begin, and leaves nothing."""
    with pytest.raises(SystemExit) as ended:
        main(["train", *COMMON, f"run.dir={folder}", *words])
    assert ended.value.code == 2 and not folder.exists()
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["task=pick_cube"], ["is of task reach", "task pick_cube", "expected float32 (6,), found float32 (12,)"]),
        (
            ["agent.hidden=[16]"],
            ["with agent=rlpd, which does not match agent=rlpd", "expected [32], found [16]", "Use"],
        ),
        (["start.critics=true", "agent.gamma=0.9"], ["agent.gamma: expected 0.97, found 0.9"]),
        (["agent.random_steps=3"], ["agent.random_steps must be 0 with start.run", "got 3"]),
        (["start.replay_ratio=0.6"], ["start.replay_ratio must be at most 1 - agent.demonstration_ratio = 0.5"]),
        (["start.checkpoint=7"], [f"no checkpoint '7'; choose best, newest or a step of: 0, {STEPS}"]),
        (
            ["agent.reference_steps=5"],
            ["agent.reference_steps must be given only where agent.reference_weight is above 0"],
        ),
        (
            ["start.run=null", "agent.pretrain_steps=0", "agent.reference_weight=0.1"],
            ["agent.reference_weight must be 0 if there is neither start.run nor cloning", "got 0.1"],
        ),
        (["start.run=."], ["is not a run folder: it has no config.yaml"]),
        (["start.run=null", "start.critics=true"], ["start.run must be a run folder if start.critics is set"]),
    ],
)
def test_what_does_not_fit_is_named(
    words: list[str], parts: list[str], start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(capsys, tmp_path / "run", f"start.run={start}", *words)
    assert all(part in line for part in parts), line


def test_agents_of_other_kinds_are_named(start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["train", "task=reach", f"run.dir={tmp_path / 'run'}", f"start.run={start}", "demonstrations.episodes=1"]
    for agent, message in (("qc", "expected agent SAC, found QC"), ("bc", "needs an agent that learns from its own")):
        with pytest.raises(SystemExit):
            main([*few, f"agent={agent}"])
        assert message in capsys.readouterr().err
        assert not (tmp_path / "run").exists()


def test_a_run_does_not_replace_the_one_that_it_starts_from(
    start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["train", *COMMON, f"start.run={start}", f"run.dir={start}", "run.overwrite=true"])
    assert f"start.run={start} lies in the run that run.overwrite=true replaces" in capsys.readouterr().err
    assert (start / "summary.json").exists()


def test_a_replay_that_is_gone_is_an_error(start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(start, copy)
    for file in copy.glob("checkpoints/*/replay.safetensors"):
        file.unlink()
    line = refusal(capsys, tmp_path / "run", f"start.run={copy}", "start.replay_ratio=0.1")
    assert "has no replay buffer" in line and "leave out start.replay_ratio" in line


def test_nothing_in_the_other_folder_is_executed(
    start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, canary = tmp_path / "copy", tmp_path / "canary"
    shutil.copytree(start, copy)
    config = (copy / "config.yaml").read_text()
    hostile = config.replace("_target_: robo_rl.agents.sac.make_sac", f"_target_: os.mkdir\n  path: {canary}")
    assert hostile != config
    (copy / "config.yaml").write_text(hostile)
    line = refusal(capsys, tmp_path / "run", f"start.run={copy}")
    assert "agent._target_ names 'os.mkdir', which is not a registered configuration node" in line
    (copy / "config.yaml").write_text(config.replace("- 32", "- 3200000"))
    line = refusal(capsys, tmp_path / "run", f"start.run={copy}")
    assert "memory" in line or "checkpoint" in line
    (copy / "config.yaml").write_text(config)
    file = copy / "checkpoints" / f"step_{STEPS:09d}" / "agent.safetensors"
    file.write_bytes(b"\x80\x04" + file.read_bytes()[2:])
    assert "its SHA-256 is not the manifest's" in refusal(capsys, tmp_path / "run", f"start.run={copy}")
    assert not canary.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_folders_are_refused_in_one_line(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_hostile(tmp_path / "runs", kind)
    line = refusal(capsys, tmp_path / "run", f"start.run={run}", "start.replay_ratio=0.1")
    assert line.startswith("robo-rl: ") and "SECRET" not in line
