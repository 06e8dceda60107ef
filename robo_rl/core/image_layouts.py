"""The layout of images from other sources: declared or detected, checked, and converted on request.

robo-rl keeps images as uint8 arrays of (height, width, channels).
"""

import math
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import SpecError
from .options import Options, option, require

AXES = tuple("".join(order) for letters in ("hwc", "hw") for order in permutations(letters))
ROTATIONS = (0, 90, 180, 270)

_MAX_STACK = 48
"""Most channels of a stack of RGB frames."""
_LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)
_NAMES = {1: "grey", 2: "two-channel", 4: "RGBA"}


@dataclass  # not frozen: an entry of a dictionary of options
class ImageConfig(Options, section="images.*"):
    """Storage format of the images of one camera, and the conversions to apply.

    Attributes:
        axes: order of the stored axes: ``hwc`` (height, width, channels), ``chw``, ``whc``, ``hw``, ...; null:
            detected from the shape; an ambiguous shape is rejected.
        rotate: rotate every image counter-clockwise by 0, 90, 180 or 270 degrees.
        channels: number of channels to convert to, 1 or 3: grey is repeated, colours become grey, alpha is dropped;
            null: as stored.
        low: value that becomes 0; needed for every type but uint8 (16-bit depth, float).
        high: value that becomes 255; values beyond are clipped.
    """

    axes: str | None = None
    rotate: int = option(0, choices=ROTATIONS)
    channels: int | None = None
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.axes in (None, *AXES), "images.*.axes", f"null or one of {', '.join(AXES)}", self.axes)
        require(self.channels in (None, 1, 3), "images.*.channels", "null, 1 or 3", self.channels)
        both = (self.low is None) == (self.high is None)
        above = self.low is None or self.high is None or self.low < self.high
        require(both and above, "images.*.high", "above images.*.low, or both null", self.high)


@dataclass(frozen=True)
class ImageLayout:
    """The layout of stored images, and their conversion.

    Attributes:
        name: name of the camera, for messages.
        stored: shape of one stored image.
        dtype: type of the stored values.
        axes: order of the stored axes.
        config: conversions.
    """

    name: str
    stored: tuple[int, ...]
    dtype: np.dtype[Any]
    axes: str
    config: ImageConfig

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the images that :meth:`convert` returns."""
        height, width, channels = self._sides
        if self.config.rotate in (90, 270):
            height, width = width, height
        return height, width, self.config.channels or channels

    @property
    def matching(self) -> tuple[tuple[int, int, int], ...]:
        """Shapes that data may declare for these images: those before or after conversion."""
        return self._sides, self.shape, (*self.shape[:2], self._sides[2])

    @property
    def _sides(self) -> tuple[int, int, int]:
        sides = dict(zip(self.axes, self.stored, strict=True))
        return sides["h"], sides["w"], sides.get("c", 1)

    @property
    def changes(self) -> str:
        """The conversions, for display; empty if images stay as they are."""
        channels = self._sides[2]
        low, high, count = self.config.low, self.config.high, self.config.channels
        parts = [
            f"axes {self.axes} become hwc" if self.axes not in ("hwc", "hw") else "",
            f"{self.dtype} values {low:g} to {high:g} become 0 to 255" if low is not None else "",
            f"rotated by {self.config.rotate} degrees" if self.config.rotate else "",
            f"channels {channels} become {count}" if count not in (None, channels) else "",
        ]
        return ", ".join(part for part in parts if part)

    def convert(self, rows: NDArray[Any]) -> NDArray[np.uint8]:
        """Return images (n, *stored) as (n, height, width, channels).

        Raises:
            SpecError: if shape or dtype differ from the layout's.
        """
        if rows.shape[1:] != self.stored or rows.dtype != self.dtype:
            raise SpecError(
                f"{self.name}: expected {self.dtype} images of shape {self.stored}, found {rows.dtype} of shape "
                f"{rows.shape[1:]}"
            )
        axes = self.axes if "c" in self.axes else f"{self.axes}c"
        images = rows if "c" in self.axes else rows[..., None]
        images = images.transpose(0, *(1 + axes.index(axis) for axis in "hwc"))
        low, high, channels = self.config.low, self.config.high, self.config.channels
        if low is not None and high is not None:
            scaled = (images.astype(np.float32) - low) * (255 / (high - low))
            images = np.rint(np.nan_to_num(scaled).clip(0, 255)).astype(np.uint8)
        if self.config.rotate:
            images = np.rot90(images, self.config.rotate // 90, axes=(1, 2))
        if channels is not None and channels != images.shape[3]:
            images = images[..., :3] if channels < images.shape[3] else images.repeat(3, axis=3)
            if channels == 1:
                images = np.rint(images @ _LUMINANCE)[..., None].astype(np.uint8)
        return np.ascontiguousarray(images, np.uint8)


def image_layout(
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
    config: ImageConfig | None = None,
    *,
    declared: tuple[int, ...] | None = None,
    option: str = "foreign.images",
) -> ImageLayout:
    """Return the layout of images of ``shape`` and ``dtype``.

    Args:
        name: name of the camera, as in the key ``images/NAME``.
        shape: shape of one stored image.
        dtype: type of the stored values.
        config: the user's description of the images, or None.
        declared: (height, width, channels) that the data declares, or None.
        option: the option that ``config`` came from, for messages.

    Raises:
        SpecError: if the layout is ambiguous or invalid, needs a conversion that was not requested, or results in a
            shape other than the declared one. The message gives both shapes and the option to set.
    """
    config = config or ImageConfig()
    kind = np.dtype(dtype)

    def override(values: str) -> str:
        return image_override(option, name, values)

    if len(shape) not in (2, 3) or not math.prod(shape):
        raise SpecError(f"{name}: expected images with two or three axes, none of them empty, got {tuple(shape)}")
    axes = config.axes or image_axes(name, tuple(shape), option)
    if len(axes) != len(shape):
        raise SpecError(f"{name}: images of shape {tuple(shape)} have no axes {axes!r}; correct {override('axes:hwc')}")
    layout = ImageLayout(name, tuple(shape), kind, axes, config)
    channels = dict(zip(axes, shape, strict=True)).get("c", 1)
    declaration = "" if declared is None else f"; declared as {tuple(declared)} (height, width, channels)"
    if kind.kind not in "uif" or (kind != np.uint8 and config.low is None):
        what = "16-bit images, such as depth" if kind == np.uint16 else f"{kind} images"
        raise SpecError(
            f"{name}: {what} of shape {tuple(shape)}{declaration}, expected uint8. "
            f"{override('low:LOW,high:HIGH')} sets the values that become 0 and 255"
        )
    count = config.channels or channels
    if count % 3 and count != 1:
        called = _NAMES.get(channels, f"{channels}-channel")
        advice = f"{override('channels:3')} drops alpha" if channels == 4 else "record 1 channel, or 3 for each frame"
        raise SpecError(f"{name}: {called} images of shape {tuple(shape)}{declaration}; {advice}")
    if count != channels and channels not in (1, 3, 4):
        raise SpecError(f"{name}: {channels} channels cannot become {count} ({override(f'channels:{count}')})")
    if declared is not None and tuple(declared) not in layout.matching:
        height, width, _ = layout.matching[0]
        advice = "correct what the data declares"
        if (width, height) == tuple(declared[:2]):
            advice = f"{override('axes:whc')} transposes, {override('rotate:90')} rotates"
        elif (height, width) == tuple(declared[:2]) and channels == 1 and declared[2] == 3:
            advice = f"{override('channels:3')} repeats it three times"
        changes = f" ({layout.changes})" if layout.changes else ""
        raise SpecError(f"{name}: stored as {kind} {tuple(shape)}{changes}{declaration}; {advice}")
    return layout


def image_override(option: str, name: str, values: str) -> str:
    """Return the command-line override for the layout of a camera, for messages."""
    return f"'{option}={{{name}:{{{values}}}}}'"


def image_axes(name: str, shape: tuple[int, ...], option: str) -> str:
    """Return the order of axes, ``hwc``, ``chw`` or ``hw``, if ``shape`` determines it.

    Raises:
        SpecError: if several orders are possible, or none; the message names ``option``.
    """
    if len(shape) == 2:
        return "hw"
    if len(shape) == 3:
        for candidates in ((3,), (1, 4)):
            last, first = shape[2] in candidates, shape[0] in candidates
            if last != first:
                return "hwc" if last else "chw"
            if last and first:
                break
        else:
            last = shape[2] % 3 == 0 and shape[2] <= min(_MAX_STACK, *shape[:2])
            first = shape[0] % 3 == 0 and shape[0] <= min(_MAX_STACK, *shape[1:])
            if last != first:
                return "hwc" if last else "chw"
    raise SpecError(
        f"{name}: images of shape {shape} could have their axes in several orders, or none; set it with "
        f"{image_override(option, name, 'axes:hwc')}"
    )
