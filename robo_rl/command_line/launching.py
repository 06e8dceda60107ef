"""The command robo-rl launch: several commands at once, from a launch file."""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from ..core import ConfigError, Interruption, nearest, own_command
from ..operators.pulse import SILENT_SECONDS, VARIABLE, Pulse

LAUNCHES = Path(__file__).parent / "launches"
GRACE_SECONDS = 30.0
"""Longest wait for a process to end after a signal; then it is killed."""
POLL_SECONDS = 0.05
PRINT_SECONDS = 2.0
"""Longest wait for the last output of a process that has ended."""
WATCHING = ("guard",)
"""Commands that watch a robot and are watched themselves: if one hangs, all processes are ended."""
EXIT_HUNG = 1
GUARDED = "safety.emergency_stop.guard=true"
"""Option of a process that moves a robot only while its guard watches."""


@dataclass(frozen=True)
class ProcessPlan:
    """A command of robo-rl to run as a process.

    Attributes:
        name: prefix of each line that it prints.
        words: command and options.
        main: whether its end ends the other processes.
    """

    name: str
    words: tuple[str, ...]
    main: bool


def read_plans(file: Path, words: Sequence[str]) -> list[ProcessPlan]:
    """Return the processes of a launch file, given ``ARGUMENT=VALUE`` words.

    Raises:
        ConfigError: if the file cannot be used, or an argument is unknown.
    """
    try:
        content: Any = OmegaConf.load(file)
        arguments = {str(name): str(facts["default"]) for name, facts in content["arguments"].items()}
        for word in words:
            name, equals, value = word.partition("=")
            if not equals or name not in arguments:
                raise ConfigError(f"{file.stem} takes no {word!r}: {nearest(name, arguments)}")
            arguments[name] = value
        # The text of an argument is never resolved.
        escaped = {name: value.replace("${", "\\${") for name, value in arguments.items()}
        resolved: Any = OmegaConf.to_container(OmegaConf.create({**escaped, "all": content["processes"]}), resolve=True)
        plans = [_plan(name, facts) for name, facts in resolved["all"].items() if _is_enabled(facts, arguments)]
    except (YAMLError, OmegaConfBaseException, KeyError, TypeError, AttributeError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"{file} is not a launch file ({type(error).__name__}: {reason}); see docs/reference/robots.md"
        ) from error
    if not plans:
        raise ConfigError(f"{file} starts nothing with these arguments")
    return plans


def _is_enabled(facts: Mapping[str, Any], arguments: Mapping[str, str]) -> bool:
    return all(arguments[name] == str(value) for name, value in facts.get("when", {}).items())


def _plan(name: str, facts: Mapping[str, Any]) -> ProcessPlan:
    unknown = facts.keys() - {"command", "words", "options", "sections", "when", "main", "guarded"}
    if unknown:
        raise ValueError(f"process {name} has unknown keys {sorted(unknown)}")
    options = shlex.split(str(facts.get("options", "")))
    if "sections" in facts:
        options = [word for word in options if re.split(r"[.@=]", word.lstrip("+~"))[0] in facts["sections"]]
    words = [*shlex.split(str(facts["command"])), *map(str, facts.get("words", [])), *options]
    if str(facts.get("guarded", "no")) == "yes":
        words.append(GUARDED)
    return ProcessPlan(name, tuple(words), bool(facts.get("main", False)))


class Launch:
    """Processes that belong together.

    Each process has a separate session, so that Ctrl-C reaches it only once, through this process. All processes end
    when the main one ends or any of them fails.

    Args:
        plans: processes to start, in this order.
        prefix: prefix of the command lines; None: that of ``robo-rl``.
    """

    def __init__(self, plans: Sequence[ProcessPlan], prefix: Sequence[str] | None = None) -> None:
        self._plans, self._prefix = list(plans), own_command() if prefix is None else list(prefix)
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._printers: list[threading.Thread] = []
        self._pulses: dict[str, Pulse] = {}

    def run(self, interruption: Interruption) -> int:
        """Start all processes, wait, and end them; return the exit code."""
        try:
            for plan in self._plans:
                self._start(plan)
            code = self._wait(interruption)
            self._end(interruption.signal or signal.SIGTERM)
        finally:
            for process in self._processes.values():
                if process.poll() is None:
                    process.kill()
            for process, printer in zip(self._processes.values(), self._printers, strict=True):
                printer.join(PRINT_SECONDS)
                if printer.is_alive():  # children of the process hold its output; they are in its process group
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    printer.join(PRINT_SECONDS)
            for pulse in self._pulses.values():
                pulse.close()
        return code

    def _start(self, plan: ProcessPlan) -> None:
        ends: tuple[int, ...] = ()
        if plan.words[0] in WATCHING:
            child_read, launch_write = os.pipe()
            launch_read, child_write = os.pipe()
            self._pulses[plan.name], ends = Pulse(launch_read, launch_write), (child_read, child_write)
        process = subprocess.Popen(
            [*self._prefix, *plan.words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **({VARIABLE: ",".join(map(str, ends))} if ends else {})},
            pass_fds=ends,
        )
        for descriptor in ends:
            os.close(descriptor)
        self._processes[plan.name] = process
        printer = threading.Thread(target=_print_lines, args=(plan.name, process), daemon=True)
        printer.start()
        self._printers.append(printer)

    def _wait(self, interruption: Interruption) -> int:
        """Wait until all processes must end; return the exit code."""
        main = {plan.name for plan in self._plans if plan.main}
        while interruption.signal is None:
            codes = {name: process.poll() for name, process in self._processes.items()}
            for name, code in codes.items():
                if code:
                    _print_line(f"[{name}] ended with exit code {_shell_code(code)}; all are ended")
                    return _shell_code(code)
            for name, pulse in self._pulses.items():
                pulse.turn()
                if codes[name] is None and pulse.is_silent:
                    _print_line(
                        f"[{name}] has printed nothing for {SILENT_SECONDS:g} s: it hangs; all commands are ended"
                    )
                    self._processes[name].kill()  # a process that hangs does not react to SIGTERM
                    return EXIT_HUNG
            ended = {name for name, code in codes.items() if code is not None}
            if main & ended or len(ended) == len(codes):
                return 0
            time.sleep(POLL_SECONDS)
        return 128 + interruption.signal

    def _end(self, number: int) -> None:
        """End running processes by the signal ``number``; kill those that have not ended after the grace period."""
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(number)
        deadline = time.monotonic() + GRACE_SECONDS
        for name, process in self._processes.items():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                _print_line(f"[{name}] has not ended after {GRACE_SECONDS:g} s and is killed")
                process.kill()
                process.wait()


def _shell_code(code: int) -> int:
    """Return an exit code in the form that shells use: 128 + N for signal N."""
    return code if code >= 0 else 128 - code


def _print_lines(name: str, process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        _print_line(f"[{name}] {line.rstrip()}")


def _print_line(line: str) -> None:
    """Write a line and its end at once: ``print`` writes them separately, so that lines of two threads mix."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
