"""Cameras of a simulated scene that are calibrated ones of a real cell."""

from collections.abc import Mapping
from pathlib import Path

import mujoco
import numpy as np

from robo_rl.core import CameraModel, CameraPose, ConfigError, DataError, nearest

from .config import ArmConfig

OPTICAL = np.diag([1.0, -1.0, -1.0])
"""Axes of an optical frame in the frame of MuJoCo's camera, which has y up and z backwards."""
PIXEL = 1e-5
"""Size of a pixel on the simulated sensor [m]. Only its ratio to the focal length has an effect."""


def read_cameras(config: ArmConfig) -> dict[str, CameraModel]:
    """Return the cameras of ``arm.cameras`` by name.

    Raises:
        ConfigError: if a file cannot be read.
    """
    cameras = {}
    for name, file in config.cameras.items():
        try:
            cameras[name] = CameraModel.read(Path(file).expanduser())
        except (DataError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"arm.cameras.{name}: {file} cannot be read ({reason})") from error
    return cameras


def add_cameras(spec: mujoco.MjSpec, cameras: Mapping[str, CameraModel]) -> None:
    """Add the cameras that the scene does not have; :func:`set_cameras` gives them their poses.

    Raises:
        ConfigError: if the pose of such a camera is not calibrated.
    """
    names = [camera.name for camera in spec.cameras]
    for name, camera in cameras.items():
        if name in names:
            continue
        if camera.pose is None:
            raise ConfigError(
                f"arm.cameras.{name}: its file has no pose (robo-rl calibrate hand_eye measures it), and there is no "
                f"camera {name!r} in the scene whose pose it could have; {nearest(name, names)}"
            )
        spec.worldbody.add_camera(name=name)


def set_cameras(model: mujoco.MjModel, cameras: Mapping[str, CameraModel], end_effector: str) -> None:
    """Give cameras of a model their calibrated projection, and their pose where it is calibrated.

    MuJoCo's camera has focal lengths and a principal point, but no distortion.

    Args:
        model: compiled model with these cameras and the arm's base at the origin.
        cameras: cameras by name.
        end_effector: name of the site of the end effector.
    """
    for name, camera in cameras.items():
        index = model.camera(name).id
        _set_projection(model, index, camera)
        if camera.pose is not None:
            _set_pose(model, index, camera.pose, end_effector)


def _set_projection(model: mujoco.MjModel, index: int, camera: CameraModel) -> None:
    size = np.array([camera.width, camera.height])
    offset = size / 2 - 0.5 - np.array(camera.principal_point)  # MuJoCo's sensor is seen from behind
    model.cam_resolution[index] = size
    model.cam_sensorsize[index] = PIXEL * size
    model.cam_intrinsic[index] = PIXEL * np.array([*camera.focal_length, *offset])
    model.cam_fovy[index] = np.degrees(2 * np.arctan(camera.height / 2 / camera.focal_length[1]))


def _set_pose(model: mujoco.MjModel, index: int, pose: CameraPose, end_effector: str) -> None:
    matrix = pose.matrix()
    position, rotation = matrix[:3, 3], matrix[:3, :3] @ OPTICAL
    body = 0
    if pose.frame == "end_effector":
        site = model.site(end_effector).id
        body, turned = int(model.site_bodyid[site]), np.empty(9)
        mujoco.mju_quat2Mat(turned, model.site_quat[site])
        position = model.site_pos[site] + turned.reshape(3, 3) @ position
        rotation = turned.reshape(3, 3) @ rotation
    model.cam_mode[index] = mujoco.mjtCamLight.mjCAMLIGHT_FIXED
    model.cam_bodyid[index], model.cam_targetbodyid[index] = body, -1
    model.cam_pos[index] = position
    mujoco.mju_mat2Quat(model.cam_quat[index], rotation.ravel())
