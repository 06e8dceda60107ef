"""Runs and sweeps that pages of ``robo-rl web`` start, as processes that neither the page nor the server ends."""

import asyncio
import fcntl
import json
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..core import ConfigError, DataError, override_word, own_command, printable, require, user_folder
from ..evaluation.runs import is_run
from ..web.reading import Readers
from .page_requests import Message
from .start_words import training_words

DEFAULT_STARTS = 2
MOST_STARTS = 64
CHECK_SECONDS = 120.0
"""Longest time that a check may take [s]: it imports and composes everything that the command does."""
KEPT = 12
"""Number of started commands that are shown, and whose outputs are kept; those of running commands are always kept."""
OUTPUT_BYTES = 4096
"""Size of the end of an output that is shown [bytes]."""
MOST_OUTPUT_BYTES = 1 << 20
"""Size of an output at which it is shortened [bytes]."""
LOOK_SECONDS = 10.0
"""Interval between two looks at the size of an output [s]."""
CHECK = "robo_rl.command_line.form_check"


@dataclass(frozen=True)
class StartConfig:
    """The option ``starts`` of configs/web.yaml, which documents it and holds its default."""

    starts: int | None

    def __post_init__(self) -> None:
        is_valid = self.starts is None or 0 <= self.starts <= MOST_STARTS
        require(is_valid, "starts", f"null, or a whole number from 0 to {MOST_STARTS}", self.starts)

    def limit(self, is_local: bool) -> int:
        """Return how many commands may run at the same time, given whether only this machine reaches the pages."""
        return self.starts if self.starts is not None else DEFAULT_STARTS if is_local else 0


class Outcome(NamedTuple):
    """Result of a check: the JSON object that its process printed, and its error message, empty if it succeeded."""

    answer: dict[str, Any]
    error: str


class Started(NamedTuple):
    """Started commands for display.

    Attributes:
        commands: name, command, state, whether a page can end it, and the end of its output, of at most :data:`KEPT`.
        more: number of further commands that run.
    """

    commands: list[dict[str, Any]]
    more: int


class Starter:
    """Starts training processes for pages. One object serves all pages.

    Requests of a page are ``choices``, the tasks and agents; ``compose``, the command line of a form; ``check``, which
    also checks its configuration, in another process; ``start``, which checks and starts it; and ``end``, which asks a
    started command to end. :func:`.training_words` states what a form contains.

    A command starts in its own session, without a shell, and writes its output to a file, on which it holds a lock
    until it ends. So the number of running commands includes those that an earlier server started. A file that exceeds
    :data:`MOST_OUTPUT_BYTES` is shortened to its newest half while the server that started the command runs, or a page
    of a later one shows it.

    Args:
        folder: first entry of the option ``runs``: the folder for new runs.
        limit: largest number of commands that run at the same time; 0: none is started.
    """

    def __init__(self, folder: str, limit: int) -> None:
        self._folder, self._limit = Path(folder), limit
        self._checks = Readers(CHECK_SECONDS + 5.0)
        self._outputs = user_folder("state", "the output of started commands") / "started"
        self._lock = self._outputs / ".lock"  # of all servers of this user, while a file is made, shortened or read
        self._turn = asyncio.Lock()
        self._choices: dict[str, Any] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.requests: dict[str, Callable[[Message], Any]] = {
            "choices": self._choose,
            "compose": self._compose,
            "check": self._check,
            "start": self._start,
            "end": self._end,
        }

    def started(self) -> Started:
        """Return the started commands: the running ones first, otherwise the newest first; called in threads."""
        files = [
            (file, is_running) for file in self._outputs.glob("*.txt") if (is_running := _is_locked(file)) is not None
        ]
        files.sort(key=lambda each: (each[1], each[0].name), reverse=True)
        commands = []
        for file, is_running in files[:KEPT]:
            with suppress(OSError), _locked(self._lock):
                _shorten(file)
                head, _, _ = _part(file, 0).partition("\n")
                process = self._processes.get(file.name)
                code = None if process is None else process.poll()
                state = "running" if is_running else "ended" if code is None else _ending(code)
                commands.append(
                    {
                        "name": file.name,
                        "command": head.removeprefix("$ "),
                        "state": state,
                        "can_end": process is not None and code is None,
                        "output": _part(file, -OUTPUT_BYTES).removeprefix(f"{head}\n"),
                    }
                )
        return Started(commands, sum(is_running for _, is_running in files[KEPT:]))

    async def _refuse(self) -> None:
        """Raise ConfigError if this server starts nothing."""
        if not self._limit:
            raise ConfigError(
                "this page starts no runs: it can be reached from other machines, or starts=0. Start robo-rl web with "
                "starts=2 to allow it"
            )
        is_pattern = any(character in str(self._folder) for character in "*?[")
        if is_pattern or await self._checks.call("folder", partial(is_run, self._folder)):
            raise ConfigError(f"runs={self._folder} is not a folder of runs, so this page has no folder for new ones")

    async def _choose(self, message: Message) -> dict[str, Any]:
        """Return the choices of the form, and why nothing can be started."""
        try:
            await self._refuse()
        except ConfigError as error:
            return {"refused": str(error)}
        return {"refused": "", "limit": self._limit, **await self._known_choices()}

    async def _known_choices(self) -> dict[str, Any]:
        async with self._turn:
            if not self._choices:
                outcome = await self._ask([])
                if outcome.error:
                    raise DataError(outcome.error)
                self._choices = outcome.answer
        return self._choices

    async def _words(self, message: Message) -> list[str]:
        await self._refuse()
        form = message.get("form")
        words = training_words(form if isinstance(form, dict) else {})
        name = str((await self._known_choices())["folder"]).rpartition("/")[2]
        if self._folder != Path("runs"):  # of the command's own default
            words.insert(-1 if "-m" in words else len(words), override_word("run.dir", self._folder / name))
        return words

    async def _compose(self, message: Message) -> dict[str, Any]:
        return {"command": _command_line(await self._words(message))}

    async def _check(self, message: Message) -> dict[str, Any]:
        return await self._checked(await self._words(message))

    async def _start(self, message: Message) -> dict[str, Any]:
        words = await self._words(message)
        checked = await self._checked(words)
        if checked["problem"]:
            return checked
        async with self._turn:
            name = await self._checks.call(f"start {time.monotonic_ns()}", partial(self._launch, words))
        return {**checked, "started": name}

    async def _checked(self, words: list[str]) -> dict[str, Any]:
        async with self._turn:
            outcome = await self._ask(words)
        return {"command": _command_line(words), "problem": outcome.error, "runs": outcome.answer.get("runs", [])}

    async def _end(self, message: Message) -> dict[str, Any]:
        process = self._processes.get(str(message.get("name")))
        if process is None or process.poll() is not None:
            raise ConfigError("it has ended, or an earlier robo-rl web started it: end its run instead")
        process.send_signal(signal.SIGTERM)
        return {"answer": "asked to end"}

    async def _ask(self, words: list[str]) -> Outcome:
        outcome: Outcome = await self._checks.call(f"check {time.monotonic_ns()}", partial(_run_check, words))
        return outcome

    def _launch(self, words: list[str]) -> str:
        """Start the command; return the name of the file with its output. Called in threads, one at a time."""
        self._outputs.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(self._lock):  # other servers of this user count, too
            files = sorted(self._outputs.glob("*.txt"))
            running = [file for file in files if _is_locked(file)]
            if len(running) >= self._limit:
                raise ConfigError(
                    f"{len(running)} started by a page run already, and starts={self._limit}: wait for one, or end it"
                )
            for file in files[: max(len(files) - KEPT + 1, 0)]:
                if file not in running:
                    file.unlink(missing_ok=True)
            file = self._outputs / f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{time.monotonic_ns()}.txt"
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # the process holds it, too, until it ends
                os.write(descriptor, f"$ {_command_line(words)}\n".encode())
                self._processes[file.name] = subprocess.Popen(
                    [*own_command(), "train", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=descriptor,
                    stderr=descriptor,
                    start_new_session=True,  # Ctrl-C in the terminal of the server does not reach it
                    env={**os.environ, "PYTHONUNBUFFERED": "1"},
                )
            finally:
                os.close(descriptor)
        watch = partial(self._keep_short, file, self._processes[file.name])
        threading.Thread(target=watch, name="output", daemon=True).start()
        return file.name

    def _keep_short(self, file: Path, process: "subprocess.Popen[bytes]") -> None:
        """Shorten the output of a process whenever it is too long, until the process has ended."""
        while True:
            with suppress(OSError), _locked(self._lock):  # for a moment, the disk may not take anything
                _shorten(file)
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_SECONDS)
                return


def _command_line(words: list[str]) -> str:
    return shlex.join(["robo-rl", "train", *words])


def _ending(code: int) -> str:
    return {0: "ended", 1: "diverged", 130: "interrupted", 143: "ended on request"}.get(code, f"failed ({code})")


def _run_check(words: list[str]) -> Outcome:
    """Run the process of a check; called in threads."""
    try:
        done = subprocess.run(
            [*own_command(CHECK), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CHECK_SECONDS,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return Outcome({}, f"robo-rl: the check has not ended within {CHECK_SECONDS:g} s")
    if done.returncode:
        lines = printable(done.stderr).strip().splitlines()
        return Outcome({}, lines[-1] if lines else f"the check ended with exit code {done.returncode}")
    return Outcome(json.loads(done.stdout.splitlines()[-1]), "")


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold the lock of a file for a block."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _shorten(file: Path) -> None:
    """Remove the middle of a file that is too long: its first line and the whole lines of its newest half remain.

    Its process appends to it, and may do so meanwhile: what it writes while this function runs may be lost. Two calls
    at the same time would mix their parts of the file, so callers hold a lock.
    """
    if file.stat().st_size <= MOST_OUTPUT_BYTES:
        return
    with file.open("r+b") as stream:
        head = stream.readline(OUTPUT_BYTES)
        stream.seek(-MOST_OUTPUT_BYTES // 2, os.SEEK_END)
        stream.readline(OUTPUT_BYTES)  # a part of a line
        newest = stream.read(MOST_OUTPUT_BYTES)
        whole, end, _ = newest.rpartition(b"\n")  # the process may write faster than this function reads
        stream.seek(0)
        stream.write(head + b"[earlier output was removed]\n" + whole + end)
        stream.truncate()


def _is_locked(file: Path) -> bool | None:
    """Return whether a process still writes to a file; None if the file is gone."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _part(file: Path, start: int) -> str:
    """Return at most :data:`OUTPUT_BYTES` of a text file, from ``start``, which is negative from the end."""
    with file.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        stream.seek(max(size + start, 0) if start < 0 else start)
        return printable(stream.read(OUTPUT_BYTES).decode(errors="replace"))
