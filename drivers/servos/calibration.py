"""Calibration of servos: the relation of their ticks to joint positions, from the servos and from LeRobot's files."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from robo_rl.core import ConfigError, DataError, DriverError, parse_json, read_bytes

from .config import ServoConfig
from .registers import TICKS

SPAN_TOLERANCE = 0.25
"""Largest relative difference of a joint's range between the servo and the task's arm."""
LARGEST_FILE = 1 << 20
KEYS = ("id", "homing_offset", "range_min", "range_max")


class Calibration(NamedTuple):
    """Calibration of one servo, as it stores it and as LeRobot's files contain it.

    Attributes:
        id: id of the servo.
        homing_offset: ticks that the servo subtracts from its measurement.
        range_min: lowest position [ticks].
        range_max: highest position [ticks].
    """

    id: int
    homing_offset: int
    range_min: int
    range_max: int


@dataclass(frozen=True)
class JointMap:
    """Linear relation between the ticks of a servo and the position of its joint.

    Attributes:
        low: lowest position that is commanded [ticks].
        high: highest position [ticks].
        zero: ticks at joint position 0.
        per_unit: ticks for one radian, negative for a reversed servo.
    """

    low: int
    high: int
    zero: float
    per_unit: float

    def position(self, ticks: float) -> float:
        """Return the joint's position [rad]."""
        return (ticks - self.zero) / self.per_unit

    def ticks(self, position: float) -> int:
        """Return the ticks of a joint's position [rad], within the range."""
        return min(max(round(self.zero + position * self.per_unit), self.low), self.high)


def map_joint(
    name: str, servo: ServoConfig, calibration: Calibration, limits: tuple[float, float], is_gripper: bool = False
) -> JointMap:
    """Return the relation of a calibrated servo to its joint.

    The middle of a joint's range in the servo is the middle of its range in the task's arm. The ends of a gripper's
    range are closed and open, however far they are apart.

    Args:
        name: name of the joint, for messages.
        servo: configuration of the servo.
        calibration: calibration stored in the servo.
        limits: range of the joint in the task's arm [rad].
        is_gripper: whether the joint is the gripper's.

    Raises:
        DriverError: if the servo's range does not match the joint.
    """
    low, high = calibration.range_min, calibration.range_max
    ticks_per_radian = TICKS * servo.gear / (2 * math.pi)
    span, expected = (high - low) / ticks_per_radian, limits[1] - limits[0]
    tolerance = 0.5 if is_gripper else SPAN_TOLERANCE
    if not abs(span - expected) <= tolerance * expected:
        raise DriverError(
            f"servo {servo.id} ({name}) is calibrated for a range of {span:.2f} rad (ticks {low} to {high}), but the "
            f"joint of the task's arm has {expected:.2f} rad. Calibrate the arm (lerobot-calibrate), or give the task "
            "this arm (task.arm)"
        )
    sign = -1.0 if servo.reversed else 1.0
    per_unit = sign * ((high - low) / expected if is_gripper else ticks_per_radian)
    zero = (low + high) / 2 - per_unit * (limits[0] + limits[1]) / 2
    return JointMap(low, high, zero, per_unit)


def nominal_calibration(servo: ServoConfig, limits: tuple[float, float]) -> Calibration:
    """Return the calibration of a servo that matches the joint of the task's arm exactly."""
    half = (limits[1] - limits[0]) / 2 * TICKS * servo.gear / (2 * math.pi)
    return Calibration(servo.id, 0, math.floor(TICKS / 2 - half), math.ceil(TICKS / 2 + half))


def load_calibration(path: str) -> dict[str, Calibration]:
    """Return the calibration of each motor in a calibration file of LeRobot.

    Raises:
        ConfigError: if the file cannot be read, or has another format.
    """
    file = Path(path).expanduser()
    try:
        content = parse_json(read_bytes(file, LARGEST_FILE), "the file")
    except (DataError, OSError) as error:
        raise ConfigError(
            f"robot.calibration: {path} cannot be read ({error}); LeRobot writes it to "
            "~/.cache/huggingface/lerobot/calibration/robots/so101_follower/ID.json (so_follower in newer versions)"
        ) from error
    if not isinstance(content, dict):
        raise ConfigError(f"robot.calibration: {path}: expected motors by name, got {type(content).__name__}")
    return {str(name): _entry(path, name, motor) for name, motor in content.items()}


def check_calibration(path: str, expected: Mapping[str, Calibration], stored: Mapping[str, Calibration]) -> None:
    """Compare a calibration file with the calibration stored in the servos.

    Raises:
        DriverError: if they differ: the positions of the joints would be wrong.
    """
    for name, calibration in stored.items():
        if name not in expected:
            raise DriverError(f"robot.calibration: {path} has no motor {name!r}, but {', '.join(expected)}")
        if expected[name] != calibration:
            raise DriverError(
                f"servo {calibration.id} ({name}) is calibrated otherwise than {path}: it stores "
                f"{calibration._asdict()}, the file has {expected[name]._asdict()}. Use the file of this arm, or "
                "write it to the servos with lerobot-calibrate"
            )


def _entry(path: str, name: object, motor: Any) -> Calibration:
    values = [motor.get(key) for key in KEYS] if isinstance(motor, dict) else []
    numbers = [value for value in values if type(value) is int]
    if len(numbers) != len(KEYS):
        raise ConfigError(f"robot.calibration: {path}: expected whole numbers {', '.join(KEYS)} of {name!r}")
    if motor.get("drive_mode"):
        raise ConfigError(
            f"robot.calibration: {path}: {name!r} has a drive_mode, which servos do not know; set "
            f"robot.servos.{name}.reversed=true and the drive_mode to 0"
        )
    return Calibration(*numbers)
