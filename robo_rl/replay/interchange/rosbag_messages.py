"""Readers of numbers and images in the messages of a bag."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    MAX_SECONDS,
    ImageConfig,
    ImageLayout,
    Options,
    SpecError,
    decode_ros_compressed_image,
    decode_ros_image,
    image_layout,
    option,
    require,
)

from .data import IMAGES
from .foreign import ForeignConfig, as_float32
from .notes import ImportNotes

Array = NDArray[Any]

_NAMES = ("name", "joint_names", "names")
"""Fields that name the elements of the arrays beside them, as in JointState and JointJog."""


@dataclass  # not frozen: an entry of a dictionary, see SourceConfig of robo_rl.drivers.robot
class TopicConfig(Options, section="format.topics.*"):
    """Data that a topic provides.

    Attributes:
        topic: name of the topic.
        gives: key of an observation (``state``, ``images/front``, ...), ``action``, ``reward`` or ``success``.
        fields: numbers and arrays of numbers in the message, for example ``position``, ``twist.linear.x``, ``data``.
        names: names of joints, whose values are selected from each field in this order, by the names in the message.
            Empty: all names in the first message, in its order.
        max_age: maximum age of the newest message when it is used [s].
    """

    topic: str = ""
    gives: str = ""
    fields: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    max_age: float = option(0.1, above=0, high=MAX_SECONDS)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.topic), "format.topics.*.topic", "the name of a topic", self.topic)
        require(bool(self.gives), "format.topics.*.gives", "an observation, action, reward or success", self.gives)
        is_image = self.gives.startswith(IMAGES)
        require(is_image != bool(self.fields), "format.topics.*.fields", "set, except for images", self.fields)
        is_unique = len(set(self.names)) == len(self.names)
        require(is_unique, "format.topics.*.names", "different names", list(self.names))

    @property
    def full_name(self) -> str:
        return f"/{self.topic.lstrip('/')}"


class NumberReader:
    """Reads the numbers of a topic. Elements with names are selected by name, regardless of their order.

    Args:
        topic: configuration of the topic.
        notes: receives notes on rounded integers.

    Attributes:
        names: names of the numbers; empty until the first message has been read.
        passed_over: names in the newest message that had none of the wanted names.
    """

    def __init__(self, topic: TopicConfig, notes: ImportNotes) -> None:
        self._topic, self._notes = topic, notes
        self._wanted = list(topic.names)
        self.names: tuple[str, ...] = ()
        self.passed_over: list[str] = []

    def __call__(self, message: Any, finite: bool) -> Array | None:
        """Return the numbers (n,), or None if the message has only other names (the gripper of an arm, for example).

        Args:
            message: message of the topic.
            finite: whether numbers must be finite.

        Raises:
            SpecError: if the message does not have the configured numbers.
        """
        names: list[str] = []
        values: list[float] = []
        for field in self._topic.fields:
            value, elements = _look_up(message, field)
            if (stored := np.asarray(value).reshape(-1)).dtype.kind in "iu":
                as_float32(stored, f"{self._topic.full_name}: {field}", self._notes)
            numbers = stored.astype(np.float64)
            if elements is None and self._topic.names:
                raise SpecError(f"its messages do not name the elements of {field!r}; leave out names")
            if elements is None or not (self._topic.names or _names_elements(value, elements)):
                names += [field] if np.ndim(value) == 0 else [f"{field}_{index}" for index in range(len(numbers))]
                values += numbers.tolist()
                continue
            order = self._order(elements)
            if order is None:
                return None
            if len(numbers) != len(elements):
                raise SpecError(f"expected {len(elements)} values in {field!r}, one per name, got {len(numbers)}")
            names += [f"{name}_{field}" for name in self._wanted]
            values += numbers[order].tolist()
        if self.names and self.names != tuple(names):
            raise SpecError(f"expected {len(self.names)} numbers ({', '.join(self.names)}), got {', '.join(names)}")
        self.names = tuple(names)
        if finite and not np.isfinite(values).all():
            wrong = [f"{name} is {value}" for name, value in zip(names, values, strict=True) if not np.isfinite(value)]
            raise SpecError(f"{', '.join(wrong)}; expected finite numbers. foreign.faults=cut ends episodes there")
        return np.array(values)

    def _order(self, elements: list[str]) -> list[int] | None:
        """Return the indices of the wanted names in ``elements``, or None if it has none of them."""
        if not self._wanted:
            self._wanted = list(elements)
        present = set(elements)
        if self._topic.names and present.isdisjoint(self._wanted):
            self.passed_over = elements
            return None
        if twice := [name for name in self._wanted if elements.count(name) > 1]:  # other names do not matter
            raise SpecError(f"{twice[0]!r} occurs twice in {', '.join(elements)}")
        if missing := [name for name in self._wanted if name not in present]:
            parts = "if several messages name the joints in parts, give each part its own entry in format.topics"
            advice = parts if self._topic.names else "set names"
            raise SpecError(f"expected {', '.join(missing)}, got {', '.join(elements) or 'no names'}; {advice}")
        if not self._topic.names and len(elements) > len(self._wanted):
            raise SpecError(f"expected {', '.join(self._wanted)}, got {', '.join(elements)}; set names")
        return [elements.index(name) for name in self._wanted]


def _look_up(message: Any, field: str) -> tuple[Any, list[str] | None]:
    """Return a number or an array of numbers, and the names of its elements in the same or an enclosing message."""
    value, elements = message, None
    for attribute in field.split("."):
        for key in _NAMES:
            names = getattr(value, key, None)
            if isinstance(names, list) and all(isinstance(name, str) for name in names):
                elements = names
        value = getattr(value, attribute, None)
    if not isinstance(value, bool | int | float | np.ndarray):
        fields = ", ".join(name for name in getattr(message, "__dataclass_fields__", ()) if not name.startswith("_"))
        raise SpecError(f"its messages have no numbers {field!r}, only {fields}")
    return value, elements


def _names_elements(value: Any, elements: list[str]) -> bool:
    """Return whether ``elements`` are the names of an array's elements, or of an array that was left empty."""
    return np.ndim(value) == 1 and len(value) in (0, len(elements)) and bool(elements)


class ImageReader:
    """Reads the images of a topic.

    Args:
        topic: configuration of the topic.
        foreign: options for the conversion of images.
        notes: receives notes on conversions.

    Attributes:
        shape: (height, width, channels) of the images; empty until the first one has been read.
    """

    def __init__(self, topic: TopicConfig, foreign: ForeignConfig, notes: ImportNotes) -> None:
        self._name = topic.gives.removeprefix(IMAGES)
        self._config = foreign.images.get(self._name, ImageConfig())
        self._notes = notes
        self._layout: ImageLayout | None = None
        self.shape: tuple[int, ...] = ()

    def __call__(self, message: Any, finite: bool) -> Any:
        """Return the message, for :meth:`decode`; the first one is decoded to determine the layout.

        Raises:
            SpecError: if the first message is not an image, or needs a conversion that was not requested.
        """
        if self._layout is None:
            image = _image(message)
            config = replace(self._config, axes=self._config.axes or "hwc"[: image.ndim])
            self._layout = image_layout(self._name, image.shape, image.dtype, config)
            self.shape = self._layout.shape
            if self._layout.changes:
                self._notes.add("Images converted", f"{IMAGES}{self._name}: {self._layout.changes}")
        return message

    def decode(self, message: Any) -> NDArray[np.uint8]:
        """Return the image of a message (height, width, channels) in RGB order.

        Raises:
            SpecError: if it is not an image, or differs in size or type from the first one.
        """
        assert self._layout is not None
        image: NDArray[np.uint8] = self._layout.convert(_image(message)[None])[0]
        return image


def _image(message: Any) -> Array:
    """Return the image in an Image or CompressedImage; see :func:`robo_rl.core.decode_ros_image`."""
    if hasattr(message, "encoding"):
        return decode_ros_image(message)
    if not hasattr(message, "format") or not hasattr(message, "data"):
        raise SpecError(f"{type(message).__name__} is neither Image nor CompressedImage of sensor_msgs")
    return decode_ros_compressed_image(message)


def stamp_ns(message: Any) -> int:
    """Return the stamp of a message's header [ns], or 0 if there is none."""
    stamp = getattr(getattr(message, "header", None), "stamp", None)
    return 0 if stamp is None else stamp.sec * 10**9 + stamp.nanosec
