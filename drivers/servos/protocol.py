"""Packets of the serial protocol of Feetech STS and SMS servos, for a master and for a simulated servo.

A packet is FF FF, the servo's id, the number of remaining bytes, an instruction (from the master) or a status byte
(from a servo), parameters, and the inverted sum of everything after FF FF. Source: Feetech's protocol manual of the
SMS/STS series.
"""

from enum import IntEnum, IntFlag
from typing import NamedTuple

HEADER = b"\xff\xff"
BROADCAST = 0xFE
"""Id that addresses all servos."""
LARGEST_ID = 0xFD
LONGEST = 250
"""Largest value of the length byte that is accepted."""


class Instruction(IntEnum):
    """Instructions of a master."""

    PING = 0x01
    READ = 0x02
    WRITE = 0x03
    PREPARE = 0x04
    EXECUTE = 0x05
    SYNC_READ = 0x82
    SYNC_WRITE = 0x83


class Fault(IntFlag):
    """Faults in the status byte of a servo."""

    VOLTAGE = 1
    ANGLE = 2
    OVERHEATED = 4
    OVERCURRENT = 8
    OVERLOADED = 32


class Packet(NamedTuple):
    """Packet without header, length and checksum.

    Attributes:
        servo: id of the servo.
        code: instruction, or status byte of an answer.
        parameters: remaining bytes.
    """

    servo: int
    code: int
    parameters: bytes = b""

    def encode(self) -> bytes:
        """Return the bytes of the packet as they are sent."""
        body = bytes([self.servo, len(self.parameters) + 2, self.code]) + self.parameters
        return HEADER + body + bytes([checksum(body)])


def checksum(body: bytes) -> int:
    """Return the checksum of everything between header and checksum."""
    return ~sum(body) & 0xFF


class PacketReader:
    """Packets in a stream of bytes that may contain garbage and damaged packets.

    Attributes:
        damaged: number of packets with a wrong checksum or an impossible length so far.
        pending: bytes that may be the beginning of a packet.
    """

    def __init__(self) -> None:
        self.damaged = 0
        self.pending = b""

    def feed(self, data: bytes) -> list[Packet]:
        """Return the packets that ``data`` completes."""
        self.pending += data
        packets = []
        while (packet := self._next()) is not None:
            packets.append(packet)
        return packets

    def clear(self) -> None:
        """Forget the beginning of a packet."""
        self.pending = b""

    def _next(self) -> Packet | None:
        """Remove the first complete packet from ``pending`` and return it; None if there is none."""
        while True:
            start = self.pending.find(HEADER)
            if start < 0:
                self.pending = self.pending[-1:] if self.pending.endswith(b"\xff") else b""
                return None
            self.pending = self.pending[start:]
            if len(self.pending) < 4:
                return None
            servo, length = self.pending[2], self.pending[3]
            if servo == 0xFF:  # a header has two bytes, so the first of three is garbage
                self.pending = self.pending[1:]
                continue
            if not 2 <= length <= LONGEST:
                self._skip()
                continue
            if len(self.pending) < length + 4:
                return None
            body, received = self.pending[2 : length + 3], self.pending[length + 3]
            if checksum(body) != received:
                self._skip()
                continue
            self.pending = self.pending[length + 4 :]
            return Packet(servo, body[2], body[3:])

    def _skip(self) -> None:
        """Search for the next header, because no valid packet begins at the current position."""
        self.damaged += 1
        self.pending = self.pending[1:]
