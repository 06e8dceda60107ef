"""Errors of camera calibration on rendered boards whose cameras and poses are known.

    python benchmarks/calibration.py

Each seed renders 20 pictures for the intrinsic calibration, and 20 with poses for each arrangement, with noise. The
hand-eye calibration uses the measured intrinsics, and 0 to 4 of its 20 poses are exchanged for others. Takes some
minutes of one core. Writes docs/measured/results/calibration.json.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from scipy.optimize import least_squares

sys.path.insert(0, str(Path(__file__).parents[1]))

from robo_rl.calibration import (
    ARRANGEMENTS,
    Board,
    BoardConfig,
    PosedView,
    calibrate_camera,
    calibrate_hand_eye,
    find_views,
)
from robo_rl.core import CameraModel, CameraPose, matrix_of_vector, quaternion_of_matrix, vector_of_matrix
from tests.rigs.board_views import CAMERA, PIXEL_NOISE, POSE_NOISE, Renderer, intrinsic_views, make_cell, pose_error

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "measured" / "results"
BOARD = BoardConfig()


def measure_camera(seed: int) -> tuple[CameraModel, dict[str, Any]]:
    """Return the measured camera of a seed, and its errors."""
    renderer = Renderer(seed=seed)
    pictures = ((f"{number:02}.png", renderer.picture(pose)) for number, pose in enumerate(intrinsic_views(seed)))
    result = calibrate_camera(find_views(Board(BOARD), pictures)[0])
    focal = np.array(result.camera.focal_length) / CAMERA.focal_length - 1
    centre = np.array(result.camera.principal_point) - CAMERA.principal_point
    row = {
        "seed": seed,
        "focal_length_error_percent": float(100 * np.abs(focal).max()),
        "principal_point_error_pixels": float(np.abs(centre).max()),
        "residual_pixels": result.residual,
        "stated_uncertainty_percent": 100 * result.uncertainty,
    }
    return result.camera, row


def reprojection_alone(views: list[PosedView], result: Any, in_hand: bool) -> CameraModel:
    """Return the camera for which the sum of squared reprojection errors is smallest, begun from a result."""
    camera = result.camera
    matrix, distortion = camera.matrix(), np.array(camera.distortion)
    start = (camera.pose.matrix(), result.board)
    poses = [np.linalg.inv(view.pose) if in_hand else view.pose for view in views]

    def moved(motion: Any) -> list[Any]:
        pairs = []
        for pose, part in zip(start, motion.reshape(2, 2, 3), strict=True):
            pair = pose.copy()
            pair[:3, :3], pair[:3, 3] = matrix_of_vector(part[0]) @ pose[:3, :3], pose[:3, 3] + part[1]
            pairs.append(pair)
        return pairs

    def errors(motion: Any) -> Any:
        eye, board = moved(motion)
        parts = []
        for view, pose in zip(views, poses, strict=True):
            board_in_camera = np.linalg.inv(eye) @ pose @ board
            vector = vector_of_matrix(board_in_camera[:3, :3])
            projected = cv2.projectPoints(view.view.points, vector, board_in_camera[:3, 3], matrix, distortion)[0][:, 0]
            parts.append((projected - view.view.corners).ravel())
        return np.concatenate(parts)

    eye, _ = moved(least_squares(errors, np.zeros(12)).x)
    pose = CameraPose(camera.pose.frame, tuple(eye[:3, 3]), tuple(quaternion_of_matrix(eye[:3, :3])))
    return CameraModel(**{**vars(camera), "pose": pose})


def measure_hand_eye(arrangement: str, seed: int, camera: CameraModel) -> list[dict[str, Any]]:
    """Return the errors of a seed with 0 to 4 wrong poses."""
    cell, rows = make_cell(arrangement, seed), []
    pictures = ((f"{number:02}.png", picture) for number, picture in enumerate(cell.pictures))
    views = find_views(Board(BOARD), pictures)[0]
    random = np.random.default_rng(seed)
    for count in range(5):
        order = np.arange(20)
        wrong = random.choice(20, count, replace=False)
        for place in wrong:
            order[place] = random.choice([other for other in range(20) if other != place])
        posed = [PosedView(view, cell.poses[order[int(view.name[:2])]]) for view in views]
        result = calibrate_hand_eye(posed, camera, BOARD, arrangement)
        millimetres, degrees = pose_error(result.camera, cell.camera)
        named = sorted(each.name for each in result.wrong) == [f"{place:02}.png" for place in sorted(wrong)]
        row = {"arrangement": arrangement, "seed": seed, "wrong": count, "named_exactly": named}
        row |= {"position_error_mm": millimetres, "rotation_error_degrees": degrees}
        row |= {"stated_position_mm": 1000 * result.position_uncertainty}
        row |= {"stated_rotation_degrees": float(np.degrees(result.rotation_uncertainty))}
        row |= {"pose_noise_mm": 1000 * result.position_noise}
        row |= {"pose_noise_degrees": float(np.degrees(result.rotation_noise))}
        if count == 0:
            alone = pose_error(reprojection_alone(posed, result, arrangement == "eye_in_hand"), cell.camera)
            row |= dict(zip(("alone_position_error_mm", "alone_rotation_error_degrees"), alone, strict=True))
        rows.append(row)
        print(*row.values(), flush=True)
    return rows


def main() -> None:
    """Measure all seeds, print a summary and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", type=Path, default=RESULTS / "calibration.json")
    options = parser.parse_args()
    cameras, rows = [], []
    for seed in range(options.seeds):
        camera, row = measure_camera(seed)
        cameras.append(row)
        for arrangement in ARRANGEMENTS:
            rows += measure_hand_eye(arrangement, seed, camera)
    for arrangement in ARRANGEMENTS:
        for key in ("position_error_mm", "rotation_error_degrees"):
            for name in (key, f"alone_{key}"):
                values = [row[name] for row in rows if row["arrangement"] == arrangement and name in row]
                print(f"{arrangement:12} {name:30} median {np.median(values):.3f}, largest {max(values):.3f}")
    print("named exactly", sum(row["named_exactly"] for row in rows), "of", len(rows))
    for key in cameras[0]:
        values = [row[key] for row in cameras]
        print(f"{key:30} median {np.median(values):.3f}, largest {max(values):.3f}")
    noise = {
        "pixels_of_255": PIXEL_NOISE,
        "pose_mm": 1000 * POSE_NOISE[0],
        "pose_degrees": float(np.degrees(POSE_NOISE[1])),
    }
    content = {"noise": noise, "cameras": cameras, "hand_eye": rows}
    options.json.write_text(f"{json.dumps(content, indent=1)}\n")


if __name__ == "__main__":
    main()
