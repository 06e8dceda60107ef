"""Bags of robots as episodes, as a mapping of their topics says."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, ConfigError, DataError, EnvSpec, nearest, require

from ..layout import EpisodeArrays
from .data import IMAGES
from .foreign import ForeignConfig, foreign_spec
from .foreign_episodes import ForeignEpisode, foreign_episodes
from .notes import ImportNotes
from .pictures import from_file

Array = NDArray[Any]
Rows = tuple[NDArray[np.int64], Array]
"""What a topic gives: times [ns] (n,), and values (n, ...)."""

ACTION, REWARD, SUCCESS = "action", "reward", "success"
_COLOURS = {"rgb8": None, "bgr8": cv2.COLOR_BGR2RGB, "rgba8": cv2.COLOR_RGBA2RGB, "bgra8": cv2.COLOR_BGRA2RGB}
_COLOURS["mono8"] = cv2.COLOR_GRAY2RGB
_CHANNELS = {"rgba8": 4, "bgra8": 4, "mono8": 1}


@dataclass  # not frozen: an entry of a dictionary, see SourceConfig of robo_rl.drivers.robot
class TopicConfig:
    """What a topic gives.

    Attributes:
        topic: its name.
        gives: key of an observation (``state``, ``images/front``, ...), ``action``, ``reward`` or ``success``.
        fields: numbers and arrays of numbers in the message, for example ``position``, ``twist.linear.x``, ``data``.
        names: of joints in a JointState, in the order that is wanted: picked out of each field.
        max_age: how old the newest message may be where it is used [s].
    """

    topic: str = ""
    gives: str = ""
    fields: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    max_age: float = 0.1

    def __post_init__(self) -> None:
        require(bool(self.topic), "format.topics.*.topic", "the name of a topic", self.topic)
        require(bool(self.gives), "format.topics.*.gives", "an observation, action, reward or success", self.gives)
        picture = self.gives.startswith(IMAGES)
        require(picture != bool(self.fields), "format.topics.*.fields", "given, but for images", self.fields)
        require(self.max_age > 0, "format.topics.*.max_age", "above 0", self.max_age)

    @property
    def full_name(self) -> str:
        return f"/{self.topic.lstrip('/')}"


class TopicsReader:
    """Reads bags, each an episode: the newest message of each topic at every control period.

    An episode begins when every topic has said something, and ends with the first that falls silent for good. An
    action is the newest command at the end of its period.

    Args:
        bags: paths.
        topics: what they give.
        foreign: what bags leave open.
        open_bag: opens one for reading.

    Raises:
        ConfigError: if the mapping lacks an action or an observation.
        DataError: if a topic is missing in the first bag, or its messages are not as the mapping says.
    """

    def __init__(
        self,
        bags: Sequence[Path],
        topics: Mapping[str, TopicConfig],
        foreign: ForeignConfig,
        open_bag: Callable[[Path], AbstractContextManager[Any]],
    ) -> None:
        self._bags, self._topics, self._foreign, self._open = bags, list(topics.values()), foreign, open_bag
        self.notes = ImportNotes()
        self._given: dict[str, list[TopicConfig]] = {}
        for topic in self._topics:
            self._given.setdefault(topic.gives, []).append(topic)
        self._keys = [key for key in self._given if key not in (ACTION, REWARD, SUCCESS)]
        if not self._keys or ACTION not in self._given:
            raise ConfigError(
                f"{bags[0]}: say what its topics give, an observation and the action at least: format.topics "
                "(docs/interchange.md has an example)"
            )
        if foreign.control_rate is None:
            raise ConfigError("a bag does not say its control rate: give foreign.control_rate in Hz")
        first, names = self._read(bags[0])
        observation = {
            key: ArraySpec(first[key][0][1].shape[1:], "uint8")
            if key.startswith(IMAGES)
            else ArraySpec((len(names[key]),), names=names[key])
            for key in self._keys
        }
        action = ArraySpec((len(names[ACTION]),), names=names[ACTION])
        self.spec: EnvSpec = foreign_spec(
            foreign, observation, action, None, REWARD in self._given, SUCCESS in self._given
        )

    def episodes(self) -> Iterator[EpisodeArrays]:
        """Yield one episode a bag."""
        for number, path in enumerate(self._bags):
            rows, _ = self._read(path)
            every = [each for parts in rows.values() for each in parts]
            period = round(1e9 / self.spec.control_rate)
            begin, end = max(int(times[0]) for times, _ in every), min(int(times[-1]) for times, _ in every)
            ticks = np.arange(begin, end + 1, period)
            if len(ticks) < 2:
                raise DataError(f"{path}: its topics have less than one period of {period / 1e9:g} s in common")
            sampled = {
                gives: [
                    self._sample(path, topic, part, ticks)
                    for topic, part in zip(self._given[gives], parts, strict=True)
                ]
                for gives, parts in rows.items()
            }
            joined = {
                gives: parts[0] if gives.startswith(IMAGES) else np.concatenate(parts, axis=1)
                for gives, parts in sampled.items()
            }
            success = (joined[SUCCESS][1:, 0] > 0.5).astype(np.int8) if SUCCESS in joined else None
            episode = ForeignEpisode(
                number,
                path,
                {key: joined[key].astype(self.spec.observation[key].dtype) for key in self._keys},
                joined[ACTION][1:],
                rewards=joined[REWARD][1:, 0] if REWARD in joined else None,
                success=success,
                stamp_ns=ticks[:-1],
            )
            yield from foreign_episodes(self._foreign, self.spec, episode, self.notes)

    def _sample(self, path: Path, topic: TopicConfig, rows: Rows, ticks: NDArray[np.int64]) -> Array:
        """Return the newest row at each of ``ticks``."""
        times, values = rows
        chosen = np.searchsorted(times, ticks, side="right") - 1
        ages = (ticks - times[chosen]) / 1e9
        if (late := int(ages.argmax())) >= 0 and ages[late] > topic.max_age:
            raise DataError(
                f"{path}: {topic.full_name} is silent for {ages[late]:.2f} s, {(ticks[late] - ticks[0]) / 1e9:.2f} s "
                f"after the begin; {topic.max_age:g} s are allowed (max_age). Cut the bag, or allow more"
            )
        return values[chosen]

    def _read(self, path: Path) -> tuple[dict[str, list[Rows]], dict[str, tuple[str, ...]]]:
        """Return what each topic gives, and the names of the numbers, by what is given."""
        found: list[tuple[list[int], list[Array]]] = [([], []) for _ in self._topics]
        names: dict[int, tuple[str, ...]] = {}
        with self._open(path) as bag:
            wanted = {topic.full_name for topic in self._topics}
            present = {connection.topic for connection in bag.connections}
            if missing := sorted(wanted - present):
                raise DataError(f"{path} has no topic {missing[0]}; {nearest(missing[0], present)}")
            connections = [connection for connection in bag.connections if connection.topic in wanted]
            for connection, at_ns, data in bag.messages(connections):
                message = bag.deserialize(data, connection.msgtype)
                for index, topic in enumerate(self._topics):
                    if topic.full_name == connection.topic:
                        called, values = decode(message, topic, path)
                        if names.setdefault(index, called) != called:
                            raise DataError(f"{path}: messages of {topic.full_name} are not all of one shape")
                        found[index][0].append(at_ns)
                        found[index][1].append(values)
        rows: dict[str, list[Rows]] = {gives: [] for gives in self._given}
        joined: dict[str, tuple[str, ...]] = dict.fromkeys(self._given, ())
        for index, (topic, (times, values_of)) in enumerate(zip(self._topics, found, strict=True)):
            if not times:
                raise DataError(f"{path}: there is no message on {topic.full_name}")
            rows[topic.gives].append((np.array(times), np.stack(values_of)))
            joined[topic.gives] += names[index]
        return rows, joined


def decode(message: Any, topic: TopicConfig, path: Path) -> tuple[tuple[str, ...], Array]:
    """Return names and values of the numbers that ``topic`` wants of a message; of an image its size and itself.

    Raises:
        DataError: if the message has not what is wanted, or a number is not finite.
    """
    if topic.gives.startswith(IMAGES):
        picture = _picture(message, topic, path)
        return tuple(map(str, picture.shape)), picture
    names: list[str] = []
    values: list[float] = []
    for field in topic.fields:
        value = message
        for attribute in field.split("."):
            value = getattr(value, attribute, None)
        if not isinstance(value, bool | int | float | np.ndarray):
            kind = type(message).__name__
            raise DataError(f"{path}: {topic.full_name} has no numbers {field!r} in its messages ({kind})")
        numbers = np.asarray(value, np.float64).reshape(-1)
        if topic.names:
            for name in topic.names:
                if name not in message.name or len(numbers) != len(message.name):
                    raise DataError(f"{path}: {topic.full_name} has no {field} of {name!r}, only of {message.name}")
                names.append(f"{name}_{field}")
                values.append(float(numbers[message.name.index(name)]))
        else:
            names += [field] if np.ndim(value) == 0 else [f"{field}_{index}" for index in range(len(numbers))]
            values += numbers.tolist()
    if not np.isfinite(values).all():
        raise DataError(
            f"{path}: {topic.full_name} has values that are not finite: {dict(zip(names, values, strict=True))}"
        )
    return tuple(names), np.array(values)


def _picture(message: Any, topic: TopicConfig, path: Path) -> NDArray[np.uint8]:
    """Return the image (height, width, 3), red first, of an Image or CompressedImage."""
    if not hasattr(message, "encoding"):
        return from_file(bytes(message.data), path)
    if message.encoding not in _COLOURS:
        raise DataError(f"{path}: {topic.full_name}: {nearest(message.encoding, _COLOURS)}")
    channels, size = _CHANNELS.get(message.encoding, 3), message.height * message.step
    if len(message.data) != size or message.step < message.width * channels:
        raise DataError(f"{path}: {topic.full_name}: {len(message.data)} bytes are no {message.encoding} image")
    rows = message.data.reshape(message.height, message.step)[:, : message.width * channels]
    picture = np.ascontiguousarray(rows).reshape(message.height, message.width, channels)
    conversion = _COLOURS[message.encoding]
    return picture if conversion is None else np.asarray(cv2.cvtColor(picture, conversion), np.uint8)
