"""A simulated robot that time moves on, as a real one, instead of steps."""

import numpy as np
from numpy.typing import NDArray

from .episode import SimulatedBackend
from .filming import Filming


class TickingRobot:
    """The robot's side of a simulated backend, whose physics and rewards it uses.

    Args:
        backend: of a task. Nothing else may step it meanwhile.

    Attributes:
        cameras: that the task observes.
        object_names: of the elements of :meth:`objects`.
    """

    def __init__(self, backend: SimulatedBackend) -> None:
        self._backend = backend
        self.cameras = tuple(backend.config.observation.cameras)
        observed = backend.spec.observation
        self.object_names = observed["object"].names if "object" in observed else ()
        self._filming = Filming(backend.model, backend.config.observation)

    def objects(self) -> NDArray[np.float64]:
        """Return the state of the task's objects (m,), with the sensors' noise."""
        backend = self._backend
        return backend.simulation.measure_objects(backend.task.object_state(backend.data))

    def rewards(self) -> dict[str, float]:
        """Return the reward terms of the present state."""
        return self._backend.task.rewards(self._backend.data)

    def look(self) -> None:
        """Keep the world as it is now, for :meth:`image`, while nothing is drawn."""
        self._backend.simulation.pose()
        self._filming.look(self._backend.data)

    def image(self, camera: str) -> NDArray[np.uint8]:
        """Return what a camera saw at the last look (height, width, 3). A thread of its own may draw."""
        return self._filming.image(camera)

    def close_cameras(self) -> None:
        """Free the graphics context of the thread that drew."""
        self._filming.close()

    def close(self) -> None:
        """Free the rendering contexts of the backend."""
        self._backend.close()
