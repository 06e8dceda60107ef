"""Data set during import or export: its description and an iterator over its episodes."""

import importlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DataError, EnvSpec, SpecError, importing_extra, parse_json, read_bytes

from ..layout import EpisodeArrays, EpisodeRecord, step_fields
from .notes import ImportNotes

if TYPE_CHECKING:
    from .foreign import ForeignConfig

Array = NDArray[Any]

IMAGES = "images/"
PACKED = 1100
"""Largest accepted compression ratio if nothing else limits the size; gzip reaches 1032."""
FREE_BYTES = 2**26
"""Decompressed bytes of a file that are always allowed."""
_OF_DESKTOPS = re.compile(r"\._.*|\.DS_Store|__MACOSX|Thumbs\.db|desktop\.ini", re.IGNORECASE | re.DOTALL)
_KIND = "robo_rl interchange"
_VERSION = 1


@dataclass(frozen=True)
class DataSet:
    """Data set that a format writes or reads.

    Attributes:
        spec: spec of the recorded environment.
        metadata: how the data set was made, as JSON values.
        instructions: instruction to the robot, one for each episode.
        episodes: returns an iterator over all episodes. Episodes of another project may be too short for a step
            (``record.steps`` is 0); these are not stored.
        notes: parts of another project's data that the import leaves out or changes, complete after all episodes have
            been read; None for data that robo-rl wrote. With notes, an instruction may belong to several episodes or to
            none: ``record.session`` is its index.
    """

    spec: EnvSpec
    metadata: Mapping[str, Any]
    instructions: Sequence[str]
    episodes: Callable[[], Iterator[EpisodeArrays]]
    notes: ImportNotes | None = None


class DataFormat(Protocol):
    """Format of another project."""

    def export(self, data: DataSet, path: Path) -> None:
        """Write ``data`` to ``path``, which must not exist yet.

        Raises:
            DataError: naming what the format cannot hold.
            OSError: if the data cannot be written.
        """
        ...

    def load(self, path: Path, foreign: "ForeignConfig") -> DataSet:
        """Read the data set at ``path``.

        Args:
            path: file or folder.
            foreign: options for data that robo-rl did not write; otherwise ignored.

        Raises:
            DataError: if the data is damaged, or not of this format.
        """
        ...


def library(name: str) -> Any:
    """Import a library of the extra ``interchange``.

    Raises:
        ConfigError: if it is not installed.
    """
    with importing_extra("interchange", f"this format needs {name.split('.')[0]}"):
        module = importlib.import_module(name)
    return module


def read_small(path: Path, most: int = 2**25) -> bytes:
    """Return the content of a file that should be small.

    Args:
        path: path of a regular file.
        most: largest accepted size [bytes].

    Raises:
        DataError: if the file is missing, not a regular file, or larger.
    """
    if not path.is_file():
        raise DataError(f"{path} is missing or not a regular file; the data is incomplete")
    return read_bytes(path, most)


def data_files(folder: Path, pattern: str) -> list[Path]:
    """Return the files and folders of a data set that match ``pattern``, sorted.

    Files that macOS and Windows leave in folders, such as ``._NAME``, ``.DS_Store`` and ``Thumbs.db``, are left out.
    """
    found = sorted(folder.glob(pattern))
    return [path for path in found if not any(map(_OF_DESKTOPS.fullmatch, path.relative_to(folder).parts))]


def check_packed(stored: int, size: int, where: object) -> None:
    """Check that ``stored`` bytes can plausibly decompress to ``size`` bytes.

    Raises:
        DataError: if no supported compression has such a high ratio.
    """
    if size > FREE_BYTES + PACKED * stored:
        raise DataError(
            f"{where}: {stored} stored bytes claim to expand to {size} bytes; the data is damaged or malicious"
        )


def check_names(spec: EnvSpec, name_of: Callable[[str], str]) -> None:
    """Check that no two observations get the same name in a format, since one would replace the other.

    Args:
        spec: spec of the data set.
        name_of: returns the format's name of an observation key.

    Raises:
        DataError: if two observations get the same name.
    """
    keys: dict[str, str] = {}
    for key in spec.observation:
        if (first_key := keys.setdefault(name_of(key), key)) != key:
            raise DataError(
                f"the observations {first_key!r} and {key!r} would both be named {name_of(key)!r} in this format; "
                "export to another format, or record with other keys"
            )


# --- data that robo-rl wrote -----------------------------------------------------------------------------------------


def facts_json(data: DataSet) -> str:
    """Return the description of a data set that is needed to read it back, as JSON."""
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
    """Return identity, success, sources and verdicts of an episode as JSON, but not the checksums of stored arrays."""
    return json.dumps({key: value for key, value in asdict(record).items() if key != "crc32"}, allow_nan=False)


def read_record(text: str | bytes, where: Path) -> EpisodeRecord:
    """Inverse of :func:`record_json`.

    Raises:
        DataError: if ``text`` is not a record.
    """
    try:
        return EpisodeRecord.from_line(json.dumps({**parse_json(text, "the record"), "crc32": {}}).encode())
    except (ValueError, TypeError) as error:
        raise DataError(f"{where}: the record of an episode is damaged ({error}); export the data again") from error


def step_columns(episode: EpisodeArrays, spec: EnvSpec) -> dict[str, Array]:
    """Return the arrays (L, ...) by name with a row for each of the L steps; rewards are one array (L, T)."""
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
        record: record of the episode.
        spec: spec of the data set.
        observation: arrays (L + 1, ...) by key.
        columns: arrays (L, ...) by name, of any dtype that can hold the values.
        where: name of the file, for error messages.

    Raises:
        DataError: if an array is missing or has another shape.
    """
    steps: dict[str, Array] = {}
    for field in step_fields(spec):
        if field.name not in columns:
            raise DataError(f"{where}: {field.name!r} is missing; export the data again")
        steps[field.name] = _shaped(columns[field.name], field.shape, field.dtype, field.name, where)
    row_counts = dict.fromkeys(steps, record.steps) | dict.fromkeys(spec.observation, record.steps + 1)
    for name, count in row_counts.items():
        length = len(steps[name]) if name in steps else len(observation.get(name, ()))
        if length != count:
            raise DataError(f"{where}: expected {count} rows of {name!r}, found {length}; the data is damaged")
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
    """Return ``rows`` (n, *shape) as ``dtype``; see :func:`as_type`."""
    if rows.shape[1:] != tuple(shape):
        raise DataError(f"{where}: expected rows of shape {shape} in {name!r}, found {rows.shape[1:]}")
    try:
        return np.ascontiguousarray(as_type(rows, dtype))
    except ValueError as error:
        reason = f"expected values of type {dtype} in {name!r}, {error}"
        raise DataError(f"{where}: {reason}; the data is damaged") from error


def as_type(rows: Array, dtype: str) -> Array:
    """Return numbers as ``dtype``. Floating-point numbers may lose digits, and remain not finite if they are not.

    Raises:
        ValueError: if a number is out of the range of ``dtype``, or if ``dtype`` cannot represent it exactly and is not
            a floating-point type.
    """
    target = np.dtype(dtype)
    if rows.dtype == target or rows.dtype.kind not in "biuf":
        return rows.astype(target, copy=False)
    with np.errstate(all="ignore"):
        converted = rows.astype(target)
        wrong = np.isinf(converted) & np.isfinite(rows) if target.kind == "f" else converted != rows
    if wrong.any():
        place = np.argwhere(wrong)[0].tolist()
        raise ValueError(f"found {rows[tuple(place)]:g} in row {place[0]}")
    return converted


def check_storable(data: DataSet, path: Path) -> None:
    """Check that the description of a data set can be stored and read back.

    Raises:
        DataError: if it cannot; the message names ``path``, from which the data set was read.
    """
    try:
        parse_json(facts_json(data), f"{path}: it contains names, descriptions or instructions that cannot be stored")
    except ValueError as error:
        raise DataError(f"{path}: it contains a description that cannot be stored ({error})") from error


def counted(episodes: Iterator[EpisodeArrays], count: int, where: Path) -> Iterator[EpisodeArrays]:
    """Yield ``episodes`` and check that there are ``count``, since files may be missing after an incomplete copy.

    Raises:
        DataError: if there are more or fewer episodes.
    """
    actual = 0
    for episode in episodes:
        actual += 1
        yield episode
    if actual != count:
        raise DataError(
            f"{where}: expected the {count} exported episodes, found {actual}; copy or export the data again"
        )
