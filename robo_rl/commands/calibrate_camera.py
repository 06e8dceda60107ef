"""robo-rl calibrate camera: focal length, principal point and distortion of a camera from pictures of a board."""

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig
from rich.table import Table

from ..app import build
from ..calibration import (
    Board,
    IntrinsicCalibration,
    View,
    bare_parts,
    calibrate_camera,
    choose_views,
    covered_cells,
    find_views,
    read_pictures,
)
from ..command_line.destination import output_file
from ..core import ConfigError, DataError, counted, require, section, typed, write_durably
from ..telemetry import Console


@dataclass(frozen=True)
class CameraCalibrationConfig:
    """Options of configs/calibrate_camera.yaml, which documents them and holds their defaults."""

    pictures: str
    count: int
    output: str

    def __post_init__(self) -> None:
        require(self.count >= 1, "count", "1 or more", self.count)


def run(config: DictConfig) -> int:
    """Calibrate as configured in configs/calibrate_camera.yaml; return 0."""
    options = {field.name: config[field.name] for field in fields(CameraCalibrationConfig)}
    settings = typed(CameraCalibrationConfig, DictConfig(options))
    board, output, folder = Board(section(config, "board")), output_file("output", settings.output), settings.pictures
    camera, console = build(config.camera), Console(highlight=False, markup=False)
    exists = Path(folder).is_dir()
    if not exists and not camera.device:
        raise ConfigError(
            f"pictures: there is no folder {folder}; name a folder with pictures of the board, "
            "or a camera that takes them: camera.device=/dev/video0 (robo-rl cameras lists them)"
        )
    has_pictures = exists and (not camera.device or any(Path(folder).iterdir()))
    views, without = find_views(board, read_pictures(Path(folder))) if has_pictures else ([], [])
    if camera.device:
        views += _take(console, settings, board, camera, views)
    for name in without:
        console.print(f"{name}: the board was not found", soft_wrap=True)
    result = calibrate_camera(views, {"pictures": folder, "board": board.config.describe()})
    result.camera.write(output)
    show(console, result)
    console.print(f"Camera {output}", soft_wrap=True)
    return 0


def _take(
    console: Console, settings: CameraCalibrationConfig, board: Board, camera: Any, taken: Sequence[View]
) -> list[View]:
    """Take views with a camera, and write each picture to the folder."""
    folder = Path(settings.pictures)
    folder.mkdir(parents=True, exist_ok=True)
    console.print(
        f"Show the board to {camera.device}, tilted in different directions, near and far, and hold it still. Each new "
        f"view is taken by itself; {settings.count} are needed, and Ctrl-C ends",
        soft_wrap=True,
    )
    views: list[View] = []
    with closing(iter(camera)) as pictures:
        for view, picture in choose_views(board, pictures, settings.count, taken, _first_number(folder)):
            _write_picture(folder / view.name, picture)
            views.append(view)
            bare = bare_parts(covered_cells([*taken, *views]))
            missing = f"; few corners yet: {', '.join(bare)}" if bare else ""
            console.print(f"{len(views):>3} of {settings.count}: {folder / view.name}{missing}", soft_wrap=True)
    return views


def _first_number(folder: Path) -> int:
    """Return the number after the highest numbered view. Lower numbers may be missing if pictures were deleted."""
    matches = (re.fullmatch(r"view([0-9]+)\.png", file.name) for file in folder.iterdir())
    return 1 + max((int(match[1]) for match in matches if match), default=-1)


def _write_picture(file: Path, picture: NDArray[np.uint8]) -> None:
    png = bytes(cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))[1])
    try:
        write_durably(file, png)
    except OSError as error:
        raise DataError(f"{file} cannot be written: {error.strerror}; free space on this disk") from error


def show(console: Console, result: IntrinsicCalibration) -> None:
    """Print the camera, the residual of each view, the omissions, and the covered parts of the picture."""
    table = Table("view", "residual", box=None, pad_edge=False)
    for name, pixels in result.residuals.items():
        table.add_row(name, f"{pixels:.2f} pixels")
    console.print(table)
    for name, reason in result.left_out.items():
        console.print(f"{name} is left out: {reason}", soft_wrap=True)
    camera = result.camera
    (fx, fy), (cx, cy) = camera.focal_length, camera.principal_point
    console.print(
        f"{counted(len(result.residuals), 'view')}, residual {result.residual:.2f} pixels (root mean square)",
        soft_wrap=True,
    )
    console.print(
        f"Focal length {fx:.1f}, {fy:.1f} pixels (±{100 * result.uncertainty:.2f} %), principal point {cx:.1f}, "
        f"{cy:.1f}",
        soft_wrap=True,
    )
    console.print(
        f"Distortion moves the edge of the picture by up to {result.distortion:.0f} pixels; the simulator's camera has "
        "none",
        soft_wrap=True,
    )
    console.print(f"Corners in {100 * result.coverage:.0f} % of the picture:")
    for row in result.covered:
        console.print("  " + "".join("#" if cell else "." for cell in row))
    if bare := bare_parts(result.covered):
        console.print(f"Distortion is uncertain where there are few corners: {', '.join(bare)}", soft_wrap=True)
