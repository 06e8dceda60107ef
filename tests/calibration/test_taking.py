"""Pictures that a camera takes for its calibration, and the folder that keeps them."""

import resource
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from omegaconf import OmegaConf

from robo_rl.calibration import BoardConfig
from robo_rl.commands import calibrate_camera
from robo_rl.core import DataError

from ..rigs.board_views import Renderer, intrinsic_views


class _Camera:
    """A camera to which the board is shown in five places, at rest in each."""

    device = "/dev/video0"

    def __iter__(self) -> Iterator[np.ndarray]:
        renderer = Renderer()
        return (renderer.picture(pose) for pose in intrinsic_views(0, 5) for _ in range(2))


def _take(folder: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(calibrate_camera, "build", lambda _: _Camera())
    options = {"pictures": str(folder / "views"), "count": count, "output": str(folder / "camera.json"), "camera": {}}
    calibrate_camera.run(OmegaConf.create({**options, "board": OmegaConf.structured(BoardConfig)}))


def test_new_pictures_are_numbered_after_the_highest_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One picture was deleted, and one without the board was kept."""
    views = tmp_path / "views"
    views.mkdir()
    cv2.imwrite(str(views / "view000.png"), Renderer().picture(intrinsic_views(0)[0]))
    cv2.imwrite(str(views / "view002.png"), np.full((480, 640, 3), 90, np.uint8))
    kept = (views / "view002.png").read_bytes()
    with pytest.raises(DataError, match="got 3"):
        _take(tmp_path, monkeypatch, 2)
    assert sorted(file.name for file in views.iterdir()) == [f"view00{number}.png" for number in (0, 2, 3, 4)]
    assert (views / "view002.png").read_bytes() == kept


def test_a_picture_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))  # a part of the picture fits
        with pytest.raises(DataError, match=r"view000\.png cannot be written: .*; free space on this disk"):
            _take(tmp_path, monkeypatch, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list((tmp_path / "views").iterdir())
