"""Faults of a servo bus while an arm is driven: each ends in hold and a message, never in a made-up reading."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from robo_rl.core import DriverError, EmergencyStop, SafetyStop
from robo_rl.drivers.servos.backend import ServoBackend
from robo_rl.drivers.servos.protocol import HEADER, Fault, PacketReader
from robo_rl.drivers.servos.registers import REGISTERS
from robo_rl.drivers.servos.virtual_arm import VirtualServoArm
from tests.rigs.servo_rig import driving, eventually, make_driver, still, stopped

pytest.importorskip("serial", reason="the extra 'servos' is not installed")


Arm = tuple[ServoBackend, VirtualServoArm]


@pytest.fixture(scope="module")
def driver() -> Iterator[ServoBackend]:
    backend = make_driver("task.terminate_on_success=false", "robot.homing_speed=3")
    yield backend
    backend.close()


@pytest.fixture
def arm(driver: ServoBackend) -> Arm:
    """A driver in an episode, which all tests share because its simulation takes long to build, and its servos."""
    if driver.virtual is not None:
        driver.virtual.bus.distort = None  # a test that failed may have left it
    driver.reset(0)
    assert driver.virtual is not None
    return driver, driver.virtual


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
        if packet.servo == 2 and len(body) > 16:
            high = REGISTERS["present_position"].address + 1 - REGISTERS["torque_enable"].address
            body[high] = (body[high] + 6) % 16
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


def test_line_that_stays_faulty_ends_the_episode(arm: Arm) -> None:
    backend, virtual = arm
    for message, distort in LINES.items():
        virtual.bus.distort = distort
        stop = stopped(backend)
        assert stop.reason == "driver_silent", stop
        loop = backend._loop
        assert loop is not None and eventually(lambda: message in loop.problem), message  # noqa: B023
        assert holds(backend)
        virtual.bus.distort = None
        state = backend.reset(1).observation["state"]
        assert np.allclose(state[:5], backend.robot.home, atol=0.05)


def test_faults_now_and_then_are_only_counted(arm: Arm) -> None:
    """Every sixth answer is lost or damaged, as with a second master that sends from time to time."""
    backend, virtual = arm
    count = itertools.count()

    def distort(data: bytes) -> bytes:
        number = next(count)
        return data if number % 6 else (half(data) if number % 12 else HEADER + b"\x07\x04" + data)

    virtual.bus.distort = distort
    for _ in range(8):
        step = backend.step(still(backend))
        assert np.abs(step.observation["state"]).max() < 4
    virtual.bus.distort = None
    assert "damaged" in backend._readings.failures() or "silent" in backend._readings.failures()


FAULTS = {
    Fault.OVERLOADED: "servo 4 (wrist_flex) reports: overloaded",
    Fault.VOLTAGE: "servo 4 (wrist_flex) reports: voltage (7.4 V)",
    Fault.OVERHEATED: "servo 4 (wrist_flex) is hot",
}


def test_fault_of_a_servo_ends_the_episode_and_the_next_begins_without_it(arm: Arm) -> None:
    backend, virtual = arm
    servo = virtual.chain.servo(4)
    for fault, message in FAULTS.items():
        servo.fault = fault
        stop = stopped(backend)
        assert stop.reason == "servo_fault" and message in str(stop) and holds(backend)
        with pytest.raises(SafetyStop, match="wrist_flex"):
            backend.reset(1)
        servo.fault = Fault(0)
        backend.reset(1)
        backend.step(still(backend))
    servo.set("present_temperature", 61)
    assert "servo 4 (wrist_flex) is hot: 61 degrees, 60 are allowed" in str(stopped(backend))
    servo.set("present_temperature", 30)


def test_gripper_that_holds_an_object_is_overloaded_without_harm(arm: Arm) -> None:
    backend, virtual = arm
    virtual.chain.servo(6).fault = Fault.OVERLOADED
    for _ in range(3):
        backend.step(still(backend))
    virtual.chain.servo(6).fault = Fault(0)


def test_unplugged_cable_is_survived(arm: Arm, capfd: pytest.CaptureFixture[str]) -> None:
    backend, virtual = arm
    virtual.bus.unplug()
    stop = stopped(backend)
    assert stop.reason == "driver_silent" and any(text in str(stop) for text in ("cable", "cannot be opened")), stop
    assert all(servo.is_driven for servo in virtual.chain.servos), "servos hold by themselves"
    with pytest.raises(SafetyStop) as away:
        backend.reset(1)
    assert away.value.reason == "robot_away" and away.value.waits
    virtual.bus.plug()
    assert eventually(lambda: "the port is back" in capfd.readouterr().out)
    assert holds(backend)
    backend.reset(1)
    backend.step(still(backend))


def test_arm_that_lost_power_stays_off_until_a_person_re_arms_it(arm: Arm) -> None:
    """A person cuts the power while the arm moves, and switches it on again, with the cable plugged in or not."""
    backend, virtual = arm
    servos = virtual.chain.servos
    for is_plugged in (True, False):
        if not is_plugged:
            virtual.bus.unplug()
            stopped(backend)
        for servo in servos:
            servo.set("torque_enable", 0)
            servo.set("goal_position", 0)
            servo.set("torque_limit", 1000)
        if is_plugged:
            stop = stopped(backend)
            assert stop.reason == "driver_silent" and "servo 1 (shoulder_pan), servo 2" in str(stop), stop
        else:
            virtual.bus.plug()
        # A stop counts in this process before it is on disk, where rearm removes it.
        assert eventually(lambda: EmergencyStop(robot="so101").file.exists())
        with pytest.raises(SafetyStop, match="switched off: was power lost") as away:
            backend.reset(1)
        assert away.value.waits and not any(servo.is_driven for servo in servos)
        EmergencyStop(robot="so101").rearm()
        backend.reset(1)
        assert holds(backend) and servos[5].get("torque_limit") == 500
        backend.step(still(backend))


def test_arm_that_does_not_come_home_is_stopped(arm: Arm) -> None:
    backend, virtual = arm
    backend.stop("a test")
    shoulder = virtual.chain.servo(2)
    highest, blocked = shoulder.get("position_high"), shoulder.get("present_position") - 200
    shoulder.set("position_high", blocked)
    assert eventually(lambda: abs(shoulder.get("present_position") - blocked) < 30)
    with pytest.raises(SafetyStop, match=r"joint 2 is .* rad from home .*Is the arm blocked"):
        backend.reset(1)
    assert holds(backend)
    shoulder.set("position_high", highest)


def test_loop_that_fails_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with driving() as backend:
        assert backend._loop is not None
        monkeypatch.setattr("threading.excepthook", lambda arguments: None)
        monkeypatch.setattr(backend._loop._arm, "read", lambda: 1 / 0)
        assert "the loop of the servos failed: ZeroDivisionError" in str(stopped(backend))
        with pytest.raises(DriverError, match="the loop of the servos failed"):
            backend.reset(1)


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
