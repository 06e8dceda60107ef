"""Pictures of a calibration board with known camera and poses, for the tests of calibration and its benchmark."""

import json
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from robo_rl.calibration import Board, BoardConfig
from robo_rl.core import CameraModel, matrix_of_vector, quaternion_of_matrix

CAMERA = CameraModel(640, 480, (612.0, 609.0), (326.5, 233.0), (-0.28, 0.09, 0.0006, -0.0004, 0.0))
"""A camera with the distortion of a usual webcam; its pictures' corners are moved by 40 pixels."""
POSE_NOISE = 0.3e-3, np.radians(0.05)
"""Standard deviation of each coordinate of a pose [m, rad]."""
PIXEL_NOISE = 4.0
"""Standard deviation of the noise of a picture, of 255."""
SQUARE = 60
"""Pixels of a square in the picture that is warped."""


def transform(rotation, position):
    """Return a pose (4, 4) from a rotation vector [rad] or matrix and a position [m]."""
    rotation = np.asarray(rotation, dtype=float)
    pose = np.eye(4)
    pose[:3, :3] = matrix_of_vector(rotation) if rotation.ndim == 1 else rotation
    pose[:3, 3] = position
    return pose


def looking_at(position, target, roll=0.0):
    """Return the pose (4, 4) of a camera at ``position`` that looks at ``target`` [m], turned by ``roll`` [rad]."""
    forward = np.asarray(target, dtype=float) - position
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, (0.0, 0.0, 1.0) if abs(forward[2]) < 0.9 else (0.0, 1.0, 0.0))
    right /= np.linalg.norm(right)
    return transform(np.stack([right, np.cross(forward, right), forward], 1), position) @ transform((0, 0, roll), 0)


class Renderer:
    """Draws a board as a camera sees it.

    Args:
        config: the board.
        camera: the camera.
        seed: of the noise.
    """

    def __init__(self, config=None, camera=CAMERA, seed=0):
        self.config, self.camera = config or BoardConfig(), camera
        self.random = np.random.default_rng(seed)
        margin = SQUARE // 2
        self._board = np.pad(Board(self.config).draw(SQUARE), margin, constant_values=255)
        scale = self.config.square / SQUARE
        self._to_board = np.array([[scale, 0, -scale * (margin - 0.5)], [0, scale, -scale * (margin - 0.5)], [0, 0, 1]])
        size = camera.width, camera.height
        grid = np.stack(np.meshgrid(*map(np.arange, size)), axis=-1).reshape(-1, 1, 2).astype(np.float64)
        straight = cv2.undistortPoints(grid, camera.matrix(), np.array(camera.distortion))[:, 0]
        self._rays = np.append(straight, np.ones((len(straight), 1)), axis=1)

    def picture(self, pose, noise=PIXEL_NOISE):
        """Return the RGB picture of the board whose pose (4, 4) in the camera is given."""
        plane = np.stack([pose[:3, 0], pose[:3, 1], pose[:3, 3]], axis=1) @ self._to_board
        places = self._rays @ np.linalg.inv(plane).T
        shape = self.camera.height, self.camera.width
        ahead = places[:, 2] > 1e-6  # inverse depth
        maps = np.where(ahead[:, None], places[:, :2] / np.where(ahead, places[:, 2], 1)[:, None], -1e4)
        x, y = maps.T.astype(np.float32).reshape(2, *shape)
        grey = cv2.remap(self._board, x, y, cv2.INTER_AREA, borderMode=cv2.BORDER_CONSTANT, borderValue=120)
        blurred = cv2.GaussianBlur(grey.astype(np.float32) * 0.8 + 20, (0, 0), 0.8)
        noisy = blurred + self.random.normal(0, noise, shape)
        return np.repeat(np.clip(noisy, 0, 255).astype(np.uint8)[..., None], 3, axis=2)


def intrinsic_views(seed, count=20):
    """Return poses of the board in a camera: tilted, and in all parts of the picture."""
    random = np.random.default_rng(seed)
    config = BoardConfig()
    centre = np.array([config.width / 2, config.height / 2, 0])
    poses = []
    for number in range(count):
        depth = random.uniform(0.22, 0.42)
        place = np.array([(number % 3 - 1) * 0.2, (number // 3 % 3 - 1) * 0.14, 0]) * depth + (0, 0, depth)
        turn = np.append(random.uniform(-0.6, 0.6, 2), random.uniform(-0.4, 0.4))
        rotation = matrix_of_vector(turn)
        poses.append(transform(rotation, place - rotation @ centre))
    return poses


@dataclass
class Cell:
    """A robot's cell with one camera and a board.

    Attributes:
        arrangement: ``eye_in_hand`` or ``eye_to_hand``.
        camera: true pose (4, 4) of the camera on the end effector, or in the base frame.
        poses: poses (N, 4, 4) of the end effector that the robot reports, with noise.
        pictures: RGB pictures.
        board: true pose (4, 4) of the board in the base frame, or on the end effector.
    """

    arrangement: str
    camera: np.ndarray
    poses: list
    pictures: list
    board: np.ndarray

    def write(self, folder: Path, order=None):
        """Write pictures and ``poses.jsonl`` to a folder; the pose of picture i is that of ``order[i]``."""
        folder.mkdir()
        lines = []
        for number, picture in enumerate(self.pictures):
            pose = self.poses[number if order is None else order[number]]
            name = f"{number:02}.png"
            cv2.imwrite(str(folder / name), picture[..., ::-1])
            quaternion = quaternion_of_matrix(pose[:3, :3]).tolist()
            lines.append(json.dumps({"picture": name, "position": pose[:3, 3].tolist(), "quaternion": quaternion}))
        (folder / "poses.jsonl").write_text("\n".join(lines) + "\n")


def make_cell(arrangement, seed, count=20, renderer=None):
    """Return a cell with ``count`` views, in which the camera looks at the board from different directions."""
    renderer = renderer or Renderer(seed=seed)
    random = np.random.default_rng(seed)
    config = renderer.config
    centre = np.array([config.width / 2, config.height / 2, 0])
    if arrangement == "eye_in_hand":
        camera = transform((0.15, -0.1, np.pi / 2), (0.06, -0.02, -0.05))
        still = transform((np.pi, 0, 0.3), (0.42, 0.1, 0.0))
    else:
        camera = looking_at((1.0, -0.2, 0.55), (0.45, 0.0, 0.25))
        still = transform((0.1, np.pi - 0.2, 0.0), np.array([0.1, -0.08, 0.05]))
    poses, pictures = [], []
    while len(pictures) < count:
        depth = random.uniform(0.3, 0.5)
        place = np.array([*random.uniform(-0.06, 0.06, 2), depth])
        turn = np.append(random.uniform(-0.55, 0.55, 2), random.uniform(-0.8, 0.8))
        rotation = matrix_of_vector(turn)
        seen = transform(rotation, place - rotation @ centre)
        # P Z = X C, where P is the hand's pose in the base frame, or the base's in the hand's.
        related = camera @ seen @ np.linalg.inv(still)
        true = np.linalg.inv(related) if arrangement == "eye_in_hand" else related
        noise = transform(random.normal(0, POSE_NOISE[1], 3), random.normal(0, POSE_NOISE[0], 3))
        measured = true @ noise
        poses.append(measured)
        pictures.append(renderer.picture(seen))
    return Cell(arrangement, camera, poses, pictures, still)


def pose_error(camera, expected):
    """Return the errors of a camera's pose in mm and degrees."""
    pose = camera.pose.matrix()
    angle = np.arccos(np.clip((np.trace(pose[:3, :3].T @ expected[:3, :3]) - 1) / 2, -1, 1))
    return 1000 * float(np.linalg.norm(pose[:3, 3] - expected[:3, 3])), float(np.degrees(angle))
