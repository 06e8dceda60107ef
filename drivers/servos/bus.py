"""The master of a servo bus: reads and writes registers of servos on a serial port.

The port is pyserial's. Feetech's own package (feetech-servo-sdk) is not used to drive a robot, because its time-outs
are measured by the wall clock and it does not report which servo an answer came from; tests use it as a second master.
"""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from robo_rl.core import Clock, ConfigError, DriverError, MonotonicClock

from .protocol import BROADCAST, Fault, Instruction, Packet, PacketReader
from .registers import REGISTERS

if TYPE_CHECKING:
    import serial

POLL_SECONDS = 0.002
"""Longest wait for bytes before the time is looked at again [s]."""


class BusError(DriverError):
    """Failure of an exchange with servos.

    Attributes:
        kind: short name of the failure, for counting.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class PortLostError(BusError):
    """Loss of the serial port, for example because its cable was unplugged."""

    def __init__(self, message: str) -> None:
        super().__init__("port_lost", message)


class ServoBus:
    """Serial port with servos.

    Values are checked before they are returned: an answer counts only with the expected id, length and checksum. A
    failed exchange is repeated ``retries`` times.

    Args:
        port: path of the serial port.
        baud_rate: bits per second.
        timeout: longest wait for the answers to one instruction [s].
        retries: number of repetitions of a failed exchange.
        clock: monotonic clock.

    Attributes:
        errors: number of failures so far by kind: ``silent``, ``damaged``, ``wrong_servo``, ``wrong_length`` and
            ``port_lost``.
        faults: faults in the newest answer of each servo, by id.
    """

    def __init__(
        self, port: str, baud_rate: int = 1_000_000, timeout: float = 0.02, retries: int = 2, clock: Clock | None = None
    ) -> None:
        self.port, self._baud_rate, self._retries = port, baud_rate, retries
        self._timeout_ns = round(timeout * 1e9)
        self._clock = clock or MonotonicClock()
        self._serial: serial.Serial | None = None
        self._reader = PacketReader()
        self.errors: Counter[str] = Counter()
        self.faults: dict[int, Fault] = {}

    @property
    def is_open(self) -> bool:
        return self._serial is not None

    def open(self) -> None:
        """Open the port, for this process alone.

        Raises:
            PortLostError: if it cannot be opened.
        """
        serial = import_serial()
        self.close()
        try:
            self._serial = serial.Serial(self.port, self._baud_rate, timeout=POLL_SECONDS, exclusive=True)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise PortLostError(
                f"the serial port {self.port} cannot be opened: {reason}. Is the arm plugged in and powered, may this "
                "user read the port (group dialout), and is no other program using it?"
            ) from error

    def close(self) -> None:
        """Close the port. May be called twice."""
        if self._serial is not None:
            with contextlib.suppress(OSError):  # it is gone
                self._serial.close()
            self._serial = None

    def ping(self, servo: int) -> None:
        """Check that a servo answers.

        Raises:
            BusError: if it does not.
        """
        self._exchange(Packet(servo, Instruction.PING), {servo: 0})

    def read(self, servo: int, name: str) -> int:
        """Return the value of a register.

        Raises:
            BusError: if the servo does not answer.
        """
        register = REGISTERS[name]
        request = Packet(servo, Instruction.READ, bytes([register.address, register.size]))
        return register.decode(self._exchange(request, {servo: register.size})[servo])

    def write(self, servo: int, name: str, value: int) -> None:
        """Write a register.

        Raises:
            BusError: if the servo does not acknowledge.
        """
        register = REGISTERS[name]
        parameters = bytes([register.address]) + register.encode(value)
        self._exchange(Packet(servo, Instruction.WRITE, parameters), {servo: 0})

    def sync_read(self, servos: Sequence[int], names: Sequence[str]) -> dict[int, dict[str, int]]:
        """Return registers of several servos, read by one instruction.

        Args:
            servos: ids.
            names: names of registers, which are read as one block from the first address to the last.

        Raises:
            BusError: if one of the servos does not answer.
        """
        first = min(REGISTERS[name].address for name in names)
        size = max(REGISTERS[name].address + REGISTERS[name].size for name in names) - first
        request = Packet(BROADCAST, Instruction.SYNC_READ, bytes([first, size, *servos]))
        answers = self._exchange(request, dict.fromkeys(servos, size))
        return {servo: {name: _part(answers[servo], first, name) for name in names} for servo in servos}

    def sync_write(self, name: str, values: Mapping[int, int]) -> None:
        """Write a register of several servos, by id. Servos do not acknowledge this.

        Raises:
            PortLostError: if the port is lost.
        """
        register = REGISTERS[name]
        parameters = bytes([register.address, register.size])
        for servo, value in values.items():
            parameters += bytes([servo]) + register.encode(value)
        self._send(Packet(BROADCAST, Instruction.SYNC_WRITE, parameters))

    def _exchange(self, request: Packet, sizes: Mapping[int, int]) -> dict[int, bytes]:
        """Send ``request`` and return the parameters of each answer by id; ``sizes`` are the expected lengths."""
        for attempt in range(self._retries + 1):
            try:
                self._send(request)
                return self._receive(sizes)
            except PortLostError:
                raise
            except BusError:
                if attempt == self._retries:
                    raise
        raise AssertionError("at least one attempt is made")

    def _send(self, packet: Packet) -> None:
        port = self._port()
        self._reader.clear()
        try:
            port.reset_input_buffer()
            port.write(packet.encode())
        except OSError as error:
            raise self._lost(error) from error

    def _receive(self, sizes: Mapping[int, int]) -> dict[int, bytes]:
        port, deadline_ns = self._port(), self._clock.now_ns() + self._timeout_ns
        answers: dict[int, bytes] = {}
        damaged, strangers = self._reader.damaged, set()
        while len(answers) < len(sizes) and self._clock.now_ns() < deadline_ns:
            try:
                data = port.read(max(1, port.in_waiting))
            except (OSError, TypeError) as error:  # pyserial raises TypeError if the port is closed meanwhile
                raise self._lost(error) from error
            for packet in self._reader.feed(data):
                if packet.servo not in sizes:
                    strangers.add(packet.servo)
                elif len(packet.parameters) != sizes[packet.servo]:
                    expected = f"{sizes[packet.servo]} bytes, got {len(packet.parameters)}"
                    raise self._failure("wrong_length", f"servo {packet.servo} answered: expected {expected}")
                else:
                    self.faults[packet.servo] = Fault(packet.code & sum(Fault))
                    answers[packet.servo] = packet.parameters
        missing = ", ".join(str(servo) for servo in sizes if servo not in answers)
        if not missing:
            return answers
        hint = "; is another program using the bus, or do two servos have one id?"
        if strangers:
            others = ", ".join(map(str, sorted(strangers)))
            raise self._failure("wrong_servo", f"servo {missing} did not answer, but servo {others} did{hint}")
        if self._reader.damaged > damaged or self._reader.pending:
            raise self._failure("damaged", f"the answer of servo {missing} on {self.port} was damaged{hint}")
        raise self._failure(
            "silent", f"servo {missing} on {self.port} did not answer in {self._timeout_ns * 1e-6:g} ms; is it powered?"
        )

    def _failure(self, kind: str, message: str) -> BusError:
        self.errors[kind] += 1
        return BusError(kind, message)

    def _port(self) -> Any:
        if self._serial is None:
            raise PortLostError(f"the serial port {self.port} is not open")
        return self._serial

    def _lost(self, error: Exception) -> PortLostError:
        self.errors["port_lost"] += 1
        self.close()
        return PortLostError(f"the serial port {self.port} was lost ({error}): is the cable unplugged?")


def _part(block: bytes, first: int, name: str) -> int:
    register = REGISTERS[name]
    start = register.address - first
    return register.decode(block[start : start + register.size])


def import_serial() -> Any:
    """Return pyserial.

    Raises:
        ConfigError: if it is not installed.
    """
    try:
        import serial
    except ImportError as error:
        raise ConfigError("arms on a serial bus need pyserial: pip install 'robo-rl[servos]'") from error
    return serial
