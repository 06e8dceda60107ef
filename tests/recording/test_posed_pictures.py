"""Hand-eye calibration from a data set: poses at rest, and the board in their pictures."""

from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

from robo_rl.calibration import Board, BoardConfig, calibrate_hand_eye
from robo_rl.core import OBSERVATION_FRAME, ArraySpec, ConfigError, DataError
from robo_rl.recording.posed_pictures import find_posed_views
from robo_rl.replay import EpisodeStore

from ..rigs.board_recording import SPEC, record_cell
from ..rigs.board_views import CAMERA, pose_error

BOARD = BoardConfig()


def test_a_recording_with_late_pictures_calibrates_the_camera_on_the_gripper(tmp_path: Path) -> None:
    cell = record_cell(tmp_path / "data")
    with EpisodeStore.open(tmp_path / "data") as store:
        views, without = find_posed_views(store, Board(BOARD), None)
    assert len(views) == 12 and without == 0
    result = calibrate_hand_eye(views, CAMERA, BOARD, "eye_in_hand")
    millimetres, degrees = pose_error(result.camera, cell.camera)
    assert not result.wrong and millimetres < 2 and degrees < 0.3
    assert views[0].view.name == "episode 0, step 5" and views[11].view.name.startswith("episode 1, step ")


def test_a_pose_in_which_a_later_picture_shows_the_board_counts_as_one_with_it(tmp_path: Path) -> None:
    record_cell(tmp_path / "data")
    board, misses = Board(BOARD), cycle([True, False])
    find = board.find
    board.find = lambda name, picture: None if next(misses) else find(name, picture)  # type: ignore[method-assign]
    with EpisodeStore.open(tmp_path / "data") as store:
        views, without = find_posed_views(store, board, None)
    assert len(views) == 12 and without == 0 and views[0].view.name == "episode 0, step 6"


def test_recordings_without_what_is_needed_are_refused(tmp_path: Path) -> None:
    record_cell(tmp_path / "data", visible=False)
    with EpisodeStore.open(tmp_path / "data") as store:
        with pytest.raises(ConfigError, match=r"data_camera must be one of .* \(wrist\), got front"):
            find_posed_views(store, Board(BOARD), "front")
        with pytest.raises(DataError, match=r"no picture of images/wrist .* \(2 poses\).* 640 x 480 .*rest for half"):
            find_posed_views(store, Board(BOARD), "wrist")
    relative = replace(SPEC, extra={OBSERVATION_FRAME: "first_pose"})
    record_cell(tmp_path / "relative", relative, visible=False)
    with (
        EpisodeStore.open(tmp_path / "relative") as store,
        pytest.raises(DataError, match=r"relative to the beginning of each episode.*task\.observation\.relative=false"),
    ):
        find_posed_views(store, Board(BOARD), "wrist")
    unnamed = {**SPEC.observation, "state": ArraySpec((10,), names=tuple(f"joint{i}_position" for i in range(10)))}
    record_cell(tmp_path / "joints", replace(SPEC, observation=unnamed), visible=False)
    with (
        EpisodeStore.open(tmp_path / "joints") as store,
        pytest.raises(DataError, match=r"has no pose of an end effector: .* lacks end_effector_x.*give pictures"),
    ):
        find_posed_views(store, Board(BOARD), "wrist")
