"""Pictures with depth, and the interface of the cameras that take them."""

import importlib
from types import ModuleType
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DriverError


class Frames(NamedTuple):
    """Pictures that were taken at the same time.

    Attributes:
        colours: RGB (H, W, 3).
        depth: distance along the optical axis [m], aligned to the colours (H, W), 0 where it is unknown; None if the
            camera measures none.
    """

    colours: NDArray[np.uint8]
    depth: NDArray[np.float32] | None


class DepthCamera(Protocol):
    """Open camera with colours and depth."""

    def read(self) -> Frames | None:
        """Wait up to 2 s for the next pictures; return None if there are none."""
        ...

    def close(self) -> None:
        """Release the camera."""
        ...


def require_package(name: str, maker: str) -> ModuleType:
    """Return the package that reads the cameras of a maker.

    Raises:
        DriverError: if it is not installed, or one of its libraries is missing.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise DriverError(f"{maker} cameras need {name} ({error}): pip install 'robo-rl[depth]'") from error
