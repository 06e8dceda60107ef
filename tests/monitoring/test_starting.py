"""Runs that pages start: the words of the form, the limit, and processes that outlive the server."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets")

from robo_rl.core import ConfigError
from robo_rl.monitoring import starting
from robo_rl.monitoring.start_words import training_words
from robo_rl.monitoring.starting import StartConfig, Starter

from ..rigs.command_line import PATIENCE_SECONDS

WAITS = [sys.executable, "-c", "import sys, time; print('up', *sys.argv[1:], flush=True); time.sleep(600)"]
CHOICES = {"choices": {"task": ["reach"], "agent": ["bc"]}, "chosen": {}, "folder": "runs/new_${seed}"}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the outputs; a command only waits, and its check accepts everything."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(starting, "own_command", lambda *_: WAITS)
    checked = starting.Outcome({**CHOICES, "runs": [{"steps": 5}]}, "")
    monkeypatch.setattr(starting, "_run_check", lambda _: checked)
    return tmp_path / "state" / "robo_rl" / "started"


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(str(tmp_path / "runs"), 1)
    yield starter
    for process in starter._processes.values():
        process.kill()
        process.wait()


def ask(starter: Starter, request: str, **form: Any) -> dict[str, Any]:
    answer: dict[str, Any] = asyncio.run(starter.requests[request]({"form": form, "name": form.get("name")}))
    return answer


def test_a_form_becomes_the_words_of_the_command() -> None:
    form = {"task": "reach", "agent": "bc", "seed": "3", "steps": "", "data": "my sets/a,b", "sweep": False}
    assert training_words({**form, "demonstrations": "5", "options": "agent.hidden=[8,8]\n\n run.env_steps = 10 "}) == [
        "task=reach",
        "agent=bc",
        "seed=3",
        "demonstrations.episodes=5",
        'demonstrations.path="my sets/a,b"',
        "agent.hidden=[8,8]",
        "run.env_steps=10",
    ]
    sweep = training_words({"task": "reach", "seed": "0,1", "options": "task=reach,wipe", "sweep": True})
    assert sweep == ["seed=0,1", "task=reach,wipe", "-m"], "an option replaces its field"


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("robot=virtual", "a page starts no robot"),
        ("robot.command.topic=x", "a page starts no robot"),
        ("robot/scores@robot.scores=node", "a page starts no robot"),
        ("allow=[os]", "a page allows no code"),
        ("resume=runs/a", "new runs only"),
        ("teleop.device=gamepad", "nobody could intervene"),
        ("hydra.run.dir=/tmp", "how the command starts"),
        ("hydra/launcher=ray", "how the command starts"),
        ("run.dir=/tmp/elsewhere", "its own folder of runs"),
        ("run={dir: /tmp/elsewhere}", "its own folder of runs"),
        ("run={env_steps: 5},{overwrite: true}", "its own folder of runs"),
        ("safety={emergency_stop: {file: /tmp/stop}}", "does not move the emergency stop"),
        ("safety.emergency_stop={file: /tmp/stop}", "does not move the emergency stop"),
        ("safety=none", "changes no safety filter"),
        ("safety.workspace.enabled=false", "changes no safety filter"),
        ("base.server.address=ws://127.0.0.1:8000", "names no server"),
        ("base={server: {address: ws://127.0.0.1:8000}}", "names no server"),
        ("logging.wandb.project=mine", "names no server"),
        ("logging={wandb: {project: mine}}", "names no server"),
        ("reset=../../../tmp/anything", "none of the files outside"),
        ("reward/module@reward.terms.a=../../../tmp/anything", "none of the files outside"),
        ("task=reach,../../../tmp/anything", "none of the files outside"),
        ("agent._target_=os.system", "expected an option|names no code"),
        ("agent={_target_: os.system}", "names no code"),
        ("agent={'_target_': os.system}", "names no code"),
        ("agent.device=${oc.env:HOME}", "no interpolation"),
        ("+agent.new=1", "expected an option"),
        ("~agent.gamma", "expected an option"),
        ("--config-dir=/tmp", "expected an option"),
        ("-m", "expected an option"),
        ("agent.gamma", "expected an option"),
        ("seed=1\0", "expected an option"),
        ("seed=" + "1" * 2000, "expected an option"),
        ("\n".join(f"agent.x{number}=1" for number in range(40)), "at most 32"),
    ],
)
def test_options_that_a_page_may_not_set_are_refused(option: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        training_words({"task": "reach", "options": option})


def test_sections_without_refused_options_and_paths_in_other_folders_are_accepted() -> None:
    options = ["agent={gamma: 0.9}", "base.residual_scale=0.5", "logging.progress=false", "start.run=../runs/a"]
    words = training_words({"options": "\n".join(options), "data": "../sets/a"})
    assert words == ["demonstrations.path=../sets/a", *options]


@pytest.mark.parametrize("form", [{"seed": 3}, {"task": "x" * 501}, {"options": ["a=1"]}])
def test_fields_of_another_kind_are_refused(form: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must be a text"):
        training_words(form)


def test_a_command_starts_in_the_folder_of_runs_and_is_limited_over_servers(starter: Starter, tmp_path: Path) -> None:
    line = ask(starter, "compose", task="reach", seed="1")["command"]
    assert line == f"robo-rl train task=reach seed=1 'run.dir=\"{tmp_path}/runs/new_${{seed}}\"'"
    assert ask(Starter("runs", 1), "compose", task="reach")["command"] == "robo-rl train task=reach", "its own default"
    answer = ask(starter, "start", task="reach", seed="1")
    (described,) = starter.started().commands
    assert (described["name"], described["command"], described["state"]) == (answer["started"], line, "running")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (output := starter.started().commands[0]["output"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert output.startswith("up train task=reach seed=1 run.dir="), "no shell has read the words"
    for another in (starter, Starter(str(tmp_path / "runs"), 1)):
        with pytest.raises(ConfigError, match="1 started by a page run already, and starts=1"):
            ask(another, "start", task="reach")
    with pytest.raises(ConfigError, match="end its run instead"):
        ask(Starter(str(tmp_path), 1), "end", name=answer["started"])
    ask(starter, "end", name=answer["started"])
    starter._processes[answer["started"]].wait(PATIENCE_SECONDS)
    assert starter.started().commands[0]["state"] == "failed (-15)" and not starter.started().commands[0]["can_end"]
    assert "started" in ask(starter, "start", task="reach")


def test_nothing_starts_if_the_check_finds_a_problem(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(starter, "choices")
    monkeypatch.setattr(starting, "_run_check", lambda _: starting.Outcome({}, "robo-rl: unknown task"))
    answer = ask(starter, "start", task="nothing")
    assert answer["problem"] == "robo-rl: unknown task" and "started" not in answer and starter.started() == ([], 0)


def test_the_folder_of_runs_is_not_read_in_the_event_loop(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    monkeypatch.setattr(starting, "is_run", lambda _: threads.append(threading.current_thread()))
    assert ask(starter, "choices")["refused"] == ""
    assert threads and threading.current_thread() not in threads


def test_old_outputs_are_removed_but_not_those_of_running_commands(starter: Starter, state: Path) -> None:
    starter._limit = 3
    first = ask(starter, "start", task="reach")["started"]
    for number in range(20):
        (state / f"2999-{number:02}.txt").write_text("$ robo-rl train\nDone\n")
    assert "started" in ask(starter, "start", task="reach")
    assert len(list(state.glob("*.txt"))) <= starting.KEPT + 1 and (state / first).exists()


def test_running_commands_come_first_and_those_that_do_not_fit_are_counted(starter: Starter, state: Path) -> None:
    starter._limit = starting.KEPT + 2
    names = [ask(starter, "start", task="reach")["started"] for _ in range(starting.KEPT + 2)]
    (state / "2999.txt").write_text("$ robo-rl train\nDone\n")
    commands, more = starter.started()
    assert [command["name"] for command in commands] == sorted(names, reverse=True)[: starting.KEPT] and more == 2
    starter._processes[names[0]].kill()
    starter._processes[names[0]].wait()
    assert starter.started().more == 1


def test_an_output_is_shortened_while_its_process_writes_to_it(
    starter: Starter, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each line by one call: if a line is written in parts, one of them may be lost.
    writes = "import itertools, os\nfor number in itertools.count(): os.write(1, b'line %06d\\n' % number)"
    monkeypatch.setattr(starting, "own_command", lambda *_: [sys.executable, "-c", writes])
    monkeypatch.setattr(starting, "MOST_OUTPUT_BYTES", 1 << 14)
    monkeypatch.setattr(starting, "LOOK_SECONDS", 0.02)
    name = ask(starter, "start", task="reach")["started"]
    deadline = time.monotonic() + PATIENCE_SECONDS

    def newest() -> int:
        lines = starter.started().commands[0]["output"].splitlines()[1:-1]
        return int(lines[-1].removeprefix("line ")) if lines else 0

    while newest() < 20_000:  # 240 kB
        assert time.monotonic() < deadline
    process = starter._processes[name]
    process.kill()
    process.wait()
    described = starter.started().commands[0]
    assert (state / name).stat().st_size <= 1 << 14
    head, note, *lines, _ = (state / name).read_text().splitlines()
    assert (head, note) == (f"$ {described['command']}", "[earlier output was removed]")
    assert all(line.startswith("line ") for line in lines) and described["command"].startswith("robo-rl train")


def test_a_page_for_other_machines_starts_nothing_unless_it_is_allowed(tmp_path: Path) -> None:
    assert [StartConfig(None).limit(is_local) for is_local in (True, False)] == [2, 0]
    assert StartConfig(3).limit(is_local=False) == 3 and StartConfig(0).limit(is_local=True) == 0
    with pytest.raises(ConfigError, match="starts must be"):
        StartConfig(-1)
    starter = Starter(str(tmp_path), 0)
    assert "starts=2 to allow it" in ask(starter, "choices")["refused"]
    for request in ("compose", "check", "start"):
        with pytest.raises(ConfigError, match="starts no runs"):
            ask(starter, request, task="reach")
    assert "not a folder of runs" in ask(Starter("runs/*", 1), "choices")["refused"]


def test_a_started_command_outlives_the_server(tmp_path: Path, state: Path) -> None:
    program = f"""
from robo_rl.monitoring import starting
starting.own_command = lambda *_: {WAITS!r}
starter = starting.Starter("runs", 1)
name = starter._launch(["task=reach"])
print(starter._processes[name].pid)
"""
    server = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    try:
        (described,) = Starter("runs", 1).started().commands
        assert described["state"] == "running" and not described["can_end"]
    finally:
        subprocess.run(["kill", "-9", server.stdout.strip()], check=True)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while Starter("runs", 1).started().commands[0]["state"] != "ended":
        assert time.monotonic() < deadline
        time.sleep(0.05)
