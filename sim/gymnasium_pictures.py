"""Conversion of pictures of Gymnasium environments to this platform's format: uint8 (height, width, channels), RGB."""

from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, ImageConfig, ImageLayout, SpecError, image_axes, image_layout

from .gymnasium_outcomes import as_array

Frame = NDArray[np.uint8]

SMALLEST = 16
"""Smallest sides of an array that counts as a picture by its shape alone [pixels]. A smaller one is a vector."""
OPTION = "task.images"


@dataclass(frozen=True)
class PictureSpace:
    """A Box that holds pictures.

    Attributes:
        layout: layout of the pictures, and their conversion.
        low: lowest value of their elements.
        high: highest value of their elements.
    """

    layout: ImageLayout
    low: float
    high: float

    def read(self, value: Any) -> Frame:
        """Return a converted copy of a picture of the environment.

        Raises:
            ValueError: if its shape, type or range differs from the Box.
        """
        name, dtype = self.layout.name, self.layout.dtype
        array = of_shape(name, as_array(value), self.layout.stored)
        if array.dtype.kind not in "uif":
            raise ValueError(f"observation {name!r}: expected numbers, got {array.dtype}")
        if dtype.kind != "f" and array.dtype.kind == "f":
            raise ValueError(
                f"observation {name!r}: expected whole numbers from {self.low:g} to {self.high:g}, got {array.dtype}"
            )
        if array.dtype != np.uint8 or dtype != np.uint8:
            if not ((array >= self.low) & (array <= self.high)).all():
                raise ValueError(
                    f"observation {name!r}: expected values from {self.low:g} to {self.high:g}, got {array.min()} to "
                    f"{array.max()}"
                )
            array = array.astype(dtype)
        return np.array(self.layout.convert(array[None])[0])


def picture_space(name: str, box: gymnasium.spaces.Box, config: ImageConfig | None = None) -> PictureSpace | None:
    """Return how values of ``box`` become pictures; None if they are no pictures.

    A Box of uint8 with three axes holds pictures of any size, if one axis can be the channels. An array with two large
    sides counts as a picture by its shape alone. So do floats if they range from 0 to 1 or to 255. Grey pictures get
    three equal channels.

    Args:
        name: name of the observation.
        box: space of the observation.
        config: options of the pictures. If given, the Box holds pictures, whatever its shape.

    Raises:
        ConfigError: if it must be a picture, but its layout or range is unclear.
    """
    if config is None and not _looks_like_pictures(name, box):
        return None
    low, high = float(box.low.min()), float(box.high.max())
    config = config or ImageConfig()
    if box.dtype != np.uint8 and config.low is None and (low, high) in ((0, 1), (0, 255)):
        config = replace(config, low=low, high=high)
    if box.dtype == np.uint8:
        low, high = 0, 255
    if len(box.shape) not in (2, 3):
        raise ConfigError(
            f"observation {name!r} is of {box.dtype} {box.shape}: expected pictures of two or three axes; a "
            "gymnasium.ObservationWrapper can make them so"
        )
    try:
        layout = image_layout(name, box.shape, box.dtype, config, option=OPTION)
        if layout.shape[2] == 1 and config.channels is None:
            layout = image_layout(name, box.shape, box.dtype, replace(config, channels=3), option=OPTION)
    except SpecError as error:
        raise ConfigError(
            f"observation {error}. If it is no picture, a gymnasium.ObservationWrapper can make a vector of it"
        ) from error
    return PictureSpace(layout, low, high)


def _looks_like_pictures(name: str, box: gymnasium.spaces.Box) -> bool:
    """Return whether a Box holds pictures, or probably does and needs options."""
    shape = box.shape
    if len(shape) < 2:
        return False
    large = sorted(shape)[-2] >= SMALLEST
    if len(shape) == 2:
        bounds = float(box.low.min()), float(box.high.max())
        is_float = np.issubdtype(box.dtype, np.floating)
        return large and (box.dtype in (np.uint8, np.uint16) or (is_float and bounds in ((0, 1), (0, 255))))
    if large or box.dtype != np.uint8 or len(shape) > 3:
        return large
    try:
        axes = image_axes(name, shape, OPTION)
    except SpecError:
        return False
    sides = dict(zip(axes, shape, strict=True))
    return sides["c"] < min(sides["h"], sides["w"])


def of_shape(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array in the ``shape`` of its Box. Only axes of size one may be missing or superfluous.

    Raises:
        ValueError: if it has another shape.
    """
    if array.shape == shape:
        return array
    if [side for side in array.shape if side != 1] != [side for side in shape if side != 1]:
        raise ValueError(f"observation {name!r}: expected shape {shape} as in its space, got {array.shape}")
    return array.reshape(shape)


def rendered_picture(frame: Any) -> Frame:
    """Return a result of ``render()`` as a picture (height, width, 3).

    It may be grey or RGBA, hold floats from 0 to 1, or be a list of frames, of which the last one is used.

    Raises:
        ValueError: if it is anything else.
    """
    if isinstance(frame, list | tuple) and frame:  # all frames since the last call
        frame = frame[-1]
    array = as_array(frame)
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or array.dtype.kind not in "uif" or not array.size:
        description = f"{array.dtype} {array.shape}" if array.ndim else type(frame).__name__
        raise ValueError(f"expected a picture from render(), (height, width, 3), got {description}")
    highest = 1 if array.dtype.kind == "f" else 255
    if array.dtype != np.uint8:
        if not ((array >= 0) & (array <= highest)).all():
            raise ValueError(
                f"expected {array.dtype} from 0 to {highest} from render(), got {array.min()} to {array.max()}"
            )
        array = np.round(array * (255 / highest)).astype(np.uint8)
    return np.repeat(array, 3, axis=2) if array.shape[2] == 1 else np.ascontiguousarray(array[..., :3])
