"""Simulated STS3215 servos that answer the packets of a master, byte for byte."""

from collections.abc import Iterable
from dataclasses import dataclass

from .protocol import BROADCAST, Fault, Instruction, Packet, PacketReader
from .registers import MODEL_NUMBER, REGISTERS, TICKS, Register

MEMORY = 128
"""Size of a servo's memory [bytes]."""
CENTRE_HERE = 128
"""Value of ``torque_enable`` that makes the current position the middle of the range."""
FREE_SPEED = 3000
"""Speed of a servo without a limit in ``goal_velocity`` [ticks/s]."""
FACTORY = {
    "firmware_major": 3,
    "firmware_minor": 10,
    "model_number": MODEL_NUMBER,
    "return_delay": 250,
    "status_level": 1,
    "position_high": TICKS - 1,
    "temperature_limit": 70,
    "voltage_high": 80,
    "voltage_low": 40,
    "largest_torque": 1000,
    "proportional_gain": 32,
    "derivative_gain": 32,
    "protection_current": 500,
    "protective_torque": 20,
    "protection_time": 200,
    "overload_torque": 80,
    "torque_limit": 1000,
    "lock": 1,
    "present_voltage": 74,
    "present_temperature": 30,
}
"""Registers of a new servo that are not 0."""


@dataclass
class Measured:
    """Measurements of a servo.

    Attributes:
        position: position before the homing offset [ticks].
        velocity: speed [ticks/s].
        load: torque [thousandths of the largest torque].
    """

    position: float
    velocity: float = 0.0
    load: float = 0.0


class VirtualServo:
    """Memory and set point of one servo.

    Attributes:
        fault: faults that it reports.
        setpoint: position that its motor is driven to, before the homing offset [ticks].
    """

    def __init__(self, number: int) -> None:
        self.memory = bytearray(MEMORY)
        self.fault = Fault(0)
        self.setpoint = TICKS / 2
        self._position = TICKS / 2
        self._prepared: bytes | None = None
        for name, value in {**FACTORY, "id": number}.items():
            self.set(name, value)
        self.measure(Measured(TICKS / 2), 0.0)

    @property
    def number(self) -> int:
        """Id of the servo."""
        return self.get("id")

    @property
    def is_driven(self) -> bool:
        """Whether the motor exerts torque."""
        return bool(self.get("torque_enable"))

    def get(self, name: str) -> int:
        """Return the value of a register."""
        register = REGISTERS[name]
        return register.decode(bytes(self.memory[register.address : register.address + register.size]))

    def set(self, name: str, value: int) -> None:
        """Set a register, read-only ones included."""
        register = REGISTERS[name]
        self.memory[register.address : register.address + register.size] = register.encode(value)

    def measure(self, measured: Measured, seconds: float) -> None:
        """Set the measured values after ``seconds`` of motion, and move the set point towards its goal."""
        offset = self.get("homing_offset")
        self._position = measured.position
        self.set("present_position", round(measured.position - offset) % TICKS)
        self.set("present_velocity", round(measured.velocity))
        self.set("present_load", max(-1000, min(1000, round(measured.load))))
        self.set("status", int(self.fault))
        if not self.is_driven:
            self.setpoint = measured.position
            return
        low, high = self.get("position_low"), self.get("position_high")
        goal = min(max(self.get("goal_position"), low), high) + offset
        step = (abs(self.get("goal_velocity")) or FREE_SPEED) * seconds
        self.setpoint += max(-step, min(step, goal - self.setpoint))
        self.set("moving", int(abs(goal - self.setpoint) > 1))

    def read(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes of the memory."""
        return bytes(self.memory[address : address + size])

    def write(self, data: bytes) -> None:
        """Write bytes, the first of which is the address. Read-only registers keep their values."""
        address, values = data[0], data[1:]
        was_driven = self.is_driven
        for register in _written(address, len(values)):
            start = register.address - address
            self.memory[register.address : register.address + register.size] = values[start : start + register.size]
        if self.get("torque_enable") == CENTRE_HERE:
            self.set("homing_offset", round(self._position) - TICKS // 2)
            self.set("torque_enable", int(was_driven))
        if self.is_driven and not was_driven:
            self.setpoint = self._position  # the servo then moves to its goal, even to an old one

    def prepare(self, data: bytes) -> None:
        """Store a write for :meth:`execute`."""
        self._prepared = data

    def execute(self) -> None:
        """Perform the stored write."""
        if self._prepared is not None:
            self.write(self._prepared)
            self._prepared = None


class ServoChain:
    """Servos on one line. A master interacts with them only through :meth:`answer`.

    Attributes:
        servos: the servos, in the order of their ids on the line.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self.servos = [VirtualServo(number) for number in numbers]
        self._reader = PacketReader()

    def servo(self, number: int) -> VirtualServo:
        """Return the servo with an id."""
        return next(servo for servo in self.servos if servo.number == number)

    def answer(self, data: bytes) -> list[bytes]:
        """Return the packets that the servos send after ``data``. Damaged packets are ignored, as by real servos."""
        return [answer.encode() for packet in self._reader.feed(data) for answer in self._obey(packet)]

    def _obey(self, packet: Packet) -> list[Packet]:
        parameters = packet.parameters
        if packet.code == Instruction.SYNC_READ and len(parameters) >= 2:
            known = {servo.number: servo for servo in self.servos}
            chosen = [known[number] for number in parameters[2:] if number in known]  # absent servos do not answer
            return [_status(servo, servo.read(*parameters[:2])) for servo in chosen]
        if packet.code == Instruction.SYNC_WRITE and len(parameters) >= 2:
            address, size = parameters[:2]
            for start in range(2, len(parameters) - size, size + 1):
                for servo in self.servos:
                    if servo.number == parameters[start]:
                        servo.write(bytes([address]) + parameters[start + 1 : start + 1 + size])
            return []
        addressed = [servo for servo in self.servos if packet.servo in (BROADCAST, servo.number)]
        answers = [answer for servo in addressed if (answer := _perform(servo, packet)) is not None]
        return answers if packet.servo != BROADCAST or packet.code == Instruction.PING else []


def _perform(servo: VirtualServo, packet: Packet) -> Packet | None:
    """Let one servo perform an instruction; return its answer, or None if it does not know the instruction."""
    parameters = packet.parameters
    if packet.code == Instruction.PING:
        return _status(servo)
    if packet.code == Instruction.READ and len(parameters) == 2:
        return _status(servo, servo.read(*parameters))
    number = servo.number  # the acknowledgement of a new id still has the old id
    if packet.code == Instruction.WRITE and len(parameters) >= 2:
        servo.write(parameters)
    elif packet.code == Instruction.PREPARE and len(parameters) >= 2:
        servo.prepare(parameters)
    elif packet.code == Instruction.EXECUTE:
        servo.execute()
    else:
        return None
    return Packet(number, int(servo.fault)) if servo.get("status_level") else None


def _status(servo: VirtualServo, data: bytes = b"") -> Packet:
    return Packet(servo.number, int(servo.fault), data)


def _written(address: int, size: int) -> list[Register]:
    """Return the registers that lie within a written block and may be written."""
    return [
        register
        for register in REGISTERS.values()
        if register.is_writable and address <= register.address and register.address + register.size <= address + size
    ]
