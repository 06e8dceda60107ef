"""Processes of a soak test: commands of robo-rl that are started again, stopped, killed and deprived of disk space."""

import collections
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_SECONDS = 900.0


class Process:
    """A command of robo-rl that is started again whenever it ends before its time."""

    def __init__(self, name: str, first: list[str], later: list[str] | None = None) -> None:
        self.name = name
        self.starts = 0
        self.ended_by_itself: list[str] = []
        self.output: collections.deque[str] = collections.deque(maxlen=20)
        self._commands = [first, later or first]
        self._popen: subprocess.Popen[str] | None = None
        self._began = 0.0
        self._killed = False

    @property
    def pid(self) -> int:
        assert self._popen is not None
        return self._popen.pid

    @property
    def age(self) -> float:
        return time.monotonic() - self._began

    @property
    def code(self) -> int | None:
        """Exit code, None while it runs."""
        return None if self._popen is None else self._popen.poll()

    def start(self) -> None:
        words = self._commands[min(self.starts, 1)]
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "robo_rl.cli", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,  # a pipe, not a file: files cannot grow on a full disk
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._popen.stdout is not None
        threading.Thread(target=self.output.extend, args=(self._popen.stdout,), daemon=True).start()
        self.starts += 1
        self._began, self._killed = time.monotonic(), False

    def signal(self, number: int) -> None:
        if self.code is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        assert self._popen is not None
        self._killed = True
        self.signal(signal.SIGKILL)
        self._popen.wait()

    def note_end(self) -> None:
        """Remember why it ended, where nobody killed it."""
        if not self._killed:
            self.ended_by_itself.append(f"code {self.code}: {' '.join(self.output)[-300:].strip()}")

    def limit_files(self, size: int) -> None:
        """Let no file of the process grow beyond ``size``; RLIM_INFINITY: any."""
        if self.code is None:
            hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)[1]
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, hard))

    def usage(self) -> tuple[int, int]:
        """Return resident memory [bytes] and open file descriptors."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE"), len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


def wait_until(condition: Callable[[], bool], *restarted: Process, patience: float = PATIENCE_SECONDS) -> None:
    """Wait, at most for ``patience`` [s]; start those of ``restarted`` again that end meanwhile."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"{condition} did not hold within {patience:g} s"
        for process in restarted:
            if process.code is not None:
                process.note_end()
                process.start()
        time.sleep(0.5)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
