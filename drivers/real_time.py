"""A control loop that other work on the machine does not hold up."""

import contextlib
import gc
import os
from pathlib import Path

THREADS = Path("/proc/self/task")


class RealTime:
    """Puts this process before all ordinary ones while it drives a robot (SCHED_FIFO), where that is permitted.

    All of its threads: the interpreter is shared, and a thread that has it while it waits for a processor would hold up
    the loop. Processes that are started meanwhile are ordinary. What the process has made so far is also taken out of
    the garbage collector's sight: looking through all modules takes it some 0.2 s, in which nothing else runs.

    Args:
        priority: 1 to 99; 0: the scheduling stays as it is.
    """

    def __init__(self, priority: int) -> None:
        self._priority = priority
        self._before: dict[int, tuple[int, os.sched_param]] = {}

    def claim(self) -> str:
        """Begin; return why the process has no priority, empty where it has or none was wanted."""
        gc.collect()
        gc.freeze()
        if not self._priority:
            return ""
        if not hasattr(os, "sched_setscheduler"):
            return "this system has no real-time scheduling"
        try:
            for thread in (int(entry.name) for entry in THREADS.iterdir()):
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    before = os.sched_getscheduler(thread), os.sched_getparam(thread)
                    policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
                    os.sched_setscheduler(thread, policy, os.sched_param(self._priority))
                    self._before[thread] = before
        except OSError as error:
            self._restore()
            return f"the system does not permit it ({error.strerror})"
        return ""

    def release(self) -> None:
        """End. May be called twice."""
        gc.unfreeze()
        self._restore()

    def _restore(self) -> None:
        for thread, (policy, parameter) in self._before.items():
            with contextlib.suppress(OSError):  # it has ended
                os.sched_setscheduler(thread, policy | os.SCHED_RESET_ON_FORK, parameter)
        self._before = {}
