"""Files of end-effector poses with the names of their pictures: CSV or JSON lines."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DataError, finite_number, matrix_of_quaternion, parse_json, read_bytes, reading

COLUMNS = ("picture", "x", "y", "z", "qx", "qy", "qz", "qw")
"""Columns of a CSV file: position [m], and unit quaternion."""
KEYS = ("picture", "position", "quaternion")
"""Keys of each line of JSON."""
MOST_BYTES = 4 << 20
MOST_POSES = 1000
LARGEST_REACH = 10.0
"""Largest distance of an end effector from the base [m]: beyond it, positions are in other units."""

Array = NDArray[np.float64]
ADVICE = (
    f"a CSV file has the columns {','.join(COLUMNS)}; a line of JSON is "
    '{"picture": "1.png", "position": [x, y, z], "quaternion": [x, y, z, w]}; positions in m'
)


def read_poses(path: Path) -> dict[str, Array]:
    """Return the pose (4, 4) of the end effector in the base frame [m] of each picture.

    Raises:
        DataError: if the file is neither CSV nor JSON lines, or a value is invalid; names the line.
        OSError: if it cannot be read.
    """
    text = read_bytes(path, MOST_BYTES).decode(errors="replace")
    lines = _json_lines(path, text) if text.lstrip().startswith("{") else _csv_lines(path, text)
    poses: dict[str, Array] = {}
    for number, (name, values) in lines:
        where = f"{path}, line {number}"
        with reading(where, advice=ADVICE):
            if not isinstance(name, str) or not name or "/" in name or name.startswith("."):
                raise ValueError(f"expected the name of a file as picture, got {str(name)[:40]!r}")
            if name in poses:
                raise ValueError(f"picture {name!r} has a pose already")
            poses[name] = _pose([finite_number(value) for value in values])
        if len(poses) > MOST_POSES:
            raise DataError(f"{path} has more than {MOST_POSES} poses; a calibration needs 20 to 50")
    return poses


def _pose(values: list[float]) -> Array:
    if len(values) != 7:
        raise ValueError(f"expected 7 numbers of a pose, got {len(values)}")
    position = np.array(values[:3])
    if not np.linalg.norm(position) <= LARGEST_REACH:
        raise ValueError(f"expected a position within {LARGEST_REACH:g} m of the base, got {values[:3]}")
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = matrix_of_quaternion(np.array(values[3:])), position
    return pose


def _json_lines(path: Path, text: str) -> Iterator[tuple[int, tuple[Any, list[Any]]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        with reading(f"{path}, line {number}", advice=ADVICE):
            entry = parse_json(line, f"{path}, line {number}")
            if not isinstance(entry, dict) or entry.keys() != set(KEYS):
                raise ValueError(f"expected the keys {', '.join(KEYS)}")
            yield number, (entry["picture"], [*entry["position"], *entry["quaternion"]])


def _csv_lines(path: Path, text: str) -> Iterator[tuple[int, tuple[Any, list[Any]]]]:
    rows = csv.reader(io.StringIO(text), strict=True)
    with reading(path, advice=ADVICE):
        try:
            header = [word.strip() for word in next(rows, [])]
            if header != list(COLUMNS):
                raise ValueError(f"the first line is {','.join(header)[:80]!r}")
            for row in rows:
                if row:
                    yield rows.line_num, (row[0].strip(), [float(word) for word in row[1:]])
        except csv.Error as error:
            raise ValueError(f"line {rows.line_num}: {error}") from error
