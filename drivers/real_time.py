"""Real-time priority for the control loop."""

import contextlib
import gc
import os
from pathlib import Path

from robo_rl.core import announce

THREADS = Path("/proc/self/task")


class RealTime:
    """Real-time priority (SCHED_FIFO) of this process while it drives a robot, if the system permits it.

    All threads get the priority: a thread that holds the interpreter lock while it waits for a processor would delay
    the control loop. Child processes keep the ordinary priority. Existing objects are excluded from garbage collection,
    which would otherwise pause the loop for 0.2 s.

    Args:
        priority: 1 to 99; 0: the scheduling stays unchanged.
    """

    def __init__(self, priority: int) -> None:
        self._priority = priority
        self._earlier: dict[int, tuple[int, os.sched_param]] = {}

    def claim(self) -> str:
        """Set the priority; return why that failed, or an empty text if it succeeded or no priority is configured."""
        gc.collect()
        gc.freeze()
        if not self._priority:
            return ""
        if not hasattr(os, "sched_setscheduler"):
            return "this system has no real-time scheduling"
        try:
            for thread in (int(entry.name) for entry in THREADS.iterdir()):
                with contextlib.suppress(ProcessLookupError):  # the thread has ended
                    scheduling = os.sched_getscheduler(thread), os.sched_getparam(thread)
                    policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
                    os.sched_setscheduler(thread, policy, os.sched_param(self._priority))
                    self._earlier[thread] = scheduling
        except OSError as error:
            self._restore()
            return f"the system does not permit it ({error.strerror})"
        return ""

    def claim_for(self, owner: str) -> None:
        """Set the priority for ``owner``, such as ``The control loop``; print the reason if that fails."""
        if problem := self.claim():
            announce(f"{owner} has no real-time priority: {problem}; see docs/reference/robots.md")

    def release(self) -> None:
        """Restore the earlier priorities. May be called twice."""
        gc.unfreeze()
        self._restore()

    def _restore(self) -> None:
        for thread, (policy, parameter) in self._earlier.items():
            with contextlib.suppress(OSError):  # the thread has ended
                os.sched_setscheduler(thread, policy | os.SCHED_RESET_ON_FORK, parameter)
        self._earlier = {}
