"""Hand-eye calibration: where a camera is, from pairs of an end-effector pose and a picture of the board.

The board and the camera are each fixed to something, one of them to the end effector. With the pose P of view i, the
board's pose C in the camera, and the two unknown poses X (the camera's) and Z (the board's):

    P_i Z = X C_i

where P is the pose of what the board is fixed to in the frame of what the camera is fixed to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import CameraModel, CameraPose, DataError, quaternion_of_matrix

from .board import Array, BoardConfig, View
from .closed_form import inverse, pair_rotations, solve_robustly
from .refinement import Problem, Solution

ARRANGEMENTS = ("eye_in_hand", "eye_to_hand")
LEAST_VIEWS = 8
WRONG_VIEW = 5.0
"""Pose and picture do not belong together if their residual is this multiple of the median."""
LEAST_WRONG = 1.5
"""Largest residual of a pair that is never wrong [pixels]."""
MOST_WRONG = 1 / 3
"""Largest share of pairs that may be wrong."""
LEAST_ROTATION = 8.0
"""Smallest rotation between two poses about a second axis, root mean square [degrees]."""
LARGEST_RESIDUAL = 0.03
"""Largest median distance between the board's measured and computed positions [m]."""
ROUNDS = 10
START_NOISE = np.array([0.003, 0.001])
"""First guess of the errors of an end effector's rotation [rad] and position [m]."""


@dataclass(frozen=True)
class PosedView:
    """Picture with the pose of the end effector in which it was taken.

    Attributes:
        view: corners in the picture.
        pose: pose (4, 4) of the end effector in the base frame [m].
    """

    view: View
    pose: Array


@dataclass(frozen=True)
class ViewResidual:
    """Difference between a picture and what the calibration predicts.

    Attributes:
        name: name of the picture.
        millimetres: distance of the board's centre.
        degrees: rotation of the board.
        pixels: root mean square distance of the corners.
    """

    name: str
    millimetres: float
    degrees: float
    pixels: float


@dataclass(frozen=True)
class HandEyeCalibration:
    """Result of a hand-eye calibration.

    Attributes:
        camera: the camera with its pose, in the end effector's or the base frame.
        board: pose (4, 4) of the board in the other of these frames [m].
        residuals: residuals of the views that were used.
        wrong: residuals of the views whose pose and picture do not belong together; they were left out.
        position_uncertainty: radius of a 95 % region of the camera's position [m].
        rotation_uncertainty: radius of a 95 % region of its rotation [rad].
        position_noise: standard deviation of each coordinate of the end effector's reported poses [m].
        rotation_noise: standard deviation of their rotation about each axis [rad].
        rotations: rotation between two poses about each principal axis (3,), root mean square [degrees].
    """

    camera: CameraModel
    board: Array
    residuals: Sequence[ViewResidual]
    wrong: Sequence[ViewResidual]
    position_uncertainty: float
    rotation_uncertainty: float
    position_noise: float
    rotation_noise: float
    rotations: Array

    @property
    def pixels(self) -> float:
        """Root mean square residual of the views that were used [pixels]."""
        return float(np.sqrt(np.mean([each.pixels**2 for each in self.residuals])))


def calibrate_hand_eye(
    views: Sequence[PosedView],
    camera: CameraModel,
    board: BoardConfig,
    arrangement: str,
    source: Mapping[str, Any] | None = None,
) -> HandEyeCalibration:
    """Return the pose of a camera on the end effector (``eye_in_hand``) or beside the robot (``eye_to_hand``).

    The start is the closed-form solution (Park and Martin 1994) of three views that agrees best with the median view.
    The most likely solution of all views that agree follows (:class:`.refinement.Problem`). A view is left out if its
    residual in the picture is above :data:`WRONG_VIEW` times the median and above :data:`LEAST_WRONG`.

    Args:
        views: pairs of pose and picture.
        camera: intrinsic calibration, of pictures of the same size.
        board: the board.
        arrangement: one of :data:`ARRANGEMENTS`.
        source: origin of the views, for the file.

    Raises:
        DataError: if there are too few views, too little rotation, or if the views contradict each other.
        ConfigError: if SciPy is not installed.
    """
    if len(views) < LEAST_VIEWS:
        raise DataError(
            f"expected at least {LEAST_VIEWS} poses whose pictures show the board, got {len(views)}: take about 20"
        )
    in_hand = arrangement == "eye_in_hand"
    poses = np.stack([inverse(view.pose) if in_hand else view.pose for view in views])
    _require_rotation(poses)
    problem = Problem(poses, in_hand, [view.view for view in views], camera, board)
    start = solve_robustly(poses, problem.seen, board.outline())
    if np.median(start.errors) > LARGEST_RESIDUAL:
        raise DataError(_contradiction(views, problem, board, arrangement, float(np.median(start.errors))))
    solution, kept = _agreeing(problem, Solution(start.camera, start.board, START_NOISE), start.errors)
    if (~kept).sum() > MOST_WRONG * len(views):
        names = ", ".join(view.view.name for view, good in zip(views, kept, strict=True) if not good)
        raise DataError(
            f"{(~kept).sum()} of {len(views)} poses do not belong to their pictures ({names}), more than a third: "
            "check that each picture was taken while the arm rested in its pose, and that names were not shifted"
        )
    rotations = _require_rotation(poses[kept])
    values = problem.residuals(solution)
    residuals = [ViewResidual(view.view.name, *each) for view, each in zip(views, values, strict=True)]
    position, rotation = problem.uncertainty(solution, kept)
    result = HandEyeCalibration(
        camera,
        solution.board,
        [each for each, good in zip(residuals, kept, strict=True) if good],
        [each for each, good in zip(residuals, kept, strict=True) if not good],
        position,
        rotation,
        float(solution.noise[1]),
        float(solution.noise[0]),
        rotations,
    )
    return replace(result, camera=_with_pose(result, solution.camera, in_hand, source or {}))


def _agreeing(problem: Problem, solution: Solution, errors: Array) -> tuple[Solution, NDArray[np.bool_]]:
    """Return the solution of the views that agree with each other, and which they are (N,)."""
    kept = errors <= WRONG_VIEW * np.median(errors)
    for _ in range(ROUNDS):
        solution = problem.refine(solution, kept)
        pixels = np.array(problem.pixels(solution))
        agreeing = pixels <= max(WRONG_VIEW * float(np.median(pixels[kept])), LEAST_WRONG)
        if (agreeing == kept).all():
            break
        kept = agreeing
    return solution, kept


def _require_rotation(poses: Array) -> Array:
    """Return the rotations between poses about their principal axes [degrees].

    Raises:
        DataError: if they are all about one axis, as the camera's position along it then has no effect.
    """
    vectors = np.degrees(pair_rotations(poses)[0])
    rotations: Array = np.sqrt(np.linalg.eigvalsh(vectors.T @ vectors / len(vectors)))[::-1]
    if rotations[1] < LEAST_ROTATION:
        raise DataError(
            f"the poses rotate too little: {rotations[0]:.1f} degrees from one to another about one axis, "
            f"{rotations[1]:.1f} about a second, expected {LEAST_ROTATION:g} about both. Turn the gripper by 20 to 40 "
            "degrees about two of its axes or more, not only to and fro about one"
        )
    return rotations


def _contradiction(
    views: Sequence[PosedView], problem: Problem, board: BoardConfig, arrangement: str, error: float
) -> str:
    """Return the message for views that no pose of the camera explains, with the likely reason."""
    text = f"no pose of the camera explains the views: the median one is off by {1000 * error:.0f} mm"
    poses = np.stack([view.pose if arrangement == "eye_in_hand" else inverse(view.pose) for view in views])
    other = ARRANGEMENTS[arrangement == ARRANGEMENTS[0]]
    if np.median(solve_robustly(poses, problem.seen, board.outline()).errors) < error / 3:
        return f"{text}. They agree with arrangement={other}"
    return (
        f"{text}. Check the order of pictures and poses, the units (m) and the order of quaternions (x, y, z, w), that "
        "poses are those of the end effector in the base frame, and that board.square is the measured size"
    )


def _with_pose(result: HandEyeCalibration, pose: Array, in_hand: bool, source: Mapping[str, Any]) -> CameraModel:
    camera = result.camera
    position = (float(pose[0, 3]), float(pose[1, 3]), float(pose[2, 3]))
    quaternion = tuple(map(float, quaternion_of_matrix(pose[:3, :3])))
    rows = [[each.name, each.millimetres, each.degrees, each.pixels] for each in (*result.residuals, *result.wrong)]
    measurement = {
        **camera.measurement,
        "hand_eye": {
            **source,
            "views": len(result.residuals),
            "left_out": [each.name for each in result.wrong],
            "residuals": {"columns": ["picture", "mm", "degrees", "pixels"], "rows": rows},
            "position_uncertainty_m": result.position_uncertainty,
            "rotation_uncertainty_rad": result.rotation_uncertainty,
            "position_noise_m": result.position_noise,
            "rotation_noise_rad": result.rotation_noise,
        },
    }
    place = CameraPose("end_effector" if in_hand else "base", position, quaternion)
    return replace(camera, pose=place, measurement=measurement)
