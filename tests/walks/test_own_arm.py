"""The walk of an engineer with her own arm: from its model to a policy, as docs/guide/own_arm.md shows it."""

import difflib
import json
import os
import re
import shlex
import site
import subprocess
import time
import venv
from pathlib import Path

import pytest

from ..rigs.command_line import SMALL_AGENT
from ..rigs.guide import blocks, files
from ..rigs.walk import report_walk

PAGE = "own_arm.md"
COMMANDS, LINES = 5, 120
"""Most commands, and lines of her own, from a model to the evaluation of its policy."""
ARM = Path(__file__).resolve().parents[1] / "data" / "arms" / "bench_arm.xml"
PATIENCE_SECONDS = 400.0
OFFLINE = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
SHORT = [
    *SMALL_AGENT,
    "agent.hidden=[64]",
    "agent.batch_size=64",
    "agent.pretrain_steps=500",
    "run.env_steps=300",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=2",
    "run.video_episodes=0",
    "demonstrations.episodes=5",
    "runtime.threads=1",
]
"""Options for a training of seconds, which the page leaves out."""


class Engineer:
    """A person with an environment and a folder of her own, who types the commands of a page.

    Args:
        folder: an empty folder outside the repository.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[str] = []
        self.seconds = 0.0
        self._python = folder / "venv" / "bin" / "python"
        venv.create(folder / "venv", symlinks=True)
        (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        shared = [path for path in site.getsitepackages() if Path(path).is_dir()]
        lines = [f"import site; site.addsitedir({path!r})\n" for path in shared]
        (packages / "shared.pth").write_text("".join(lines))
        (folder / "venv" / "bin" / "robo-rl").write_text(
            f"#!{self._python}\nfrom robo_rl.cli import main\nmain()\n", encoding="utf-8"
        )
        (folder / "venv" / "bin" / "robo-rl").chmod(0o755)

    def type(self, command: str, *options: str) -> str:
        """Run a command to its end in her terminal; return what it printed."""
        words = [*shlex.split(command, comments=True), *options]
        program = {"pip": ["-m", "pip"], "python": [], "robo-rl": [str(self._python.with_name("robo-rl"))]}[words[0]]
        if words[0] == "pip":
            words += OFFLINE
        self.commands.append(command)
        begin = time.monotonic()
        done = subprocess.run(
            [str(self._python), *program, *words[1:]],
            cwd=self.folder,
            env={name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ROBO_RL_"))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        self.seconds += time.monotonic() - begin
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout


def own_lines(before: dict[str, str], after: dict[str, str]) -> int:
    """Return the number of lines of ``after`` that are not those of ``before``; blank lines are not counted."""
    changes = (difflib.ndiff(before.get(name, "").splitlines(), text.splitlines()) for name, text in after.items())
    return sum(bool(line.startswith("+ ") and line[2:].strip()) for change in changes for line in change)


def replace_lines(text: str, lines: list[str]) -> str:
    """Replace the line of a text that is most like each of ``lines``."""
    kept = text.splitlines()
    for line in lines:
        (like,) = difflib.get_close_matches(line, kept, n=1, cutoff=0.3)
        kept[kept.index(like)] = line
    return "\n".join([*kept, ""])


def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.*")) if path.is_file()}


@pytest.fixture
def engineer(tmp_path: Path) -> Engineer:
    return Engineer(tmp_path)


def test_an_engineer_trains_a_policy_for_her_own_arm(engineer: Engineer, capsys: pytest.CaptureFixture[str]) -> None:
    folder, mine = engineer.folder, engineer.folder / "mine"
    (folder / "arm.xml").write_text(ARM.read_text())
    new, *later = "".join(blocks(PAGE, "bash")).replace("\\\n", "").splitlines()
    printed = engineer.type(new)
    install, test, train, evaluate = later
    for command in (install, test, train.partition(" run.dir=")[0]):
        assert " ".join(command.split()) in printed, "the command prints what to do next"
    assert re.search("Check velocity_limits: .* turn, .*1 rad/s", printed), "what the page corrects is on the list"

    before = texts(mine)
    for name, text in files(PAGE).items():
        assert name.removeprefix("mine/") in before, "she writes no file from nothing"
        (folder / name).write_text(text)
    (arm,), changed_reward = blocks(PAGE, "yaml"), blocks(PAGE, "python")[1]
    for name, changed in (("arm/bench_arm.yaml", arm), ("soft.py", changed_reward)):
        (mine / name).write_text(replace_lines((mine / name).read_text(), changed.splitlines()))
    lines = own_lines(before, texts(mine))

    engineer.type(install)
    assert "3 passed" in engineer.type(test, "-p", "no:cacheprovider")
    printed = engineer.type(train, *SHORT)
    summary = json.loads((folder / "runs/press/summary.json").read_text())
    assert summary["status"] == "completed" and summary["env_steps"] == 300
    assert summary["safety"]["reasons"]["slow_near_part"] > 0, "her filter acts"
    records = (folder / "runs/press/metrics.jsonl").read_text().splitlines()
    assert any("reward/soft" in json.loads(record) for record in records), "her reward counts"
    hint = next(line for line in printed.splitlines() if line.startswith("Run it"))
    assert "--config-dir" not in hint, "an installed package needs none"
    assert "press_button, policy of step 300, 2 episodes" in engineer.type(evaluate, "episodes=2")

    report_walk("own arm", len(engineer.commands), lines, engineer.seconds, capsys)
    assert len(engineer.commands) <= COMMANDS
    assert lines <= LINES
