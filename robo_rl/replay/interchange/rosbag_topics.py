"""Conversion of bags into episodes by a configured mapping of their topics."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, ConfigError, DataError, EnvSpec, SpecError, nearest

from ..encoding import SUCCESS_UNKNOWN
from ..layout import EpisodeArrays
from .data import IMAGES, check_packed
from .foreign import ForeignConfig, as_float32, foreign_spec
from .foreign_episodes import ForeignEpisode, foreign_episodes
from .notes import ImportNotes
from .rosbag_messages import ImageReader, NumberReader, TopicConfig, stamp_ns
from .rosbag_reading import Bag
from .rosbag_times import Track, breaks, clock_jumps, runs, segments

__all__ = ["TopicConfig", "TopicsReader"]

Array = NDArray[Any]
Times = NDArray[np.int64]

_LATEST_NS = (1 << 63) - 1
ACTION, REWARD, SUCCESS = "action", "reward", "success"


@dataclass
class _Messages:
    """Messages of one topic in a bag, in the order of the file.

    Attributes:
        topic: configuration of the topic.
        track: times of the messages that have the configured data.
        values: values of these messages: numbers (n,), or images that are decoded when they are used.
        passed_over: names in messages that have only other names, with the numbers of these messages.
    """

    topic: TopicConfig
    track: Track
    values: list[Any]
    passed_over: Counter[str]

    def __str__(self) -> str:
        name, times = self.topic.full_name, self.track.times
        if not len(times):
            return f"{name} has no message"
        first, last = times.min() / 1e9, times.max() / 1e9
        period = f", one every {(last - first) / (len(times) - 1):.3g} s" if len(times) > 1 else ""
        return f"{name} has {len(times)} from {first:.3f} s to {last:.3f} s{period}"


@dataclass(frozen=True)
class _Part:
    """Part of a bag in which all topics have messages.

    Attributes:
        ticks: starts of the control periods, and the end of the last one [ns].
        chosen: indices of the usable messages of each topic, sorted by time.
        until_ns: start of the next part, or the end of the bag [ns].
    """

    ticks: Times
    chosen: Sequence[NDArray[np.intp]]
    until_ns: int


class TopicsReader:
    """Reads bags by sampling the newest message of each topic in every control period.

    An episode begins when every topic has had a message. It ends when a topic has no message for longer than its
    ``max_age``, when the recorder's clock jumps back, and when the stamps in headers go back, as after a reset of a
    simulation. The messages after that form another episode. An action is the newest command at the end of its period.
    Success may be reported at any time; otherwise it is unknown.

    Args:
        bags: paths of the bags.
        topics: configurations of the topics.
        foreign: properties that bags do not state.
        open_bag: opens a bag for reading.
        notes: notes of the import.

    Attributes:
        spec: spec of the imported data.

    Raises:
        ConfigError: if the mapping lacks an action or an observation, or has too many values for one of them.
        DataError: if the first bag lacks a topic, or its messages do not match the mapping.
    """

    def __init__(
        self,
        bags: Sequence[Path],
        topics: Mapping[str, TopicConfig],
        foreign: ForeignConfig,
        open_bag: Callable[[Path], AbstractContextManager[Bag]],
        notes: ImportNotes,
    ) -> None:
        foreign.check_keys({topic.gives for topic in topics.values()} - {ACTION, REWARD, SUCCESS})
        self._bags, self._foreign, self._open, self._notes = bags, foreign, open_bag, notes
        self._topics = [topic for topic in topics.values() if topic.gives not in foreign.leave_out]
        for key in foreign.leave_out:
            notes.add("Observations left out", f"{key}: foreign.leave_out")
        self._topics_by_key: dict[str, list[int]] = {}
        for index, topic in enumerate(self._topics):
            self._topics_by_key.setdefault(topic.gives, []).append(index)
        self._keys = [key for key in self._topics_by_key if key not in (ACTION, REWARD, SUCCESS)]
        if not self._keys or ACTION not in self._topics_by_key:
            raise ConfigError(
                f"{bags[0]}: state in format.topics what its topics give, at least an observation and the action "
                "(docs/reference/interchange.md has an example)"
            )
        if foreign.control_rate is None:
            raise ConfigError("a bag does not state its control rate: set foreign.control_rate in Hz")
        self._readers = [
            ImageReader(topic, foreign, notes) if topic.gives.startswith(IMAGES) else NumberReader(topic, notes)
            for topic in self._topics
        ]
        self._read(bags[0])  # names and shapes of the first bag must be those of all bags
        observation = {key: self._spec_of(key) for key in self._keys}
        for gives in (REWARD, SUCCESS):
            if gives in self._topics_by_key and len(names := self._spec_of(gives).names) > 1:
                raise ConfigError(
                    f"format.topics: {gives} is one number, but its topics give {len(names)}: {', '.join(names)}"
                )
        self.spec: EnvSpec = foreign_spec(
            foreign,
            observation,
            self._spec_of(ACTION),
            None,
            REWARD in self._topics_by_key,
            SUCCESS in self._topics_by_key,
        )

    def episodes(self) -> Iterator[EpisodeArrays]:
        """Yield the episodes of all bags, in order."""
        for number, path in enumerate(self._bags):
            messages = self._read(path)
            count = 0
            for part in self._parts(path, messages):
                sampled = self._sample(number, path, messages, part)
                for episode in foreign_episodes(self._foreign, self.spec, sampled, self._notes):
                    yield replace(episode, record=replace(episode.record, episode=count))
                    count += 1
            if not count:
                raise DataError(
                    f"{path}: there is no control period of {1 / self.spec.control_rate:g} s in which every topic has "
                    f"messages and none is silent for longer than its max_age. {'; '.join(map(str, messages))}"
                )

    def _spec_of(self, gives: str) -> ArraySpec:
        readers = [self._readers[index] for index in self._topics_by_key[gives]]
        if isinstance(readers[0], ImageReader):
            if len(readers) > 1:
                raise ConfigError(
                    f"format.topics: {gives} is given by {len(readers)} topics, but an image comes from one"
                )
            return ArraySpec(readers[0].shape, "uint8")
        names = tuple(name for reader in readers if isinstance(reader, NumberReader) for name in reader.names)
        return ArraySpec((len(names),), names=names)

    def _read(self, path: Path) -> list[_Messages]:
        """Return the messages of each topic."""
        rows_of_topics: list[list[tuple[int, int, int, Any]]] = [[] for _ in self._topics]
        passed_over = [Counter[str]() for _ in self._topics]
        with self._open(path) as bag:
            names = sorted({topic.full_name for topic in self._topics})
            if missing := [name for name in names if name not in bag.types]:
                raise DataError(f"{path} has no topic {missing[0]}; {nearest(missing[0], bag.types)}")
            for place, (name, at_ns, message) in enumerate(bag.messages(names)):
                if not 0 <= at_ns <= _LATEST_NS:
                    raise DataError(f"{path}: a message of {name} was logged at {at_ns} ns, expected at most 2^63 ns")
                for index, topic in enumerate(self._topics):
                    if topic.full_name != name:
                        continue
                    reader = self._readers[index]
                    try:
                        value = reader(message, finite=self._foreign.faults == "refuse")
                        if topic.gives == SUCCESS and value is not None and value[0] not in (0, 1):
                            raise SpecError(f"{', '.join(topic.fields)} is {value[0]:g}, expected 0, 1 or a boolean")
                    except SpecError as error:
                        kind = bag.types[name]
                        raise DataError(f"{path}: {name} ({kind}) at {at_ns / 1e9:.3f} s: {error}") from error
                    if value is None and isinstance(reader, NumberReader):
                        passed_over[index][", ".join(reader.passed_over)] += 1
                    else:
                        rows_of_topics[index].append((place, at_ns, stamp_ns(message), value))
        messages = []
        for topic, rows, other_names in zip(self._topics, rows_of_topics, passed_over, strict=True):
            places, times, stamps = (np.array([row[column] for row in rows], np.int64) for column in range(3))
            track = Track(places, times, stamps, round(topic.max_age * 1e9))
            messages.append(_Messages(topic, track, [row[3] for row in rows], other_names))
        self._check(path, messages)
        return messages

    def _check(self, path: Path, messages: Sequence[_Messages]) -> None:
        for source in messages:
            name = source.topic.full_name
            for other_names, count in source.passed_over.items():
                place = f"{path}: {count} of {name} name {other_names or 'nothing'}"
                self._notes.add("Messages that name none of the requested joints, skipped", place)
            if not source.values and source.topic.gives != SUCCESS:
                condition = ""
                if source.passed_over:
                    others = " or ".join(list(source.passed_over)[:3])
                    condition = f" that names any of {', '.join(source.topic.names)}; they name {others}"
                raise DataError(f"{path}: there is no message on {name}{condition}")
            if len(source.values) > 2 and source.topic.gives not in (SUCCESS, REWARD):
                period = float(np.median(np.diff(np.sort(source.track.times)))) / 1e9
                if period > 1.5 / (self._foreign.control_rate or 1):
                    place = f"{path}: {name}, one every {period:.3g} s"
                    self._notes.add("Topics slower than foreign.control_rate, whose values repeat", place)

    def _parts(self, path: Path, messages: Sequence[_Messages]) -> Iterator[_Part]:
        """Yield the parts of a bag in which all topics have messages for at least one control period."""
        tracks = [source.track for source in messages]
        needed = [index for index, source in enumerate(messages) if source.topic.gives != SUCCESS]
        period = round(1e9 / self.spec.control_rate)
        jumps = clock_jumps([tracks[index] for index in needed])
        for jump in jumps:
            self._notes.add("Clock set back in a bag, which ends an episode", f"{path}: message {jump}")
        for chosen in zip(*(runs(track, jumps) for track in tracks), strict=True):
            if not all(len(chosen[index]) for index in needed):
                self._notes.add("Parts of bags in which a topic has no messages, left out", str(path))
                continue
            bounds = [tuple(tracks[index].times[chosen[index][[0, -1]]].tolist()) for index in needed]
            gaps = breaks([tracks[index] for index in needed], [chosen[index] for index in needed])
            begin = max(first for first, _ in bounds)
            for gap in gaps:
                reason = "stamps go back" if gap.stamps_back else f"silent for {gap.silence_ns / 1e9:.2f} s"
                name = messages[needed[gap.track]].topic.full_name
                place = f"{path}: {name}, {reason}, {(gap.at_ns - begin) / 1e9:.2f} s after the beginning"
                self._notes.add("Gaps in bags, each of which ends an episode", place)
            parts = segments(bounds, gaps)
            ends = [*(first for first, _ in parts[1:]), np.iinfo(np.int64).max]
            for (first, last), until in zip(parts, ends, strict=False):
                ticks = np.arange(first, last + 1, period)
                if len(ticks) > 1:
                    yield _Part(ticks, chosen, until)
                else:
                    self._notes.add(
                        "Parts of bags shorter than a control period, left out", f"{path}: {first / 1e9:.3f} s"
                    )

    def _sample(self, number: int, path: Path, messages: Sequence[_Messages], part: _Part) -> ForeignEpisode:
        """Return the newest values at each tick as an episode."""
        joined = {gives: self._newest(gives, path, messages, part) for gives in self._topics_by_key if gives != SUCCESS}
        success = None
        if SUCCESS in self._topics_by_key:
            success = self._success(messages[self._topics_by_key[SUCCESS][0]], part, self._topics_by_key[SUCCESS][0])
            if (success == SUCCESS_UNKNOWN).all():
                place = f"{path}: {part.ticks[0] / 1e9:.3f} s"
                self._notes.add("Episodes for which no message states whether they succeeded", place)
        return ForeignEpisode(
            number,
            f"{path}, from {part.ticks[0] / 1e9:.3f} s on",
            {key: self._as_stored(key, joined[key]) for key in self._keys},
            joined[ACTION][1:],
            rewards=joined[REWARD][1:, 0] if REWARD in joined else None,
            success=success,
            stamp_ns=part.ticks,
            names={
                key: ", ".join(self._topics[index].full_name for index in self._topics_by_key[key])
                for key in self._keys
            },
        )

    def _as_stored(self, key: str, rows: Array) -> Array:
        return rows if key.startswith(IMAGES) else as_float32(rows, key, self._notes)

    def _newest(self, gives: str, path: Path, messages: Sequence[_Messages], part: _Part) -> Array:
        columns = []
        for index in self._topics_by_key[gives]:
            track, chosen, reader = messages[index].track, part.chosen[index], self._readers[index]
            newest = chosen[np.searchsorted(track.times[chosen], part.ticks, side="right") - 1]
            used, places = np.unique(newest, return_inverse=True)
            if isinstance(reader, ImageReader):
                return self._images(path, messages[index], used, reader)[places]
            columns.append(np.stack([messages[index].values[number] for number in used])[places])
        return np.concatenate(columns, axis=1)

    def _images(self, path: Path, messages: _Messages, used: NDArray[np.intp], reader: ImageReader) -> Array:
        stored = sum(len(messages.values[index].data) for index in used)
        check_packed(stored, len(used) * math.prod(reader.shape), f"{path}: {messages.topic.full_name}")
        images = np.empty((len(used), *reader.shape), np.uint8)
        for row, index in enumerate(used):
            try:
                images[row] = reader.decode(messages.values[index])
            except SpecError as error:
                seconds = messages.track.times[index] / 1e9
                raise DataError(f"{path}: {messages.topic.full_name} at {seconds:.3f} s: {error}") from error
        return images

    def _success(self, messages: _Messages, part: _Part, index: int) -> Array:
        """Return the success of each step: 1, 0, or -1 if unknown. Later messages count for the last step."""
        chosen = part.chosen[index]
        chosen = chosen[messages.track.times[chosen] < part.until_ns]
        times = messages.track.times[chosen]
        values = np.array([messages.values[number][0] == 1 for number in chosen] + [False])
        ends = part.ticks[1:].copy()
        newest = np.searchsorted(times, ends, side="right") - 1
        is_known = newest >= 0
        is_known[is_known] = ends[is_known] - times[newest[is_known]] <= messages.track.max_age_ns
        success = np.where(is_known, values[newest], SUCCESS_UNKNOWN).astype(np.int8)
        if len(times) and times[-1] > ends[-1]:
            success[-1] = values[len(times) - 1]
        return success
