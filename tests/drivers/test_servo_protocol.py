"""The wire protocol of servos: packets, the master of the bus, and simulated servos driven by the vendor's package."""

import fcntl
import os
import sys
import threading
from collections.abc import Iterator

import pytest

from robo_rl.core import DriverError, MonotonicClock
from robo_rl.drivers.servos.bus import ServoBus
from robo_rl.drivers.servos.port import BusError, PortLostError
from robo_rl.drivers.servos.protocol import Fault, Instruction, Packet, PacketReader
from robo_rl.drivers.servos.registers import REGISTERS
from robo_rl.drivers.servos.virtual_bus import VirtualBus
from robo_rl.drivers.servos.virtual_servos import Measured, ServoChain
from tests.rigs.servo_rig import eventually

scservo_sdk = pytest.importorskip("scservo_sdk")

TIOCGEXCL = 0x80045440
"""Request of Linux for the exclusive mode of a terminal; Python has no name for it."""
READ_POSITION = bytes.fromhex("ff ff 01 04 02 38 02 be")
"""Example of Feetech's manual: read two bytes from address 0x38 of servo 1."""
ANSWER = bytes.fromhex("ff ff 01 04 00 18 05 dd")
"""Its answer in the manual: position 0x0518."""
PATIENCE = 0.3
"""Time-out [s] of the master and of the vendor's package: the answers must arrive on a busy machine, too."""
SYNC_READ = bytes.fromhex("ff ff fe 06 82 38 08 01 02 36")
"""The manual's sync read of 8 bytes from 0x38 of servos 1 and 2, in its form, with the sum computed by its rule."""


@pytest.fixture
def line() -> Iterator[tuple[VirtualBus, ServoChain]]:
    chain = ServoChain([1, 2, 3])
    bus = VirtualBus(chain, threading.Lock())
    yield bus, chain
    bus.close()


@pytest.fixture
def master(line: tuple[VirtualBus, ServoChain]) -> Iterator[ServoBus]:
    bus = ServoBus(str(line[0].path), timeout=PATIENCE)
    bus.open()
    yield bus
    bus.close()


def test_packets_are_those_of_the_manual() -> None:
    assert Packet(1, Instruction.READ, bytes([0x38, 2])).encode() == READ_POSITION
    (answer,) = PacketReader().feed(ANSWER)
    assert answer == Packet(1, 0, b"\x18\x05") and REGISTERS["present_position"].decode(answer.parameters) == 0x0518
    assert Packet(0xFE, Instruction.SYNC_READ, bytes([0x38, 8, 1, 2])).encode() == SYNC_READ


def test_stream_of_bytes_is_read_whatever_lies_between_packets() -> None:
    reader, damaged = PacketReader(), ANSWER[:-1] + b"\x00"
    stream = b"\x00\xff" + ANSWER + b"\xff\xff\xff" + damaged + ANSWER[:5] + ANSWER
    packets = [packet for byte in stream for packet in reader.feed(bytes([byte]))]  # one byte at a time
    assert packets == [Packet(1, 0, b"\x18\x05")] * 2
    assert reader.damaged >= 2


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("homing_offset", -85, b"\x55\x08"),
        ("goal_velocity", -1, b"\x01\x80"),
        ("present_load", -1000, b"\xe8\x07"),
        ("goal_position", 2048, b"\x00\x08"),
        ("torque_enable", 1, b"\x01"),
    ],
)
def test_signed_registers_are_sign_and_magnitude(name: str, value: int, data: bytes) -> None:
    assert REGISTERS[name].encode(value) == data and REGISTERS[name].decode(data) == value


def test_register_refuses_what_it_cannot_hold() -> None:
    with pytest.raises(ValueError, match="from -2047 to 2047 for address 31, got 2048"):
        REGISTERS["homing_offset"].encode(2048)


def test_master_reads_and_writes(line: tuple[VirtualBus, ServoChain], master: ServoBus) -> None:
    _, chain = line
    for servo in (1, 2, 3):
        assert master.read(servo, "model_number") == 777
    master.write(2, "torque_enable", 1)
    master.sync_write("goal_position", {1: 100, 2: 4000})
    assert master.read(2, "goal_position") == 4000 and chain.servo(1).get("goal_position") == 100
    chain.servo(2).measure(Measured(1234.4, -50, 333), 0.02)
    chain.servo(2).fault = Fault.OVERLOADED
    answers = master.sync_read([1, 2, 3], ["present_position", "present_velocity", "present_load", "present_voltage"])
    assert answers[2] == {
        "present_position": 1234,
        "present_velocity": -50,
        "present_load": 333,
        "present_voltage": 74,
    }
    assert master.faults[2] == Fault.OVERLOADED and not master.faults[1]
    assert not master.errors


def test_position_is_counted_from_the_homing_offset(line: tuple[VirtualBus, ServoChain], master: ServoBus) -> None:
    servo = line[1].servo(1)
    servo.measure(Measured(1000), 0.02)
    master.write(1, "torque_enable", 128)  # this position is the middle of the range from now on
    servo.measure(Measured(1000), 0.02)
    assert master.read(1, "homing_offset") == 1000 - 2048 and master.read(1, "present_position") == 2048


def test_servo_drives_to_its_goal_at_its_speed_once_it_is_switched_on(line: tuple[VirtualBus, ServoChain]) -> None:
    servo = line[1].servo(1)
    servo.set("goal_position", 400)
    servo.measure(Measured(1500), 0.02)
    assert servo.setpoint == 1500
    servo.write(bytes([REGISTERS["torque_enable"].address, 1]))
    assert servo.setpoint == 1500 and servo.get("goal_position") == 400, "a goal of long ago"
    servo.set("goal_velocity", 100)
    servo.set("goal_position", 1600)
    servo.measure(Measured(1500), 0.5)
    assert servo.setpoint == 1550 and servo.get("moving")
    servo.measure(Measured(1500), 0.5)
    assert servo.setpoint == 1600 and not servo.get("moving")


def test_prepared_writes_wait_for_their_execution(line: tuple[VirtualBus, ServoChain]) -> None:
    chain, address = line[1], REGISTERS["goal_position"].address
    chain.answer(Packet(1, Instruction.PREPARE, bytes([address]) + (300).to_bytes(2, "little")).encode())
    assert chain.servo(1).get("goal_position") == 0
    chain.answer(Packet(0xFE, Instruction.EXECUTE).encode())
    assert chain.servo(1).get("goal_position") == 300


def test_read_only_registers_are_not_written(line: tuple[VirtualBus, ServoChain], master: ServoBus) -> None:
    master.write(1, "present_position", 7)
    assert master.read(1, "present_position") == 2048


def test_vendors_package_drives_the_servos(
    line: tuple[VirtualBus, ServoChain], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ping, read, write, sync read and sync write of feetech-servo-sdk, whose adapter has any latency."""
    monkeypatch.setattr("scservo_sdk.port_handler.LATENCY_TIMER", PATIENCE * 1e3 / 2)  # it waits for twice this [ms]
    bus, chain = line
    port, packets = scservo_sdk.PortHandler(str(bus.path)), scservo_sdk.PacketHandler(0)
    assert port.openPort() and port.setBaudRate(1_000_000)
    try:
        assert packets.ping(port, 2) == (777, scservo_sdk.COMM_SUCCESS, 0)
        assert packets.write2ByteTxRx(port, 3, 42, 1111) == (scservo_sdk.COMM_SUCCESS, 0)
        assert packets.read2ByteTxRx(port, 3, 42) == (1111, scservo_sdk.COMM_SUCCESS, 0)
        writer = scservo_sdk.GroupSyncWrite(port, packets, 42, 2)
        for servo, low in ((1, 10), (2, 20)):
            assert writer.addParam(servo, [low, 1])
        assert writer.txPacket() == scservo_sdk.COMM_SUCCESS
        reader = scservo_sdk.GroupSyncRead(port, packets, 42, 2)
        for servo in (1, 2, 3):
            assert reader.addParam(servo)
        assert reader.txRxPacket() == scservo_sdk.COMM_SUCCESS
        assert [reader.getData(servo, 42, 2) for servo in (1, 2, 3)] == [256 + 10, 256 + 20, 1111]
        chain.servo(1).fault = Fault.OVERLOADED
        assert packets.ping(port, 1)[2] == scservo_sdk.ERRBIT_OVERLOAD
        assert packets.ping(port, 9)[1] == scservo_sdk.COMM_RX_TIMEOUT
    finally:
        port.closePort()


# --- faults of the line ---------------------------------------------------------------------------------------------


def test_wrong_checksum_is_no_value(line: tuple[VirtualBus, ServoChain], master: ServoBus) -> None:
    line[0].distort = lambda data: data[:-1] + bytes([data[-1] ^ 1])
    with pytest.raises(BusError, match=r"the answer of servo 1 on .* was damaged"):
        master.read(1, "present_position")
    assert master.errors == {"damaged": 3}


def test_one_damaged_answer_is_read_again(line: tuple[VirtualBus, ServoChain], master: ServoBus) -> None:
    answers = iter([b"\x00garbage", b"", None])

    def distort(data: bytes) -> bytes:
        replacement = next(answers)
        return data if replacement is None else replacement

    line[0].distort = distort
    assert master.read(1, "present_position") == 2048
    assert sum(master.errors.values()) == 2


def test_answer_of_another_servo_is_no_value(line: tuple[VirtualBus, ServoChain], master: ServoBus) -> None:
    line[0].distort = lambda data: Packet(7, 0, b"\x01\x02").encode()
    with pytest.raises(BusError, match="servo 1 did not answer, but servo 7 did; is another program using the bus"):
        master.read(1, "present_position")


def test_answer_of_another_length_is_no_value(line: tuple[VirtualBus, ServoChain], master: ServoBus) -> None:
    line[0].distort = lambda data: Packet(1, 0, b"\x01").encode()
    with pytest.raises(BusError, match="servo 1 answered: expected 2 bytes, got 1"):
        master.read(1, "present_position")


def test_silent_servo_fails_the_whole_sync_read(master: ServoBus) -> None:
    with pytest.raises(BusError, match=r"servo 9 on .* did not answer in 300 ms; is it powered"):
        master.sync_read([1, 9], ["present_position"])
    assert master.errors == {"silent": 3}


def test_half_packet_is_no_value(line: tuple[VirtualBus, ServoChain], master: ServoBus) -> None:
    line[0].distort = lambda data: data[:-3]
    with pytest.raises(BusError, match="damaged"):
        master.read(1, "present_position")


def test_garbage_of_a_second_master_is_skipped(line: tuple[VirtualBus, ServoChain], master: ServoBus) -> None:
    line[0].distort = lambda data: READ_POSITION[:5] + b"\xff\xff" + Packet(3, 0).encode() + data
    assert master.read(1, "present_position") == 2048


def test_unplugged_port_is_lost_and_opens_again(line: tuple[VirtualBus, ServoChain], master: ServoBus) -> None:
    line[0].unplug()
    with pytest.raises(PortLostError, match="is the cable unplugged"):
        master.read(1, "present_position")
    assert not master.is_open and master.errors["port_lost"] == 1
    with pytest.raises(PortLostError, match=r"cannot be opened: .*Is the arm plugged in and powered"):
        master.open()
    line[0].plug()
    master.open()
    assert master.read(1, "present_position") == 2048


def test_port_that_is_lost_between_two_exchanges_is_named() -> None:
    ends = os.openpty()
    bus = ServoBus(os.ttyname(ends[1]))
    bus.open()
    for end in ends:
        os.close(end)
    with pytest.raises(PortLostError, match="is the cable unplugged"):
        bus.sync_write("torque_enable", {1: 0})
    assert not bus.is_open


def test_answers_that_arrived_while_the_process_slept_count(line: tuple[VirtualBus, ServoChain]) -> None:
    class SleepyClock(MonotonicClock):
        """Clock that is next looked at when the answer has arrived, a second later."""

        calls = 0

        def now_ns(self) -> int:
            self.calls += 1
            assert self.calls == 1 or eventually(lambda: master._line._opened().in_waiting == 8)
            return self.calls * 10**9

    master = ServoBus(str(line[0].path), retries=0, clock=SleepyClock())
    master.open()
    assert master.read(1, "present_position") == 2048
    master.close()


def test_late_answer_is_not_taken_for_that_to_the_next_instruction(
    line: tuple[VirtualBus, ServoChain], master: ServoBus
) -> None:
    line[0].distort = lambda data: b""
    with pytest.raises(BusError, match="did not answer"):
        master.read(1, "model_number")
    line[0].distort = None
    line[0].inject(Packet(1, 0, b"\x09\x03").encode())
    assert master.read(1, "present_position") == 2048


def test_echo_of_an_adapter_is_no_answer(line: tuple[VirtualBus, ServoChain], master: ServoBus) -> None:
    line[0].distort = lambda data: READ_POSITION + data  # its two parameters look like a position
    assert master.read(1, "present_position") == 2048


def test_value_that_a_servo_does_not_take_is_noticed(line: tuple[VirtualBus, ServoChain], master: ServoBus) -> None:
    master.sync_write_checked("goal_position", {1: 100, 2: 200})
    line[1].servos.remove(line[1].servo(2))
    with pytest.raises(BusError, match=r"servo 2 on .* did not answer"):
        master.sync_write_checked("goal_position", {1: 100, 2: 300})
    line[1].servo(3).write = lambda data: None  # type: ignore[method-assign]
    with pytest.raises(BusError, match=r"servo 3 on .*: goal_position is 0 after 300 was written"):
        master.sync_write_checked("goal_position", {1: 100, 3: 300})
    assert master.errors["ignored"] == 3


def test_open_port_is_closed_to_other_programs(line: tuple[VirtualBus, ServoChain], master: ServoBus) -> None:
    assert is_exclusive(line[0])
    master.close()
    assert not is_exclusive(line[0])


def is_exclusive(bus: VirtualBus) -> bool:
    """Return whether the system refuses to open the port again (the superuser is never refused)."""
    end = os.open(bus.path, os.O_RDWR | os.O_NOCTTY)
    try:
        return bool(int.from_bytes(fcntl.ioctl(end, TIOCGEXCL, bytes(4)), sys.byteorder))
    finally:
        os.close(end)


def test_port_of_another_program_is_refused(line: tuple[VirtualBus, ServoChain], master: ServoBus) -> None:
    other = ServoBus(str(line[0].path))
    with pytest.raises(DriverError, match="is no other program using it"):
        other.open()
