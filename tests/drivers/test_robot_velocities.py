"""Joint velocities of robots that do not measure them: as the positions change, and late by what is documented."""

import math
from typing import Any

import numpy as np
import pytest

from robo_rl.core import ConfigError, ManualClock, SpecError
from robo_rl.drivers.robot.assembly import ObservationAssembler
from robo_rl.drivers.robot.config import SourceConfig
from robo_rl.drivers.robot.decoding import make_decoder
from robo_rl.drivers.robot.listening import Listener, timings_of

from ..rigs.robot_rig import Recorder, composed, driver

KIND = "sensor_msgs/msg/JointState"
JOINTS = ("a", "b")
PHASE = np.array([0.3, 1.1])


class Robot:
    """Joints that swing, in messages as some robots send them.

    Args:
        window: of the source.
        said: what messages have in the place of velocities.
        rate: of messages [Hz].
        jitter: standard deviation of their arrival [s].
    """

    def __init__(self, window: float, said: Any = (), rate: float = 200.0, jitter: float = 0.0) -> None:
        self.node, self.clock = Recorder(), ManualClock(10**9)
        source = SourceConfig("joint_states", KIND, "joints", names=JOINTS, velocity_window=window)
        self.assembler = ObservationAssembler(timings_of({"joints": source}))
        Listener(self.node, {"joints": source}, {"joints": frozenset(JOINTS)}, self.clock, self.assembler)
        self.decode = make_decoder(source, {}, JOINTS, ())
        self.said, self.period, self.jitter = said, 1 / rate, jitter
        self.rng = np.random.default_rng(0)
        self.time = 0.0

    def positions(self, time: float) -> np.ndarray:
        return np.asarray(0.8 * np.sin(2 * time + PHASE))

    def speeds(self, time: float) -> np.ndarray:
        return np.asarray(1.6 * np.cos(2 * time + PHASE))

    def speak(self, order: str = "ab", wrap: bool = False) -> None:
        """Let a period pass and send a message with joints in an order."""
        self.time += self.period
        late = abs(float(self.rng.normal(0, self.jitter))) if self.jitter else 0.0
        self.clock.sleep_until_ns(max(self.clock.now_ns(), 10**9 + round((self.time + late) * 1e9)))
        by_name = dict(zip(JOINTS, self.positions(self.time), strict=True)) | {"g": 0.02}
        position = [by_name[name] for name in order]
        if wrap:
            position = [math.remainder(10 * value, 2 * math.pi) for value in position]
        velocity = self.said if len(self.said) in (0, len(order)) else [math.nan] * len(order)
        self.node.taking["joint_states"](
            self.node.types.make(KIND, name=list(order), position=position, velocity=list(velocity))
        )

    def measured(self) -> np.ndarray:
        return np.asarray(self.decode(self.assembler.newest("joints")))


@pytest.mark.parametrize(
    "said", [(), (math.nan, math.nan), (0.0, 0.0), (9.0, -9.0)], ids=["none", "nan", "zero", "wrong"]
)
@pytest.mark.parametrize(("window", "rate"), [(0.05, 200.0), (0.05, 1000.0), (0.1, 50.0), (0.02, 20.0)])
def test_velocities_are_those_of_the_positions_half_a_window_ago(said: Any, window: float, rate: float) -> None:
    robot = Robot(window, said, rate)
    delay = max(window / 2, 1 / rate)
    for _ in range(math.ceil(0.5 * rate)):
        robot.speak()
    for _ in range(20):
        robot.speak()
        np.testing.assert_allclose(robot.measured()[:2], robot.positions(robot.time))
        np.testing.assert_allclose(robot.measured()[2:], robot.speeds(robot.time - delay), atol=0.05)


def test_messages_that_arrive_unevenly_are_filtered() -> None:
    robot = Robot(0.06, rate=200.0, jitter=0.001)
    errors, differences = [], []
    for number in range(400):
        before = robot.time
        robot.speak()
        if number > 20:
            errors.append(np.abs(robot.measured()[2:] - robot.speeds(robot.time - 0.03)).max())
            differences.append(before)
    assert np.mean(errors) < 0.06 and max(errors) < 0.25


@pytest.mark.parametrize(
    "orders",
    [("ab", "ba"), ("abg", "gba", "bag"), ("ab", "g"), ("abg", "ab")],
    ids=["shuffled", "three", "turn", "some"],
)
def test_names_are_followed_whatever_their_order(orders: tuple[str, ...]) -> None:
    robot = Robot(0.05)
    for number in range(60):
        robot.speak(orders[number % len(orders)])
        if number > 30 and "a" in orders[number % len(orders)]:
            np.testing.assert_allclose(robot.measured()[2:], robot.speeds(robot.time - 0.025), atol=0.05)


def test_a_joint_that_begins_again_after_a_turn_has_no_other_speed() -> None:
    robot = Robot(0.05)
    for number in range(300):
        robot.speak(wrap=True)
        if number > 20:
            np.testing.assert_allclose(robot.measured()[2:], 10 * robot.speeds(robot.time - 0.025), atol=0.2)


def test_nothing_is_said_before_the_velocity_is_known_nor_made_up_across_a_pause() -> None:
    robot = Robot(0.048)
    for _ in range(5):
        robot.speak()
        assert robot.assembler.missing() == ["joints"]
    robot.speak()
    assert not robot.assembler.missing()
    robot.time += 0.5
    newest = robot.assembler.newest("joints")
    for _ in range(5):
        robot.speak()
        assert robot.assembler.newest("joints") is newest
    robot.speak()
    np.testing.assert_allclose(robot.measured()[2:], robot.speeds(robot.time - 0.0125), atol=0.05)


def arrived(time: float, begin: float, end: float) -> float:
    """Return when a message of ``time`` arrives if nothing arrives from ``begin`` to ``end``."""
    return end if begin < time < end else time


def received(robot: Robot, time: float, arrival: float, stamp: float) -> None:
    """Send the joints of ``time``, which arrive at ``arrival`` with ``stamp`` [s]."""
    robot.clock.sleep_until_ns(10**9 + round(arrival * 1e9))
    sec, nanosec = divmod(round((stamp + 1000) * 1e9), 10**9)
    header = {"stamp": {"sec": sec, "nanosec": nanosec}}
    robot.node.taking["joint_states"](
        robot.node.types.make(KIND, header=header, name=list(JOINTS), position=robot.positions(time))
    )


@pytest.mark.parametrize("delayed", [0.03, 0.1, 0.19, 0.3, 1.0])
@pytest.mark.parametrize("rate", [50.0, 200.0, 1000.0])
def test_messages_that_arrive_together_after_a_delay_tell_no_other_speed(delayed: float, rate: float) -> None:
    robot, known = Robot(0.06), 0
    for number in range(1, round(2.5 * rate)):
        time = number / rate
        received(robot, time, arrived(time, 1.0, 1.0 + delayed), time)
        if not robot.assembler.missing():
            known += 1
            np.testing.assert_allclose(robot.measured()[2:], robot.speeds(time - 0.03), atol=0.1)
    assert known > 2 * rate


@pytest.mark.parametrize("late", [0.001, 0.007, 0.019])
def test_messages_out_of_order_are_left_out(late: float) -> None:
    """A second publisher of the same joints sends such messages."""
    robot = Robot(0.048)
    for number in range(1, 200):
        time = number * 0.005
        received(robot, time, time, time)
        newest = robot.assembler.newest("joints")
        if number > 20:
            received(robot, time - late, time, time - late)
            assert robot.assembler.newest("joints") is newest
            np.testing.assert_allclose(robot.measured()[2:], robot.speeds(time - 0.024), atol=0.05)


@pytest.mark.parametrize("change", [-3600.0, -0.04, 0.5, 1e9])
def test_a_clock_that_is_set_makes_no_velocity_up(change: float) -> None:
    robot = Robot(0.048)
    for number in range(1, 200):
        time = number * 0.005
        newest = robot.assembler.newest("joints")
        received(robot, time, time, time + (change if number >= 100 else 0.0))
        if 100 <= number < 105:
            assert robot.assembler.newest("joints") is newest, "it is not known yet"
        elif number > 20:
            np.testing.assert_allclose(robot.measured()[2:], robot.speeds(time - 0.02), atol=0.06)


@pytest.mark.parametrize(
    ("velocity", "message"),
    [
        (
            [],
            r"joint_states: expected 2 values in 'velocity', got 0; where the robot measures no velocities set",
        ),
        ([1.0], r"joint_states: expected 2 values in 'velocity', got 1; where"),
        (
            [0.1, math.nan],
            r"joint_states: 'b' has a velocity that is no number; where the robot measures no velocities",
        ),
    ],
)
def test_what_helps_is_said_where_velocities_lack(velocity: list[float], message: str) -> None:
    robot = Robot(0.0)
    state = robot.node.types.make(KIND, name=["a", "b"], position=[0.0, 0.0], velocity=velocity)
    with pytest.raises(SpecError, match=message):
        robot.decode(state)


@pytest.mark.parametrize("source", ["gripper", "wrench", "object"])
def test_a_window_without_effect_is_refused(source: str) -> None:
    words = "task=pick_cube", f"robot.sources.{source}.velocity_window=0.05"
    with pytest.raises(ConfigError, match=r"velocity_window must be 0 where the source gives no joints, got 0\.05"):
        driver(composed(*words))


@pytest.mark.parametrize("window", [-0.1, 2.0, math.nan])
def test_windows_are_at_most_a_second(window: float) -> None:
    with pytest.raises(ConfigError, match=r"velocity_window must be in \[0, 1\]"):
        SourceConfig("joint_states", KIND, "joints", velocity_window=window)
