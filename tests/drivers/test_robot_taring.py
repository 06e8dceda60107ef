"""Biases of the wrist's sensor: taken off where asked to, refused where they are none, and said where nobody asked."""

import math
from typing import Any

import numpy as np
import pytest

from robo_rl.core import PASSED, ConfigError, DriverError, ManualClock, SafetyStop
from robo_rl.drivers.robot.taring import WRENCH

from ..rigs.robot_rig import Recorder, composed, driver
from .test_robot_backend import Driver, Speaking, speaking_robot

SENSOR = "force_torque_sensor_broadcaster/wrench"
BIAS = "virtual/wrench_bias"
TARE = "robot.tare.seconds=0.2"


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Driver:
    node = Driver()
    monkeypatch.setattr("robo_rl.drivers.robot.connection.open_node", lambda *_: node)
    return node


def push(clock: Speaking, *wrench: float) -> None:
    """Add a force and a torque to what the sensor says."""
    said = clock.robot.published[SENSOR][-1].wrench
    for vector, part in ((said.force, wrench[:3]), (said.torque, wrench[3:])):
        for axis, value in zip("xyz", part, strict=False):
            setattr(vector, axis, getattr(vector, axis) + value)


def wrist(backend: Any, step: Any) -> np.ndarray:
    names = backend.spec.observation["state"].names
    values: np.ndarray = step.observation["state"][[place for place, name in enumerate(names) if "wrist_" in name]]
    return values


@pytest.mark.parametrize("bias", [(15.4, 0.1, 235.0), (0.0, 0.0, -40.0), (0.0, -30.0, 0.0, 0.0, 3.0, 1.0), (0.0,)])
def test_what_is_measured_at_rest_is_taken_off_and_what_comes_on_top_is_not(node: Driver, bias: Any) -> None:
    backend, clock = speaking_robot(node, TARE, "robot.tare.force=300")
    before = wrist(backend, backend.reset())
    np.testing.assert_allclose(before, 0.0, atol=1e-5)
    push(clock, *bias)
    backend.stop("another episode")
    np.testing.assert_allclose(wrist(backend, backend.reset()), 0.0, atol=1e-4)
    push(clock, 0.0, 5.0, 0.0)
    step = backend.step(np.zeros(3, np.float32))
    np.testing.assert_allclose(wrist(backend, step), [0, 5, 0, 0, 0, 0], atol=1e-4)
    assert step.verdict is PASSED
    assert len(node.published[BIAS]) == 2
    backend.close()


@pytest.mark.parametrize(
    ("bias", "message"),
    [
        ((15.4, 0.1, 235.0), r"measures 23\d\.\d N and .* Nm at its wrist at rest, which is no bias: at most 50 N"),
        (
            (0.0, 0.0, 0.0, 0.0, 0.0, 7.0),
            r"and [67]\.\d\d Nm at its wrist .* 5 Nm are \(robot\.tare\.force, robot\.tare",
        ),
        ((math.nan,), "measures nan N"),
        ((0.0, math.inf), "measures inf N"),
    ],
)
def test_what_is_no_bias_is_not_taken_off(node: Driver, bias: Any, message: str) -> None:
    backend, clock = speaking_robot(node, TARE)
    push(clock, *bias)
    with pytest.raises(DriverError, match=message):
        backend.reset()
    assert not node.published[BIAS]
    backend.close()


@pytest.mark.parametrize("bias", [(15.4, 0.1, 235.0), (0.0, 0.0, -300.0), (0.0, 0.0, 0.0, 0.0, 22.0)])
def test_no_episode_begins_with_a_bias_that_slows_every_action(node: Driver, bias: Any) -> None:
    """The limits are 250 N and 25 Nm; actions are slowed from 80 % of them."""
    backend, clock = speaking_robot(node)
    push(clock, *bias)
    for _ in range(2):
        with pytest.raises(SafetyStop, match=r"safety\.contact slows every action from 200 N or 20 Nm") as caught:
            backend.reset(0)
        assert caught.value.reason == "start_unsafe"
    push(clock, *(-value for value in bias))
    backend.reset(0)
    assert backend.step(np.zeros(3, np.float32)).verdict is PASSED
    backend.close()


@pytest.mark.parametrize("change", [(0.0, 0.0, 15.0), (-20.0,), (0.0, 0.0, 0.0, 1.5, 0.0, 0.0)])
@pytest.mark.parametrize("when", [0.5, 0.8])
def test_a_load_that_changes_is_no_bias(node: Driver, change: Any, when: float) -> None:
    """The arm swings, something leans against it, or it lets go of something."""
    backend, clock = speaking_robot(node, "robot.tare.seconds=0.4")
    tare = backend.inner._connection.tare
    newest, asked = tare._newest, []

    def later() -> Any:
        asked.append(clock.now_ns())
        if clock.now_ns() - asked[0] == round(when * 0.4 * 1e9):
            push(clock, *change)
        return newest()

    tare._newest = later
    with pytest.raises(DriverError, match=r"a load at its wrist that changes by .* N and .* Nm while it is tared"):
        backend.reset()
    assert not node.published[BIAS]
    backend.reset()
    assert len(node.published[BIAS]) == 1, "now it is steady"
    backend.close()


@pytest.mark.parametrize(("force", "hertz", "steady"), [(20.0, 5.0, False), (12.0, 2.5, False), (2.0, 5.0, True)])
def test_a_load_that_oscillates_is_no_bias(node: Driver, force: float, hertz: float, steady: bool) -> None:
    """The halves of the time have equal means if the arm swings to and fro in each, which is a matter of chance."""
    backend, clock = speaking_robot(node, "robot.tare.seconds=0.4")
    tare = backend.inner._connection.tare
    newest, asked, pushed = tare._newest, [], [0.0]

    def swinging() -> Any:
        asked.append(clock.now_ns())
        now = force * math.sin(2 * math.pi * hertz * (clock.now_ns() - asked[0]) / 1e9)
        push(clock, now - pushed[0])
        pushed[0] = now
        return newest()

    tare._newest = swinging
    if steady:
        backend.reset()
    else:
        with pytest.raises(DriverError, match=r"a load at its wrist that changes by .* N and .* Nm while it is tared"):
            backend.reset()
    assert len(node.published[BIAS]) == steady
    backend.close()


@pytest.mark.parametrize(("seconds", "spoken"), [(0.2, 0.0), (0.2, 0.02), (0.5, 0.05), (0.5, 0.3), (5.0, 0.1)])
def test_a_sensor_that_falls_silent_while_it_is_tared_begins_no_episode(
    node: Driver, seconds: float, spoken: float
) -> None:
    """A few measurements are enough for a bias, but the robot is without its sensor."""
    backend, clock = speaking_robot(node, f"robot.tare.seconds={seconds}")
    tare = backend.inner._connection.tare
    newest, asked = tare._newest, []

    def until_then() -> Any:
        asked.append(clock.now_ns())
        if clock.now_ns() - asked[0] >= spoken * 1e9:
            clock.silent[SENSOR] = asked[0] + 10**10
        return newest()

    tare._newest = until_then
    with pytest.raises((SafetyStop, DriverError), match=r"/wrench is \d\.\d\d s old|too few to tare it"):
        backend.reset()
    with pytest.raises(RuntimeError, match="no episode is running"):
        backend.step(np.zeros(3, np.float32))
    backend.close()


@pytest.mark.parametrize("second", [12.0, -9.0, 48.0])
def test_a_bias_that_differs_from_the_last_one_is_said(node: Driver, second: float, capsys: Any) -> None:
    """A start in steady contact looks like a bias."""
    backend, clock = speaking_robot(node, TARE)
    for bias, told in ((2.0, 0), (second - 2.0, 1), (1.0, 0), (-second, 1)):
        push(clock, 0.0, 0.0, bias)
        backend.reset()
        backend.stop("another episode")
        assert capsys.readouterr().out.count("are subtracted at its wrist from now on") == told
    backend.close()


@pytest.mark.parametrize("force", [45.0, 60.0, -150.0])
def test_a_bias_that_counts_as_contact_is_said_once_with_what_helps(node: Driver, force: float, capsys: Any) -> None:
    backend, clock = speaking_robot(node)
    push(clock, 0.0, 0.0, force)
    for _ in range(2):
        backend.reset()
        backend.stop("another episode")
    said = capsys.readouterr().out
    assert said.count("N at its wrist at rest") == 1 and "robot.tare.seconds=0.5" in said
    backend.close()


def test_a_guard_judges_forces_once_the_driver_has_said_what_it_took_off(monkeypatch: Any, capsys: Any) -> None:
    node = Recorder()
    monkeypatch.setattr("robo_rl.drivers.robot.watch.open_node", lambda *_: node)
    inner = driver(composed("robot.emergency_service=''", TARE))
    inner.clock = ManualClock()
    watch = inner.watch()
    assert "not judged until the driver has tared them (virtual/wrench_bias)" in capsys.readouterr().out

    def wrench(force: float) -> Any:
        return node.types.make(WRENCH, wrench={"force": {"z": force}})

    decode = inner._layout.wrench
    assert decode(wrench(235.0)).tolist() == [0] * 6
    for bias, left in (
        (-30.0, 265.0),
        (400.0, 265.0),
        (math.nan, 265.0),
        (49.0, 186.0),
    ):  # what is none is not believed
        node.taking[BIAS](wrench(bias))
        assert decode(wrench(235.0))[2] == left
    assert capsys.readouterr().out.count("is not taken over") == 2
    watch.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("~robot.sources.wrench", TARE),
            r"robot\.tare\.seconds must be 0 where no source gives wrist_wrench, got 0\.2",
        ),
        (("robot.tare.seconds=-1",), r"robot\.tare\.seconds must be in \[0, 10\], got -1"),
        ((TARE, "robot.tare.force=0"), r"robot\.tare\.force must be above 0, got 0"),
    ],
)
def test_options_of_the_tare_that_mean_nothing_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        driver(composed(*options))
