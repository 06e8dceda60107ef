"""Pictures of foreign environments as ours: uint8, height by width by channels, red first."""

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, ConfigError

from .gymnasium_outcomes import as_array

Frame = NDArray[np.uint8]

SMALLEST = 16
"""Sides of what is taken for a picture by its shape alone [pixels]. A smaller array of numbers is a vector."""
CHANNELS = (1, *range(3, 49, 3))
"""Grey, or red, green and blue of one frame or several."""


@dataclass(frozen=True)
class PictureSpace:
    """A Box that holds pictures.

    Attributes:
        name: of the observation, for messages.
        shape: of the Box: (height, width), (height, width, channels) or (channels, height, width).
        axis: of the channels; None: there is none.
        scale: factor that makes the values 0 to 255.
        is_integer: whether the values are whole numbers.
    """

    name: str
    shape: tuple[int, ...]
    axis: int | None
    scale: float
    is_integer: bool

    @property
    def spec(self) -> ArraySpec:
        """Of the pictures that :meth:`read` returns: grey ones have three equal channels."""
        sides = [side for number, side in enumerate(self.shape) if number != self.axis]
        channels = 1 if self.axis is None else self.shape[self.axis]
        return ArraySpec((sides[0], sides[1], max(channels, 3)), "uint8")

    def read(self, value: Any) -> Frame:
        """Return a picture of the environment as ours; it is a copy.

        Raises:
            ValueError: if it is of another shape, type or range than the Box.
        """
        array = of_shape(self.name, as_array(value), self.shape)
        if self.is_integer and not np.issubdtype(array.dtype, np.integer):
            raise ValueError(f"observation {self.name!r}: expected whole numbers from 0 to 255, got {array.dtype}")
        highest = 255 / self.scale
        if array.dtype != np.uint8 and not ((array >= 0) & (array <= highest)).all():
            raise ValueError(
                f"observation {self.name!r}: expected values from 0 to {highest:g}, got {array.min()} to {array.max()}"
            )
        if array.dtype != np.uint8:
            array = np.round(array * self.scale).astype(np.uint8)
        array = array[..., None] if self.axis is None else np.moveaxis(array, self.axis, -1)
        return np.repeat(array, 3, axis=2) if array.shape[2] == 1 else np.array(array, order="C")


def picture_space(name: str, box: gymnasium.spaces.Box) -> PictureSpace | None:
    """Return how the values of ``box`` become pictures; None where they are no pictures.

    A Box of uint8 with three axes is a picture, whatever its size, if one axis can be the channels. By shape alone
    arrays of two large sides are.

    Raises:
        ConfigError: if it must be a picture, and of which layout or range is not clear.
    """
    shape, integer = box.shape, box.dtype == np.uint8
    large = len(shape) >= 2 and sorted(shape)[-2] >= SMALLEST
    axis = _channel_axis(shape)
    if not (integer or np.issubdtype(box.dtype, np.floating)) or len(shape) < 2:
        return None
    flat = len(shape) == 2 and large
    if integer and (axis is not None or flat):
        return PictureSpace(name, shape, axis, 1.0, is_integer=True)
    low, high = float(box.low.min()), float(box.high.max())
    if large and not integer and (low, high) in ((0, 1), (0, 255)) and (axis is not None or flat):
        return PictureSpace(name, shape, axis, 255 / high, is_integer=False)
    if large and len(shape) > 2:
        raise ConfigError(
            f"observation {name!r} is of {box.dtype} {shape} from {low:g} to {high:g}: expected pictures (height, "
            "width, channels) or (channels, height, width), of 1 or 3 channels, or 3 for each of several frames, "
            "as uint8 or as floats from 0 to 1 or 255. A gymnasium.ObservationWrapper can make them so"
        )
    return None


def _channel_axis(shape: tuple[int, ...]) -> int | None:
    """Return the axis of the channels of a picture: the last or first, where it is the shortest by far enough."""
    if len(shape) != 3:
        return None
    for axis, sides in ((2, shape[:2]), (0, shape[1:])):
        if shape[axis] in CHANNELS and shape[axis] < min(sides):
            return axis
    return None


def of_shape(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array in the ``shape`` of its Box; only axes of one element may be missing or too many.

    Raises:
        ValueError: if it is of another shape.
    """
    if array.shape == shape:
        return array
    if [side for side in array.shape if side != 1] != [side for side in shape if side != 1]:
        raise ValueError(f"observation {name!r}: expected shape {shape} as in its space, got {array.shape}")
    return array.reshape(shape)


def rendered_picture(frame: Any) -> Frame:
    """Return what ``render()`` gave as a picture (height, width, 3): grey, RGBA, floats from 0 to 1, a list of frames.

    Raises:
        ValueError: if it is anything else.
    """
    if isinstance(frame, list | tuple) and frame:  # all frames since the last call: the newest is the present one
        frame = frame[-1]
    array = as_array(frame)
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or array.dtype.kind not in "uif" or not array.size:
        got = f"{array.dtype} {array.shape}" if array.ndim else type(frame).__name__
        raise ValueError(f"expected a picture from render(), (height, width, 3), got {got}")
    highest = 1 if array.dtype.kind == "f" else 255
    if array.dtype != np.uint8:
        if not ((array >= 0) & (array <= highest)).all():
            raise ValueError(
                f"expected {array.dtype} from 0 to {highest} from render(), got {array.min()} to {array.max()}"
            )
        array = np.round(array * (255 / highest)).astype(np.uint8)
    return np.repeat(array, 3, axis=2) if array.shape[2] == 1 else np.ascontiguousarray(array[..., :3])
