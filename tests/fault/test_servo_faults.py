"""Faults of a servo bus while an arm is driven: each ends in hold and a message, never in a made-up reading."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from robo_rl.core import SafetyStop
from robo_rl.drivers.servos.backend import ServoBackend
from robo_rl.drivers.servos.protocol import HEADER, Fault, PacketReader
from robo_rl.drivers.servos.registers import REGISTERS
from tests.rigs.servo_rig import driving, eventually, still, stopped

pytest.importorskip("serial", reason="the extra 'servos' is not installed")


def wrong_checksum(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 0xFF])


def wrong_servo(data: bytes) -> bytes:
    packets = PacketReader().feed(data)
    return b"".join(packet._replace(servo=9 if packet.servo == 3 else packet.servo).encode() for packet in packets)


def half(data: bytes) -> bytes:
    return data[:-5]


def flipped_position(data: bytes) -> bytes:
    """Return valid answers in which servo 2 has moved by a third of a turn, as a byte that was garbled twice has it."""
    answers = b""
    for packet in PacketReader().feed(data):
        body = bytearray(packet.parameters)
        if packet.servo == 2 and len(body) > 2:
            body[1] = (body[1] + 6) % 16
        answers += packet._replace(parameters=bytes(body)).encode()
    return answers


LINES: dict[str, Callable[[bytes], bytes]] = {
    "was damaged": wrong_checksum,
    "servo 3 did not answer, but servo 9 did": wrong_servo,
    "did not answer in": lambda data: b"",
    "damaged": half,
    "on /": lambda data: bytes(range(1, 90)),  # garbage without a header counts as silence
    "joint 2 jumped from": flipped_position,
}
"""Faults of the line by a part of their message."""


def test_line_that_stays_faulty_ends_the_episode() -> None:
    with driving() as backend:
        assert backend.virtual is not None
        for message, distort in LINES.items():
            backend.virtual.bus.distort = distort
            stop = stopped(backend)
            assert stop.reason == "driver_silent" and message in str(stop), stop
            assert holds(backend)
            backend.virtual.bus.distort = None
            state = backend.reset(1).observation["state"]
            assert np.allclose(state[:5], backend.robot.home, atol=0.05)


def test_faults_now_and_then_are_only_counted() -> None:
    """Every sixth answer is lost or damaged, as with a second master that sends from time to time."""
    with driving("task.terminate_on_success=false") as backend:
        assert backend.virtual is not None
        count = itertools.count()

        def distort(data: bytes) -> bytes:
            number = next(count)
            return data if number % 6 else (half(data) if number % 12 else HEADER + b"\x07\x04" + data)

        backend.virtual.bus.distort = distort
        for _ in range(8):
            step = backend.step(still(backend))
            assert np.abs(step.observation["state"]).max() < 4
        backend.virtual.bus.distort = None
        assert "damaged" in backend._readings.failures() or "silent" in backend._readings.failures()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault.OVERLOADED, r"servo 4 \(wrist_flex\) reports: overloaded"),
        (Fault.VOLTAGE, r"servo 4 \(wrist_flex\) reports: voltage \(7.4 V\)"),
        (Fault.OVERHEATED, r"servo 4 \(wrist_flex\) is hot"),
    ],
)
def test_fault_of_a_servo_ends_the_episode_and_the_next_begins_without_it(fault: Fault, message: str) -> None:
    with driving() as backend:
        assert backend.virtual is not None
        backend.virtual.chain.servo(4).fault = fault
        stop = stopped(backend)
        assert stop.reason == "servo_fault" and holds(backend)
        with pytest.raises(type(stop), match=message):
            backend.reset(1)
        backend.virtual.chain.servo(4).fault = Fault(0)
        backend.reset(1)
        backend.step(still(backend))


def test_hot_servo_ends_the_episode() -> None:
    with driving() as backend:
        assert backend.virtual is not None
        backend.virtual.chain.servo(2).set("present_temperature", 61)
        assert "servo 2 (shoulder_lift) is hot: 61 degrees, 60 are allowed" in str(stopped(backend))
        assert holds(backend)


def test_unplugged_cable_is_survived(capfd: pytest.CaptureFixture[str]) -> None:
    with driving() as backend:
        virtual = backend.virtual
        assert virtual is not None
        virtual.bus.unplug()
        stop = stopped(backend)
        assert stop.reason == "driver_silent" and any(text in str(stop) for text in ("cable", "cannot be opened"))
        assert all(servo.is_driven for servo in virtual.chain.servos), "servos hold by themselves"
        with pytest.raises(type(stop)) as away:
            backend.reset(1)
        assert away.value.reason == "robot_away" and away.value.waits
        virtual.bus.plug()
        assert eventually(lambda: "the port is back" in capfd.readouterr().out)
        backend.reset(1)
        backend.step(still(backend))


def test_servos_that_lost_power_hold_where_they_are_when_the_port_is_back() -> None:
    with driving() as backend:
        virtual = backend.virtual
        assert virtual is not None
        virtual.bus.unplug()
        stopped(backend)
        for servo in virtual.chain.servos:
            servo.set("torque_enable", 0)
            servo.set("goal_position", 0)
        virtual.bus.plug()
        assert eventually(lambda: all(servo.is_driven for servo in virtual.chain.servos))
        assert holds(backend)


def test_arm_that_does_not_come_home_is_stopped() -> None:
    with driving() as backend:
        virtual = backend.virtual
        assert virtual is not None
        backend.stop("a test")
        shoulder = virtual.chain.servo(2)
        blocked = shoulder.get("present_position") - 200
        shoulder.set("position_high", blocked)
        assert eventually(lambda: abs(shoulder.get("present_position") - blocked) < 30)
        with pytest.raises(SafetyStop, match=r"joint 2 is .* rad from home .*Is the arm blocked"):
            backend.reset(1)
        assert holds(backend)


def holds(backend: ServoBackend) -> bool:
    """Return whether every servo is driven and its goal is where it is."""
    virtual = backend.virtual
    assert virtual is not None

    def still() -> bool:
        goals, positions = REGISTERS["goal_position"], REGISTERS["present_position"]
        return all(
            servo.is_driven
            and abs(goals.decode(servo.read(goals.address, 2)) - positions.decode(servo.read(positions.address, 2)))
            < 100
            for servo in virtual.chain.servos
        )

    return eventually(still)
