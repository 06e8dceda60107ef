"""Format rosbag2 (MCAP and SQLite): export of a data set as topics for ROS 2 tools, and import of bags as episodes."""

import json
import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DataError, EnvSpec, Options, nearest, option, printable, require

from ..layout import EpisodeArrays
from .data import (
    IMAGES,
    DataSet,
    counted,
    facts_json,
    library,
    make_episode,
    read_facts,
    read_record,
    record_json,
    step_columns,
)
from .foreign import ForeignConfig
from .notes import ImportNotes
from .rosbag_messages import TopicConfig
from .rosbag_reading import Bag, find_bags, open_bag
from .rosbag_topics import TopicsReader

Array = NDArray[Any]

STORAGES = ("mcap", "sqlite3")
DISTRIBUTIONS = ("humble", "jazzy")

FACTS, EPISODE, STEP = "/robo_rl/dataset", "/robo_rl/episode", "/robo_rl/step"
STRING, NUMBERS, IMAGE, WRENCH = (
    "std_msgs/msg/String",
    "sensor_msgs/msg/JointState",
    "sensor_msgs/msg/Image",
    "geometry_msgs/msg/WrenchStamped",
)
_BAG_VERSION = 8
_BETWEEN_NS = 1_000_000_000
_WRENCH_NAMES = [f"wrist_{kind}_{axis}" for kind in ("force", "torque") for axis in "xyz"]
_VECTORS = ("proposed_action", "executed_action", "rewards")


@dataclass(frozen=True)
class Rosbag(Options, section="format"):
    """Bag of rosbag2.

    Attributes:
        storage: storage of an exported bag, ``mcap`` or ``sqlite3``.
        distribution: ROS 2 distribution whose message definitions are used: ``humble`` or ``jazzy``.
        topics: data in the topics of a bag that robo-rl did not write, by arbitrary names. The numbers of entries with
            the same ``gives`` are concatenated in this order.
        incomplete: import a bag whose numbers of messages differ from its metadata, with a note; otherwise this is an
            error.
    """

    storage: str = option("mcap", choices=STORAGES)
    distribution: str = "jazzy"
    topics: dict[str, TopicConfig] = field(default_factory=dict)
    incomplete: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        is_known = self.distribution in DISTRIBUTIONS
        require(is_known, "format.distribution", nearest(self.distribution, DISTRIBUTIONS), self.distribution)

    def export(self, data: DataSet, path: Path) -> None:
        """Write ``data`` to the folder ``path``; see :class:`DataFormat`."""
        for key, array in data.spec.observation.items():
            is_exact = key.startswith(IMAGES) or np.dtype(array.dtype).kind == "f" or np.dtype(array.dtype).itemsize < 8
            if not is_exact:
                raise DataError(f"a bag stores numbers as float64, but {key!r} is {array.dtype}; export to robomimic")
        rosbag2 = library("rosbags.rosbag2")
        plugin = rosbag2.StoragePlugin[self.storage.upper()]
        try:
            with rosbag2.Writer(path, version=_BAG_VERSION, storage_plugin=plugin) as bag:
                writer = _BagWriter(bag, self._store(), data.spec)
                writer.write(FACTS, STRING, _BETWEEN_NS, {"data": facts_json(data)})
                for episode, instruction in zip(data.episodes(), data.instructions, strict=True):
                    writer.add(episode, instruction)
        except sqlite3.Error as error:  # for example on a full disk
            raise OSError(str(error)) from error

    def load(self, path: Path, foreign: ForeignConfig) -> DataSet:
        """Read the bag ``path``, or a folder of bags that robo-rl did not write; see :class:`DataFormat`."""
        bags, notes = find_bags(path), ImportNotes()
        opened = partial(open_bag, store=self._store(), incomplete=self.incomplete, notes=notes)
        with opened(bags[0]) as bag:
            facts = next((message for _, _, message in bag.messages([FACTS])), None)
        if facts is not None:
            if len(bags) > 1:
                raise DataError(f"{path} has {len(bags)} bags, but robo-rl wrote {bags[0]}: import only that one")
            spec, metadata, instructions = read_facts(facts.data, path)
            count = len(instructions)
            return DataSet(
                spec, metadata, instructions, lambda: counted(_own_episodes(opened, bags[0], spec), count, path)
            )
        reader = TopicsReader(bags, self.topics, foreign, opened, notes)
        metadata = {"imported": {"format": "rosbag2", "bags": [printable(str(bag)) for bag in bags]}}
        return DataSet(reader.spec, metadata, [foreign.task] * len(bags), reader.episodes, notes)

    def _store(self) -> Any:
        stores = library("rosbags.typesys")
        return stores.get_typestore(stores.Stores[f"ROS2_{self.distribution.upper()}"])


class _BagWriter:
    """Writes episodes with a second in between; the times within an episode are those of its observations."""

    def __init__(self, bag: Any, store: Any, spec: EnvSpec) -> None:
        self._bag, self._store, self._spec = bag, store, spec
        self._connections: dict[str, Any] = {}
        self._now_ns = 2 * _BETWEEN_NS

    def add(self, episode: EpisodeArrays, instruction: str) -> None:
        """Append an episode."""
        times = self._times(episode)
        details = {"record": json.loads(record_json(episode.record)), "instruction": instruction}
        self.write(EPISODE, STRING, times[0] - 1, {"data": json.dumps(details)})
        steps = step_columns(episode, self._spec)
        for row, at_ns in enumerate(times):
            self._observation(episode, row, at_ns)
            if row == episode.record.steps:
                break
            # An action comes directly after its observation; its rewards come with the next observation.
            names = self._spec.action.names or [f"action_{index}" for index in range(self._spec.action.shape[0])]
            for name in ("proposed_action", "executed_action"):
                self._numbers(f"/{name}", names, steps[name][row], at_ns + 1)
            self._numbers("/rewards", self._spec.reward_terms, steps["rewards"][row], times[row + 1])
            scalars = {name: rows[row].item() for name, rows in steps.items() if name not in _VECTORS}
            self.write(STEP, STRING, times[row + 1], {"data": json.dumps(scalars)})
        self._now_ns = times[-1] + _BETWEEN_NS

    def _times(self, episode: EpisodeArrays) -> list[int]:
        """Return the times of the L + 1 observations in the bag [ns]."""
        period = round(1e9 / self._spec.control_rate)
        offsets = episode.stamp_ns - episode.stamp_ns[0]
        if (np.diff(offsets) < 2).any():  # messages of a bag must be in order; the steps hold the original stamps
            offsets = np.arange(episode.record.steps) * period
        return [self._now_ns + int(offset) for offset in (*offsets, offsets[-1] + period)]

    def _observation(self, episode: EpisodeArrays, row: int, at_ns: int) -> None:
        for key, array in self._spec.observation.items():
            value = episode.observation[key][row]
            if key.startswith(IMAGES):
                height, width, channels = value.shape
                encoding = "rgb8" if channels == 3 else f"8UC{channels}"
                size = {"height": height, "width": width, "step": width * channels, "is_bigendian": 0}
                image = {**size, "encoding": encoding, "data": np.ascontiguousarray(value).reshape(-1)}
                self.write(f"/{key.removeprefix(IMAGES)}/image_raw", IMAGE, at_ns, image)
            else:
                numbers = value.reshape(-1)
                names = list(array.names) or [f"{key}_{index}" for index in range(len(numbers))]
                self._numbers(f"/observation/{key}", names, numbers, at_ns)
                self._conventional(dict(zip(names, numbers.tolist(), strict=True)), at_ns)

    def _conventional(self, values: dict[str, float], at_ns: int) -> None:
        """Also write joints and wrench to the usual topics of ROS 2 tools."""
        turning = [name[:-4] for name in values if name.endswith("_sin") and f"{name[:-4]}_cos" in values]
        angles = {f"{joint}_position": math.atan2(values[f"{joint}_sin"], values[f"{joint}_cos"]) for joint in turning}
        values = values | angles
        joints = [name[:-9] for name in values if name.endswith("_velocity") and f"{name[:-9]}_position" in values]
        if joints:
            parts = {
                kind: np.array([values[f"{joint}_{kind}"] for joint in joints]) for kind in ("position", "velocity")
            }
            self.write("/joint_states", NUMBERS, at_ns, {"name": joints, **parts, "effort": np.empty(0)})
        if all(name in values for name in _WRENCH_NAMES):
            vector = self._store.types["geometry_msgs/msg/Vector3"]
            force, torque = (vector(*(values[name] for name in _WRENCH_NAMES[first : first + 3])) for first in (0, 3))
            wrench = self._store.types["geometry_msgs/msg/Wrench"](force=force, torque=torque)
            self.write("/wrench", WRENCH, at_ns, {"wrench": wrench})

    def _numbers(self, topic: str, names: Any, values: Array, at_ns: int) -> None:
        fields = {"name": list(names), "position": values.astype(np.float64)}
        self.write(topic, NUMBERS, at_ns, {**fields, "velocity": np.empty(0), "effort": np.empty(0)})

    def write(self, topic: str, kind: str, at_ns: int, fields: dict[str, Any]) -> None:
        """Write a message, with a header if its type has one."""
        types = self._store.types
        if topic not in self._connections:
            self._connections[topic] = self._bag.add_connection(topic, kind, typestore=self._store)
        if kind != STRING:
            stamp = types["builtin_interfaces/msg/Time"](sec=at_ns // 10**9, nanosec=at_ns % 10**9)
            fields = {"header": types["std_msgs/msg/Header"](stamp=stamp, frame_id=""), **fields}
        self._bag.write(self._connections[topic], at_ns, self._store.serialize_cdr(types[kind](**fields), kind))


def _own_episodes(
    opened: Callable[[Path], AbstractContextManager[Bag]], path: Path, spec: EnvSpec
) -> Iterator[EpisodeArrays]:
    topics = {key: _topic(key) for key in spec.observation}
    names = [EPISODE, STEP, *topics.values(), *(f"/{name}" for name in _VECTORS)]
    with opened(path) as bag:
        details: dict[str, Any] | None = None
        rows: dict[str, list[Any]] = {}
        for topic, _, message in bag.messages(names):
            if topic == EPISODE:
                if details is not None:
                    yield _own_episode(path, spec, topics, details, rows)
                details, rows = _object(message.data, path), {name: [] for name in names}
            elif details is not None:
                rows[topic].append(message)
        if details is not None:
            yield _own_episode(path, spec, topics, details, rows)


def _own_episode(
    path: Path, spec: EnvSpec, topics: dict[str, str], details: dict[str, Any], rows: dict[str, list[Any]]
) -> EpisodeArrays:
    record = read_record(json.dumps(details.get("record")), path)
    observation = {}
    for key, topic in topics.items():
        field, shape = "data" if key.startswith(IMAGES) else "position", spec.observation[key].shape
        try:
            observation[key] = np.stack([getattr(message, field).reshape(shape) for message in rows[topic]])
        except ValueError as error:
            raise DataError(f"{path}: {topic} is damaged ({error}); export the data again") from error
    columns = {name: np.stack([message.position for message in rows[f"/{name}"]]) for name in _VECTORS}
    scalars = [_object(message.data, path) for message in rows[STEP]]
    columns |= {name: np.array([step[name] for step in scalars]) for name in scalars[0]}
    return make_episode(record, spec, observation, columns, path)


def _topic(key: str) -> str:
    return f"/{key.removeprefix(IMAGES)}/image_raw" if key.startswith(IMAGES) else f"/observation/{key}"


def _object(text: str, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise DataError(f"{path}: a message written by robo-rl is damaged ({error}); export the data again") from error
    if not isinstance(value, dict):
        raise DataError(f"{path}: a message written by robo-rl is damaged; export the data again")
    return value
