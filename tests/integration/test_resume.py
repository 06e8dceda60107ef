"""A resumed run equals an unbroken one, bit for bit, wherever it was stopped."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from robo_rl.learner import CheckpointFolder

from ..rigs.command_line import SMALL_AGENT, Forked, finish, robo_rl, start
from ..rigs.run_folder import records
from ..rigs.signals import handled

STEPS = 70
COMMON = [
    "task=reach",
    *SMALL_AGENT,
    "demonstrations.episodes=2",
    f"run.env_steps={STEPS}",
    "run.evaluation_interval=30",
    "run.evaluation_episodes=2",
    "run.final_evaluation_episodes=2",
    "run.video_episodes=0",
    "run.checkpoint_interval=1000",
    "runtime.threads=1",
]


def wait_for_step(folder: Path, step: int) -> None:
    """Wait until the run has logged something at or beyond ``step``."""
    for _ in range(1200):
        if any(record["step"] >= step for record in records(folder, "train")):
            return
        time.sleep(0.05)
    raise AssertionError(f"the run never reached step {step}")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    finish(start("train", *COMMON, f"run.dir={folder}"))  # with hashes of its own
    return folder


def final_state(folder: Path) -> dict[str, np.ndarray]:
    checkpoint = CheckpointFolder(folder / "checkpoints").load_newest()
    assert checkpoint.step == STEPS
    return {f"{part}/{key}": value for part, state in checkpoint.parts.items() for key, value in state.items()}


def assert_equal_runs(one: Path, other: Path) -> None:
    first, second = final_state(one), final_state(other)
    assert first.keys() == second.keys()
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key], err_msg=key, strict=True)

    def curve(folder: Path) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        return [{k: v for k, v in line.items() if k != "wall_seconds"} for line in lines]

    assert curve(one) == curve(other)


def test_the_same_seed_gives_the_same_run(unbroken: Path, tmp_path: Path) -> None:
    robo_rl("train", *COMMON, f"run.dir={tmp_path / 'again'}")
    assert_equal_runs(unbroken, tmp_path / "again")


def test_interrupted_in_mid_episode_and_resumed(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = Forked("train", *COMMON, f"run.dir={folder}", "logging.train_interval=1")
    wait_for_step(folder, 15)
    process.send_signal(signal.SIGINT)
    output = finish(process, code=130)
    assert f"robo-rl train resume={folder}" in output
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert 15 <= summary["env_steps"] < STEPS
    robo_rl("train", f"resume={folder}", "logging.train_interval=100")
    first, second = final_state(unbroken), final_state(folder)
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key], err_msg=key, strict=True)
    assert json.loads((folder / "summary.json").read_text())["status"] == "completed"


def test_killed_and_resumed_from_the_checkpoint(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = Forked("train", *COMMON, f"run.dir={folder}", "run.checkpoint_interval=17", "logging.train_interval=1")
    wait_for_step(folder, 40)
    process.kill()
    process.communicate()
    step = CheckpointFolder(folder / "checkpoints").load_newest().step
    with (folder / "metrics.jsonl").open("a") as metrics:  # as of an episode that ended before the next step
        again = {"step": step, "wall_seconds": 1.0, "kind": "episode", "stopped": "irreversible"}
        metrics.write(json.dumps(again) + "\n")
    robo_rl("train", f"resume={folder}", "run.checkpoint_interval=1000")
    assert len(records(folder, "episode")) == len(records(unbroken, "episode"))
    first, second = final_state(unbroken), final_state(folder)
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key], err_msg=key, strict=True)


def test_where_the_world_cannot_be_told_the_open_episode_ends_and_the_next_is_reproducible(tmp_path: Path) -> None:
    """With noise the simulator does not tell its world, and the arm itself begins episodes, of 20 steps."""
    folders = tmp_path / "one", tmp_path / "other"
    practice = ["reset=homing", "task.randomisation.observation_noise=0.1", "task.max_episode_steps=20"]
    taken_over = ["intervention.criterion=random", "intervention.probability=0.3", "intervention.hold=30"]
    short = ["task.terminate_on_success=false", "run.env_steps=30", "run.final_evaluation_episodes=1"]
    robo_rl("train", *COMMON, *practice, *taken_over, *short, f"run.dir={folders[0]}")
    shutil.copytree(folders[0], folders[1])
    ended = []
    for folder in folders:
        robo_rl("train", f"resume={folder}", "run.env_steps=55")
        ended.append([record for record in records(folder, "episode") if record["step"] > 30])
    (episode,), (again,) = ended
    assert (episode["step"], episode["length"]) == (50, 20)
    assert episode | {"wall_seconds": 0} == again | {"wall_seconds": 0}
    replay = CheckpointFolder(folders[0] / "checkpoints").load_newest().parts["replay"]
    rows = slice(32, 52)  # each episode before it has one row more than steps
    assert episode["episode_return"] == replay["terms"][rows, 0].sum(), "nothing of the episode that was cut"


def test_a_run_that_reached_its_goal_is_only_evaluated_when_it_is_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    goal = ["run.stop_at_return=-1000", "run.final_evaluation_episodes=100000"]
    process = Forked("train", *COMMON, *goal, f"run.dir={folder}")
    wait_until_checkpoint(folder, 30)
    process.kill()
    process.communicate()
    robo_rl("train", f"resume={folder}", "run.final_evaluation_episodes=2")
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["status"], summary["env_steps"]) == ("reached", 30)


def wait_until_checkpoint(folder: Path, step: int) -> None:
    for _ in range(1200):
        if (folder / "checkpoints" / f"step_{step:09d}").exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"there is no checkpoint of step {step}")


def test_a_changed_configuration_is_refused_by_name(unbroken: Path) -> None:
    output = robo_rl("train", f"resume={unbroken}", "agent.gamma=0.5", "seed=3", code=2)
    assert "agent.gamma, seed cannot be changed" in output


@pytest.fixture
def hang_ups() -> Iterator[None]:
    """Processes that are started here take notice of SIGHUP, also where this one was started by nohup."""
    with handled(signal.SIGHUP, signal.SIG_DFL):
        yield


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "curve.png", "videos/final.mp4", "checkpoints", "tensorboard/events"]
)
def test_a_run_does_not_write_through_links_in_its_folder(unbroken: Path, tmp_path: Path, name: str) -> None:
    """Somebody else's run folder may have a link in place of any file: to one of the user's."""
    folder, own = tmp_path / "run", tmp_path / "own"
    shutil.copytree(unbroken, folder)
    own.write_text("a thesis")
    file = folder / name
    if file.is_dir():
        shutil.rmtree(file)
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    file.symlink_to(own)
    output = robo_rl("train", f"resume={folder}", f"run.env_steps={STEPS + 1}", code=2)
    assert f"{name} is a link to {own}" in output
    assert own.read_text() == "a thesis"


@pytest.mark.usefixtures("hang_ups")
def test_a_reader_that_goes_away_ends_the_run_with_a_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start("train", *COMMON, f"run.dir={folder}", "run.env_steps=100000", "logging.progress_seconds=0.01")
    assert process.stdout is not None
    next(line for line in process.stdout if "steps" in line)  # it has written its first checkpoint
    process.stdout.close()
    assert process.wait(timeout=120) == 128 + signal.SIGHUP
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert CheckpointFolder(folder / "checkpoints").load_newest().step == summary["env_steps"]


@pytest.mark.usefixtures("hang_ups")
def test_a_terminal_that_closes_ends_the_run_with_a_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    terminal, its_end = pty.openpty()
    # As the session's controlling terminal: it is the kernel that tells the run.
    command = ["setsid", "--ctty", sys.executable, "-m", "robo_rl.cli", "train", *COMMON, "run.env_steps=100000"]
    process = subprocess.Popen([*command, f"run.dir={folder}"], stdin=its_end, stdout=its_end, stderr=its_end)
    os.close(its_end)
    wait_for_step(folder, 30)
    os.close(terminal)
    assert process.wait(timeout=120) == 128 + signal.SIGHUP
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert CheckpointFolder(folder / "checkpoints").load_newest().step == summary["env_steps"]
