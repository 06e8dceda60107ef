"""Hand-eye calibration from rendered pictures, with noise of pictures and poses, and with wrong correspondences."""

from dataclasses import replace

import numpy as np
import pytest

from robo_rl.calibration import ARRANGEMENTS, Board, BoardConfig, PosedView, calibrate_hand_eye, find_views
from robo_rl.core import DataError

from ..rigs.board_views import CAMERA, make_cell, pose_error, transform

BOARD = BoardConfig()
MILLIMETRES, DEGREES = 2.0, 0.3


def _pairs(arrangement: str, seed: int):
    cell = make_cell(arrangement, seed)
    pictures = [(f"{number:02}.png", picture) for number, picture in enumerate(cell.pictures)]
    views, without = find_views(Board(BOARD), pictures)
    assert not without
    return cell, views


@pytest.fixture(scope="module")
def hand():
    return _pairs("eye_in_hand", 0)


def _posed(cell, views, order=range(20)):
    return [PosedView(view, cell.poses[number]) for view, number in zip(views, order, strict=True)]


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("seed", range(5))
def test_the_camera_is_found_and_up_to_four_wrong_pairs_of_twenty_are_named(arrangement: str, seed: int) -> None:
    cell, views = _pairs(arrangement, seed)
    random = np.random.default_rng(seed)
    for count in (0, 1 + seed % 4):
        order = np.arange(20)
        wrong = random.choice(20, count, replace=False)
        for place in wrong:
            order[place] = random.choice([other for other in range(20) if other != place])
        result = calibrate_hand_eye(_posed(cell, views, order), CAMERA, BOARD, arrangement)
        assert sorted(each.name for each in result.wrong) == [f"{place:02}.png" for place in sorted(wrong)]
        millimetres, degrees = pose_error(result.camera, cell.camera)
        assert millimetres < MILLIMETRES and degrees < DEGREES
        assert millimetres < 2000 * result.position_uncertainty
        assert degrees < 2 * np.degrees(result.rotation_uncertainty)
        assert result.pixels < 1.5 and len(result.residuals) == 20 - count
        assert 0.15e-3 < result.position_noise < 0.5e-3 and 0.01 < np.degrees(result.rotation_noise) < 0.1
        assert result.camera.pose.frame == ("end_effector" if arrangement == "eye_in_hand" else "base")


def test_two_swapped_pictures_are_both_named(hand) -> None:
    cell, views = hand
    order = [0, 1, 2, 4, 3, *range(5, 20)]
    result = calibrate_hand_eye(_posed(cell, views, order), CAMERA, BOARD, "eye_in_hand")
    assert [each.name for each in result.wrong] == ["03.png", "04.png"]
    rows = result.camera.measurement["hand_eye"]["residuals"]["rows"]
    assert len(rows) == 20 and result.camera.measurement["hand_eye"]["left_out"] == ["03.png", "04.png"]


def test_the_other_arrangement_is_recognised(hand) -> None:
    cell, views = hand
    with pytest.raises(
        DataError, match=r"no pose of the camera explains the views.*agree with arrangement=eye_in_hand"
    ):
        calibrate_hand_eye(_posed(cell, views), CAMERA, BOARD, "eye_to_hand")


def test_shuffled_poses_are_no_calibration(hand) -> None:
    cell, views = hand
    order = np.random.default_rng(3).permutation(20)
    with pytest.raises(DataError, match=r"no pose of the camera explains .* order of pictures and poses, the units"):
        calibrate_hand_eye(_posed(cell, views, order), CAMERA, BOARD, "eye_in_hand")


def test_more_wrong_pairs_than_a_third_are_refused(hand) -> None:
    cell, views = hand
    order = [*np.roll(np.arange(8), 1), *range(8, 20)]
    with pytest.raises(DataError, match=r"8 of 20 poses do not belong to their pictures \(00\.png.*07\.png\)"):
        calibrate_hand_eye(_posed(cell, views, order), CAMERA, BOARD, "eye_in_hand")


def test_rotation_about_one_axis_is_refused(hand) -> None:
    _, views = hand
    turned = [transform((0, 0, 0.1 * number), (0.01 * number, 0, 0)) for number in range(20)]
    pairs = [PosedView(view, pose) for view, pose in zip(views, turned, strict=True)]
    with pytest.raises(DataError, match=r"rotate too little: .* about one axis, 0\.0 about a second.*Turn the gripper"):
        calibrate_hand_eye(pairs, CAMERA, BOARD, "eye_in_hand")


def test_few_pairs_are_refused(hand) -> None:
    cell, views = hand
    with pytest.raises(DataError, match="at least 8 poses whose pictures show the board, got 7"):
        calibrate_hand_eye(_posed(cell, views)[:7], CAMERA, BOARD, "eye_in_hand")


def test_pictures_of_half_the_size_give_the_same_pose(hand) -> None:
    """Data sets may contain scaled pictures."""
    cell, views = hand
    half = [replace(view, size=(320, 240), corners=(view.corners + 0.5) / 2 - 0.5) for view in views]
    result = calibrate_hand_eye(_posed(cell, half), CAMERA, BOARD, "eye_in_hand")
    millimetres, degrees = pose_error(result.camera, cell.camera)
    assert millimetres < MILLIMETRES and degrees < DEGREES
