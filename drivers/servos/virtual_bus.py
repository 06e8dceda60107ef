"""Pseudo-terminal on which simulated servos answer any program that can open a serial port."""

import contextlib
import os
import select
import threading
import tty
from collections.abc import Callable
from pathlib import Path

from robo_rl.core import scratch_folder

from .virtual_servos import ServoChain

POLL_SECONDS = 0.05
CHUNK = 4096


class VirtualBus:
    """Serial port of simulated servos. A thread answers until the bus is closed.

    Answers are sent at once: the transmission time at the baud rate is not simulated.

    Args:
        chain: the servos.
        lock: held while the servos answer.
        path: where the port appears, as a link; None: in a new folder.

    Attributes:
        path: path of the port.
        distort: function that is applied to every group of answers before it is sent, to simulate faults of the line;
            None: answers are unchanged.
    """

    def __init__(self, chain: ServoChain, lock: threading.Lock, path: Path | None = None) -> None:
        self._chain, self._lock = chain, lock
        self._folder = contextlib.ExitStack()
        self.path = path or self._folder.enter_context(scratch_folder()) / "servos"
        self.distort: Callable[[bytes], bytes] | None = None
        self._is_closed = False
        self._ends: tuple[int, int] | None = None
        self._change = threading.Lock()  # guards the ends of the line
        self.plug()
        self._thread = threading.Thread(target=self._serve, name="virtual servo bus", daemon=True)
        self._thread.start()

    def plug(self) -> None:
        """Make the port appear."""
        with self._change:
            if self._ends is None:
                master, port = os.openpty()
                tty.setraw(port)
                os.set_blocking(master, False)  # a program that sends without reading must not block the servos
                self._ends = master, port  # both stay open, so that the port survives the programs that use it
                self.path.unlink(missing_ok=True)
                self.path.symlink_to(os.ttyname(port))

    def unplug(self) -> None:
        """Make the port disappear, as if the cable were pulled."""
        with self._change:
            if self._ends is not None:
                self.path.unlink(missing_ok=True)
                for end in self._ends:
                    os.close(end)
                self._ends = None

    def inject(self, data: bytes) -> None:
        """Send ``data`` to the master as if a second master had sent it."""
        with self._change:
            if self._ends is not None:
                os.write(self._ends[0], data)

    def close(self) -> None:
        """Remove the port and end the thread. May be called twice."""
        self._is_closed = True
        self._thread.join()
        self.unplug()
        self._folder.close()

    def _serve(self) -> None:
        while not self._is_closed:
            with self._change:
                data = self._receive()
                if data:
                    with self._lock:
                        answers = b"".join(self._chain.answer(data))
                    answers = self.distort(answers) if self.distort and answers else answers
                    if answers and self._ends is not None:
                        with contextlib.suppress(BlockingIOError):
                            os.write(self._ends[0], answers)
            if not data:
                self._wait()

    def _receive(self) -> bytes:
        """Return the bytes that have arrived, without waiting."""
        if self._ends is None or not select.select([self._ends[0]], [], [], 0)[0]:
            return b""
        return os.read(self._ends[0], CHUNK)

    def _wait(self) -> None:
        """Wait a moment for bytes."""
        ends = self._ends
        with contextlib.suppress(OSError, ValueError):  # the port was unplugged meanwhile
            select.select([] if ends is None else [ends[0]], [], [], POLL_SECONDS)
