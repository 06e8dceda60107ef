"""The guide page on calibration, as a reader follows it; rendered pictures stand in for a camera and a robot."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from robo_rl.calibration import read_poses
from robo_rl.core import CameraModel, quaternion_of_matrix
from robo_rl.replay import EpisodeStore

from ..rigs.board_recording import record_cell
from ..rigs.board_views import CAMERA, Renderer, intrinsic_views, make_cell, pose_error
from ..rigs.guide import Reader, blocks, command
from ..rigs.videos import write_video

PAGE = "calibrate.md"


@pytest.fixture(scope="module")
def reader(tmp_path_factory) -> Reader:
    """A reader with a board, a calibrated camera, and pictures of the board from a gripper and beside a robot."""
    folder = tmp_path_factory.mktemp("cell")
    renderer = Renderer(seed=0)
    frames = (renderer.picture(pose) for pose in intrinsic_views(0) for _ in range(3))
    write_video(folder / "camera.mp4", frames, 30.0)
    return Reader(PAGE, folder)


def _write_poses(folder: Path) -> None:
    """Write the poses of a cell as the page shows them, instead of lines of JSON."""
    lines = [json.loads(line) for line in (folder / "poses.jsonl").read_text().splitlines()]
    with (folder / "poses.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["picture", "x", "y", "z", "qx", "qy", "qz", "qw"])
        rows.writerows([line["picture"], *line["position"], *line["quaternion"]] for line in lines)


def test_a_cell_is_calibrated_and_simulated(reader: Reader) -> None:
    folder = reader.folder
    assert "9 x 7 squares of 25 mm, markers of 19 mm" in reader.follow("robo-rl calibrate board")
    assert (folder / "board.pdf").read_bytes().startswith(b"%PDF")

    words = command(PAGE, "robo-rl calibrate camera")
    words = [word.replace("/dev/video0", "camera.mp4") for word in words]
    printed = reader.run(words)
    assert "1 of 20: views/view000.png; few corners yet: " in printed and "Focal length 61" in printed
    camera = CameraModel.read(folder / "camera.json")
    assert np.abs(np.array(camera.focal_length) / CAMERA.focal_length - 1).max() < 0.005
    again = reader.run([word for word in words if not word.startswith("camera.device")])
    assert again.splitlines()[-10:] == printed.splitlines()[-10:]

    hand = make_cell("eye_in_hand", 1)
    hand.write(folder / "hand", order=[0, 1, 2, 4, 3, *range(5, 20)])
    _write_poses(folder / "hand")
    printed = reader.follow("robo-rl calibrate hand_eye camera=camera.json pictures=hand")
    assert "(5 times the median of the others or more): 03.png, 04.png" in printed
    assert "18 views, residual" in printed and "Camera in the frame end_effector" in printed
    millimetres, degrees = pose_error(CameraModel.read(folder / "wrist.json"), hand.camera)
    assert millimetres < 2 and degrees < 0.3

    beside = make_cell("eye_to_hand", 1)
    beside.write(folder / "beside")
    _write_poses(folder / "beside")
    printed = reader.follow("robo-rl calibrate hand_eye camera=camera.json pictures=beside")
    assert "20 views, residual" in printed and "0 left out" in printed
    millimetres, degrees = pose_error(CameraModel.read(folder / "front.json"), beside.camera)
    assert millimetres < 2 and degrees < 0.3

    record_cell(folder / "datasets" / "board")
    printed = reader.follow("robo-rl calibrate hand_eye camera=camera.json path=", "output=recorded.json")
    assert "12 poses at rest with the board in view, 0 without it" in printed
    assert CameraModel.read(folder / "recorded.json").pose.frame == "end_effector"

    small = ["record.episodes=1", "record.noise=0", "task.observation.width=64", "task.observation.height=48"]
    reader.follow("robo-rl record task=pick_cube 'task.arm.cameras", *small)
    with EpisodeStore.open(folder / "datasets" / "simulated") as store:
        assert store.spec.observation["images/wrist"].shape == (48, 64, 3)
        assert store.spec.observation["images/front"].shape == (48, 64, 3)
        assert {*store.arrays(0).observation} >= {"images/wrist", "images/front"}


def test_the_file_of_poses_on_the_page_is_valid(tmp_path: Path) -> None:
    (text,) = blocks(PAGE, "text")
    (tmp_path / "poses.csv").write_text(text)
    pose = read_poses(tmp_path / "poses.csv")["00.png"]
    assert quaternion_of_matrix(pose[:3, :3]) == pytest.approx([0.999, 0.01, 0.02, 0], abs=0.002)
