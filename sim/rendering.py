"""Headless rendering.

A graphics context is made when the first image is asked for, so that work on states alone needs no graphics.
"""

import os
import weakref
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, RenderingError, nearest

PACKAGES = "libegl1 libegl-mesa0 libgl1-mesa-dri libopengl0"


class SceneRenderer:
    """Images of one model at one size.

    Not for use from several threads; close it when done.

    Args:
        model: what is drawn.
        width: of images [pixels].
        height: of images [pixels].
        beautiful: with shadows and smooth edges, for people. They cost ten times the rest in software rendering.
    """

    def __init__(self, model: mujoco.MjModel, width: int, height: int, *, beautiful: bool = False) -> None:
        self._model = model
        self._width = width
        self._height = height
        self._beautiful = beautiful
        self._renderer: Any = None

    def render(self, data: mujoco.MjData, camera: str) -> NDArray[np.uint8]:
        """Return the view (height, width, 3) of the camera named ``camera``.

        Raises:
            RenderingError: if no graphics context can be made on this machine.
        """
        if self._renderer is None:
            self._renderer = self._make()
        self._renderer.update_scene(data, camera)
        image: NDArray[np.uint8] = self._renderer.render()
        return image

    def close(self) -> None:
        """Free the context. May be called twice."""
        if self._renderer is not None:
            self._free()
            self._renderer = None

    def _make(self) -> Any:
        model = self._model
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, self._width)
        model.vis.global_.offheight = max(model.vis.global_.offheight, self._height)
        model.vis.quality.offsamples = 4 if self._beautiful else 0
        model.vis.quality.shadowsize = 2048
        if not hasattr(mujoco, "GLContext"):
            raise RenderingError(_advice("no graphics library was found"))
        try:
            renderer = mujoco.Renderer(model, self._height, self._width)
        except Exception as error:
            raise RenderingError(_advice(str(error))) from error
        # Also at the interpreter's end, but before the graphics library is torn down.
        self._free = weakref.finalize(self, renderer.close)
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = int(self._beautiful)
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        return renderer


def check_cameras(model: mujoco.MjModel, cameras: tuple[str, ...]) -> None:
    """Raise :class:`ConfigError` unless the model has every camera."""
    names = [model.camera(index).name for index in range(model.ncam)]
    for camera in cameras:
        if camera not in names:
            raise ConfigError(f"observation.cameras: there is no camera {camera!r}; {nearest(camera, names)}")


def _advice(reason: str) -> str:
    return (
        f"no image can be rendered (MUJOCO_GL={os.environ.get('MUJOCO_GL', '')}): {reason}. On Debian or Ubuntu "
        f"install {PACKAGES} and set MUJOCO_GL=egl, or install libosmesa6 and set MUJOCO_GL=osmesa"
    )
