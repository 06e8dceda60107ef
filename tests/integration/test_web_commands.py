"""What a person asks of a training run by robo-rl web, and what comes of it."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from omegaconf import open_dict

from robo_rl.app import register_all_configs
from robo_rl.core import DataError, Interruption
from robo_rl.telemetry import Command, LiveWatch
from robo_rl.training import operators
from robo_rl.training.local import LocalTraining

from ..rigs.browser import PATIENCE_SECONDS
from ..rigs.command_line import heeding
from ..rigs.run_folder import records

RUN = [
    "task=gymnasium",
    "task.env_id=Pendulum-v1",
    "agent.hidden=[8]",
    "agent.learning_starts=1000",
    "run.env_steps=1000",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
    "logging.progress=false",
]


def test_commands_act_between_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    register_all_configs()
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        config = compose("train", overrides=[*RUN, f"run.dir={folder}"])
    with open_dict(config):
        config.choices = {"agent": "redq"}
    watch = LiveWatch(folder)
    commands = {
        5: Command("success", "local"),
        10: Command("reset", "local"),
        15: Command("pause"),
        20: Command("reset", "local"),
        30: Command("checkpoint"),
        35: Command("stop"),
    }
    states: list[str] = []
    with Interruption() as interruption:
        training = LocalTraining(config, folder, interruption)

        def choose_and_ask(_: Any, observation: Any, choice: Any) -> Any:
            if command := commands.pop(training.state.step, None):
                watch.send(command)
            return choice

        def sleep(_: float) -> None:
            """The run waits for somebody."""
            status = watch.status()
            assert status is not None and status.paused
            states.append(status.state)
            watch.send(Command("resume"))

        monkeypatch.setattr(operators.LocalOperators, "choose", choose_and_ask)
        monkeypatch.setattr(operators, "time", SimpleNamespace(sleep=sleep))
        try:
            assert training.run() == 0
            with pytest.raises(DataError, match="the run ends"):
                watch.send(Command("pause"))
        finally:
            training.close()
    monkeypatch.undo()
    assert states == ["paused"], "it paused when its episode ended, and went on when it was asked to"
    episodes = records(folder, "episode")
    # A command that is sent while the next action is chosen ends the episode one step later.
    assert [(line["length"], line["success"]) for line in episodes] == [(7, True), (5, None), (10, None)]
    assert training.state.step == 36
    assert sorted(path.name for path in (folder / "checkpoints").glob("step_*"))[-2:] == [
        "step_000000031",
        "step_000000036",
    ]
    assert not watch.is_going_on()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_address_that_the_command_prints_is_all_that_a_page_needs(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    client = pytest.importorskip("websockets.sync.client")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("task: {name: reach}\nagent: {name: rlpd}\nseed: 3\n")
    words = ["web", f"runs=[{tmp_path}]", "web.address=127.0.0.1:0"]
    command = heeding(sys.executable, "-m", "robo_rl.cli", *words)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stderr is not None
        match = re.fullmatch(r"Open (http://(127\.0\.0\.1:\d+))/#(\S+)\n", process.stdout.readline())
        assert match is not None
        origin, host, token = match.groups()
        with client.connect(f"ws://{host}/socket", origin=origin, proxy=None) as page:
            page.send(json.dumps({"token": token}))
            while "run" not in (message := json.loads(page.recv(PATIENCE_SECONDS))):
                pass  # the gallery
            assert message["run"]["title"] == "reach  rlpd  seed 3" and message["runs"][0]["name"] == "run"
            assert message["run"]["refused"]["pause"] == "the run is not running"
            page.send(json.dumps({"command": "pause"}))
            while "answer" not in (message := json.loads(page.recv(PATIENCE_SECONDS))):
                pass
            assert message["answer"] == "the run is not running, so it takes no commands"
            process.send_signal(number)
            assert process.wait(PATIENCE_SECONDS) == code
            errors = process.stderr.read()
            assert "Traceback" not in errors and "destroyed" not in errors, errors
    finally:
        process.kill()
        process.wait()
