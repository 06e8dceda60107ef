"""Runs that correct a base policy: from a run or a file, resumed, with demonstrations, interventions and actors."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.app import load_policy
from robo_rl.cli import main
from robo_rl.core import EnvSpec, Source, Transition
from robo_rl.learner import CheckpointFolder
from robo_rl.replay import EpisodeStore, SavedEpisodes
from robo_rl.residual import BASE_ACTION

from ..rigs.command_line import robo_rl
from ..rigs.run_folder import newest_state, records

SHORT = ["run.evaluation_interval=0", "run.final_evaluation_episodes=2", "run.video_episodes=0", "runtime.threads=1"]
COMMON = ["task=reach", "demonstrations.episodes=2", *SHORT]
AGENT = ["agent=residual", "agent.hidden=[32]", "agent.batch_size=32", "agent.update_to_data=2"]
AGENT += ["agent.ensemble_size=3", "agent.learning_starts=10", "agent.actor_delay=10"]
CLONE = ["agent.hidden=[32]", "agent.batch_size=32", "agent.pretrain_steps=100", "run.env_steps=0"]
SCALE = 0.2
STEPS = 60


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs that cloned demonstrations in chunks: one deterministic, also as a file, one of noise."""
    folder = tmp_path_factory.mktemp("bases")
    for name in ("bc", "flow"):
        robo_rl("train", *COMMON, f"agent={name}", "agent.action_chunk=3", *CLONE, f"run.dir={folder / name}")
    robo_rl("deploy", f"run={folder / 'bc'}", f"output={folder / 'bc.onnx'}", "observations=20")
    return folder


def train(folder: Path, *words: str, steps: int = STEPS) -> str:
    return robo_rl("train", *COMMON, *AGENT, *words, f"run.env_steps={steps}", f"run.dir={folder}")


@pytest.fixture(scope="module")
def begun(bases: Path) -> tuple[Path, str]:
    """A run that has not learned yet, on a base and its demonstrations, and what it printed."""
    folder = bases / "begun"
    options = ["run.evaluation_interval=1000", "run.evaluation_episodes=4", "agent.learning_starts=1000"]
    data = f"demonstrations.path={bases / 'bc' / 'demonstrations'}"
    return folder, train(folder, f"base.run={bases / 'bc'}", data, *options, steps=15)


def steps_of(folder: Path) -> list[Transition]:
    checkpoint = CheckpointFolder(folder / "checkpoints").load_newest()
    episodes = SavedEpisodes(checkpoint.parts["replay"], EnvSpec.from_json(checkpoint.facts["spec"]))
    return [step for episode in episodes for step in episode]


def correction(steps: Iterable[Transition], source: Source = Source.POLICY) -> float:
    """Return the largest difference between what ``source`` chose, before safety filters, and what the base did."""
    chosen = [step for step in steps if step.source == source]
    return float(max(np.abs(step.proposed_action - step.observation[BASE_ACTION]).max() for step in chosen))


def test_a_run_begins_as_its_base_and_stays_within_reach_of_it(
    bases: Path, begun: tuple[Path, str], tmp_path: Path
) -> None:
    folder, output = begun
    assert f"Base policy {bases / 'bc'} (task reach, agent bc, step 0); residuals of up to 0.2" in output
    assert "of the demonstrated actions are within 0.2 of those of the base" in output
    robo_rl("eval", f"run={bases / 'bc'}", "episodes=4", "seed=0", f"output={tmp_path / 'base.json'}")
    alone = json.loads((tmp_path / "base.json").read_text())
    assert f"Before the first step: success {100 * alone['success_rate']['value']:.0f} %" in output
    assert 0 < correction(steps_of(folder)) <= SCALE + 1e-6

    robo_rl("eval", f"run={folder}", "episodes=4", "seed=0", f"output={tmp_path / 'run.json'}")
    assert json.loads((tmp_path / "run.json").read_text())["success_rate"] == alone["success_rate"]


def test_a_resumed_run_equals_an_unbroken_one_although_its_base_is_gone(bases: Path, tmp_path: Path) -> None:
    """The run stops within a chunk that the base drew from its noise."""
    source = tmp_path / "source"
    shutil.copytree(bases / "flow", source)
    shutil.copytree(source / "demonstrations", tmp_path / "data")
    options = [f"base.run={source}", f"demonstrations.path={tmp_path / 'data'}", "run.checkpoint_interval=1000"]
    for run, steps in (("unbroken", 30), ("broken", 17)):
        train(tmp_path / run, *options, steps=steps)
    shutil.rmtree(source)
    output = robo_rl("train", f"resume={tmp_path / 'broken'}", "run.env_steps=30")
    assert "Base policy" not in output
    first, second = newest_state(tmp_path / "unbroken"), newest_state(tmp_path / "broken")
    assert first.keys() == second.keys()
    for key, array in first.items():
        np.testing.assert_array_equal(second[key], array, err_msg=key)


def test_a_growing_scale_is_resumed_and_reaches_actors_elsewhere(bases: Path, tmp_path: Path) -> None:
    options = [f"base.run={bases / 'bc'}", "base.residual_start=0.01", "base.residual_steps=30"]
    options += ["run.checkpoint_interval=1000", "logging.train_interval=1", "agent.initial_log_std=2"]
    for run, steps in (("unbroken", 60), ("broken", 35)):
        output = train(tmp_path / run, *options, steps=steps)
        assert "residuals of up to 0.2, of up to 0.01 at first" in output
    robo_rl("train", f"resume={tmp_path / 'broken'}", "run.env_steps=60")
    first, second = newest_state(tmp_path / "unbroken"), newest_state(tmp_path / "broken")
    assert first.keys() == second.keys()
    for key, array in first.items():
        np.testing.assert_array_equal(second[key], array, err_msg=key)
    steps = steps_of(tmp_path / "unbroken")
    assert correction(steps[:20]) <= 0.01 + 1e-6 and 0.1 < correction(steps[40:]) <= SCALE + 1e-6
    scales = [line["residual_scale"] for line in records(tmp_path / "unbroken", "train") if "residual_scale" in line]
    assert scales[0] == 0.01 and scales == sorted(scales) and scales[-1] == pytest.approx(SCALE, rel=0.05)

    train(tmp_path / "async", *options, "runtime=async", "agent.learning_starts=5", "agent.actor_delay=5", steps=80)
    with EpisodeStore.open(tmp_path / "async" / "replay" / "episodes") as store:
        sent = [step for episode in store.episodes() for step in episode]
    assert correction(sent[:5]) <= 0.01 + 1e-6 and 0.02 < correction(sent) <= SCALE + 1e-6


def test_a_file_proposes_what_its_run_does(bases: Path, begun: tuple[Path, str], tmp_path: Path) -> None:
    folder, data = tmp_path / "policy", f"demonstrations.path={bases / 'bc' / 'demonstrations'}"
    train(folder, f"base.policy={bases / 'bc.onnx'}", data, "agent.learning_starts=1000", steps=15)
    assert (folder / "base" / "policy.onnx").exists()
    proposed = [[step.observation[BASE_ACTION] for step in steps_of(run)] for run in (begun[0], folder)]
    np.testing.assert_allclose(*proposed, atol=1e-4)


def test_demonstrations_get_the_actions_of_the_base(bases: Path, begun: tuple[Path, str]) -> None:
    folder, data = begun[0], bases / "bc" / "demonstrations"
    policy = load_policy(bases / "bc").policy
    with EpisodeStore.open(folder / "demonstrations") as copy, EpisodeStore.open(data) as original:
        assert len(copy) == 2
        expected, found = original.arrays(0), copy.arrays(0)
        np.testing.assert_array_equal(found.executed_action, expected.executed_action)
        np.testing.assert_array_equal(found.observation["state"], expected.observation["state"])
        policy.forget_plan(explore=False)
        before: np.ndarray | None = None
        for step, executed in enumerate([*expected.executed_action, None]):
            if before is not None and np.abs(before - found.observation[BASE_ACTION][step - 1]).max() > SCALE + 1e-5:
                policy.forget_plan(explore=False)
            observation = {key: array[step] for key, array in expected.observation.items()}
            action = policy.act(observation, explore=False)
            np.testing.assert_allclose(found.observation[BASE_ACTION][step], action, atol=1e-6)
            before = executed


def test_interventions_are_stored_as_they_were_executed(bases: Path, tmp_path: Path) -> None:
    options = ["intervention.criterion=disagreement", f"intervention.reference={bases / 'flow'}"]
    options += ["intervention.threshold=0.2", "agent.learning_starts=1000"]
    train(tmp_path / "run", f"base.run={bases / 'bc'}", *options)
    steps = steps_of(tmp_path / "run")
    assert correction(steps, Source.SCRIPT) > SCALE, "the expert acts beyond the reach of residuals"
    assert correction(steps) <= SCALE + 1e-6


def test_with_actors_in_other_processes(bases: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(folder, f"base.run={bases / 'flow'}", "runtime=async", steps=20)
    with EpisodeStore.open(folder / "replay" / "episodes") as store:
        steps = [step for episode in store.episodes() for step in episode]
    assert correction(steps) <= SCALE + 1e-6


def refusal(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> str:
    """Return the one line of a run that does not begin, and leaves nothing."""
    with pytest.raises(SystemExit) as ended:
        main(["train", *COMMON, *AGENT, f"run.dir={folder}", *words])
    assert ended.value.code == 2 and not folder.exists()
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([], ["agent=residual corrects a base policy: set base.run=RUN, base.policy=FILE.onnx, base.lerobot="]),
        (["base.run=bc", "task=pick_cube"], ["for task reach", "those of task pick_cube", "found float32 (12,)"]),
        (["base.policy=bc.onnx", "task=pick_cube"], ["bc.onnx", "for task reach", "those of task pick_cube"]),
        (["base.run=bc", "task.control_rate=20"], ["control_rate: expected 10.0, found 20.0"]),
        (["base.run=bc", "base.policy=bc.onnx"], ["base.policy must be left out where base.run is given"]),
        (["base.run=bc", "agent.action_chunk=4"], ["agent.action_chunk must be 1 on a base policy"]),
        (["base.run=bc", "reset=homing"], ["choose reset=seeded"]),
        (["base.run=bc", "run.hindsight=1"], ["run.hindsight=1 needs a task"]),
        (["base.policy=bc/config.yaml"], ["config.yaml is not a usable ONNX model"]),
    ],
)
def test_what_does_not_fit_is_named(
    words: list[str], parts: list[str], bases: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bases)
    line = refusal(capsys, tmp_path / "run", *words)
    assert all(part in line for part in parts), line


def test_a_run_on_a_base_is_no_base_itself_and_continues_on_its_own(
    bases: Path, begun: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "better.onnx"
    robo_rl("deploy", f"run={begun[0]}", f"output={file}", "observations=20")
    for base in (f"base.run={begun[0]}", f"base.policy={file}"):
        line = refusal(capsys, tmp_path / "two", base)
        assert f"{base} corrects a base policy itself" in line
    start = f"start.run={begun[0]}"
    output = train(tmp_path / "two", f"base.run={bases / 'bc'}", start, steps=11)
    assert "Started from begun (task reach, agent residual, step 15" in output
    line = refusal(capsys, tmp_path / "three", f"base.run={bases / 'flow'}", start)
    assert "base_policy: expected" in line and "found" in line


def test_nothing_in_the_folder_of_a_base_is_executed(
    bases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, canary = tmp_path / "copy", tmp_path / "canary"
    shutil.copytree(bases / "bc", copy)
    config = (copy / "config.yaml").read_text()
    hostile = config.replace("_target_: robo_rl.agents.bc.make_bc", f"_target_: os.mkdir\n  path: {canary}")
    assert hostile != config
    (copy / "config.yaml").write_text(hostile)
    line = refusal(capsys, tmp_path / "run", f"base.run={copy}")
    assert "agent._target_ names 'os.mkdir', which is not a registered configuration node" in line
    assert not canary.exists()
