"""Files of poses and folders of pictures are read strictly."""

from pathlib import Path

import numpy as np
import pytest

from robo_rl.calibration import read_pictures, read_poses
from robo_rl.core import DataError

HEADER = "picture,x,y,z,qx,qy,qz,qw\n"


def test_both_formats_hold_the_same_poses(tmp_path: Path) -> None:
    csv, lines = tmp_path / "poses.csv", tmp_path / "poses.jsonl"
    csv.write_text(f"{HEADER}a.png,0.4,0,0.3,0,0,0.6,0.8\n\nb.png, 0.5,0,0.3,1,0,0,0\n")
    lines.write_text(
        '{"picture": "a.png", "position": [0.4, 0, 0.3], "quaternion": [0, 0, 0.6, 0.8]}\n'
        '{"picture": "b.png", "position": [0.5, 0, 0.3], "quaternion": [1, 0, 0, 0]}\n'
    )
    first, second = read_poses(csv), read_poses(lines)
    assert list(first) == list(second) == ["a.png", "b.png"]
    for name, pose in first.items():
        np.testing.assert_allclose(pose, second[name])
    np.testing.assert_allclose(first["a.png"][:3], [[0.28, -0.96, 0, 0.4], [0.96, 0.28, 0, 0], [0, 0, 1, 0.3]])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the columns picture,x,y,z,qx,qy,qz,qw"),
        ("name,x,y,z\n", "the first line is 'name,x,y,z'"),
        (f"{HEADER}a.png,0.4,0,0.3,0,0,0.6\n", "line 2 is damaged .*7 numbers of a pose, got 6"),
        (f"{HEADER}a.png,0.4,0,0.3,0,0,0,0\n", "line 2 is damaged .*unit quaternion"),
        (f"{HEADER}a.png,400,0,300,0,0,0,1\n", "within 10 m of the base"),
        (f"{HEADER}a.png,nan,0,0.3,0,0,0,1\n", "finite number"),
        (f"{HEADER}a.png,left,0,0.3,0,0,0,1\n", "could not convert"),
        (f"{HEADER}../a.png,0.4,0,0.3,0,0,0,1\n", "the name of a file"),
        (f"{HEADER}a.png,0.4,0,0,0,0,0,1\na.png,0.4,0,0,0,0,0,1\n", "line 3 is damaged .*'a.png' has a pose already"),
        ('{"picture": "a.png", "position": [0, 0, 0]}\n', "line 1 is damaged .*expected the keys"),
        ('{"picture": "a.png", "position": 3, "quaternion": [0, 0, 0, 1]}\n', "line 1 is damaged"),
        ('{"picture": ["a"], "position": [0, 0, 0], "quaternion": [0, 0, 0, 1]}\n', "the name of a file"),
        ("{" * 1000, "line 1"),
        ("{", "line 1"),
    ],
)
def test_another_content_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "poses").write_text(text)
    with pytest.raises(DataError, match=reason):
        read_poses(tmp_path / "poses")


def test_pictures_are_read_strictly(tmp_path: Path) -> None:
    import cv2

    with pytest.raises(DataError, match="there is no folder"):
        list(read_pictures(tmp_path / "none"))
    with pytest.raises(DataError, match="has no pictures"):
        list(read_pictures(tmp_path))
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((20, 30, 3), np.uint8))
    assert [(name, picture.shape) for name, picture in read_pictures(tmp_path)] == [("a.png", (20, 30, 3))]
    with pytest.raises(DataError, match=r"has no picture 'c\.png', which the poses name"):
        list(read_pictures(tmp_path, ["a.png", "c.png"]))
    cv2.imwrite(str(tmp_path / "b.jpg"), np.zeros((20, 40, 3), np.uint8))
    with pytest.raises(DataError, match=r"b\.jpg has 40 x 20 pixels, the pictures before it 30 x 20"):
        list(read_pictures(tmp_path))
    (tmp_path / "b.jpg").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(DataError, match=r"b\.jpg: a PNG has no header"):
        list(read_pictures(tmp_path))
