"""Training runs on foreign environments: what can be known is said before the first step, nothing costs the results."""

import contextlib
import errno
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.app import build_backend, build_reward
from robo_rl.cli import main
from robo_rl.evaluation import plots, report, video
from robo_rl.learner import CheckpointFolder
from robo_rl.training import ending, results

from ..rigs.command_line import exit_code
from ..rigs.composition import composed_config
from ..rigs.odd_environments import LIMIT, registered
from ..rigs.run_folder import records

QUICK = [
    "task=gymnasium",
    "task.env_id=test/Odd-v0",
    "agent.hidden=[16]",
    "agent.implementation=torch",
    "agent.ensemble_size=2",
    "agent.learning_starts=1000",
    "agent.random_steps=1000",
    "run.env_steps=40",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=2",
    "run.video_episodes=0",
    "runtime.threads=1",
    "logging.progress=false",
]


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.setattr(ending, "file_lines", lambda *_: [])  # drawing takes longer than these runs

    def call(*words: str) -> int:
        return exit_code("train", *QUICK, f"run.dir={tmp_path}/run", *words)

    return call


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run" / "summary.json").read_text())
    return found


@pytest.mark.parametrize(
    ("env_id", "weights"), [("Pendulum-v1", [1.0]), ("tests.rigs.point_world:PointWorld", [1.0, 0.0])]
)
def test_the_reward_is_that_of_the_environment_with_and_without_success(env_id: str, weights: list[float]) -> None:
    config = composed_config("train", "task=gymnasium", f"task.env_id={env_id}", "reward=environment")
    with contextlib.closing(build_backend(config)) as backend:
        terms = backend.spec.reward_terms
        reward = build_reward(config.reward, backend.spec, 0)
        assert terms == ("reward", "success")[: len(weights)]
        np.testing.assert_array_equal(reward.combine(terms, np.eye(len(terms), dtype=np.float32), 0.99), weights)


def no_room(*arguments: Any, **options: Any) -> Any:
    raise OSError(errno.EROFS, "Read-only file system")


def fail(*arguments: Any, **options: Any) -> Any:
    raise RuntimeError("a test")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": lambda env: 1 / (5 - env.count) if env.episode == 3 else 0}, "ZeroDivisionError: division by zero"),
        ({"reward": lambda env: np.nan if (env.episode, env.count) == (3, 5) else 0.0}, "the reward is nan"),
        ({"info": lambda env: {"success": "?" if (env.episode, env.count) == (3, 5) else 0}}, "info['success'] is '?'"),
        ({"step": lambda env: sys.exit(3) if (env.episode, env.count) == (3, 5) else 0}, "SystemExit: 3"),
    ],
)
def test_an_environment_that_fails_leaves_a_checkpoint_from_which_the_run_goes_on(
    tmp_path, train, capsys, change, message
):
    """Its first episode is the one that is tried; the second of the run ends in its fifth step."""
    with registered(**change):
        assert train() == 2
        done = capsys.readouterr()
        assert f"robo-rl: environment test/Odd-v0, step 5 of the episode: {message}" in done.err
        assert "Traceback" not in done.err
        assert f"Ended at step {LIMIT + 4}. Resume with: robo-rl train resume=" in done.out
        assert CheckpointFolder(tmp_path / "run" / "checkpoints").load_newest().step == LIMIT + 4
        assert (summary(tmp_path)["status"], summary(tmp_path)["env_steps"]) == ("interrupted", LIMIT + 4)
        ends = [(line["length"], line["stopped"]) for line in records(tmp_path / "run", "episode")]
        assert ends == [(LIMIT, None), (4, "environment_failed")]


def test_a_run_goes_on_after_its_environment_failed(tmp_path, train):
    """Without the actions that led to the failure; so it does after observations that nothing guards."""

    def observation(env: Any) -> Any:
        return np.full(3, np.nan if (env.episode, env.count) == (2, 5) else 0)

    with registered(observation=observation):
        assert train("safety=none") == 2
    assert CheckpointFolder(tmp_path / "run" / "checkpoints").load_newest().step == 4
    with registered(), pytest.raises(SystemExit) as ended:
        main(["train", f"resume={tmp_path}/run"])
    assert ended.value.code == 0 and summary(tmp_path)["env_steps"] == 40


def test_a_time_limit_is_asked_for_before_the_first_step(tmp_path, train, capsys):
    address = ["runtime=async", "runtime.actors=0", f"runtime.transport.address=unix:{tmp_path}/socket"]
    with registered(limit=None):
        for words in ([], address):
            assert train(*words) == 2
            error = capsys.readouterr().err
            assert "task 'test/Odd-v0' has no time limit" in error and "task.max_episode_steps=NUMBER" in error
            assert not (tmp_path / "run").exists()
        assert train("task.max_episode_steps=8") == 0
    assert summary(tmp_path)["env_steps"] == 40


def test_an_environment_that_can_be_made_only_once_is_no_surprise_later(tmp_path, train, capsys):
    def reset(env: Any) -> None:
        made.add(id(env))
        if len(made) > 1:
            raise OSError("the port is taken")

    made: set[int] = set()
    with registered(reset=reset):
        assert train() == 2
    assert "OSError: the port is taken" in capsys.readouterr().err and not (tmp_path / "run").exists()


@pytest.mark.parametrize("key", [None, "done"])
def test_success_that_is_not_known_is_said_at_the_start(tmp_path, train, capsys, key):
    with registered(info=lambda env: {"done": 1}):
        assert train(*([] if key is None else [f"task.success_key={key}"])) == 0
    lines = capsys.readouterr().out.splitlines()
    found = [line for line in lines if line.startswith("Success is unknown: test/Odd-v0 does not report it.")]
    assert len(found) == (key is None)
    if found:
        assert "task.success_key=KEY" in found[0] and lines.index(found[0]) < lines.index("Evaluating: 2 episodes")


def test_success_of_episodes_that_say_nothing_is_no_success(tmp_path, train):
    """Told at the end of solved episodes alone, one of two it is."""
    with registered(info=lambda env: {"success": True} if (env.episode % 2, env.count) == (0, LIMIT) else {}):
        assert train() == 0
    rate = summary(tmp_path)["success_rate"]
    assert (rate["value"], rate["episodes"]) == (0.5, 2)


def test_a_video_that_fails_costs_no_result(tmp_path, train, capsys):
    with registered(frame=lambda env: np.zeros((48 + 2 * env.count, 64, 3), np.uint8), info=lambda env: {"success": 1}):
        assert train("run.video_episodes=1") == 0
    assert "No video: final.mp4: expected every frame in 64 x 48 pixels" in capsys.readouterr().out
    found = summary(tmp_path)
    assert found["status"] == "completed" and found["success_rate"]["value"] == 1
    assert not list((tmp_path / "run").rglob("*.mp4*"))


@pytest.mark.parametrize("missing", ["pictures", "encoder", "folder"])
def test_a_video_that_cannot_be_made_is_said_before_the_first_step(tmp_path, train, capsys, monkeypatch, missing):
    messages = {
        "pictures": "expected a picture from render()",
        "encoder": "no H.264 encoder",
        "folder": "Read-only file system",
    }
    if missing == "encoder":
        monkeypatch.setattr(video, "_ENCODERS", ())
        monkeypatch.setattr(video.cv2.VideoWriter, "isOpened", lambda _: False)
    elif missing == "folder":
        monkeypatch.setattr(
            video, "av", SimpleNamespace(open=no_room, codecs_available=["libx264"], FFmpegError=OSError)
        )
    with registered(frame=lambda env: None if missing == "pictures" else np.zeros((48, 64, 3), np.uint8)):
        assert train("run.video_episodes=1") == 0
    lines = capsys.readouterr().out.splitlines()
    numbers = [number for number, line in enumerate(lines) if line.startswith("There will be no video: ")]
    assert len(numbers) == 1 and messages[missing] in lines[numbers[0]]
    assert numbers[0] < lines.index("Evaluating: 2 episodes") and summary(tmp_path)["status"] == "completed"


def test_a_report_that_fails_is_left_out(tmp_path, train, monkeypatch):
    with registered():
        assert train() == 0
    assert summary(tmp_path)["status"] == "completed", "written before anything is drawn"
    for module, function, subject in (
        (plots, "plot_runs", "curve"),
        (report, "write_report", "report"),
        (report, "write_page", "report"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, function, fail)
            lines = list(results.file_lines(tmp_path / "run", tmp_path, None))
        assert f"No {subject}: RuntimeError: a test" in lines
        assert lines[-1].startswith("Run it ") and len(lines) == 4


def test_an_evaluation_with_a_broken_film_prints_its_result_first(tmp_path, train, capsys):
    with registered(info=lambda env: {"success": True}):
        assert train() == 0
    output = tmp_path / "result.json"
    words = [f"run={tmp_path}/run", "episodes=2", f"video={tmp_path}/clip.mp4", f"output={output}"]
    changes = {"frame": lambda env: None if env.count else np.zeros((48, 64, 3), np.uint8)}
    with registered(**changes, info=lambda env: {"success": 0}), pytest.raises(SystemExit) as ended:
        main(["eval", *words])
    done = capsys.readouterr()
    assert ended.value.code == 2 and "no video: test/Odd-v0: expected a picture from render()" in done.err
    assert "Success 0.0 %" in done.out and len(json.loads(output.read_text())["episodes"]) == 2
