"""Intrinsic calibration: focal length, principal point and distortion of a camera from views of a board."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from robo_rl.core import CameraModel, DataError, counted, matrix_of_vector

from .board import Array, View
from .pictures import SAME_VIEW, nearest_view

LEAST_VIEWS = 8
BAD_VIEW = 3.0
"""A view is bad if its residual is this multiple of the median."""
LEAST_BAD = 0.5
"""Largest residual of a view that is never bad [pixels]."""
MOST_BAD = 0.25
"""Largest share of views that may be bad."""
LARGEST_UNCERTAINTY = 0.01
"""Largest relative uncertainty of the focal length, two standard deviations."""
LEAST_TILT = 4.0
"""Smallest standard deviation of the board's tilt in its main direction [degrees]."""
CELLS = (9, 6)
"""Columns and rows of the grid in which covered parts of the picture are counted."""
PARTS = (("top left", "top", "top right"), ("left", "middle", "right"), ("bottom left", "bottom", "bottom right"))


@dataclass(frozen=True)
class IntrinsicCalibration:
    """Result of an intrinsic calibration.

    Attributes:
        camera: the camera, without a pose.
        residuals: root mean square residual of each view that was used [pixels].
        left_out: reason by name of each view that was not.
        covered: which cells of the picture (rows, columns) of :data:`CELLS` have a corner.
        uncertainty: two standard deviations of the focal length, relative to it.
        distortion: largest shift of a point at the picture's edge by the distortion [pixels].
    """

    camera: CameraModel
    residuals: Mapping[str, float]
    left_out: Mapping[str, str]
    covered: Array
    uncertainty: float
    distortion: float

    @property
    def residual(self) -> float:
        """Root mean square residual of all views that were used [pixels]."""
        return float(np.sqrt(np.mean(np.square(list(self.residuals.values())))))

    @property
    def coverage(self) -> float:
        """Share of the cells that have a corner."""
        return float(self.covered.mean())


class _Solution(NamedTuple):
    """OpenCV's solution: camera matrix (3, 3), distortion (5,), and standard deviations of the parameters.

    ``residuals`` (N,) [pixels] and ``normals`` (N, 3), of the board in the camera's frame, are those of each view.
    """

    matrix: Array
    distortion: Array
    deviations: Array
    residuals: Array
    normals: Array


def calibrate_camera(views: Sequence[View], source: Mapping[str, Any] | None = None) -> IntrinsicCalibration:
    """Return the calibration of the camera that took the views, all of the same size.

    Views that repeat an earlier one are left out, and so is, one after another, each view whose residual is above
    :data:`BAD_VIEW` times the median and above :data:`LEAST_BAD`.

    Args:
        views: corners in each picture.
        source: origin of the pictures, for the file.

    Raises:
        DataError: if pictures differ in size, there are too few views, too many of them are bad, or if they do not
            determine the focal length.
    """
    sizes = [f"{width} x {height}" for width, height in sorted({view.size for view in views})]
    if len(sizes) > 1:
        raise DataError(
            f"the pictures have different sizes ({', '.join(sizes)}): take all with the same settings of the camera"
        )
    used, left_out = _different(views)
    solution = _agreeing(used, left_out)
    matrix, deviations, residuals = solution.matrix, solution.deviations, solution.residuals
    uncertainty = float(2 * max(deviations[0] / matrix[0, 0], deviations[1] / matrix[1, 1]))
    _require_tilt(solution.normals, uncertainty)
    width, height = used[0].size
    by_name = {view.name: float(value) for view, value in zip(used, residuals, strict=True)}
    covered, shift = covered_cells(used), _largest_shift(matrix, solution.distortion, (width, height))
    measurement = {
        **(source or {}),
        "views": len(used),
        "left_out": left_out,
        "residual_pixels": float(np.sqrt(np.mean(residuals**2))),
        "covered": float(covered.mean()),
        "focal_length_uncertainty": uncertainty,
    }
    camera = CameraModel(
        width,
        height,
        (float(matrix[0, 0]), float(matrix[1, 1])),
        (float(matrix[0, 2]), float(matrix[1, 2])),
        tuple(map(float, solution.distortion)),
        measurement=measurement,
    )
    return IntrinsicCalibration(camera, by_name, left_out, covered, uncertainty, shift)


def _different(views: Sequence[View]) -> tuple[list[View], dict[str, str]]:
    """Return the views that repeat no earlier one, and the reason by name of each that does."""
    used: list[View] = []
    repeated: dict[str, str] = {}
    for view in views:
        nearest, distance = nearest_view(view, used)
        if nearest is not None and distance < SAME_VIEW:
            repeated[view.name] = f"shows the same view as {nearest.name}"
        else:
            used.append(view)
    return used, repeated


def _agreeing(used: list[View], left_out: dict[str, str]) -> _Solution:
    """Return the solution of the views that agree; the others are moved from ``used`` to ``left_out``."""
    most, bad = int(MOST_BAD * len(used)), list[str]()
    while True:
        _require_views(used, len(left_out))
        solution = _solve(used)
        worst, median = int(np.argmax(solution.residuals)), float(np.median(solution.residuals))
        residual = float(solution.residuals[worst])
        if residual <= max(BAD_VIEW * median, LEAST_BAD):
            return solution
        name = used.pop(worst).name
        bad.append(name)
        left_out[name] = f"{residual:.2f} pixels, {residual / median:.1f} times the median"
        if len(bad) > most:
            raise DataError(
                f"more than a quarter of the views disagree with the others ({', '.join(bad)}): check that the board "
                "is flat, that board.* are its sizes, and that focus and zoom of the camera are fixed"
            )


def _solve(views: Sequence[View]) -> _Solution:
    import cv2  # slow to import

    points = [view.points.astype(np.float32) for view in views]
    corners = [view.corners.astype(np.float32) for view in views]
    try:
        # OpenCV's annotations do not allow None, which makes it estimate the camera from scratch.
        answer = cv2.calibrateCameraExtended(points, corners, views[0].size, None, None)  # type: ignore[call-overload]
    except cv2.error as error:
        raise DataError(
            f"OpenCV finds no camera for these views ({error}): take others, with the board tilted"
        ) from error
    _, matrix, distortion, rotations, _, deviations, _, residuals = answer
    normals = np.stack([matrix_of_vector(np.asarray(vector, dtype=np.float64).ravel())[:, 2] for vector in rotations])
    return _Solution(matrix, distortion.ravel()[:5], deviations.ravel(), residuals.ravel(), normals)


def _require_views(used: Sequence[View], left_out: int) -> None:
    if len(used) < LEAST_VIEWS:
        others = f" ({counted(left_out, 'other')} left out)" if left_out else ""
        raise DataError(
            f"expected at least {LEAST_VIEWS} different views of the board, got {len(used)}{others}: take about 20, "
            "with the board tilted by 20 to 45 degrees in different directions, near and far, in the middle and in "
            "all corners of the picture. If it is in the pictures and was not found, check the options board.*"
        )


def _require_tilt(normals: Array, uncertainty: float) -> None:
    """Raise :class:`DataError` if all views show the board from nearly the same direction."""
    advice = "Take more, with the board tilted by 20 to 45 degrees about both its axes, and large in the picture"
    spread = float(np.degrees(np.sqrt(np.linalg.eigvalsh(np.cov(normals.T))[-1])))
    if spread < LEAST_TILT:  # any focal length explains such views, so that its uncertainty means nothing
        raise DataError(
            f"the views are too similar: the board is tilted by {spread:.1f} degrees (standard deviation), expected "
            f"{LEAST_TILT:g}. {advice}"
        )
    if not uncertainty <= LARGEST_UNCERTAINTY:
        raise DataError(
            f"the views are too similar: they determine the focal length to ±{100 * uncertainty:.1f} %, expected "
            f"±{100 * LARGEST_UNCERTAINTY:g} %. {advice}"
        )


def covered_cells(views: Sequence[View]) -> Array:
    """Return which cells (rows, columns) of :data:`CELLS` have a corner of a view: 1, else 0."""
    columns, rows = CELLS
    covered = np.zeros((rows, columns))
    for view in views:
        places = (view.corners + 0.5) / np.array(view.size) * np.array(CELLS)
        column, row = np.clip(places.astype(int), 0, np.array(CELLS) - 1).T
        covered[row, column] = 1.0
    return covered


def bare_parts(covered: Array) -> list[str]:
    """Return the parts of the picture, of nine, in which fewer than half of the cells are covered."""
    rows, columns = CELLS[1] // 3, CELLS[0] // 3
    shares = covered.reshape(3, rows, 3, columns).mean(axis=(1, 3))
    return [PARTS[row][column] for row, column in np.argwhere(shares < 0.5)]


def _largest_shift(matrix: Array, distortion: Array, size: tuple[int, int]) -> float:
    """Return by how much the distortion moves a point at the edge of the picture at most [pixels]."""
    import cv2

    width, height = size
    across, down = np.linspace(0, width - 1, 9), np.linspace(0, height - 1, 9)
    edge = [(x, y) for x in across for y in (0, height - 1)] + [(x, y) for x in (0, width - 1) for y in down]
    points = np.array(edge, dtype=np.float64)
    straight = cv2.undistortPoints(points[:, None], matrix, distortion, P=matrix)[:, 0]
    return float(np.linalg.norm(straight - points, axis=1).max())
