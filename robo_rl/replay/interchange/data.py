"""A data set on its way from or to another format: facts, and episodes one after another."""

import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, DataError, EnvSpec, SpecError, parse_json, read_bytes

from ..layout import EpisodeArrays, EpisodeRecord, step_fields
from .notes import ImportNotes

if TYPE_CHECKING:
    from .foreign import ForeignConfig

Array = NDArray[Any]

IMAGES = "images/"
PACKED = 1100
"""Bytes at most that one stored byte becomes, where nothing else limits them; gzip comes to 1032."""
FREE_BYTES = 2**26
"""Bytes that a file may become whatever its size."""
_KIND = "robo_rl interchange"
_VERSION = 1


@dataclass(frozen=True)
class DataSet:
    """What every format is made from and read as.

    Attributes:
        spec: what was recorded.
        metadata: how it was made, as JSON values.
        instructions: what the robot was told to do, one an episode.
        episodes: begins to read the episodes from the first one. Those of another project may be too short for a step
            (``record.steps`` is 0); they are not stored.
        notes: what import of another project's data leaves out or changes, complete when all episodes have been read;
            None for data that robo-rl wrote. With notes, one instruction may be that of several episodes, or of none:
            ``record.session`` is its index.
    """

    spec: EnvSpec
    metadata: Mapping[str, Any]
    instructions: Sequence[str]
    episodes: Callable[[], Iterator[EpisodeArrays]]
    notes: ImportNotes | None = None


class DataFormat(Protocol):
    """A format of another project."""

    def export(self, data: DataSet, path: Path) -> None:
        """Write ``data`` to ``path``, where nothing is yet.

        Raises:
            DataError: if the format cannot hold it; the message says what.
            OSError: if it cannot be written.
        """
        ...

    def load(self, path: Path, foreign: "ForeignConfig") -> DataSet:
        """Return what is at ``path``.

        Args:
            path: file or folder.
            foreign: says what data that robo-rl did not write leaves open; not looked at otherwise.

        Raises:
            DataError: if it is damaged, or not of this format.
        """
        ...


def library(name: str) -> Any:
    """Import a library of the extra ``interchange``.

    Raises:
        ConfigError: if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"this format needs {name.split('.')[0]}: pip install 'robo-rl[interchange]'") from error


def read_small(path: Path, most: int = 2**25) -> bytes:
    """Return the contents of a file that is small by its nature.

    Args:
        path: of a regular file.
        most: bytes that it may have.

    Raises:
        DataError: if it is missing, no regular file, or larger.
    """
    if not path.is_file():
        raise DataError(f"{path} is missing, or no regular file; the data is incomplete")
    return read_bytes(path, most)


def check_packed(stored: int, size: int, where: object) -> None:
    """Check that ``stored`` bytes may become ``size`` bytes.

    Raises:
        DataError: if no compression that is used here packs so well.
    """
    if size > FREE_BYTES + PACKED * stored:
        raise DataError(f"{where}: {stored} bytes claim to hold {size} bytes; the data is damaged, or made to harm")


def check_names(spec: EnvSpec, name_of: Callable[[str], str]) -> None:
    """Check that no two observations get the same name in a format: one would stand in the other's place.

    Args:
        spec: of the data set.
        name_of: returns the format's name of an observation key.

    Raises:
        DataError: if two do.
    """
    keys: dict[str, str] = {}
    for key in spec.observation:
        if (other := keys.setdefault(name_of(key), key)) != key:
            raise DataError(
                f"the observations {other!r} and {key!r} would both be {name_of(key)!r} in this format; export to "
                "another one, or record with other keys"
            )


# --- data that robo-rl wrote -----------------------------------------------------------------------------------------


def facts_json(data: DataSet) -> str:
    """Return what must be known of a whole data set to read it back."""
    facts = {
        "format": _KIND,
        "format_version": _VERSION,
        "spec": data.spec.to_json(),
        "metadata": dict(data.metadata),
        "instructions": list(data.instructions),
    }
    return json.dumps(facts, allow_nan=False)


def read_facts(text: str | bytes, where: Path) -> tuple[EnvSpec, dict[str, Any], list[str]]:
    """Inverse of :func:`facts_json`: spec, metadata, instructions.

    Raises:
        DataError: if ``text`` is damaged or of another version.
    """
    try:
        facts = parse_json(text, str(where))
        if (facts["format"], facts["format_version"]) != (_KIND, _VERSION):
            raise DataError(
                f"{where}: expected {_KIND!r} of version {_VERSION}, found {facts['format']!r} of version "
                f"{facts['format_version']}; it was made by another version of robo-rl"
            )
        return EnvSpec.from_json(facts["spec"]), dict(facts["metadata"]), list(facts["instructions"])
    except (ValueError, KeyError, TypeError, AttributeError, SpecError) as error:
        raise DataError(f"{where} is damaged ({type(error).__name__}: {error}); export the data again") from error


def record_json(record: EpisodeRecord) -> str:
    """Return identity, success, sources and verdicts of an episode. Checksums are of our own files and stay there."""
    return json.dumps({key: value for key, value in asdict(record).items() if key != "crc32"}, allow_nan=False)


def read_record(text: str | bytes, where: Path) -> EpisodeRecord:
    """Inverse of :func:`record_json`.

    Raises:
        DataError: if ``text`` is no record.
    """
    try:
        return EpisodeRecord.from_line(json.dumps({**parse_json(text, "the record"), "crc32": {}}).encode())
    except (ValueError, TypeError) as error:
        raise DataError(f"{where}: the record of an episode is damaged ({error}); export the data again") from error


def step_columns(episode: EpisodeArrays, spec: EnvSpec) -> dict[str, Array]:
    """Return what an episode of L steps holds once a step, (L, ...) by name; rewards are one array (L, T)."""
    rewards = np.zeros((episode.record.steps, len(spec.reward_terms)), np.float32)
    for column, term in enumerate(spec.reward_terms):
        rewards[:, column] = episode.rewards[term]
    names = [field.name for field in step_fields(spec) if field.name != "rewards"]
    return {"rewards": rewards, **{name: getattr(episode, name) for name in names}}


def make_episode(
    record: EpisodeRecord, spec: EnvSpec, observation: Mapping[str, Array], columns: Mapping[str, Array], where: object
) -> EpisodeArrays:
    """Inverse of :func:`step_columns`.

    Args:
        record: of the episode.
        spec: of the data set.
        observation: (L + 1, ...) by key.
        columns: (L, ...) by name, of any dtype that holds the values.
        where: for messages.

    Raises:
        DataError: if an array is missing or has another shape.
    """
    steps: dict[str, Array] = {}
    for field in step_fields(spec):
        if field.name not in columns:
            raise DataError(f"{where}: {field.name!r} is missing; export the data again")
        steps[field.name] = _shaped(columns[field.name], field.shape, field.dtype, field.name, where)
    wanted = dict.fromkeys(steps, record.steps) | dict.fromkeys(spec.observation, record.steps + 1)
    for name, count in wanted.items():
        found = len(steps[name]) if name in steps else len(observation.get(name, ()))
        if found != count:
            raise DataError(f"{where}: expected {count} rows of {name!r}, found {found}; the data is damaged")
    rewards = steps.pop("rewards")
    return EpisodeArrays(
        record=record,
        observation={
            key: _shaped(observation[key], array.shape, array.dtype, key, where)
            for key, array in spec.observation.items()
        },
        rewards={term: rewards[:, column] for column, term in enumerate(spec.reward_terms)},
        **cast(dict[str, Any], steps),
    )


def _shaped(rows: Array, shape: tuple[int, ...], dtype: str, name: str, where: object) -> Array:
    """Return ``rows`` (n, *shape) as ``dtype``; whole numbers and flags as they are, or not at all."""
    if rows.shape[1:] != tuple(shape):
        raise DataError(f"{where}: expected rows of shape {shape} in {name!r}, found {rows.shape[1:]}")
    try:
        return np.ascontiguousarray(as_type(rows, dtype))
    except ValueError as error:
        told = f"expected values of type {dtype} in {name!r}, {error}"
        raise DataError(f"{where}: {told}; the data is damaged") from error


def as_type(rows: Array, dtype: str) -> Array:
    """Return numbers as ``dtype``; fractions may lose digits, and what is not finite stays so.

    Raises:
        ValueError: if a number is out of the range of ``dtype``, or no whole number where it has to be one.
    """
    wanted = np.dtype(dtype)
    if rows.dtype == wanted or rows.dtype.kind not in "biuf":
        return rows.astype(wanted, copy=False)
    with np.errstate(all="ignore"):
        found = rows.astype(wanted)
        wrong = np.isinf(found) & np.isfinite(rows) if wanted.kind == "f" else found != rows
    if wrong.any():
        place = np.argwhere(wrong)[0].tolist()
        raise ValueError(f"found {rows[tuple(place)]:g} in row {place[0]}")
    return found


def check_storable(data: DataSet, path: Path) -> None:
    """Check that what is known of a whole data set can be stored and read again.

    Raises:
        DataError: if it cannot; the message names ``path``, from which it was read.
    """
    try:
        parse_json(facts_json(data), f"{path}: names, descriptions or instructions in it cannot be stored")
    except ValueError as error:
        raise DataError(f"{path}: a description in it cannot be stored ({error})") from error


def counted(episodes: Iterator[EpisodeArrays], count: int, where: Path) -> Iterator[EpisodeArrays]:
    """Yield ``episodes``, and see that there are ``count``: of a copy that was cut short, files may be missing.

    Raises:
        DataError: if there are more or fewer.
    """
    found = 0
    for episode in episodes:
        found += 1
        yield episode
    if found != count:
        raise DataError(f"{where}: {count} episodes were exported, found {found}; copy or export the data again")
