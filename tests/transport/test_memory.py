"""What the allocator does with the memory of messages."""

import subprocess
import sys

import pytest

FAULTS = """
import resource, threading
from robo_rl.transport.memory import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def churn():
    blocks = [b"x" * (megabytes << 20) for megabytes in (3, 6, 5)]

def measure():
    for _ in range(3):
        churn()
    before = faults()
    for _ in range(10):
        churn()
    print((faults() - before) / 10)

kept = {kept}
assert not kept or keep_freed_memory()
thread = threading.Thread(target=measure)
thread.start()
thread.join()
measure()
"""


def page_faults(kept: bool) -> list[float]:
    """Pages that the kernel clears for 14 MB of messages: in a thread, then in the main thread."""
    done = subprocess.run([sys.executable, "-c", FAULTS.replace("{kept}", str(kept))], capture_output=True, check=True)
    return [float(line) for line in done.stdout.split()]


def test_freed_memory_is_used_again() -> None:
    pytest.importorskip("resource")
    before = page_faults(False)
    if min(before) < 100:
        pytest.skip("this allocator keeps memory by itself, or pages are large")
    assert max(page_faults(True)) < 0.1 * min(before)
