"""What the cameras of a simulated robot see, drawn beside its physics."""

import mujoco
import numpy as np
from numpy.typing import NDArray

from .config import ObservationConfig
from .rendering import SceneRenderer


class Filming:
    """Pictures of how the world was when it was last looked at.

    Physics may go on while a thread of its own draws: it draws a copy, in a graphics context that it makes itself. The
    thread that has drawn closes it.

    Args:
        model: of the scene.
        view: size of the images.
    """

    def __init__(self, model: mujoco.MjModel, view: ObservationConfig) -> None:
        self._model = model
        self._seen = mujoco.MjData(model)
        self._renderer = SceneRenderer(model, view.width, view.height)

    def look(self, data: mujoco.MjData) -> None:
        """Keep the world as it is now. Nothing may be drawn meanwhile."""
        mujoco.mj_copyData(self._seen, self._model, data)

    def image(self, camera: str) -> NDArray[np.uint8]:
        """Return what a camera saw then (height, width, 3).

        Raises:
            RenderingError: if this machine cannot render.
        """
        return self._renderer.render(self._seen, camera)

    def close(self) -> None:
        """Free the graphics context. May be called twice."""
        self._renderer.close()
