"""Files of calibrated cameras are read strictly."""

import json
from pathlib import Path

import numpy as np
import pytest

from robo_rl.core import CameraModel, CameraPose, DataError

POSE = CameraPose("end_effector", (0.06, -0.02, -0.05), (0.0, 0.0, 0.6, 0.8))
CAMERA = CameraModel(640, 480, (612.0, 609.0), (326.5, 233.0), (-0.3, 0.1, 0.0, 0.0, 0.0), POSE, {"views": 20})


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    CAMERA.write(tmp_path / "camera.json")
    assert CameraModel.read(tmp_path / "camera.json") == CAMERA
    content = json.loads((tmp_path / "camera.json").read_text())
    assert content["pose"]["frame"] == "end_effector" and content["units"]["m"] == "position"


def test_a_smaller_picture_shows_the_same_rays() -> None:
    """A point at the edge of a pixel stays at the same share of the width."""
    small = CAMERA.resized(320, 120)
    ray = np.array([0.2, -0.1, 1.0])
    u, v, _ = CAMERA.matrix() @ ray
    x, y, _ = small.matrix() @ ray
    assert (x + 0.5) / 320 == pytest.approx((u + 0.5) / 640) and (y + 0.5) / 120 == pytest.approx((v + 0.5) / 480)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": "robo-rl camera 9"}, "is no camera file"),
        ({"units": {"mm": "position"}}, "expected the units"),
        ({"width": True}, "whole number from 1"),
        ({"height": 1e9}, "whole number from 1"),
        ({"focal_length": [612.0]}, "2 numbers of focal_length"),
        ({"focal_length": [0.0, 609.0]}, "focal lengths from 1"),
        ({"focal_length": ["612", 609.0]}, "finite number"),
        ({"principal_point": [900.0, 233.0]}, "outside the picture"),
        ({"distortion": [0.0] * 4}, "5 numbers of distortion"),
        ({"pose": {"frame": "base"}}, "a pose with frame, position, quaternion"),
        ({"pose": {"frame": "world", "position": [0, 0, 0], "quaternion": [0, 0, 0, 1]}}, "base or end_effector"),
        ({"pose": {"frame": "base", "position": [600, 0, 0], "quaternion": [0, 0, 0, 1]}}, "within 100 m"),
        ({"pose": {"frame": "base", "position": [0, 0, 0], "quaternion": [0, 0, 0, 0]}}, "unit quaternion"),
        ({"measurement": [1]}, "values by name"),
        ({"exec": "rm"}, "unknown key 'exec'"),
    ],
)
def test_another_content_is_refused(tmp_path: Path, change: dict, reason: str) -> None:
    path = tmp_path / "camera.json"
    CAMERA.write(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=reason):
        CameraModel.read(path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": "robo-rl camera 1"}', "[" * 100_000, '{"a": NaN}'])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "camera.json").write_text(text)
    with pytest.raises(DataError, match=r"camera\.json"):
        CameraModel.read(tmp_path / "camera.json")
