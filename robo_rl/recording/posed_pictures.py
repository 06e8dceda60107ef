"""Pictures of a calibration board in a data set, with the poses in which they were taken."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..calibration import Board, PosedView
from ..core import OBSERVATION_FRAME, ConfigError, DataError, EnvSpec, counted, vector_of_matrix
from ..replay import EpisodeStore

POSITION = tuple(f"end_effector_{axis}" for axis in "xyz")
COLUMNS = tuple(f"end_effector_r{row}{column}" for column in (1, 2) for row in (1, 2, 3))
REST_SECONDS = 0.3
"""Time for which an end effector must have been at rest [s]. A picture may be older than its pose by this time."""
REST_POSITION = 0.001
REST_ROTATION = 0.005
"""Upper limits of the distance [m] and rotation [rad] of an end effector at rest during this time."""
NEW_POSITION = 0.02
NEW_ROTATION = 0.07
"""Distance [m] or rotation [rad] from all earlier poses above which a pose counts as new."""
MOST_VIEWS = 60

Array = NDArray[np.float64]


def find_posed_views(store: EpisodeStore, board: Board, camera: str | None) -> tuple[list[PosedView], int]:
    """Return the views of the board in new poses at rest, and the number of such poses without the board.

    Args:
        store: data set of an arm that observes its end effector's pose in the base frame.
        board: the board.
        camera: camera of the observations; None: the only one.

    Raises:
        ConfigError: if there is no such camera.
        DataError: if the pose is not observed, or no picture shows the board.
    """
    key = _image_key(store.spec, camera)
    places = _pose_places(store.spec)
    views: list[PosedView] = []
    chosen: list[Array] = []
    without: list[Array] = []
    for number in range(len(store)):
        observation = store.arrays(number, {"state", key}).observation
        poses = _poses(observation["state"][:, places].astype(np.float64))
        for row in _rests(poses, store.spec.control_rate):
            if len(views) == MOST_VIEWS:
                return views, len(without)
            if not _is_new(poses[row], chosen):
                continue
            view = board.find(f"episode {number}, step {row}", np.ascontiguousarray(observation[key][row][..., -3:]))
            if view is None:
                without += [poses[row]] if _is_new(poses[row], without) else []
                continue
            without = [other for other in without if _is_new(other, [poses[row]])]
            chosen.append(poses[row])
            views.append(PosedView(view, poses[row]))
    if not views:
        height, width = store.spec.observation[key].shape[:2]
        raise DataError(
            f"{store.path}: the board was found in no picture of {key} in which the arm is at rest "
            f"({counted(len(without), 'pose')}). Record with larger pictures (they have {width} x {height} pixels: "
            "task.observation.width=640 task.observation.height=480), and let the arm rest for half a second in each "
            "pose"
        )
    return views, len(without)


def _image_key(spec: EnvSpec, camera: str | None) -> str:
    cameras = [key.removeprefix("images/") for key in spec.observation if key.startswith("images/")]
    if camera is None and len(cameras) == 1:
        return f"images/{cameras[0]}"
    if camera not in cameras:
        raise ConfigError(
            f"data_camera must be one of the cameras of the data set ({', '.join(cameras)}), got {camera}"
        )
    return f"images/{camera}"


def _pose_places(spec: EnvSpec) -> list[int]:
    names = spec.observation["state"].names if "state" in spec.observation else ()
    absent = [name for name in (*POSITION, *COLUMNS) if name not in names]
    if absent:
        raise DataError(
            f"the data set of task {spec.task} has no pose of an end effector: its observation 'state' lacks "
            f"{', '.join(absent)}; give pictures and poses instead"
        )
    if OBSERVATION_FRAME in spec.extra:
        raise DataError(
            f"the poses in the data set of task {spec.task} are relative to the beginning of each episode: record with "
            "task.observation.relative=false"
        )
    return [names.index(name) for name in (*POSITION, *COLUMNS)]


def _poses(values: Array) -> Array:
    """Return the poses (n, 4, 4) of positions and the first two columns of rotation matrices (n, 9)."""
    poses = np.tile(np.eye(4), (len(values), 1, 1))
    x, y = values[:, 3:6], values[:, 6:9]
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    y = y - (x * y).sum(axis=1, keepdims=True) * x
    y = y / np.linalg.norm(y, axis=1, keepdims=True)
    poses[:, :3, :3] = np.stack([x, y, np.cross(x, y)], axis=2)
    poses[:, :3, 3] = values[:, :3]
    return poses


def _rests(poses: Array, rate: float) -> Iterator[int]:
    """Yield the rows in which the end effector has been at rest for :data:`REST_SECONDS`."""
    window = math.ceil(REST_SECONDS * rate)
    for row in range(window, len(poses)):
        distances = (_distance(poses[row], earlier) for earlier in poses[row - window : row])
        if all(moved < REST_POSITION and turned < REST_ROTATION for moved, turned in distances):
            yield row


def _is_new(pose: Array, others: Sequence[Array]) -> bool:
    distances = (_distance(pose, other) for other in others)
    return all(moved > NEW_POSITION or turned > NEW_ROTATION for moved, turned in distances)


def _distance(pose: Array, other: Array) -> tuple[float, float]:
    """Return distance [m] and rotation [rad] between two poses."""
    turned = vector_of_matrix(pose[:3, :3] @ other[:3, :3].T)
    return float(np.linalg.norm(pose[:3, 3] - other[:3, 3])), float(np.linalg.norm(turned))
