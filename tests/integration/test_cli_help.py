"""Help texts, usage and the configuration that robo-rl prints."""

import os
import re
import subprocess
import sys

import pytest

from robo_rl.cli import main
from robo_rl.command_line.option_help import FIRST

from ..rigs.command_line import exit_code
from .test_cli_errors import fails


def test_help_lists_groups_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["train", "--help-all"])
    out = capsys.readouterr().out
    assert caught.value.code == 0
    for wanted in ("task: bin_relocate", "agent: bc", "reward: ", "logging: ", "runtime: ", "env_steps: 6000"):
        assert wanted in out
    for wanted in ("env_steps: 6000  # total number of environment steps (0 or more)\n", "???"):
        assert wanted in out
    assert re.search(r"^task: .*\breach\b.*  \(now pick_cube\)$", out, re.MULTILINE)
    assert "_target_" not in out
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    short = capsys.readouterr().out.splitlines()
    assert len(short) < 60 < len(out.splitlines()), "what people change first, and which sections there are"
    assert "run.env_steps: 6000  # total number of environment steps (0 or more)" in short
    assert any(
        re.match(r"agent +\d\d options  # Soft actor-critic with an ensemble of critics$", line) for line in short
    )
    with pytest.raises(SystemExit):
        main(["train", "task=reach", "--help", "task.arm", "logging"])
    section = capsys.readouterr().out
    assert section.startswith("task:\n  arm:") and "\nlogging:" in section and "env_steps" not in section
    assert "no such section: did you mean 'logging'?" in fails(["train", "--help", "loging"], capsys)
    with pytest.raises(SystemExit):
        main(["eval", "--help"])
    assert "checkpoint: best  # best, newest, or the number of a step\n" in capsys.readouterr().out


@pytest.mark.parametrize(("command", "names"), FIRST.items())
def test_every_option_that_people_change_first_is_one(
    command: str, names: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert all(any(line.startswith(f"{name}: ") for line in lines) for name in names)


def test_cfg_job_prints_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert not exit_code("train", "task=reach", "agent.gamma=0.5", "--cfg", "job")
    assert "gamma: 0.5" in capsys.readouterr().out


def test_usage_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert not exit_code("--help")
    out = capsys.readouterr().out
    for command in (
        "train",
        "learner",
        "actor",
        "control",
        "keys",
        "eval",
        "record",
        "collect",
        "play",
        "view",
        "report",
        "reward inspect",
        "reward benchmark",
        "cameras",
        "doctor",
    ):
        assert f"  {command} " in out


def test_help_of_a_first_word_lists_what_may_follow(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["reward", "--help"])
    assert caught.value.code == 0 and "  inspect    show the output" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["reward", "stpo", "rearn", "enabel"])
def test_what_lets_robots_move_or_stops_them_is_never_suggested(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = fails([command], capsys)
    assert not any(f"did you mean {name!r}" in line for name in ("stop", "rearm", "enable"))


def test_the_flag_of_a_sweep_may_stand_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    line = fails(["train", "task=reach", "-m", "seed=0", "agent.gamma=2"], capsys)
    assert line == "robo-rl: agent.gamma must be in [0, 1], got 2.0"


def test_output_that_nobody_reads_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "robo_rl.cli", "--help"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
