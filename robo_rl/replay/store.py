"""Data sets of episodes on disk; docs/reference/datasets.md describes the format."""

import contextlib
import dataclasses
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from robo_rl.core import (
    Closing,
    DataError,
    EnvSpec,
    SpecError,
    Transition,
    draft_of,
    parse_json,
    read_bytes,
    reading,
    sync_folder,
    write_durably,
)

from .disk import disk_errors, make_folder
from .files import ARRAYS, EPISODES, EpisodeFiles
from .group import write_episodes
from .layout import EpisodeArrays, EpisodeRecord, create_arrays, step_fields
from .ring import ReplayRing
from .writer import EpisodeWriter

FORMAT = "robo_rl episodes"
FORMAT_VERSION = 1

READ_BYTES = 16 << 20
"""Approximate number of bytes of observations that are read at a time."""

READ_EPISODES = 1000
"""Largest number of episodes that are read at a time. The objects that describe a short episode take more memory than
its data.
"""

FACTS_BYTES = 64 << 20
_FACTS = "dataset.json"
_RESTORE = "restore the data set from a copy"


@dataclass(frozen=True)
class StoreSummary:
    """Counts of a data set's contents.

    Attributes:
        episodes: number of episodes.
        steps: number of actions.
        successes: episodes that ended in success.
        sources: number of actions by source, ``policy``, ``human``, ``script``, ``random``.
    """

    episodes: int
    steps: int
    successes: int
    sources: dict[str, int]


class EpisodeStore(Closing):
    """Data set of episodes: demonstrations, or episodes of a policy. Use :meth:`create` or :meth:`open`.

    An episode of L steps is stored as L + 1 observations and L actions. Its line in the list of episodes is written
    last, and the episode exists once this line is on disk. A writer that is killed therefore loses only its open
    episode.

    Attributes:
        path: folder of the data set.
        spec: spec of the recorded environment.
        metadata: how the data set was made, as JSON values.
        files: its open files.
    """

    def __init__(self, path: Path, writable: bool) -> None:
        self.path = path
        self.spec, self.metadata = _read_facts(path)
        self._writable = writable
        self.files = EpisodeFiles(path, self.spec, writable)
        self._writer: EpisodeWriter | None = None

    @classmethod
    def create(cls, path: Path, spec: EnvSpec, metadata: Mapping[str, Any] | None = None) -> "EpisodeStore":
        """Make an empty data set and open it for recording.

        Args:
            path: folder to make; it may exist if it is empty.
            spec: spec of the environment to record.
            metadata: how the data set is made, as JSON values: task configuration, versions, policy or device, seed.

        Raises:
            DataError: if ``path`` exists and is not an empty folder, or cannot be written.
        """
        facts = _facts(spec, metadata or {})
        if path.is_file() or (path.is_dir() and any(path.iterdir())):
            raise DataError(f"{path} exists already; open it to add episodes, or choose another path")
        # Made under another name and renamed, so that an incomplete data set never exists.
        with disk_errors(path, "create the data set"), contextlib.ExitStack() as stack:
            make_folder(path.parent)
            draft = stack.enter_context(draft_of(path))
            make_folder(draft)
            create_arrays(draft / ARRAYS, spec)
            write_durably(draft / EPISODES, b"")
            write_durably(draft / _FACTS, facts)
            draft.replace(path)
            sync_folder(path.parent)
        return cls(path, writable=True)

    @classmethod
    def open(cls, path: Path, mode: Literal["r", "a"] = "r") -> "EpisodeStore":
        """Open a data set: ``r`` to read (also while another process records), ``a`` to add episodes as well.

        Raises:
            DataError: if the data set is missing, damaged or of another format version, or, with ``a``, if another
                process is writing it or it is read-only.
        """
        return cls(path, writable=mode == "a")

    # --- contents ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self.records)

    @property
    def records(self) -> Sequence[EpisodeRecord]:
        """Identity, length, success and sources of each episode; a record is parsed each time it is accessed."""
        return self.files.records

    def ring_slots(self, max_episodes: int | None = None) -> int:
        """Return the capacity of a ring that holds the first ``max_episodes`` episodes (all by default)."""
        return sum(record.steps + 1 for record in self.records[:max_episodes])

    def summary(self) -> StoreSummary:
        """Count episodes, steps, successes and sources, without reading arrays."""
        sources: Counter[str] = Counter()
        for record in self.records:
            sources.update(record.sources)
        return StoreSummary(
            episodes=len(self),
            steps=self.files.step_rows,
            successes=sum(record.success is True for record in self.records),
            sources=dict(sources),
        )

    def check_against(self, spec: EnvSpec) -> None:
        """Check that a task with ``spec`` can use this data.

        The data set may have additional observation keys (images, for an agent that uses only states). All keys of the
        task must be present with the same shape, dtype and elements. Action, frame, rate and scaling must be equal.

        Raises:
            DataError: naming each difference, with the expected and the recorded value.
        """
        # Convert through JSON like the spec on disk, so that tuples and lists compare equal.
        task = EnvSpec.from_json(json.loads(json.dumps(spec.to_json())))
        used = {key: array for key, array in self.spec.observation.items() if key in task.observation}
        differences = task.differences(dataclasses.replace(self.spec, observation=used))
        if differences:
            raise DataError(
                f"{self.path}: recorded for another task or setting: {'; '.join(differences)}. Record for this task, "
                "or use the settings of the data set for the task"
            )

    # --- reading -----------------------------------------------------------------------------------------------------

    def arrays(self, number: int, keys: Collection[str] | None = None) -> EpisodeArrays:
        """Read one episode.

        Args:
            number: 0 to ``len - 1``.
            keys: observation keys to read; all by default.

        Raises:
            DataError: if the episode or a key does not exist, or the data is damaged.
        """
        if not 0 <= number < len(self):
            raise DataError(f"{self.path}: there is no episode {number}; it holds {len(self)}, counted from 0")
        (episode,) = self._read(number, number + 1, keys)
        return episode

    def episode(self, number: int, keys: Collection[str] | None = None) -> list[Transition]:
        """Read one episode as a list of transitions; see :meth:`arrays`."""
        return self.arrays(number, keys).transitions()

    def episodes(
        self, first: int = 0, stop: int | None = None, keys: Collection[str] | None = None
    ) -> Iterator[list[Transition]]:
        """Read the episodes from ``first`` to ``stop`` - 1 (None: to the last one); see :meth:`arrays`.

        Several episodes are read at a time. Many short episodes take a tenth of the time that :meth:`episode` takes.
        """
        stop = len(self) if stop is None else stop
        row_bytes = sum(array.nbytes for array in self.spec.observation.values()) + 1
        while first < stop:
            rows, end = 0, first
            while end < stop and (end == first or (rows * row_bytes < READ_BYTES and end < first + READ_EPISODES)):
                rows += self.records[end].steps + 1
                end += 1
            for episode in self._read(first, end, keys):
                yield episode.transitions()
            first = end

    def _read(self, first: int, stop: int, keys: Collection[str] | None) -> list[EpisodeArrays]:
        keys = self.spec.observation if keys is None else keys
        if unknown := set(keys) - self.spec.observation.keys():
            raise DataError(f"{self.path}: no observations {sorted(unknown)}; it holds {sorted(self.spec.observation)}")
        records = self.records[first:stop]
        steps = {field.name: self.files.read(field.name, first, records) for field in step_fields(self.spec)}
        observation = {key: self.files.read(f"observation/{key}", first, records) for key in keys}
        rewards = steps.pop("rewards")
        return [
            EpisodeArrays(
                record=record,
                observation={key: episodes[number] for key, episodes in observation.items()},
                rewards={name: rewards[number][:, column] for column, name in enumerate(self.spec.reward_terms)},
                **cast(dict[str, Any], {name: episodes[number] for name, episodes in steps.items()}),
            )
            for number, record in enumerate(records)
        ]

    def load_into(self, ring: ReplayRing, max_episodes: int | None = None) -> int:
        """Append the first ``max_episodes`` episodes (all by default) to ``ring``; return the number of transitions.

        Raises:
            DataError: if the data does not match the buffer's spec (see :meth:`check_against`), lacks one of its reward
                terms, is larger than the buffer (see :meth:`ring_slots`), or is damaged.
        """
        self.check_against(ring.spec)
        if missing := sorted(set(ring.spec.reward_terms) - set(self.spec.reward_terms)):
            raise DataError(
                f"{self.path}: reward terms {missing} were not recorded, only {sorted(self.spec.reward_terms)}; use a "
                "reward of recorded terms, or record again"
            )
        slots = self.ring_slots(max_episodes)
        if slots > ring.capacity:
            raise DataError(f"{self.path}: {slots} observations do not fit into a replay ring of {ring.capacity}")
        stop = len(self.records[:max_episodes])
        return sum(map(ring.append, self.episodes(0, stop, ring.spec.observation.keys())))

    # --- writing -----------------------------------------------------------------------------------------------------

    def writer(self) -> EpisodeWriter:
        """Return a writer of a new episode. Only one episode may be open at a time.

        Raises:
            DataError: if the data set was opened to read.
            RuntimeError: if another episode is open.
        """
        self._check_writable()
        self._writer = EpisodeWriter(self.files)
        return self._writer

    def append_episode(self, transitions: Sequence[Transition]) -> int:
        """Store one episode; return its number. See :class:`EpisodeWriter` for the errors."""
        with self.writer() as writer:
            for transition in transitions:
                writer.append(transition)
            return writer.commit()

    def append_episodes(self, episodes: Sequence[Sequence[Transition]]) -> int:
        """Store several episodes in one commit, all or none; return the number of the first.

        Each array and the list of episodes are written once for all episodes, so many short episodes are stored
        quickly. All episodes are in memory meanwhile.

        Raises:
            SpecError: if a step does not match the data set's spec.
            DataError: if a step does not follow the step before, an episode has no steps, or the files cannot be
                written.
        """
        self._check_writable()
        try:
            return write_episodes(self.files, episodes)
        except BaseException:
            self.files.try_cut_back()
            raise

    def delete_last_episode(self) -> None:
        """Delete the newest episode, for example after a mistake of the operator.

        Raises:
            DataError: if there is no episode, the data set was opened to read, or the files cannot be written.
        """
        self._check_writable()
        if not self.records:
            raise DataError(f"{self.path}: there is no episode to delete")
        self.files.drop_last()

    def describe(self, metadata: Mapping[str, Any]) -> None:
        """Replace the metadata of the data set by JSON values.

        Raises:
            DataError: if the data set was opened to read, or the file cannot be written.
        """
        self._check_writable()
        with disk_errors(self.path, "write the description of the data set"):
            write_durably(self.path / _FACTS, _facts(self.spec, metadata))
        self.metadata = dict(metadata)

    def close(self) -> None:
        """Discard an open episode and release the data set for other processes. May be called twice."""
        if self._writer is not None:
            self._writer.discard()
        self.files.close()

    def _check_writable(self) -> None:
        if not self._writable:
            raise DataError(f"{self.path} was opened for reading; open it with mode 'a' to change it")
        if self._writer is not None and self._writer.is_open:
            raise RuntimeError("an episode is open: commit or discard it first")


def _facts(spec: EnvSpec, metadata: Mapping[str, Any]) -> bytes:
    facts = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "spec": spec.to_json(),
        "metadata": dict(metadata),
    }
    return json.dumps(facts, indent=2, allow_nan=False).encode()


def _read_facts(path: Path) -> tuple[EnvSpec, Mapping[str, Any]]:
    """Return spec and metadata of a data set."""
    file = path / _FACTS
    if not path.exists():
        raise DataError(f"{path}: there is no data set; correct the path, or create one with `robo-rl record`")
    if not file.is_file():
        raise DataError(
            f"{path} is not a data set: it has no {_FACTS}; expected a folder from `robo-rl record` or `collect`"
        )
    with disk_errors(file, "read the data set"):
        text = read_bytes(file, FACTS_BYTES)
    with reading(file, advice=_RESTORE):
        facts = parse_json(text, str(file))
        kind, version = facts["format"], facts["format_version"]
    if kind != FORMAT:
        raise DataError(f"{file}: expected format {FORMAT!r}, found {kind!r}; use a data set of robo-rl")
    if version != FORMAT_VERSION:
        raise DataError(
            f"{file}: expected format version {FORMAT_VERSION}, found {version}; the data set was written by another "
            "version of robo-rl: update the installed one"
        )
    try:
        with reading(file, advice=_RESTORE):
            spec, metadata = EnvSpec.from_json(facts["spec"]), facts["metadata"]
            if not isinstance(metadata, dict):
                raise TypeError(f"expected metadata by name, got {metadata!r}")
    except SpecError as error:
        raise DataError(f"{file}: {error}; {_RESTORE}") from error
    return spec, metadata
