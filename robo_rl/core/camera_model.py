"""Models of calibrated cameras, and the JSON files that hold them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .durable import write_durably
from .errors import DataError
from .foreign import JSON_BYTES, parse_json, read_bytes
from .readers import finite_number, reading, whole_number
from .rotation import matrix_of_quaternion

FORMAT = "robo-rl camera 1"
UNITS = {
    "pixels": "width, height, focal_length, principal_point; (0, 0) is the centre of the upper left pixel",
    "m": "position",
    "quaternion": "x, y, z, w",
    "camera frame": "x to the right, y down, z into the picture",
}
"""Units and frames of the values in a file. A file that states others is refused."""
FRAMES = ("base", "end_effector")
MOST_PIXELS = 1 << 14
"""Largest width and height of a picture."""
LARGEST_FOCAL_LENGTH = 1e6
LARGEST_DISTANCE = 100.0
"""Largest coordinate of a camera [m]: beyond it, a file is in other units."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CameraPose:
    """Pose of a camera's optical frame: x to the right, y down, z into the picture.

    Attributes:
        frame: frame of the pose: ``base`` of the arm, or its ``end_effector``.
        position: x, y, z [m].
        quaternion: unit quaternion (x, y, z, w) that turns vectors of the camera into ``frame``.
    """

    frame: str
    position: tuple[float, ...]
    quaternion: tuple[float, ...]

    def matrix(self) -> Array:
        """Return the pose as a homogeneous matrix (4, 4)."""
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = matrix_of_quaternion(np.array(self.quaternion)), self.position
        return pose


@dataclass(frozen=True)
class CameraModel:
    """Calibrated camera.

    Attributes:
        width: width of its pictures [pixels].
        height: height of its pictures [pixels].
        focal_length: horizontal and vertical focal length [pixels].
        principal_point: column and row of the optical axis [pixels]; (0, 0) is the centre of the upper left pixel.
        distortion: k1, k2, p1, p2, k3 of OpenCV's model, named ``plumb_bob`` in ROS.
        pose: pose of the camera; None if it was not calibrated.
        measurement: how the values were measured, for people.
    """

    width: int
    height: int
    focal_length: tuple[float, float]
    principal_point: tuple[float, float]
    distortion: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0)
    pose: CameraPose | None = None
    measurement: Mapping[str, Any] = field(default_factory=dict)

    def matrix(self) -> Array:
        """Return the camera matrix (3, 3) [pixels]."""
        (fx, fy), (cx, cy) = self.focal_length, self.principal_point
        return np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]], dtype=float)

    def resized(self, width: int, height: int) -> "CameraModel":
        """Return the camera whose pictures are scaled to another size; their shape may change as well."""
        scale = width / self.width, height / self.height
        focal_x, focal_y = (value * factor for value, factor in zip(self.focal_length, scale, strict=True))
        x, y = ((value + 0.5) * factor - 0.5 for value, factor in zip(self.principal_point, scale, strict=True))
        return CameraModel(width, height, (focal_x, focal_y), (x, y), self.distortion, self.pose, self.measurement)

    def write(self, path: Path) -> None:
        """Write a file that :meth:`read` reads."""
        pose = None if self.pose is None else {key: getattr(self.pose, key) for key in ("frame", *_POSE)}
        values = {key: getattr(self, key) for key in ("width", "height", *_LISTS)}
        content = {"format": FORMAT, **values, "pose": pose, "units": UNITS, "measurement": dict(self.measurement)}
        write_durably(path, f"{json.dumps(content, indent=2)}\n".encode())

    @classmethod
    def read(cls, path: Path) -> "CameraModel":
        """Read a file that :meth:`write` has written.

        Raises:
            DataError: if it is another file, is damaged, or states other units.
            OSError: if it cannot be read.
        """
        with reading(path, advice="measure the camera again with robo-rl calibrate"):
            content = parse_json(read_bytes(path, JSON_BYTES), str(path))
            if not isinstance(content, dict) or content.get("format") != FORMAT:
                raise DataError(f"{path} is no camera file: give a file that robo-rl calibrate has written")
            if content["units"] != UNITS:
                raise ValueError(f"expected the units {UNITS}")
            return cls._of_json(content)

    @classmethod
    def _of_json(cls, content: dict[str, Any]) -> "CameraModel":
        unknown = content.keys() - {"format", "width", "height", *_LISTS, "pose", "units", "measurement"}
        if unknown:
            raise ValueError(f"unknown key {min(unknown)[:40]!r}")
        width, height = (whole_number(content[key], 1, MOST_PIXELS) for key in ("width", "height"))
        focal_length, principal_point, distortion = (_numbers(content, key, size) for key, size in _LISTS.items())
        if not all(1 <= value <= LARGEST_FOCAL_LENGTH for value in focal_length):
            raise ValueError(f"expected focal lengths from 1 to {LARGEST_FOCAL_LENGTH:g} pixels, got {focal_length}")
        if not all(-0.5 <= at <= size - 0.5 for at, size in zip(principal_point, (width, height), strict=True)):
            raise ValueError(f"the principal point {principal_point} is outside the picture")
        measurement = content["measurement"]
        if not isinstance(measurement, dict):
            raise ValueError("expected measurement to hold values by name")
        pose = None if content["pose"] is None else _pose(content["pose"])
        (fx, fy), (cx, cy) = focal_length, principal_point
        return cls(width, height, (fx, fy), (cx, cy), distortion, pose, measurement)


_LISTS = {"focal_length": 2, "principal_point": 2, "distortion": 5}
_POSE = {"position": 3, "quaternion": 4}


def _numbers(content: dict[str, Any], key: str, size: int) -> tuple[float, ...]:
    values = content[key]
    if not isinstance(values, list) or len(values) != size:
        raise ValueError(f"expected {size} numbers of {key}")
    return tuple(map(finite_number, values))


def _pose(content: Any) -> CameraPose:
    if not isinstance(content, dict) or content.keys() != {"frame", *_POSE}:
        raise ValueError(f"expected a pose with frame, {', '.join(_POSE)}")
    if content["frame"] not in FRAMES:
        raise ValueError(f"expected the frame of the pose to be {' or '.join(FRAMES)}")
    position, quaternion = (_numbers(content, key, size) for key, size in _POSE.items())
    if not all(abs(value) <= LARGEST_DISTANCE for value in position):
        raise ValueError(f"expected a position within {LARGEST_DISTANCE:g} m, got {position}")
    matrix_of_quaternion(np.array(quaternion))
    return CameraPose(content["frame"], position, quaternion)
