"""Decoders of messages into elements of an observation."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    ArraySpec,
    ConfigError,
    SpecError,
    decode_ros_compressed_image,
    decode_ros_image,
    matrix_of_quaternion,
    nearest,
)

from ..cameras.capture import scaled
from .config import IMAGES, SourceConfig

Array = NDArray[np.float64]

AXES = ("x", "y", "z")
POSE = (
    *(f"end_effector_{axis}" for axis in AXES),
    *(f"end_effector_r{row}{column}" for column in (1, 2) for row in (1, 2, 3)),
)
VELOCITY = tuple(f"end_effector_{kind}{axis}" for kind in ("v", "w") for axis in AXES)
WRENCH = tuple(f"wrist_{kind}_{axis}" for kind in ("force", "torque") for axis in AXES)
ODOMETRY = ("velocity_x", "velocity_y")
INERTIA = tuple(f"{kind}_{axis}" for kind in ("acceleration", "rotation_rate") for axis in AXES)
UP = tuple(f"up_{axis}" for axis in AXES)
DRIVE = ("steering", "wheel_speed")
GRAVITY = 9.81
UNMEASURED = (
    "; where the robot measures no velocities set velocity_window=0.05 of this source: they come from positions"
)
BEYOND = 0.5
"""Largest distance of a finger beyond its stroke, as a fraction of the stroke. Calibration explains less than this, and
a wrong unit causes more.
"""


class Decoder(Protocol):
    """Function from a message to numbers.

    Attributes:
        names: names of the numbers.
    """

    names: tuple[str, ...]

    def __call__(self, message: Any) -> NDArray[Any]:
        """Return one float64 per name; the decoder of an image returns the image.

        Raises:
            SpecError: if the message is not as expected.
        """
        ...


class NamedNumbers:
    """Decoder of selected elements of a JointState, found by name in any order.

    Args:
        topic: topic name, for error messages.
        wanted: names in the message.
        fields: fields of the message such as ``position``. All numbers of the first field precede those of the second.
        names: names of the resulting numbers.

    Attributes:
        topic: topic name.
        wanted: names in the message.
    """

    def __init__(self, topic: str, wanted: Sequence[str], fields: Sequence[str], names: Sequence[str]) -> None:
        self.topic, self.wanted, self._fields = topic, tuple(wanted), tuple(fields)
        self.names = tuple(names)
        self._order: list[str] | None = None
        self._places = np.empty(0, int)

    def __call__(self, message: Any) -> Array:
        if message.name != self._order:
            for name in self.wanted:
                if name not in message.name:
                    raise SpecError(f"{self.topic}: expected {name!r}, got {', '.join(message.name) or 'no names'}")
                if message.name.count(name) > 1:
                    raise SpecError(f"{self.topic}: {name!r} occurs twice in {', '.join(message.name)}")
            self._order = list(message.name)
            self._places = np.array([message.name.index(name) for name in self.wanted], int)
        parts = []
        for field in self._fields:
            values = np.asarray(getattr(message, field), dtype=np.float64)
            if len(values) != len(message.name):
                raise SpecError(
                    f"{self.topic}: expected {len(message.name)} values in {field!r}, got {len(values)}"
                    f"{UNMEASURED if field == 'velocity' else ''}"
                )
            parts.append(values[self._places])
            if field == "velocity" and np.isnan(parts[-1]).any():
                joint = self.wanted[int(np.isnan(parts[-1]).argmax())]
                raise SpecError(f"{self.topic}: {joint!r} has a velocity that is no number{UNMEASURED}")
        return np.concatenate(parts)


class Opening:
    """Decoder of the gripper's opening, 0 closed to 1 open, from the mean position of its fingers.

    A finger far outside its stroke is an error: it moves in the other direction, or has another unit.

    Args:
        fingers: decoder of the finger positions.
        closed: position of a closed finger.
        open: position of an open finger.

    Attributes:
        wanted: names of the fingers in the message.
    """

    names: tuple[str, ...] = ("gripper_opening",)

    def __init__(self, fingers: NamedNumbers, closed: float, open: float) -> None:
        self._fingers, self._closed, self._open = fingers, closed, open
        self.wanted = fingers.wanted

    def __call__(self, message: Any) -> Array:
        openings = (self._fingers(message) - self._closed) / (self._open - self._closed)
        outside = np.abs(openings - 0.5) > 0.5 + BEYOND
        if outside.any():
            finger = int(outside.argmax())
            position = self._closed + openings[finger] * (self._open - self._closed)
            raise SpecError(
                f"{self._fingers.topic}: the finger {self.wanted[finger]!r} is at {position:g}, far from closed="
                f"{self._closed:g} and open={self._open:g}; give the source its positions, and where fingers move in "
                "opposite directions name one of them"
            )
        return np.array([float(openings.mean())])


class Pose:
    """Decoder of a PoseStamped: position and the first two columns of the rotation matrix."""

    names = POSE

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def __call__(self, message: Any) -> Array:
        position, quaternion = message.pose.position, message.pose.orientation
        try:
            rotation = matrix_of_quaternion(np.array([quaternion.x, quaternion.y, quaternion.z, quaternion.w]))
        except ValueError as error:
            raise SpecError(f"{self._topic}: {error}") from error
        return np.concatenate([[position.x, position.y, position.z], rotation[:, 0], rotation[:, 1]])


class Velocity:
    """Decoder of a TwistStamped: linear and angular velocity."""

    names = VELOCITY

    def __call__(self, message: Any) -> Array:
        linear, angular = message.twist.linear, message.twist.angular
        return np.array([linear.x, linear.y, linear.z, angular.x, angular.y, angular.z])


class Wrench:
    """Decoder of a WrenchStamped: force and torque.

    Attributes:
        bias: force and torque (6,) to subtract [N, Nm]; None: not known yet, and the decoder returns zeros.
    """

    names = WRENCH

    def __init__(self) -> None:
        self.bias: Array | None = np.zeros(6)

    def __call__(self, message: Any) -> Array:
        return np.zeros(6) if self.bias is None else self.measured(message) - self.bias

    def measured(self, message: Any) -> Array:
        """Return force and torque (6,) as measured, without subtracting the bias."""
        force, torque = message.wrench.force, message.wrench.torque
        return np.array([force.x, force.y, force.z, torque.x, torque.y, torque.z])


class Truth:
    """Decoder of a Bool: 1 true, 0 false."""

    names: tuple[str, ...] = ("ready",)

    def __call__(self, message: Any) -> Array:
        return np.array([float(message.data)])


class Odometry:
    """Decoder of an Odometry: velocity of a mobile base in its own frame, x forward, y left [m/s]."""

    names: tuple[str, ...] = ODOMETRY

    def __call__(self, message: Any) -> Array:
        linear = message.twist.twist.linear
        return np.array([linear.x, linear.y])


class Inertia:
    """Decoder of an Imu: acceleration with gravity [g] and rotation rate [rad/s]."""

    names: tuple[str, ...] = INERTIA

    def __call__(self, message: Any) -> Array:
        accel, rate = message.linear_acceleration, message.angular_velocity
        return np.array([accel.x / GRAVITY, accel.y / GRAVITY, accel.z / GRAVITY, rate.x, rate.y, rate.z])


class Upward:
    """Decoder of an Imu with orientation: the upward direction in the base's frame."""

    names: tuple[str, ...] = UP

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def __call__(self, message: Any) -> Array:
        quaternion = message.orientation
        try:
            rotation = matrix_of_quaternion(np.array([quaternion.x, quaternion.y, quaternion.z, quaternion.w]))
        except ValueError as error:
            raise SpecError(f"{self._topic}: {error}") from error
        if message.orientation_covariance[0] == -1:  # means "no orientation" by the definition of sensor_msgs
            raise SpecError(f"{self._topic}: this IMU gives no orientation; name up_ in robot.unmeasured instead")
        up: Array = rotation[2]
        return up


class Drive:
    """Decoder of the AckermannDriveStamped that a car reports: steering angle [rad] and speed of the treads [m/s]."""

    names: tuple[str, ...] = DRIVE

    def __call__(self, message: Any) -> Array:
        return np.array([message.drive.steering_angle, message.drive.speed])


class Scan:
    """Decoder of a LaserScan: the smallest distance in each of n equal sectors, in the order of the scan [m].

    Minus infinity marks an object too near to be measured (REP 117), and becomes the smallest range. All other values
    out of range are to be discarded (sensor_msgs/msg/LaserScan; many sensors report 0 without an echo), and become the
    largest range.

    Args:
        topic: topic name, for error messages.
        names: names of the n sectors.
    """

    def __init__(self, topic: str, names: tuple[str, ...]) -> None:
        self._topic, self.names = topic, names

    def __call__(self, message: Any) -> Array:
        ranges = np.asarray(message.ranges, np.float64)
        if len(ranges) < len(self.names):
            raise SpecError(f"{self._topic}: expected {len(self.names)} ranges or more, got {len(ranges)}")
        near, far = message.range_min, message.range_max
        measured = (ranges >= near) & (ranges <= far)
        distances = np.where(measured, ranges, np.where(np.isneginf(ranges), near, far))
        return np.array([part.min() for part in np.array_split(distances, len(self.names))])


class Picture:
    """Decoder of an image (height, width, 3) in RGB, scaled to the size that the task observes.

    Args:
        topic: topic name, for error messages.
        spec: spec of the image.
        compressed: whether messages are CompressedImage (JPEG or PNG) instead of Image.
    """

    names: tuple[str, ...] = ()

    def __init__(self, topic: str, spec: ArraySpec, compressed: bool) -> None:
        self._topic, self._size, self._compressed = topic, (spec.shape[1], spec.shape[0]), compressed
        self._shape: tuple[int, ...] | None = None

    def __call__(self, message: Any) -> NDArray[np.uint8]:
        try:
            image = decode_ros_compressed_image(message) if self._compressed else decode_ros_image(message)
        except SpecError as error:
            raise SpecError(f"{self._topic}: {error}") from error
        if image.dtype != np.uint8:
            raise SpecError(f"{self._topic}: expected images of 8 bit, got {image.dtype}, as depth has it")
        if image.shape != (self._shape or image.shape):
            raise SpecError(f"{self._topic}: images had the shape {self._shape}, now they have {image.shape}")
        self._shape = image.shape
        return scaled(image, self._size)


class Filmed:
    """Decoder of an image from a camera of this machine, which already has the observed size."""

    names: tuple[str, ...] = ()

    def __call__(self, message: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return message


def make_decoder(
    source: SourceConfig, observation: Mapping[str, ArraySpec], joints: Sequence[str], terms: Sequence[str]
) -> Decoder:
    """Return the decoder of a source.

    Args:
        source: configuration of the source.
        observation: specs of the task's observation.
        joints: names of the task's joints.
        terms: names of the reward terms.

    Raises:
        ConfigError: if the task does not observe that kind of source, or observes several frames in one image, or if
            the source has too few names.
    """
    topic, names = source.place, source.names
    match source.gives:
        case "joints":
            message_names = names or tuple(joints)
            if len(message_names) != len(joints):
                raise ConfigError(
                    f"{topic}: {len(message_names)} joint names are given, the task has {len(joints)} joints"
                )
            named = [f"{joint}_{kind}" for kind in ("position", "velocity") for joint in joints]
            return NamedNumbers(topic, message_names, ("position", "velocity"), named)
        case "gripper":
            if not names:
                raise ConfigError(f"{topic}: the names of the finger joints are missing (names)")
            return Opening(NamedNumbers(topic, names, ("position",), names), source.closed, source.open)
        case "end_effector_pose":
            return Pose(topic)
        case "end_effector_velocity":
            return Velocity()
        case "wrist_wrench":
            return Wrench()
        case "odometry":
            return Odometry()
        case "imu":
            return Inertia()
        case "orientation":
            return Upward(topic)
        case "drive":
            return Drive()
        case "ready":
            return Truth()
        case "rewards":
            for name in names:
                if name not in terms:
                    raise ConfigError(f"{topic} gives the reward term {name!r}: {nearest(name, terms)}")
            return NamedNumbers(topic, names or terms, ("position",), names or terms)
    if source.gives in observation:
        return _make_direct_decoder(source, observation[source.gives])
    raise ConfigError(
        f"{topic} gives {source.gives!r}, which the task does not observe; {nearest(source.gives, observation)}"
    )


def _make_direct_decoder(source: SourceConfig, spec: ArraySpec) -> Decoder:
    """Return the decoder of a source that provides the whole array of the observation with ``spec``."""
    topic, key = source.place, source.gives
    if key == "scan":
        return Scan(topic, tuple(f"scan_{index}" for index in range(spec.shape[0])))
    if key.startswith(IMAGES):
        if spec.shape[2] != 3:
            raise ConfigError(
                f"{topic}: the task stacks images of shape {spec.shape}; a robot gives one frame at a time: choose "
                "task.observation.frame_stack=1"
            )
        if source.camera.device:
            return Filmed()
        return Picture(topic, spec, compressed=source.type.endswith("CompressedImage"))
    return NamedNumbers(topic, source.names or spec.names, ("position",), spec.names)
