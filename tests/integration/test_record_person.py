"""robo-rl record by a person: buttons, pauses, keys in a terminal."""

import contextlib
import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from robo_rl.app import press_emergency_stop
from robo_rl.core import (
    PASSED,
    DataError,
    EmergencyStop,
    EnvBackend,
    Intervention,
    ManualClock,
    RenderingError,
    SafetyStop,
    Source,
    Step,
    StopButton,
)
from robo_rl.drivers.fake import make_fake_arm
from robo_rl.drivers.watchdog import WatchdogConfig
from robo_rl.operators.panel import Panel
from robo_rl.recording.disk_space import DiskSpace
from robo_rl.recording.episodes import open_data_set, record_episodes
from robo_rl.recording.teleoperation import HumanChooser
from robo_rl.replay import EpisodeStore
from robo_rl.safety import make_safe_backend
from robo_rl.safety.config import ObservationsConfig
from robo_rl.sim import make_backend


class Device:
    """A person who says what the script holds, one line at each control period."""

    def __init__(self, script: list[tuple[float, bool, str]]) -> None:
        self.script = script
        self.displayed: list[str] = []
        self.room: list[str] = []

    def read(self) -> Intervention:
        x, in_control, button = self.script.pop(0)
        action = np.array([x, 0, 0], np.float32)
        return Intervention(action, in_control, frozenset({button} if button else ()))

    def reset(self, closed: bool = False) -> None:
        self.displayed.append("reset")

    def show(self, picture: np.ndarray | None, lines: list[str]) -> None:
        self.displayed.append(lines[0])
        self.room.append(lines[1])

    def close(self) -> None: ...


class Blind:
    """A backend that cannot render; all else is the simulator's."""

    def __init__(self, inner: EnvBackend) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def render(self) -> np.ndarray:
        raise RenderingError("no EGL")


def test_a_person_records_in_real_time_and_ends_episodes_by_buttons(tmp_path: Path) -> None:
    backend = Blind(make_backend("reach", max_episode_steps=6))
    clock = ManualClock()
    device = Device(
        [(0, False, ""), (0, False, "success"), (0, False, ""), (0, False, "")]  # nothing moves: no episode begins
        + [(0.1, True, "")] * 6  # an episode that the time limit ends
        + [(0.1, True, ""), (0, False, "")]  # the person moves on, and lets go: no episode either
        + [(0.2, True, ""), (0.2, True, "discard"), (0, False, "")]
        + [(0.3, True, "discard"), (0.3, True, ""), (0.3, True, "success"), (0, False, "")]
        + [(0.4, True, ""), (0.4, True, "stop")]
    )
    with open_data_set(tmp_path / "data", backend.spec, "fail", {}) as store:
        person = HumanChooser(Panel(backend, device, clock=clock), 10, DiskSpace(store).describe)
        stored = record_episodes(
            backend,
            store,
            10,
            lambda _: person,
            actor="keyboard",
            seed=0,
            only_successful=False,
            report=person.report,
        )
    assert stored == 2
    store = EpisodeStore.open(tmp_path / "data")
    assert [[float(step.executed_action[0]) for step in store.episode(number)] for number in range(2)] == [
        pytest.approx([0.1] * 6),
        pytest.approx([0.3] * 3),
    ]
    last = store.episode(1)[-1]
    assert (last.source, last.terminated, last.truncated, last.success) == (Source.HUMAN, False, True, False)
    assert clock.now_ns() == 21 * 100_000_000, "one control period for each time the person was read"
    assert device.displayed[:2] == ["reset", "episode 1 of 10: move to begin"]
    assert device.displayed.count("reset") == 4
    assert "episode 2 of 10: step 1" in device.displayed
    assert re.fullmatch(r"\d+\.\d GB free", device.room[0])
    assert re.fullmatch(r"\d+\.\d GB free, about [\d,]+ more episodes", device.room[-1])


def test_failures_and_pauses_of_a_person(tmp_path: Path) -> None:
    """A failure is stored as one; a pause discards the episode, and none begins before it is over."""
    backend = Blind(make_backend("reach", max_episode_steps=6))
    go, rest = (0.1, True, ""), (0, False, "")
    failure = [go, (0.1, True, "failure"), rest]
    pause = [go, (0.1, True, "pause"), go, rest, go, (0, True, "pause"), rest]
    success = [go, go, (0.1, True, "success"), rest]
    device = Device([*failure, *pause, *success, (0, False, "stop")])
    with open_data_set(tmp_path / "data", backend.spec, "fail", {}) as store:
        person = HumanChooser(Panel(backend, device, clock=ManualClock()), 10, DiskSpace(store).describe)
        options = {"actor": "gamepad", "seed": 0, "only_successful": False, "report": person.report}
        record_episodes(backend, store, 10, lambda _: person, **options)
    store = EpisodeStore.open(tmp_path / "data")
    assert [len(store.episode(number)) for number in range(len(store))] == [2, 3]
    assert "episode 2 of 10: paused" in device.displayed
    assert not device.script


def test_a_person_discards_as_often_as_need_be(tmp_path: Path) -> None:
    backend = Blind(make_backend("reach", max_episode_steps=6))
    discarded = [(0.1, True, ""), (0.1, True, "discard"), (0, False, "")]
    device = Device([*discarded * 8, (0.1, True, ""), (0.1, True, "success")])
    with open_data_set(tmp_path / "data", backend.spec, "fail", {}) as store:
        person = HumanChooser(Panel(backend, device, clock=ManualClock()), 1, DiskSpace(store).describe)
        options = {"actor": "gamepad", "seed": 0, "only_successful": False, "report": person.report}
        assert record_episodes(backend, store, 1, lambda _: person, **options, attempts_per_episode=None) == 1
    assert not device.script


def test_a_recording_goes_on_once_a_person_has_released_the_stop(tmp_path: Path) -> None:
    """Of the person at the device, and of a guard: the open episode is discarded, and none begins before that."""
    stop = EmergencyStop(tmp_path / "stop")
    button = StopButton(stop)
    backend = make_safe_backend(Blind(make_backend("reach", max_episode_steps=6)), button)
    go, rest = (0.1, True, ""), (0, False, "")

    class Scripted(Device):
        def read(self) -> Intervention:
            calls.get(len(self.script), lambda: None)()
            return super().read()

    calls = {20: stop.rearm, 14: partial(stop.press, "the guard"), 9: stop.rearm}
    stopped = [go, go, (0.1, True, "emergency_stop")]
    device = Scripted([*stopped, rest, rest, rest, go, go, go, rest, rest, rest, rest, rest, rest, rest, go, go, go])
    device.script += [(0.1, True, "success"), rest, (0, False, "stop")]
    with open_data_set(tmp_path / "data", backend.spec, "fail", {}) as store:
        press = partial(press_emergency_stop, stop, "the gamepad")
        panel = Panel(backend, device, press=press, clock=ManualClock(), button=button)
        person = HumanChooser(panel, 10, DiskSpace(store).describe)
        options = {"actor": "gamepad", "seed": 0, "only_successful": False, "report": person.report}
        assert record_episodes(backend, store, 10, lambda _: person, **options, attempts_per_episode=None) == 1
    for who in ("the gamepad", "the guard"):
        waited = f"stopped: emergency stop ({who}); when all is safe: robo-rl rearm (episode 1 of 10: waiting)"
        assert waited in device.displayed, device.displayed
    assert not device.script


def test_a_robot_that_cannot_be_reset_is_given_up_whoever_records(tmp_path: Path) -> None:
    class Stuck(Blind):
        def reset(self, seed: int | None = None) -> Step:
            raise SafetyStop("reset_failed", "the reset failed 3 times: door open")

    backend = Stuck(make_backend("reach"))
    expected = (
        r"only 0 of 5 episodes could be stored, but 2 were requested\. The last: stopped after 0 steps, .*: door open"
    )
    with open_data_set(tmp_path / "data", backend.spec, "fail", {}) as store:
        person = HumanChooser(Panel(backend, Device([]), clock=ManualClock()), 2, DiskSpace(store).describe)
        options = {"actor": "gamepad", "seed": 0, "only_successful": False, "report": person.report}
        with pytest.raises(DataError, match=expected):
            record_episodes(backend, store, 2, lambda _: person, **options, attempts_per_episode=None)


def test_a_person_who_waits_begins_with_what_is_observed_then(tmp_path: Path) -> None:
    """In real time the observation grows old and the watchdog stops the arm while nobody moves: no step is lost."""
    inner = make_fake_arm(silence=5.0, watchdog=WatchdogConfig(hold_after=0.5, stop_after=1.0))
    try:
        backend = make_safe_backend(inner, observations=ObservationsConfig(max_age=1.0))
        rest, go = (0, False, ""), (0.5, True, "")
        device = Device([rest] * 40 + [go] * 5 + [(0.5, True, "success"), rest, (0, False, "stop")])
        with open_data_set(tmp_path / "data", backend.spec, "fail", {}) as store:
            person = HumanChooser(Panel(backend, device), 10, DiskSpace(store).describe)
            options = {"actor": "gamepad", "seed": 0, "only_successful": False, "report": person.report}
            assert record_episodes(backend, store, 10, lambda _: person, **options) == 1
    finally:
        inner.process.kill()
        inner.process.wait()
        inner.close()
    steps = EpisodeStore.open(tmp_path / "data").episode(0)
    assert [float(step.executed_action[0]) for step in steps] == [0.5] * len(steps)
    assert [step.verdict for step in steps] == [PASSED] * len(steps)
    assert (steps[0].episode, steps[0].sequence) == (0, 0)


def test_keyboard_recording_in_a_terminal(tmp_path: Path) -> None:
    """The whole command in a pseudo terminal: two episodes driven by keys, then the escape key."""
    path = tmp_path / "data"
    far, near = os.openpty()
    fcntl.ioctl(near, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 80, 0, 0))
    before = termios.tcgetattr(near)
    arguments = [
        "record",
        "task=reach",
        f"record.output={path}",
        "record.source=keyboard",
        "record.only_successful=false",
        "task.terminate_on_success=false",
        "record.max_episode_steps=10000",
        "task.observation.picture_width=80",
        "task.observation.picture_height=60",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "robo_rl.cli", *arguments], stdin=near, stdout=near, stderr=near, start_new_session=True
    )
    printed = b""

    def until(text: bytes, keys: bytes = b"") -> None:
        """Press ``keys`` again and again until something like ``text`` (a pattern) is printed."""
        nonlocal printed
        deadline = time.monotonic() + 60
        start = len(printed)
        while not re.search(text, printed[start:]):
            assert time.monotonic() < deadline and process.poll() is None, re.findall(rb"episode \d+[^\x1b]*", printed)[
                -30:
            ]
            if select.select([far], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):
                    printed += os.read(far, 65536)
            os.write(far, keys)

    until(b"episode 1 of 20: move to begin")
    until(b"episode 1 of 20: step [3-9]", b"w")
    until(b"episode 2 of 20: move to begin", b"\r")
    until(b"episode 2 of 20: step [2-9]", b"e")
    until(b"episode 3 of 20: move to begin", b"\r")
    os.write(far, b"\x1b")
    until(b"holds 2 episodes")
    assert process.wait(timeout=30) == 0
    assert termios.tcgetattr(near) == before
    os.close(far)
    os.close(near)
    store = EpisodeStore.open(path)
    first, second = (np.stack([step.executed_action for step in store.episode(number)]) for number in range(2))
    names = store.spec.action.names
    assert first[0, names.index("x")] == 1 and not first[:, names.index("z")].any()
    assert second[0, names.index("z")] == 1
    assert store.summary().sources == {"human": store.summary().steps}
