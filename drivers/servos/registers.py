"""Registers of Feetech STS3215 servos: names, addresses, sizes and encodings.

Source: Feetech's memory table of the SMS/STS series. Words are little-endian; signed words are sign and magnitude.
"""

from typing import NamedTuple

TICKS = 4096
"""Positions in one turn of a servo."""
MODEL_NUMBER = 777
"""Model number of an STS3215."""


class Register(NamedTuple):
    """Place of a value in a servo's memory.

    Attributes:
        address: address of the first byte.
        size: number of bytes, 1 or 2.
        sign_bit: bit that is set for negative values; None: the value is not negative.
        is_writable: whether a master may write it.
    """

    address: int
    size: int = 1
    sign_bit: int | None = None
    is_writable: bool = True

    def encode(self, value: int) -> bytes:
        """Return the bytes of a value.

        Raises:
            ValueError: if the register cannot hold it.
        """
        low, high = (0, (1 << 8 * self.size) - 1) if self.sign_bit is None else self._signed_range(self.sign_bit)
        if not low <= value <= high:
            raise ValueError(f"expected a value from {low} to {high} for address {self.address}, got {value}")
        if self.sign_bit is not None and value < 0:
            value = -value | 1 << self.sign_bit
        return value.to_bytes(self.size, "little")

    def decode(self, data: bytes) -> int:
        """Return the value in ``data``, which has ``size`` bytes."""
        value = int.from_bytes(data, "little")
        if self.sign_bit is None or not value & 1 << self.sign_bit:
            return value
        return -(value & (1 << self.sign_bit) - 1)

    @staticmethod
    def _signed_range(bit: int) -> tuple[int, int]:
        return -(1 << bit) + 1, (1 << bit) - 1


REGISTERS = {
    "firmware_major": Register(0, is_writable=False),
    "firmware_minor": Register(1, is_writable=False),
    "model_number": Register(3, 2, is_writable=False),
    "id": Register(5),
    "baud_rate": Register(6),
    "return_delay": Register(7),
    "status_level": Register(8),
    "position_low": Register(9, 2),
    "position_high": Register(11, 2),
    "temperature_limit": Register(13),
    "voltage_high": Register(14),
    "voltage_low": Register(15),
    "largest_torque": Register(16, 2),
    "proportional_gain": Register(21),
    "derivative_gain": Register(22),
    "integral_gain": Register(23),
    "protection_current": Register(28, 2),
    "homing_offset": Register(31, 2, sign_bit=11),
    "operating_mode": Register(33),
    "protective_torque": Register(34),
    "protection_time": Register(35),
    "overload_torque": Register(36),
    "torque_enable": Register(40),
    "acceleration": Register(41),
    "goal_position": Register(42, 2, sign_bit=15),
    "goal_time": Register(44, 2),
    "goal_velocity": Register(46, 2, sign_bit=15),
    "torque_limit": Register(48, 2),
    "lock": Register(55),
    "present_position": Register(56, 2, sign_bit=15, is_writable=False),
    "present_velocity": Register(58, 2, sign_bit=15, is_writable=False),
    "present_load": Register(60, 2, sign_bit=10, is_writable=False),
    "present_voltage": Register(62, is_writable=False),
    "present_temperature": Register(63, is_writable=False),
    "status": Register(65, is_writable=False),
    "moving": Register(66, is_writable=False),
    "present_current": Register(69, 2, sign_bit=15, is_writable=False),
}
"""Registers by name. Velocities are in ticks per second, loads in thousandths of the largest torque, voltages in tenths
of a volt, temperatures in degrees Celsius, times in milliseconds, accelerations in hundreds of ticks per second
squared."""
