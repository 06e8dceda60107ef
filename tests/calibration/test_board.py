"""Boards: their options, the printed sheet, and corners in pictures."""

import re
import zlib

import numpy as np
import pytest

from robo_rl.calibration import PAPERS, Board, BoardConfig, choose_views, make_sheet
from robo_rl.core import ConfigError

from ..rigs.board_views import Renderer, transform

POINTS_PER_MILLIMETRE = 72 / 25.4


def _streams(pdf: bytes) -> str:
    """Return the decompressed texts of a PDF file."""
    texts = []
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL):
        try:
            texts.append(zlib.decompress(stream).decode("latin-1"))
        except zlib.error:
            continue
    return "\n".join(texts)


@pytest.mark.parametrize(("paper", "square", "columns"), [("a4", 0.025, 9), ("a3", 0.03, 12)])
def test_the_sheet_has_the_true_size(paper: str, square: float, columns: int) -> None:
    pdf = make_sheet(Board(BoardConfig(columns=columns, square=square)), paper)
    box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", pdf)
    assert box is not None
    sizes = [float(value) / POINTS_PER_MILLIMETRE for value in box.groups()]
    assert sizes == pytest.approx(PAPERS[paper], abs=0.01)
    text = _streams(pdf)
    placed = re.findall(r"([\d.]+) 0 0\s+-([\d.]+) 0 [\d.]+ cm\s+/I\d+ Do", text)
    width, height = (float(value) / POINTS_PER_MILLIMETRE for value in placed[0])
    assert (width, height) == pytest.approx((1000 * columns * square, 1000 * 7 * square), abs=0.01)


def test_a_board_larger_than_the_paper_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"270 x 210 mm is larger than the 281 x 180 mm .* \(paper=a3\)"):
        make_sheet(Board(BoardConfig(square=0.03)), "a4")


def test_options_that_make_no_board_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"board.marker must be 0.4 to 0.9 of a square of 0.02 m, got 0.02"):
        BoardConfig(square=0.02, marker=0.02)
    with pytest.raises(ConfigError, match=r"board.dictionary must be a dictionary of 60 markers or more: 4x4_100"):
        BoardConfig(columns=12, rows=10)


def test_corners_are_found_to_a_fifth_of_a_pixel() -> None:
    renderer = Renderer()
    pose = transform((0.3, -0.4, 0.2), (-0.1, -0.07, 0.4))
    view = Board(renderer.config).find("a", renderer.picture(pose))
    assert view is not None and len(view.ids) == renderer.config.corner_count == 48
    import cv2

    rotation, _ = cv2.Rodrigues(pose[:3, :3])
    matrix, distortion = renderer.camera.matrix(), np.array(renderer.camera.distortion)
    expected = cv2.projectPoints(view.points, rotation, pose[:3, 3], matrix, distortion)[0][:, 0]
    assert np.sqrt(((view.corners - expected) ** 2).sum(axis=1).mean()) < 0.2


def test_a_picture_without_the_board_has_no_view() -> None:
    board = Board(BoardConfig())
    noise = np.random.default_rng(0).integers(0, 256, (240, 320, 3), dtype=np.uint8)
    assert board.find("noise", noise) is None and board.find("grey", noise[..., 0]) is None


def test_a_camera_takes_each_new_view_once_and_only_at_rest() -> None:
    renderer = Renderer()
    board = Board(renderer.config)
    still = [transform((0.4, 0, 0), (-0.1, -0.07, 0.4)), transform((0, 0.4, 0), (-0.05, -0.1, 0.35))]
    moving = [transform((0, 0, 0), (-0.1 + 0.01 * step, -0.05, 0.4)) for step in range(4)]
    pictures = (renderer.picture(pose) for pose in [still[0]] * 4 + moving + [still[1]] * 3 + [still[0]] * 3)
    taken = [view.name for view, _ in choose_views(board, pictures, count=5, first=3)]
    assert taken == ["view003.png", "view004.png"]
