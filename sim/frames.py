"""Frames of an arm's links, as a robot publishes them on tf."""

from collections.abc import Iterator, Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import FrameTransform

from .config import ArmConfig

Array = NDArray[np.float64]

BASE = "base"
"""The frame of all poses of the arm: the world's frame."""


class ArmFrames:
    """A tree of frames from ``base`` along the arm's links to its end effector, wrist and cameras.

    Args:
        model: model of the scene.
        arm: the arm.
        cameras: cameras with a frame: ``CAMERA_optical_frame``, x right, y down, z into the image.
    """

    def __init__(self, model: mujoco.MjModel, arm: ArmConfig, cameras: Sequence[str]) -> None:
        self._model, self._data = model, mujoco.MjData(model)
        self._qpos = np.array([model.joint(name).qposadr[0] for name in arm.joints])
        self._arm, self._cameras = arm, tuple(cameras)
        self._names = {0: BASE}
        body = int(model.site(arm.end_effector).bodyid[0])
        chain = []
        while body:
            chain.append(body)
            body = int(model.body_parentid[body])
        for body in reversed(chain):
            name = model.body(body).name or f"body{body}"
            while name in (*self._names.values(), arm.end_effector, "wrist"):
                name += "_link"
            self._names[body] = name

    def fixed(self) -> list[FrameTransform]:
        """Return the frames that are fixed in their parent."""
        model, data = self._model, self._data
        self._place(np.array(self._arm.home))
        mujoco.mj_camlight(model, data)
        frames = [*self._links(jointed=False)]
        for site, name in ((self._arm.end_effector, self._arm.end_effector), (self._arm.wrist_sensor_site, "wrist")):
            if site is not None:
                index = model.site(site).id
                frames.append(self._frame(model.site_bodyid[index], name, data.site_xpos[index], data.site_xmat[index]))
        for camera in self._cameras:
            index = model.camera(camera).id
            matrix = data.cam_xmat[index].reshape(3, 3) * [1, -1, -1]  # MuJoCo's cameras look along -z, with y up
            name = f"{camera}_optical_frame"
            frames.append(self._frame(model.cam_bodyid[index], name, data.cam_xpos[index], matrix))
        return frames

    def moving(self, joints: Array) -> list[FrameTransform]:
        """Return the frames that joints move, for a posture (n,) [rad or m]."""
        self._place(joints)
        return [*self._links(jointed=True)]

    def _place(self, joints: Array) -> None:
        self._data.qpos[self._qpos] = joints
        mujoco.mj_kinematics(self._model, self._data)

    def _links(self, jointed: bool) -> Iterator[FrameTransform]:
        for body, name in self._names.items():
            if body and bool(self._model.body_jntnum[body]) is jointed:
                parent = self._model.body_parentid[body]
                yield self._frame(parent, name, self._data.xpos[body], self._data.xmat[body])

    def _frame(self, body: int, name: str, position: Array, matrix: Array) -> FrameTransform:
        """Return a frame on ``body`` or its nearest named ancestor; position and matrix are in the world's frame."""
        while body not in self._names:
            body = self._model.body_parentid[body]
        turn = self._data.xmat[body].reshape(3, 3).T
        return FrameTransform(
            self._names[int(body)], name, turn @ (position - self._data.xpos[body]), turn @ matrix.reshape(3, 3)
        )
