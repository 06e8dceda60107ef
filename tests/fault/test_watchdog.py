"""A policy process that is killed or hangs leaves the arm at rest; so does a driver that falls silent (fault case 1).

The arm is driven by a process of its own. The times are measured from outside and printed.
"""

import os
import signal
import time

import numpy as np
import pytest

from robo_rl.core import ConfigError, SafetyStop
from robo_rl.drivers.fake import FakeArmConfig, make_fake_arm
from robo_rl.drivers.fake.backend import connect
from robo_rl.drivers.fake.process import Joints
from robo_rl.drivers.watchdog import Watch, Watchdog, WatchdogConfig
from robo_rl.safety import make_safe_backend

from ..rigs.free_machine import on_a_free_machine
from ..rigs.watched_arm import kill_in_motion, moving_arm

REST_SECONDS = 0.5
MS = 1_000_000


def test_it_holds_then_stops_and_only_a_new_episode_revives():
    watchdog = Watchdog(WatchdogConfig(hold_after=0.1, stop_after=0.4))
    assert watchdog.look(0) is Watch.STOPPED
    watchdog.begin(0)
    seen = [watchdog.look(t * MS) for t in (0, 99, 100, 399)]
    assert seen == [Watch.RUN, Watch.RUN, Watch.HOLD, Watch.HOLD]
    watchdog.feed(399 * MS)
    assert watchdog.look(400 * MS) is Watch.RUN
    watchdog.feed(799 * MS)  # too late: it had stopped by then... had anyone looked; feeding looks first
    assert watchdog.look(799 * MS) is Watch.STOPPED
    watchdog.feed(800 * MS)
    assert watchdog.look(800 * MS) is Watch.STOPPED
    watchdog.begin(900 * MS)
    assert watchdog.look(900 * MS) is Watch.RUN
    with pytest.raises(ConfigError, match=r"watchdog\.stop_after must be above hold_after"):
        WatchdogConfig(hold_after=0.5, stop_after=0.4)


def test_the_fake_joints_keep_their_limits():
    config = FakeArmConfig()
    joints, rng = Joints(config), np.random.default_rng(0)
    wanted = np.full(config.joints, 2.0)
    for _ in range(3000):
        before = joints.velocity.copy()
        if rng.random() < 0.02:
            wanted = rng.choice([-2.0, 2.0], config.joints)
        joints.tick(wanted, 0.002)
        assert (np.abs(joints.velocity - before) <= config.acceleration * 0.002 + 1e-12).all()
        assert (np.abs(joints.velocity) <= config.velocity + 1e-12).all()
        assert (np.abs(joints.position) <= config.limit + 1e-3).all()


@on_a_free_machine
def test_an_actor_that_hangs_leaves_the_arm_at_rest(capsys):
    with moving_arm() as (process, observer):
        observer.wait_until_fast()
        os.kill(process.pid, signal.SIGSTOP)
        seconds = observer.seconds_to_rest()
        with capsys.disabled():
            print(f" at rest {1000 * seconds:.0f} ms after SIGSTOP")
        assert seconds < REST_SECONDS
        time.sleep(0.5)
        state = observer.look()
        assert state["watch"] == Watch.STOPPED
        assert max(map(abs, state["velocity"])) == 0.0
        # Awake again, it finds a robot that is stopped, and is told so.
        process.send_signal(signal.SIGCONT)
        assert process.wait(20) != 0
        assert observer.speed() == 0.0


@pytest.mark.parametrize(
    "hang",
    [
        "time.sleep(5)",
        "end = time.monotonic() + 2\nwhile time.monotonic() < end: pass",
        "end = time.monotonic() + 2\nwhile time.monotonic() < end: hashlib.pbkdf2_hmac('sha256', b'', b'', 100000)",
    ],
    ids=["waits", "computes", "computes in C"],
)
@on_a_free_machine
def test_a_safety_filter_that_hangs_leaves_the_arm_at_rest_and_its_action_is_not_executed(hang):
    with moving_arm(hang) as (process, observer):
        assert process.stdout is not None
        assert process.stdout.readline() == "hangs\n"
        assert observer.speed() > 0.5, "in motion"
        assert observer.seconds_to_rest() < REST_SECONDS
        while process.poll() is None:
            assert observer.speed() == 0.0, "neither meanwhile nor afterwards"
            time.sleep(0.01)
        assert observer.look()["watch"] == Watch.STOPPED
        assert process.stdout.readline().startswith("the safety filters took ")


@pytest.mark.parametrize("time_around", [1, 2])
@on_a_free_machine
def test_an_actor_that_is_killed_leaves_the_arm_at_rest(time_around, capsys):
    killed = kill_in_motion()
    with capsys.disabled():
        print(f" at rest {1000 * killed.seconds:.0f} ms after SIGKILL")
    assert killed.seconds < REST_SECONDS
    assert killed.within_limits, killed


@on_a_free_machine
def test_a_silent_driver_ends_the_episode_without_a_made_up_step():
    inner = make_fake_arm(silence=0.3)
    try:
        backend = make_safe_backend(inner)
        backend.reset(0)
        backend.step(np.ones(3, np.float32))
        inner.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(SafetyStop, match=r"the driver did not answer in 0\.3 s") as caught:
            backend.step(np.ones(3, np.float32))
        assert caught.value.reason == "driver_silent"
        assert time.monotonic() - began < 1.5
        inner.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        backend.reset(1)
        backend.step(np.ones(3, np.float32))
    finally:
        inner.process.kill()
        inner.process.wait()
        inner.close()


def test_nonsense_ends_the_connection_and_not_the_driver():
    inner = make_fake_arm()
    try:
        for nonsense in (b"\xff", b"{}", b'{"do": "move"}', b'{"do": "begin", "position": [1e9, 0, 0]}', b'{"do": 1}'):
            other = connect(inner.socket, 5.0)
            other.settimeout(5.0)
            other.send(nonsense)
            assert other.recv(4096) == b""
            other.close()
        backend = make_safe_backend(inner)
        backend.reset(0)
        assert backend.step(np.zeros(3, np.float32)).verdict.reasons == ()
    finally:
        inner.process.kill()
        inner.process.wait()
        inner.close()
