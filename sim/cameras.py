"""Cameras of a simulated scene: images for the agent and pictures for people."""

from collections.abc import Collection

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, Observation

from .config import ObservationConfig
from .rendering import SceneRenderer, check_cameras


class Cameras:
    """The cameras of a scene. An image for the agent holds the newest frames of a camera.

    Args:
        model: model of the scene.
        view: cameras that the agent observes, and all image sizes.

    Raises:
        ConfigError: if the model lacks one of these cameras.
    """

    def __init__(self, model: mujoco.MjModel, view: ObservationConfig) -> None:
        check_cameras(model, tuple(view.cameras))
        self._model, self._view = model, view
        self._images = SceneRenderer(model, view.width, view.height)
        self._pictures = SceneRenderer(model, view.picture_width, view.picture_height, beautiful=True)
        self._frames: dict[str, list[NDArray[np.uint8]]] = {}

    def specs(self) -> dict[str, ArraySpec]:
        """Return the spec of each image that :meth:`observe` returns."""
        view = self._view
        shape = (view.height, view.width, 3 * view.frame_stack)
        return {f"images/{camera}": ArraySpec(shape, "uint8", 0, 255) for camera in view.cameras}

    def begin(self) -> None:
        """Begin an episode without the frames of the last one."""
        self._frames = {}

    def observe(self, data: mujoco.MjData) -> Observation:
        """Return ``images/<camera>`` (height, width, 3 * frame_stack), the newest frame last."""
        return {f"images/{camera}": self._stacked(data, camera) for camera in self._view.cameras}

    def image(self, data: mujoco.MjData, camera: str) -> NDArray[np.uint8]:
        """Return one frame (height, width, 3) for the agent.

        Raises:
            RenderingError: if this machine cannot render.
        """
        return self._images.render(data, camera)

    def picture(self, data: mujoco.MjData, camera: str, hidden: Collection[int] = ()) -> NDArray[np.uint8]:
        """Return a picture (picture_height, picture_width, 3) for people, without the bodies ``hidden``.

        Raises:
            RenderingError: if this machine cannot render.
            ConfigError: if there is no such camera.
        """
        check_cameras(self._model, (camera,))
        if not hidden:
            return self._pictures.render(data, camera)
        opacity = self._model.geom_rgba[:, 3].copy()
        self._model.geom_rgba[np.isin(self._model.geom_bodyid, [*hidden]), 3] = 0.0
        try:
            return self._pictures.render(data, camera)
        finally:
            self._model.geom_rgba[:, 3] = opacity

    def close(self) -> None:
        """Release the graphics contexts. May be called twice."""
        self._images.close()
        self._pictures.close()

    def _stacked(self, data: mujoco.MjData, camera: str) -> NDArray[np.uint8]:
        frame, count = self.image(data, camera), self._view.frame_stack
        frames = [*self._frames.get(camera, [frame] * count), frame][-count:]
        self._frames[camera] = frames
        return np.concatenate(frames, axis=2)
