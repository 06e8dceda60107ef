"""robo-rl calibrate hand_eye: where a camera is on the gripper or beside the robot, from poses and pictures."""

import math
from dataclasses import dataclass, fields
from pathlib import Path

from omegaconf import DictConfig
from rich.table import Table

from ..calibration import (
    ARRANGEMENTS,
    WRONG_VIEW,
    Board,
    HandEyeCalibration,
    PosedView,
    calibrate_hand_eye,
    find_views,
    read_pictures,
    read_poses,
)
from ..command_line.destination import output_file
from ..core import CameraModel, ConfigError, DataError, counted, require, section, typed
from ..recording.posed_pictures import find_posed_views
from ..replay import EpisodeStore
from ..telemetry import Console


@dataclass(frozen=True)
class HandEyeConfig:
    """Options of configs/calibrate_hand_eye.yaml, which documents them and holds their defaults."""

    camera: str
    arrangement: str
    pictures: str | None
    poses: str | None
    path: str | None
    data_camera: str | None
    output: str

    def __post_init__(self) -> None:
        require(self.arrangement in ARRANGEMENTS, "arrangement", " or ".join(ARRANGEMENTS), self.arrangement)
        pictured = self.pictures is not None and self.poses is not None and self.path is None
        recorded = self.path is not None and self.pictures is None and self.poses is None
        if not (pictured or recorded):
            raise ConfigError("give either both pictures=FOLDER and poses=FILE, or path=FOLDER")
        require(recorded or self.data_camera is None, "data_camera", "given only with path", self.data_camera)


def run(config: DictConfig) -> int:
    """Calibrate as configured in configs/calibrate_hand_eye.yaml; return 0."""
    options = {field.name: config[field.name] for field in fields(HandEyeConfig)}
    settings = typed(HandEyeConfig, DictConfig(options))
    board, output = Board(section(config, "board")), output_file("output", settings.output)
    console = Console(highlight=False, markup=False)
    try:
        camera = CameraModel.read(Path(settings.camera))
    except (DataError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"camera: {settings.camera} cannot be read ({reason})") from error
    views = _recorded(console, settings, board) if settings.path else _pictured(console, settings, board)
    _require_shape(views, camera, settings.camera)
    source = {"arrangement": settings.arrangement, "board": board.config.describe()}
    source |= {key: value for key in ("pictures", "poses", "path") if (value := getattr(settings, key)) is not None}
    result = calibrate_hand_eye(views, camera, board.config, settings.arrangement, source)
    result.camera.write(output)
    show(console, result)
    console.print(f"Camera {output}", soft_wrap=True)
    return 0


def _pictured(console: Console, settings: HandEyeConfig, board: Board) -> list[PosedView]:
    assert settings.pictures is not None and settings.poses is not None
    poses = read_poses(Path(settings.poses))
    views, without = find_views(board, read_pictures(Path(settings.pictures), poses))
    for name in without:
        console.print(f"{name}: the board was not found", soft_wrap=True)
    return [PosedView(view, poses[view.name]) for view in views]


def _recorded(console: Console, settings: HandEyeConfig, board: Board) -> list[PosedView]:
    with EpisodeStore.open(Path(str(settings.path))) as store:
        views, without = find_posed_views(store, board, settings.data_camera)
    console.print(f"{counted(len(views), 'pose')} at rest with the board in view, {without} without it", soft_wrap=True)
    return views


def _require_shape(views: list[PosedView], camera: CameraModel, file: str) -> None:
    for posed in views[:1]:
        width, height = posed.view.size
        if abs(width * camera.height - height * camera.width) > max(camera.width, camera.height):
            raise DataError(
                f"the pictures have {width} x {height} pixels, those of {file} {camera.width} x {camera.height}: "
                "another shape may show another part of the view. Use the same settings of the camera for both"
            )


def show(console: Console, result: HandEyeCalibration) -> None:
    """Print the pose, the residuals of each view, and the views that were left out."""
    table = Table("view", "position", "rotation", "picture", "", box=None, pad_edge=False)
    for each in (*result.residuals, *result.wrong):
        note = "left out" if each in result.wrong else ""
        table.add_row(
            each.name, f"{each.millimetres:.1f} mm", f"{each.degrees:.2f} degrees", f"{each.pixels:.1f} pixels", note
        )
    console.print(table)
    if result.wrong:
        console.print(
            f"Left out, because pose and picture do not belong together ({WRONG_VIEW:g} times the median of the others "
            f"or more): {', '.join(each.name for each in result.wrong)}",
            soft_wrap=True,
        )
    pose = result.camera.pose
    assert pose is not None
    x, y, z = pose.position
    qx, qy, qz, qw = pose.quaternion
    first, second, third = result.rotations
    lines = (
        f"{counted(len(result.residuals), 'view')}, residual {result.pixels:.2f} pixels (root mean square); "
        f"{len(result.wrong)} left out",
        f"Poses turn by {first:.0f}, {second:.0f} and {third:.0f} degrees about their main axes",
        f"The arm's poses are off by {1000 * result.position_noise:.2f} mm and "
        f"{math.degrees(result.rotation_noise):.3f} degrees about each axis (standard deviation)",
        f"Camera in the frame {pose.frame}: position {x:.4f}, {y:.4f}, {z:.4f} m, quaternion (x, y, z, w) "
        f"{qx:.4f}, {qy:.4f}, {qz:.4f}, {qw:.4f}",
        f"Certain to {1000 * result.position_uncertainty:.1f} mm and {math.degrees(result.rotation_uncertainty):.2f} "
        "degrees (95 %), if the intrinsic calibration is exact",
    )
    for line in lines:
        console.print(line, soft_wrap=True)
