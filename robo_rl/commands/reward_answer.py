"""robo-rl reward answer: a person's answers, in a terminal or browser, to the questions of reward modules."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from ..core import Interruption, importing_extra, require, scratch_folder, typed
from ..operators.questions import QuestionServer, serving
from ..telemetry import Console

DEVICES = ("terminal", "browser")
FENCE = "```"


@dataclass(frozen=True)
class RewardAnswerConfig:
    """The section ``answer`` of configs/reward_answer.yaml, which documents the options and holds their defaults."""

    device: str
    port: int
    pictures: str | None

    def __post_init__(self) -> None:
        require(self.device in DEVICES, "answer.device", f"one of {', '.join(DEVICES)}", self.device)
        require(0 <= self.port < 65536, "answer.port", "0 to 65535", self.port)


def run(config: DictConfig) -> int:
    """Ask the person until the input ends or Ctrl-C is pressed; return 0.

    Raises:
        ConfigError: if an address is taken, or the package for pages is missing.
    """
    settings = typed(RewardAnswerConfig, config, "answer")
    with serving(settings.port) as server, suppress(EOFError, KeyboardInterrupt):
        print(f"answering at http://127.0.0.1:{server.server_port}/v1; Ctrl-C ends it", flush=True)
        if settings.device == "browser":
            _ask_in_browser(server, config)
        else:
            _ask_in_terminal(server, settings.pictures)
    return 0


def _ask_in_browser(server: QuestionServer, config: DictConfig) -> None:
    with importing_extra("web", "pages need the packages websockets and segno"):
        from ..operators.answer_page import AnswerPage
        from ..operators.page_address import page_settings
    page = AnswerPage(page_settings(config), server.questions)
    with Interruption() as interruption:
        asyncio.run(page.serve(lambda: interruption.signal is not None))


def _ask_in_terminal(server: QuestionServer, pictures: str | None) -> None:
    console = Console(highlight=False)
    with scratch_folder() as folder:
        picture_folder = Path(pictures or folder)
        picture_folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, 1 << 62):
            question = server.questions.get()
            while question.answer.cancelled():
                question = server.questions.get()
            show(question.parts, picture_folder, number, console)
            if question.form:
                answer = read_line()
            else:
                console.print("(an empty line, or the end of a block of code, ends the answer)")
                answer = read_text()
            if not question.give(answer):
                console.print("The reward module no longer waits: raise its endpoint.timeout_seconds")


def read_line() -> str:
    """Return the next non-empty line that a person types."""
    while not (line := input("> ")).strip():
        pass
    return line


def read_text() -> str:
    """Return the lines that a person types, up to an empty line, the end of a code block, or the end of input.

    Within a code block, lines may be empty.
    """
    lines = [read_line()]
    with suppress(EOFError):
        while not _is_whole(lines):
            lines.append(input())
    return "\n".join(lines).rstrip()


def _is_whole(lines: list[str]) -> bool:
    fences = sum(line.startswith(FENCE) for line in lines)
    return fences % 2 == 0 and (not lines[-1].strip() or lines[-1].startswith(FENCE))


def show(parts: list[str | bytes], folder: Path, number: int, console: Console) -> None:
    """Print the texts of a question, and the paths of its pictures."""
    console.print(f"\nQuestion {number}")
    for part, content in enumerate(parts):
        if isinstance(content, str):
            console.print(content, markup=False, soft_wrap=True)
        else:
            file = folder / f"{number}_{part}.png"
            file.write_bytes(content)
            console.print(f"  {file}", markup=False, soft_wrap=True)
