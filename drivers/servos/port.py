"""Serial port of a servo bus, opened for this process alone."""

import contextlib
import fcntl
import termios
from collections import Counter
from typing import TYPE_CHECKING, Any

from robo_rl.core import DriverError, importing_extra

if TYPE_CHECKING:
    import serial

POLL_SECONDS = 0.002
"""Longest wait for bytes before the clock is checked again [s]."""
WRITE_SECONDS = 1.0
"""Longest wait for a port that accepts no bytes because its adapter hangs [s]. pyserial also counts time in which this
process was suspended, even if all bytes were accepted.
"""


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


class ServoPort:
    """Serial port that is closed as soon as it is lost.

    Args:
        path: path of the port.
        baud_rate: bits per second.
        errors: counter whose entry ``port_lost`` counts losses of the open port.
    """

    def __init__(self, path: str, baud_rate: int, errors: Counter[str]) -> None:
        self.path, self._baud_rate, self._errors = path, baud_rate, errors
        self._serial: serial.Serial | None = None

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
            self._serial = serial.Serial(
                self.path, self._baud_rate, timeout=POLL_SECONDS, write_timeout=WRITE_SECONDS, exclusive=True
            )
            # pyserial's lock is advisory, and other programs, such as LeRobot, do not check it.
            fcntl.ioctl(self._serial.fileno(), termios.TIOCEXCL)
        except (OSError, ValueError, termios.error) as error:
            self.close()
            reason = getattr(error, "strerror", None) or error
            raise PortLostError(
                f"the serial port {self.path} cannot be opened: {reason}. Is the arm plugged in and powered, may this "
                "user read the port (group dialout), and is no other program using it?"
            ) from error

    def close(self) -> None:
        """Close the port. May be called twice."""
        if self._serial is not None:
            with contextlib.suppress(OSError, termios.error):  # the port is gone
                fcntl.ioctl(self._serial.fileno(), termios.TIOCNXCL)
            with contextlib.suppress(OSError, termios.error):
                self._serial.close()
            self._serial = None

    def send(self, data: bytes) -> None:
        """Discard received bytes, and send ``data``.

        Raises:
            PortLostError: if the port is lost.
        """
        port = self._opened()
        try:
            port.reset_input_buffer()
            port.write(data)
        except (OSError, termios.error) as error:  # termios.error is not a subclass of OSError
            raise self._lost(error) from error

    def receive(self) -> bytes:
        """Return the bytes that have arrived, or arrive within :data:`POLL_SECONDS`.

        Raises:
            PortLostError: if the port is lost.
        """
        port = self._opened()
        try:
            data: bytes = port.read(max(1, port.in_waiting))
        # pyserial raises TypeError if the port was closed meanwhile
        except (OSError, TypeError, termios.error) as error:
            raise self._lost(error) from error
        return data

    def _opened(self) -> Any:
        if self._serial is None:
            raise PortLostError(f"the serial port {self.path} is not open")
        return self._serial

    def _lost(self, error: Exception) -> PortLostError:
        self._errors["port_lost"] += 1
        self.close()
        return PortLostError(f"the serial port {self.path} was lost ({error}): is the cable unplugged?")


def import_serial() -> Any:
    """Return pyserial.

    Raises:
        ConfigError: if it is not installed.
    """
    with importing_extra("servos", "arms on a serial bus need pyserial"):
        import serial
    return serial
