"""Moments at which a core of this machine stands still, so that no program runs on it.

python benchmarks/stalls.py CORE

Sleeps on the core, at the highest priority that there is where that is permitted, and prints, as one line of JSON each,
when (monotonic clock [ns]) and by how much [ns] it woke late, if that was 5 ms or more. In a virtual machine it is the
host that takes cores away, mostly from machines that use all of theirs.
"""

import gc
import json
import os
import sys
import time

PERIOD_NS = 5_000_000
NOTED_NS = 5_000_000


def main() -> None:
    os.sched_setaffinity(0, {int(sys.argv[1])})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_max(os.SCHED_FIFO)))
    except PermissionError:
        print("no real-time priority is permitted: other work makes this late, too", file=sys.stderr)
    gc.disable()
    parent = os.getppid()
    while os.getppid() == parent:
        due_ns = time.monotonic_ns() + PERIOD_NS
        time.sleep(PERIOD_NS * 1e-9)
        now_ns = time.monotonic_ns()
        if now_ns - due_ns >= NOTED_NS:
            print(json.dumps([now_ns, now_ns - due_ns]), flush=True)


if __name__ == "__main__":
    main()
