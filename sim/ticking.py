"""The base class of simulated robots that run continuously instead of in steps."""

import mujoco
import numpy as np
from numpy.typing import NDArray

from .episode import SimulatedBackend
from .rendering import SceneRenderer


class TickingRobot:
    """The robot's side of a simulated backend, whose physics and rewards it uses.

    Its cameras show the world at the last :meth:`look`. Another thread may render that copy while the physics
    continues. The thread that renders has its own graphics context, and must close it.

    Args:
        backend: backend of a task. Nothing else may step it in the meantime.

    Attributes:
        cameras: cameras that the task observes.
        object_names: names of the elements of :meth:`objects`.
    """

    def __init__(self, backend: SimulatedBackend) -> None:
        self._backend = backend
        observed = backend.spec.observation
        self.object_names = observed["object"].names if "object" in observed else ()
        view = backend.config.observation
        self.cameras = tuple(view.cameras)
        self._snapshot = mujoco.MjData(backend.model)
        self._renderer = SceneRenderer(backend.model, view.width, view.height)

    def objects(self) -> NDArray[np.float64]:
        """Return the state of the task's objects (m,), with the sensors' noise."""
        backend = self._backend
        return backend.simulation.measure_objects(backend.task.object_state(backend.data))

    def rewards(self) -> dict[str, float]:
        """Return the reward terms of the current state."""
        return self._backend.task.rewards(self._backend.data)

    def look(self) -> None:
        """Store the current state of the world for :meth:`image`. Nothing may be rendered in the meantime."""
        self._backend.simulation.pose()
        mujoco.mj_copyData(self._snapshot, self._backend.model, self._backend.data)

    def image(self, camera: str) -> NDArray[np.uint8]:
        """Return the image of a camera at the last :meth:`look` (height, width, 3).

        Raises:
            RenderingError: if this machine cannot render.
        """
        return self._renderer.render(self._snapshot, camera)

    def close_cameras(self) -> None:
        """Release the graphics context of the thread that rendered. May be called twice."""
        self._renderer.close()

    def close(self) -> None:
        """Release the rendering contexts of the backend."""
        self._backend.close()
