"""Cameras that a person sees while driving: their pictures, and the directions that these show."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig

from ..actor.view import IMAGES, newest_frame
from ..core import CameraModel, ConfigError, DataError, EnvBackend, EnvSpec, Observation, simulated_state

SCENE = "view"
"""The simulator's camera for people, which ``render()`` of a simulated arm shows."""
LEAST_LEVEL = 0.7
"""Least length of the horizontal part of the camera's axis to the right: the camera must not lie on its side."""
MOST_UP = 0.7
"""Largest vertical part of the camera's axis of view: a camera that looks up shows no directions on the table."""

Picture = NDArray[np.uint8]


class PersonsCameras:
    """Names of the cameras that a person sees: that of ``render()``, and those that the task observes besides.

    Args:
        spec: spec of the backend.
        simulated: whether ``render()`` shows the scene; a robot's shows the first observed camera.
    """

    def __init__(self, spec: EnvSpec, simulated: bool) -> None:
        observed = [key.removeprefix(IMAGES) for key in spec.observation if key.startswith(IMAGES)]
        self._main, self._others = (SCENE, observed) if simulated or not observed else (observed[0], observed[1:])

    def pictures(self, rendered: Picture | None, observation: Observation | None) -> dict[str, Picture]:
        """Return pictures (height, width, channels) by camera, the rendered one first.

        Without an observation, as between two episodes, there is the rendered one alone.
        """
        main = {} if rendered is None else {self._main: rendered}
        if observation is None:
            return main
        return main | {name: newest_frame(observation[IMAGES + name]) for name in self._others}


def find_headings(config: DictConfig, backend: EnvBackend) -> dict[str, float]:
    """Return the heading of each camera that is fixed in the base frame and whose pose is known; see :func:`heading`.

    In simulation they are those of the arm's scene; on a robot those of ``task.arm.cameras``, if their files contain a
    pose (``robo-rl calibrate hand_eye arrangement=eye_to_hand``).

    Raises:
        ConfigError: if a file cannot be read.
    """
    rotations: dict[str, NDArray[np.float64]] = {}
    simulated = simulated_state(backend)
    if simulated is not None:
        model, data = simulated
        optical = np.diag([1.0, -1.0, -1.0])  # MuJoCo's cameras have y up and z backwards
        for number in range(model.ncam if backend.robot is not None else 0):
            if model.body_weldid[model.cam_bodyid[number]] == 0:
                rotations[model.camera(number).name] = data.cam_xmat[number].reshape(3, 3) @ optical
    else:
        rotations = _calibrated(config.task.get("arm", {}).get("cameras", {}))
    headings = {name: heading(rotation) for name, rotation in rotations.items()}
    return {name: angle for name, angle in headings.items() if angle is not None}


def _calibrated(files: Mapping[str, str]) -> dict[str, NDArray[np.float64]]:
    """Return the rotation of each camera with a pose in the base frame."""
    rotations = {}
    for name, file in files.items():
        try:
            pose = CameraModel.read(Path(file).expanduser()).pose
        except (DataError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"task.arm.cameras.{name}: {file} cannot be read ({reason})") from error
        if pose is not None and pose.frame == "base":
            rotations[name] = pose.matrix()[:3, :3]
    return rotations


def heading(rotation: NDArray[np.float64]) -> float | None:
    """Return the direction on the table that is upwards in a picture, as an angle from x to y of the base frame [rad].

    None if the camera lies on its side or looks up.

    Args:
        rotation: rotation (3, 3) of the camera's optical frame (x right, y down, z into the picture) in the base frame.
    """
    right, view = rotation[:, 0], rotation[:, 2]
    if math.hypot(right[0], right[1]) < LEAST_LEVEL or view[2] > MOST_UP:
        return None
    return math.atan2(right[0], -right[1])
