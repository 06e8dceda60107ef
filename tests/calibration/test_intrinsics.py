"""Intrinsic calibration from rendered pictures with noise."""

import numpy as np
import pytest

from robo_rl.calibration import Board, BoardConfig, View, bare_parts, calibrate_camera, find_views
from robo_rl.core import DataError

from ..rigs.board_views import CAMERA, Renderer, intrinsic_views, transform


def _views(seed: int, poses=None) -> list[View]:
    renderer = Renderer(seed=seed)
    poses = intrinsic_views(seed) if poses is None else poses
    pictures = ((f"{number:02}.png", renderer.picture(pose)) for number, pose in enumerate(poses))
    views, without = find_views(Board(BoardConfig()), pictures)
    assert not without
    return views


@pytest.fixture(scope="module")
def views() -> list[View]:
    return _views(0)


@pytest.mark.parametrize("seed", range(5))
def test_focal_length_and_principal_point_are_within_half_a_percent(seed: int) -> None:
    result = calibrate_camera(_views(seed))
    camera = result.camera
    focal_errors = np.array(camera.focal_length) / CAMERA.focal_length - 1
    assert np.abs(focal_errors).max() < 0.005
    assert np.abs(np.array(camera.principal_point) - CAMERA.principal_point).max() < 0.005 * CAMERA.focal_length[0]
    assert np.abs(focal_errors).max() < 2 * result.uncertainty
    assert camera.distortion[:2] == pytest.approx(CAMERA.distortion[:2], abs=0.05)
    assert result.residual < 0.3 and result.coverage > 0.8
    assert (camera.width, camera.height, camera.pose) == (640, 480, None)


def test_a_bad_view_is_named_and_left_out(views: list[View]) -> None:
    """The corners are those of a bent board."""
    bent = views[5]
    corners = bent.corners + 4 * np.sin(bent.corners[:, ::-1] / 60)
    spoiled = [*views[:5], View(bent.name, bent.size, corners, bent.ids, bent.points), *views[6:]]
    result = calibrate_camera(spoiled)
    assert list(result.left_out) == ["05.png"] and "times the median" in result.left_out["05.png"]
    assert "05.png" not in result.residuals and result.camera.measurement["left_out"] == result.left_out
    assert np.abs(np.array(result.camera.focal_length) / CAMERA.focal_length - 1).max() < 0.005


def test_many_bad_views_are_no_calibration(views: list[View]) -> None:
    random = np.random.default_rng(0)
    spoiled = [
        View(
            each.name,
            each.size,
            each.corners + random.normal(0, 3 if number % 3 == 0 else 0, each.corners.shape),
            each.ids,
            each.points,
        )
        for number, each in enumerate(views)
    ]
    with pytest.raises(DataError, match=r"more than a quarter of the views disagree .*00\.png.* flat"):
        calibrate_camera(spoiled)


def test_few_views_and_repeated_ones_are_refused(views: list[View]) -> None:
    with pytest.raises(DataError, match=r"at least 8 different views of the board, got 5: take about 20, with the"):
        calibrate_camera(views[:5])
    again = [View(f"again{number}", *list(vars(each).values())[1:]) for number, each in enumerate(views[:5])]
    with pytest.raises(DataError, match=r"at least 8 different views of the board, got 5 \(5 others left out\)"):
        calibrate_camera([*views[:5], *again])
    other = View("other.png", (320, 240), *list(vars(views[0]).values())[2:])
    with pytest.raises(DataError, match=r"different sizes \(320 x 240, 640 x 480\)"):
        calibrate_camera([*views, other])
    result = calibrate_camera([*views, again[2]])
    assert result.left_out == {"again2": "shows the same view as 02.png"}


@pytest.mark.parametrize(
    ("tilt", "reason"), [(0.0, r"tilted by \d\.\d degrees .* expected 4"), (0.1, "determine the focal length to ±")]
)
def test_views_with_little_tilt_are_refused(tilt: float, reason: str) -> None:
    poses = [
        transform((tilt * np.sin(number), tilt * np.cos(number), 0.2 * number), (-0.14 + 0.02 * number, -0.1, 0.45))
        for number in range(10)
    ]
    with pytest.raises(DataError, match=rf"too similar: .*{reason}.*tilted by 20 to 45 degrees about both"):
        calibrate_camera(_views(0, poses))


def test_parts_of_the_picture_without_corners_are_named(views: list[View]) -> None:
    left = [view for view in views if view.corners[:, 0].max() < 430]
    assert left
    from robo_rl.calibration import covered_cells

    covered = covered_cells(left)
    assert {"top right", "right", "bottom right"} <= set(bare_parts(covered)) and covered.shape == (6, 9)
