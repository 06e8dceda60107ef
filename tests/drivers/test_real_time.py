"""The priority of a control loop: held by every thread while a robot is driven, and given back."""

import errno
import gc
import os
import subprocess
import sys
import threading

import pytest

from robo_rl.drivers.real_time import RealTime

# In a process of its own: the priority of this one is the test run's.
CLAIM = """
import os, subprocess, sys, threading
from robo_rl.drivers.real_time import RealTime
ended = threading.Event()
thread = threading.Thread(target=ended.wait)
thread.start()
def policies():
    return [os.sched_getscheduler(native) & ~os.SCHED_RESET_ON_FORK for native in (0, thread.native_id)]
before = policies()
real_time = RealTime(7)
if reason := real_time.claim():
    print(reason)
else:
    for native in (0, thread.native_id):
        print(os.sched_getscheduler(native) & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO,
              os.sched_getparam(native).sched_priority)
    child = "import os; print(os.sched_getscheduler(0) == os.SCHED_OTHER)"
    print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout.strip())
    real_time.release()
    print(policies() == before or (policies(), before))
ended.set()
"""


def test_all_threads_have_the_priority_until_it_is_released_and_children_have_not():
    done = subprocess.run([sys.executable, "-c", CLAIM], capture_output=True, text=True, timeout=120, check=True)
    lines = done.stdout.splitlines()
    if lines[0].startswith("the system does not permit it"):
        pytest.skip(lines[0])
    assert lines == ["True 7", "True 7", "True", "True"]


def test_without_permission_nothing_changes_and_it_says_why(monkeypatch, capsys):
    asked = []

    def refuse(thread, policy, parameter):
        asked.append(thread)
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    real_time = RealTime(20)
    assert real_time.claim() == "the system does not permit it (Operation not permitted)"
    assert len(asked) == 1
    real_time.release()
    assert len(asked) == 1
    real_time.claim_for("The control loop")
    printed = capsys.readouterr().out
    assert printed.startswith("The control loop has no real-time priority: the system does not permit it")
    real_time.release()


def test_what_is_there_already_is_no_work_for_the_garbage_collector(monkeypatch):
    monkeypatch.setattr(os, "sched_setscheduler", lambda *_: pytest.fail("0: the scheduling stays as it is"))
    real_time = RealTime(0)
    assert real_time.claim() == ""
    try:
        assert gc.get_freeze_count() > len(sys.modules)
        assert len(gc.get_objects()) < 1000
    finally:
        real_time.release()
    assert gc.get_freeze_count() == 0


def test_threads_that_ended_meanwhile_do_not_matter(tmp_path, monkeypatch):
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    (tmp_path / str(thread.native_id)).mkdir()
    monkeypatch.setattr("robo_rl.drivers.real_time.THREADS", tmp_path)
    real_time = RealTime(20)
    assert real_time.claim() == ""
    real_time.release()
