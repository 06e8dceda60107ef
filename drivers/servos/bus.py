"""Master of a servo bus, which reads and writes registers of servos on a serial port.

The port is pyserial's. Feetech's own package (feetech-servo-sdk) is not used to drive a robot, because its time-outs
depend on the wall clock, and it does not report which servo an answer came from. Tests use it as a second master.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from robo_rl.core import Clock, MonotonicClock

from .port import BusError, PortLostError, ServoPort
from .protocol import BROADCAST, Fault, Instruction, Packet, PacketReader
from .registers import REGISTERS


class ServoBus:
    """Serial port with servos.

    Values are checked before they are returned: an answer counts only with the expected id, length and checksum. Echoes
    of an adapter are ignored. A failed exchange is repeated ``retries`` times, after the line has become quiet.

    Args:
        port: path of the serial port.
        baud_rate: bits per second.
        timeout: longest wait for the answers to one instruction [s].
        retries: number of repetitions of a failed exchange.
        clock: monotonic clock.

    Attributes:
        errors: number of failures so far by kind: ``silent``, ``damaged``, ``wrong_servo``, ``wrong_length``,
            ``ignored`` and ``port_lost``.
        faults: faults in the newest answer of each servo, by id.
    """

    def __init__(
        self, port: str, baud_rate: int = 1_000_000, timeout: float = 0.02, retries: int = 2, clock: Clock | None = None
    ) -> None:
        self.port, self._retries = port, retries
        self._timeout_ns = round(timeout * 1e9)
        self._clock = clock or MonotonicClock()
        self._reader = PacketReader()
        self.errors: Counter[str] = Counter()
        self._line = ServoPort(port, baud_rate, self.errors)
        self.faults: dict[int, Fault] = {}

    @property
    def is_open(self) -> bool:
        return self._line.is_open

    def open(self) -> None:
        """Open the port, for this process alone.

        Raises:
            PortLostError: if it cannot be opened.
        """
        self._line.open()

    def close(self) -> None:
        """Close the port. May be called twice."""
        self._line.close()

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

    def sync_write_checked(self, name: str, values: Mapping[int, int]) -> None:
        """Write a register of several servos, by id, and read it back.

        Raises:
            BusError: if a servo does not answer, or has another value after all repetitions.
        """
        for _ in range(self._retries + 1):
            self.sync_write(name, values)
            stored = self.sync_read(list(values), [name])
            wrong = [servo for servo, value in values.items() if stored[servo][name] != value]
            if not wrong:
                return
            servo = wrong[0]
            failure = self._failure(
                "ignored",
                f"servo {servo} on {self.port}: {name} is {stored[servo][name]} after {values[servo]} was written; is "
                "another program using the bus?",
            )
        raise failure

    def _exchange(self, request: Packet, sizes: Mapping[int, int]) -> dict[int, bytes]:
        """Send ``request`` and return the parameters of each answer by id; ``sizes`` are the expected lengths."""
        for attempt in range(self._retries + 1):
            try:
                self._send(request)
                return self._receive(request, sizes)
            except PortLostError:
                raise
            except BusError:
                if attempt == self._retries:
                    raise
                self._await_quiet()
        raise AssertionError("at least one attempt is made")

    def _send(self, packet: Packet) -> None:
        self._reader.clear()
        self._line.send(packet.encode())

    def _await_quiet(self) -> None:
        """Discard bytes until the line is quiet, so that no late answer is taken for the next one."""
        deadline_ns = self._clock.now_ns() + self._timeout_ns
        while self._line.receive() and self._clock.now_ns() < deadline_ns:
            pass

    def _receive(self, request: Packet, sizes: Mapping[int, int]) -> dict[int, bytes]:
        deadline_ns = self._clock.now_ns() + self._timeout_ns
        answers: dict[int, bytes] = {}
        damaged, strangers = self._reader.damaged, set()
        is_late = False
        while len(answers) < len(sizes) and not is_late:
            # measured before reading: bytes that arrived while this process slept still count
            is_late = self._clock.now_ns() >= deadline_ns
            for packet in self._reader.feed(self._line.receive()):
                if packet == request:
                    continue  # the echo of an adapter
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


def _part(block: bytes, first: int, name: str) -> int:
    register = REGISTERS[name]
    start = register.address - first
    return register.decode(block[start : start + register.size])
