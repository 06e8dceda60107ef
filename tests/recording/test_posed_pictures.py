"""Hand-eye calibration from a data set: poses at rest, and the board in their pictures."""

from pathlib import Path

import numpy as np
import pytest

from robo_rl.calibration import Board, BoardConfig, calibrate_hand_eye
from robo_rl.core import ArraySpec, ConfigError, DataError, EnvSpec, Source, Transition
from robo_rl.recording.posed_pictures import COLUMNS, POSITION, find_posed_views
from robo_rl.replay import EpisodeStore

from ..rigs.board_views import CAMERA, make_cell, pose_error

NAMES = ("joint1_position", *POSITION, *COLUMNS)
SPEC = EnvSpec(
    task="reach",
    observation={"state": ArraySpec((10,), names=NAMES), "images/wrist": ArraySpec((480, 640, 3), "uint8")},
    action=ArraySpec((2,), low=-1, high=1),
    action_space="end_effector_delta",
    action_frame="base",
    control_rate=10.0,
    max_episode_steps=200,
    reward_terms=("success",),
)
BOARD = BoardConfig()


def _state(pose):
    return np.concatenate([[0.3], pose[:3, 3], pose[:3, :2].T.ravel()]).astype(np.float32)


def _episode(cell, numbers, blank):
    """Return an episode that rests for three steps in each pose; while the arm moves, no picture shows the board."""
    observations = []
    for number in numbers:
        pose, picture = cell.poses[number], cell.pictures[number]
        moving = pose.copy()
        moving[:3, 3] += 0.05
        observations.append({"state": _state(moving), "images/wrist": blank})
        observations += [{"state": _state(pose), "images/wrist": picture}] * 3
    action = np.zeros(2, np.float32)
    last = len(observations) - 2
    return [
        Transition(
            observation=observation,
            proposed_action=action,
            executed_action=action,
            rewards={"success": 0.0},
            next_observation=observations[step + 1],
            terminated=False,
            truncated=step == last,
            source=Source.POLICY,
            actor="robot",
            session=1,
            episode=numbers[0],
            sequence=step,
            policy_version=-1,
            stamp_ns=step,
            success=None,
        )
        for step, observation in enumerate(observations[:-1])
    ]


def _record(path: Path, spec=SPEC, visible=True):
    cell = make_cell("eye_in_hand", 0, count=12)
    blank = np.full((480, 640, 3), 90, np.uint8)
    if not visible:
        cell.pictures = [blank] * 12
    with EpisodeStore.create(path, spec, {}) as store:
        for numbers in (range(6), range(6, 12)):
            store.append_episode(_episode(cell, list(numbers), blank))
    return cell


def test_a_recording_calibrates_the_camera_on_the_gripper(tmp_path: Path) -> None:
    cell = _record(tmp_path / "data")
    with EpisodeStore.open(tmp_path / "data") as store:
        views, without = find_posed_views(store, Board(BOARD), None)
    assert len(views) == 12 and without == 0
    assert views[0].view.name == "episode 0, step 2" and views[11].view.name.startswith("episode 1, step ")
    result = calibrate_hand_eye(views, CAMERA, BOARD, "eye_in_hand")
    millimetres, degrees = pose_error(result.camera, cell.camera)
    assert not result.wrong and millimetres < 2 and degrees < 0.3


def test_recordings_without_what_is_needed_are_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    from robo_rl.core import OBSERVATION_FRAME

    _record(tmp_path / "data", visible=False)
    with EpisodeStore.open(tmp_path / "data") as store:
        with pytest.raises(ConfigError, match=r"data_camera must be one of .* \(wrist\), got front"):
            find_posed_views(store, Board(BOARD), "front")
        with pytest.raises(DataError, match=r"found in no picture of images/wrist .* 640 x 480 pixels.*rest for half"):
            find_posed_views(store, Board(BOARD), "wrist")
    relative = replace(SPEC, extra={OBSERVATION_FRAME: "first_pose"})
    _record(tmp_path / "relative", relative, visible=False)
    with (
        EpisodeStore.open(tmp_path / "relative") as store,
        pytest.raises(DataError, match=r"relative to the beginning of each episode.*task\.observation\.relative=false"),
    ):
        find_posed_views(store, Board(BOARD), "wrist")
    unnamed = {**SPEC.observation, "state": ArraySpec((10,), names=tuple(f"joint{i}_position" for i in range(10)))}
    _record(tmp_path / "joints", replace(SPEC, observation=unnamed), visible=False)
    with (
        EpisodeStore.open(tmp_path / "joints") as store,
        pytest.raises(DataError, match=r"has no pose of an end effector: .* lacks end_effector_x.*give pictures"),
    ):
        find_posed_views(store, Board(BOARD), "wrist")
