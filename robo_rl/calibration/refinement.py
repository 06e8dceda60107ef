"""Joint refinement of a camera's and a board's pose by maximum likelihood over many views.

Two errors separate a picture from its prediction: that of the corners, of known size from each picture alone, and that
of the reported pose of the end effector, whose size is estimated with the solution. With the latter ignored, as in the
sum of squared reprojection errors, the camera's rotation has a multiple of the error.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import CameraModel, ConfigError, matrix_of_vector

from .board import Array, BoardConfig, View
from .closed_form import inverse

STEP = 1e-6
"""Step of numerical derivatives [m, rad]."""
RADIUS = 2.8
"""Radius of a sphere that holds 95 % of a normal distribution in three dimensions, in standard deviations."""
ALTERNATIONS = 4
"""Times that the solution and the size of the poses' errors are estimated in turn."""
LEAST_PIXELS = 0.05
LEAST_POSE_NOISE = np.array([2e-5, 1e-5])
"""Smallest standard deviations of corners [pixels], and of an end effector's rotation [rad] and position [m]."""
MOST_POSE_NOISE = np.array([0.2, 0.05])


class Solution(NamedTuple):
    """The two unknown poses of a hand-eye calibration, and the errors of the known ones.

    Attributes:
        camera: pose (4, 4) of the camera in the frame of what it is fixed to [m].
        board: pose (4, 4) of the board in the frame of what it is fixed to [m].
        noise: standard deviation of an end effector's rotation [rad] and position [m] about or along each axis.
    """

    camera: Array
    board: Array
    noise: Array


class Problem:
    """Differences between the pictures of N views and their predictions.

    Args:
        poses: pose P (N, 4, 4) of what the board is fixed to, in the frame of what the camera is fixed to [m].
        in_hand: whether the camera is fixed to the end effector; otherwise the board is.
        views: corners in each picture.
        camera: intrinsic calibration.
        board: the board.

    Attributes:
        seen: pose (N, 4, 4) of the board in the camera, from each picture alone [m].
    """

    def __init__(
        self, poses: Array, in_hand: bool, views: Sequence[View], camera: CameraModel, board: BoardConfig
    ) -> None:
        import cv2  # slow to import

        self._cv: Any = cv2
        self._poses, self._in_hand, self._views = poses, in_hand, views
        resized = camera.resized(*views[0].size)
        self._matrix, self._distortion = resized.matrix(), np.array(camera.distortion)
        self._centre = np.array([board.width / 2, board.height / 2, 0.0])
        self.seen = np.stack([self._locate(view) for view in views])
        self._picture_noise = self._measure_picture_noise()

    def refine(self, start: Solution, kept: NDArray[np.bool_]) -> Solution:
        """Return the most likely solution of the views ``kept`` (N,), with a robust loss.

        Raises:
            ConfigError: if SciPy is not installed.
        """
        try:
            from scipy.optimize import least_squares, minimize
        except ImportError as error:
            raise ConfigError(
                f"hand-eye calibration needs SciPy ({error}): pip install 'robo-rl[calibration]'"
            ) from error
        numbers, solution = np.flatnonzero(kept), start
        for _ in range(ALTERNATIONS):
            factors, begin = self._whitening(solution, numbers), solution

            def whitened(motion: Array, begin: Solution = begin, factors: Array = factors) -> Array:
                return self._whitened(_moved(begin, motion), numbers, factors)

            solution = _moved(begin, least_squares(whitened, np.zeros(12), loss="soft_l1").x)
            optimum = minimize(
                lambda noise, current=solution: self._surprise(_with_noise(current, noise), numbers),
                np.log(solution.noise),
                method="Nelder-Mead",
                options={"xatol": 0.02, "fatol": 0.02},
            )
            solution = _with_noise(solution, optimum.x)
        return solution

    def residuals(self, solution: Solution) -> Iterator[tuple[float, float, float]]:
        """Yield the residual of each view: [mm] of the board's centre, [degrees], root mean square [pixels]."""
        differences = self._differences(solution, np.arange(len(self._views)))
        for difference, pixels in zip(differences, self.pixels(solution), strict=True):
            yield (
                1000 * float(np.linalg.norm(difference[3:])),
                float(np.degrees(np.linalg.norm(difference[:3]))),
                pixels,
            )

    def pixels(self, solution: Solution) -> list[float]:
        """Return the root mean square distance of the corners of each view from their prediction [pixels]."""
        predicted = self._predicted(solution, np.arange(len(self._views)))
        errors = [
            self._project(view.points @ pose[:3, :3].T + pose[:3, 3]) - view.corners
            for view, pose in zip(self._views, predicted, strict=True)
        ]
        return [float(np.sqrt((error**2).sum(axis=1).mean())) for error in errors]

    def uncertainty(self, solution: Solution, kept: NDArray[np.bool_]) -> tuple[float, float]:
        """Return the radius of a 95 % region of the camera's position [m] and of its rotation [rad].

        Errors of the intrinsic calibration are not included.
        """
        numbers = np.flatnonzero(kept)
        factors = self._whitening(solution, numbers)
        shifted = [
            self._whitened(_moved(solution, sign * STEP * axis), numbers, factors)
            for axis in np.eye(12)
            for sign in (1, -1)
        ]
        jacobian = (np.array(shifted[::2]) - np.array(shifted[1::2])) / (2 * STEP)
        covariance = np.linalg.inv(jacobian @ jacobian.T)
        rotation, position = (np.linalg.eigvalsh(covariance[part, part])[-1] for part in (slice(3), slice(3, 6)))
        return RADIUS * float(np.sqrt(position)), RADIUS * float(np.sqrt(rotation))

    def _predicted(self, solution: Solution, numbers: NDArray[np.int64]) -> Array:
        """Return the pose of the board in the camera (n, 4, 4) in some views."""
        predicted: Array = inverse(solution.camera) @ self._poses[numbers] @ solution.board
        return predicted

    def _differences(self, solution: Solution, numbers: NDArray[np.int64]) -> Array:
        """Return rotation [rad] and shift of the board's centre [m] from its prediction, in the camera's frame (n, 6).

        Rotations are given by the sines of their angles, which are small where pose and picture belong together.
        """
        predicted, seen = self._predicted(solution, numbers), self.seen[numbers]
        turned = seen[:, :3, :3] @ np.swapaxes(predicted[:, :3, :3], 1, 2)
        skew = (turned - np.swapaxes(turned, 1, 2)) / 2
        rotation = np.stack([skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0]], axis=1)
        shift = (seen - predicted)[:, :3, :3] @ self._centre + (seen - predicted)[:, :3, 3]
        return np.concatenate([rotation, shift], axis=1)

    def _noise(self, solution: Solution, numbers: NDArray[np.int64]) -> Array:
        """Return the covariances of the differences (n, 6, 6)."""
        related = inverse(solution.camera)[None] if self._in_hand else inverse(solution.camera) @ self._poses[numbers]
        predicted = self._predicted(solution, numbers)
        lever = predicted[:, :3, :3] @ self._centre + predicted[:, :3, 3] - related[:, :3, 3]
        moved = np.tile(np.eye(6), (len(numbers), 1, 1))
        # A rotation of the end effector moves the board's centre on the lever between them.
        for row, column, sign in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            moved[:, 3 + row, column] = lever[:, sign]
            moved[:, 3 + column, row] = -lever[:, sign]
        variances = np.repeat(solution.noise**2, 3)
        covariance: Array = self._picture_noise[numbers] + (moved * variances) @ np.swapaxes(moved, 1, 2)
        return covariance

    def _whitening(self, solution: Solution, numbers: NDArray[np.int64]) -> Array:
        """Return the factors (n, 6, 6) that make the elements of differences independent, with variance 1."""
        return np.linalg.inv(np.linalg.cholesky(self._noise(solution, numbers)))

    def _whitened(self, solution: Solution, numbers: NDArray[np.int64], factors: Array) -> Array:
        whitened: Array = (factors @ self._differences(solution, numbers)[..., None]).ravel()
        return whitened

    def _surprise(self, solution: Solution, numbers: NDArray[np.int64]) -> float:
        """Return the negative log-likelihood of the differences, times 2, without constants."""
        covariance, differences = self._noise(solution, numbers), self._differences(solution, numbers)[..., None]
        squares = np.swapaxes(differences, 1, 2) @ np.linalg.solve(covariance, differences)
        return float(np.linalg.slogdet(covariance)[1].sum() + squares.sum())

    def _locate(self, view: View) -> Array:
        """Return the pose (4, 4) of the board in the camera, from one picture."""
        cv2, arguments = self._cv, (view.points, view.corners, self._matrix, self._distortion)
        _, rotations, positions, _ = cv2.solvePnPGeneric(*arguments, flags=cv2.SOLVEPNP_IPPE)
        rotation, position = cv2.solvePnPRefineLM(*arguments, rotations[0], positions[0])
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = matrix_of_vector(rotation.ravel()), position.ravel()
        return pose

    def _measure_picture_noise(self) -> Array:
        """Return the covariance (N, 6, 6) of each pose ``seen`` that is due to the corners of its picture."""
        covariances = []
        for view, pose in zip(self._views, self.seen, strict=True):
            points = view.points @ pose[:3, :3].T + pose[:3, 3]
            arms = points - (pose[:3, :3] @ self._centre + pose[:3, 3])
            directions = [*(np.cross(axis, arms) for axis in np.eye(3)), *np.eye(3)]
            columns = [
                (self._project(points + STEP * each) - self._project(points - STEP * each)).ravel() / (2 * STEP)
                for each in directions
            ]
            jacobian = np.stack(columns, axis=1)
            squares = float(((self._project(points) - view.corners) ** 2).sum())
            variance = max(squares / (2 * len(points) - 6), LEAST_PIXELS**2)
            covariances.append(variance * np.linalg.inv(jacobian.T @ jacobian))
        return np.stack(covariances)

    def _project(self, points: Array) -> Array:
        """Return the pixels (k, 2) of points (k, 3) in the camera's frame [m]."""
        ahead = points.copy()
        ahead[:, 2] = np.maximum(ahead[:, 2], 1e-3)  # a board behind the camera is as wrong as one very near
        projected: Array = self._cv.projectPoints(ahead, np.zeros(3), np.zeros(3), self._matrix, self._distortion)[0][
            :, 0
        ]
        return projected


def _with_noise(solution: Solution, logarithms: Array) -> Solution:
    return solution._replace(noise=np.clip(np.exp(logarithms), LEAST_POSE_NOISE, MOST_POSE_NOISE))


def _moved(solution: Solution, motion: Array) -> Solution:
    """Return the solution whose poses are turned and shifted by ``motion`` (12,) [rad, m], both in fixed axes."""
    moved = []
    for pose, part in zip((solution.camera, solution.board), motion.reshape(2, 2, 3), strict=True):
        result = pose.copy()
        result[:3, :3] = matrix_of_vector(part[0]) @ pose[:3, :3]
        result[:3, 3] += part[1]
        moved.append(result)
    return Solution(moved[0], moved[1], solution.noise)
