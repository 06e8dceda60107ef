"""Pages of the guide as a reader uses them: files and commands of a page in a folder outside the repository."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from .command_line import SMALL_AGENT, Forked, finish

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "guide"
EXAMPLES = ROOT / "examples"
PATIENCE_SECONDS = 200.0
SMALL = [
    *SMALL_AGENT,
    "demonstrations.episodes=2",
    "run.env_steps=200",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=2",
    "run.video_episodes=0",
    "runtime.threads=1",
]
"""Options of ``robo-rl train`` for a run that takes seconds."""


def files(page: str) -> dict[str, str]:
    """Return the files that a page shows, by their names: blocks of code after a line that begins with a name."""
    text = (PAGES / page).read_text()
    return dict(re.findall(r"^`([\w/.]+\.\w+)`[^`]*\n\n```\w+\n(.*?)```$", text, re.MULTILINE | re.DOTALL))


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of code of a language."""
    return re.findall(rf"^```{language}\n(.*?)```$", (PAGES / page).read_text(), re.MULTILINE | re.DOTALL)


def command(page: str, beginning: str) -> list[str]:
    """Return the words of the first command of a page that begins so."""
    lines = "".join(blocks(page, "bash")).replace("\\\n", "").splitlines()
    return shlex.split(next(line for line in lines if line.startswith(beginning)), comments=True)


class Reader:
    """A reader of a page, in a folder of their own.

    Args:
        page: file in docs/guide.
        folder: an empty one.
        variables: of the environment.
    """

    def __init__(self, page: str, folder: Path, **variables: str) -> None:
        self.page, self.folder = page, folder
        self.packages = folder / "packages"
        path = os.pathsep.join([str(self.packages), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.environment = {**os.environ, "PYTHONPATH": path, **variables}

    def write_files(self) -> None:
        """Write the files of the page."""
        for name, text in files(self.page).items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(text)

    def install(self) -> None:
        """Install the package in the folder, without the network and beside the environment of the tests."""
        assert command(self.page, "pip install") == ["pip", "install", "-e", "."]
        options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
        self.run([sys.executable, "-m", "pip", "install", *options, "--target", str(self.packages), "."])

    def follow(self, beginning: str, *options: str) -> str:
        """Run a command of the page with further options; return what it printed."""
        return self.run([*command(self.page, beginning), *options])

    def run(self, words: list[str]) -> str:
        """Run a command to its end; return what it printed."""
        if words[0] == "robo-rl" and not self.packages.exists():
            return finish(Forked(*words[1:], folder=self.folder, environment=self.environment))
        done = subprocess.run(
            self._installed(words),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def start(self, beginning: str) -> Forked:
        """Start a command of the page, one of ``robo-rl``."""
        words = command(self.page, beginning)[1:]
        return Forked(*words, errors=False, folder=self.folder, environment=self.environment)

    def run_python(self, number: int = -1) -> str:
        """Run a Python block of the page, by default the last one; return what it printed."""
        return self.run([sys.executable, "-c", blocks(self.page, "python")[number]])

    @staticmethod
    def _installed(words: list[str]) -> list[str]:
        """Return ``words`` with the program ``robo-rl`` of the environment of the tests."""
        return [str(Path(sys.executable).parent / "robo-rl"), *words[1:]] if words[0] == "robo-rl" else words
