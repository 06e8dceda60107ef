"""Readers of HDF5 files of robomimic."""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, ConfigError, DataError, EnvSpec, ImageLayout, nearest

from ..layout import EpisodeArrays
from .data import IMAGES, DataSet, counted, library, make_episode, read_facts, read_record
from .foreign import ForeignConfig, as_float32, foreign_images, foreign_spec
from .foreign_episodes import ForeignEpisode, as_stamps, foreign_episodes
from .foreign_json import check_text, read_foreign_json
from .hdf5 import find_array, open_hdf5, read_array
from .notes import ImportNotes

Array = NDArray[Any]

OURS = "robo_rl"
IMAGE = "_image"
_DEPTH = "_depth"
_OF_STEPS = ("rewards", "dones")
"""Arrays with one value per step. HDF5 returns zeros if they were never written."""


_TIME_NAME = re.compile(r"(^|[/_])time(_?stamp)?s?(_|$)|stamp")
_SMALLEST = 16
"""Smallest side of an array of bytes with two axes that counts as an image by its shape [pixels]."""
_SAME = 1e-3
"""Difference up to which two observations count as equal: relative, or absolute for small numbers."""
_FEWEST_APART, _MOST_APART = 3, 0.9
"""Number and share of steps not followed by their ``next_obs`` from which on ``next_obs`` itself is wrong."""
_NUMBERS = "buif"
"""NumPy's kinds of types for numbers."""


def name_of(key: str) -> str:
    """Return robomimic's name of an observation: without slashes, and with a suffix for images."""
    return f"{key.removeprefix(IMAGES).replace('/', '_')}{IMAGE if key.startswith(IMAGES) else ''}"


def read_robomimic(path: Path, foreign: ForeignConfig, time: str | None = None) -> DataSet:
    """Return the data set in the file ``path``.

    Args:
        path: path of the file.
        foreign: options for data that robo-rl did not write.
        time: name of the time of a step in such data, or None; see :class:`Robomimic`.

    Raises:
        ConfigError: if ``time`` names nothing.
        DataError: if it is damaged, or not a file of robomimic.
    """
    with open_hdf5(path, "data") as file:
        group = file["data"]
        demos = sorted((name for name in group if re.fullmatch(r"demo_\d+", name)), key=lambda name: int(name[5:]))
        if not demos:
            raise DataError(f"{path}: it has no episode data/demo_0")
        holder = file if OURS in file else group  # older files contain it in ``data``
        if OURS in holder:
            spec, metadata, instructions = read_facts(read_array(holder, OURS, path).item(), path)
            count = len(instructions)
            return DataSet(spec, metadata, instructions, lambda: counted(_own_episodes(path, demos, spec), count, path))
        reader = _ForeignReader(path, group, demos, foreign, time)
        _compare_masks(file, demos, path, reader.notes)
        instructions = [_instruction(group[demo], path) or foreign.task for demo in demos]
    metadata = {"imported": {"format": "robomimic", "environment": reader.environment}}
    return DataSet(reader.spec, metadata, instructions, reader.episodes, reader.notes)


def _observation(demo: Any, name: str, path: Path) -> tuple[Array, Array | None]:
    """Return the rows (L + 1, ...) of an observation, or (L, ...) if the final observation was not recorded.

    Also return those of ``next_obs`` (L, ...), if there are any.
    """
    rows = read_array(demo, f"obs/{name}", path)
    if f"next_obs/{name}" not in demo:
        return rows, None
    following = read_array(demo, f"next_obs/{name}", path)
    if following.shape[1:] != rows.shape[1:]:
        raise DataError(
            f"{path}: {demo.name}/obs/{name} has rows of shape {rows.shape[1:]}, but next_obs/{name} has "
            f"{following.shape[1:]}"
        )
    return np.concatenate([rows, following[-1:]]), following


def _own_episodes(path: Path, demos: list[str], spec: EnvSpec) -> Iterator[EpisodeArrays]:
    with open_hdf5(path, "data") as file:
        for name in demos:
            demo = file["data"][name]
            record = read_record(read_array(demo, f"{OURS}/record", path).item(), path)
            columns = {field: read_array(demo, f"{OURS}/{field}", path) for field in demo[OURS] if field != "record"}
            if not spec.reward_terms:
                columns["rewards"] = np.zeros((record.steps, 0), np.float32)
            observation = {key: _observation(demo, name_of(key), path)[0] for key in spec.observation}
            yield make_episode(record, spec, observation, columns, path)


# --- data that others wrote ------------------------------------------------------------------------------------------


class _ForeignReader:
    """Reads a file that robo-rl did not write.

    Args:
        path: path of the file.
        group: group ``data`` of the file.
        demos: names of the episodes.
        config: properties that the file does not state.
        time: name of the time of a step within an episode; None: none.

    Attributes:
        spec: spec of the imported data.
        environment: description of the environment in the file.
        notes: notes on omissions and changes.

    Raises:
        DataError: if arrays are missing, or their lengths differ from each other or from the stated ones.
    """

    def __init__(self, path: Path, group: Any, demos: list[str], config: ForeignConfig, time: str | None) -> None:
        self._path, self._demos, self._config, self._time = path, demos, config, time
        self.notes = ImportNotes()
        self.environment, rate = _environment(group, path)
        self._layouts: dict[str, ImageLayout] = {}
        self._keys: dict[str, str] = {}
        """Names of the observations that are read, by key."""
        first = group[demos[0]]
        if not hasattr(first, "keys") or not hasattr(first.get("obs"), "keys") or "actions" not in first:
            raise DataError(
                f"{path}: {demos[0]} has no 'obs' or no 'actions'; extract observations with robomimic's scripts"
            )
        self._check_lengths(group)
        self._check_times(first)
        if unknown := sorted(name for name in first if name not in ("actions", "obs", "next_obs", *_OF_STEPS, time)):
            self.notes.add("Members of episodes left out", *unknown)
        if rate and config.control_rate not in (None, rate):
            self.notes.add(f"Control rate of {config.control_rate:g} Hz as configured; the file states {rate:g} Hz")
        config.check_keys({_key(name, find_array(first, f"obs/{name}", path)) for name in _arrays(first)})
        observation = {}
        for name in first["obs"]:
            if (array := self._observe(first, name)) is not None:
                observation[next(key for key, stored_name in self._keys.items() if stored_name == name)] = array
        if not observation:
            raise DataError(f"{path}: {demos[0]}/obs has no supported observation; {'; '.join(self.notes.lines())}")
        shape = find_array(first, "actions", path).shape[1:] or (1,)
        if len(shape) != 1:
            raise DataError(
                f"{path}: expected actions that are vectors of numbers, but {demos[0]} has rows of shape {shape}"
            )
        self.spec = foreign_spec(config, observation, ArraySpec(shape), rate, "rewards" in first)

    def _observe(self, demo: Any, name: str) -> ArraySpec | None:
        """Return the spec of an observation, or None if it is left out, with a note."""
        if not _is_array(demo["obs"], name):
            self.notes.add("Observations left out", f"{name}: no array")
            return None
        rows = find_array(demo, f"obs/{name}", self._path)
        key, shape = _key(name, rows), rows.shape[1:]
        if key in self._config.leave_out:
            self.notes.add("Observations left out", f"{key}: foreign.leave_out")
            return None
        if key.startswith(IMAGES):
            camera, where = key.removeprefix(IMAGES), f"{self._path}: {demo.name}/obs/{name}"
            images = foreign_images(self._config, camera, shape, rows.dtype, self.notes, where)
            if images is None:
                return None
            self._layouts[key] = images
            array = ArraySpec(images.shape, "uint8")
        elif rows.dtype.kind in _NUMBERS:
            array = ArraySpec(shape or (1,))
        else:
            self.notes.add("Observations left out", f"{name}: {rows.dtype}, which is not numeric")
            return None
        if (first_name := self._keys.setdefault(key, name)) != name:
            raise DataError(
                f"{self._path}: {first_name!r} and {name!r} would both be named {key!r}; rename one of them"
            )
        return array

    def _check_lengths(self, group: Any) -> None:
        """Compare the numbers of rows with each other and with those that the file states."""
        steps, expected = 0, _arrays_of_steps(group[self._demos[0]])
        for name in self._demos:
            demo = group[name]
            arrays = _arrays_of_steps(demo) if hasattr(demo, "keys") else []
            if differing := sorted({*arrays} ^ {*expected}):
                has, lacks = (name, self._demos[0]) if differing[0] in arrays else (self._demos[0], name)
                raise DataError(f"{self._path}: {has} has {differing[0]!r}, but {lacks} does not")
            count = len(find_array(demo, "actions", self._path))
            for array in arrays:
                rows = find_array(demo, array, self._path)
                final = array.startswith("obs/") and f"next_{array}" not in demo  # the last row may be the final one
                if rows.ndim == 0 or len(rows) not in (count, count + final):
                    length = len(rows) if rows.ndim else "a single value in place of"
                    raise DataError(
                        f"{self._path}: {demo.name}/{array} has {length} rows, but there are {count} actions"
                    )
            self._compare(demo, "num_samples", count)
            steps += count
        self._compare(group, "total", steps)
        if unknown := sorted(name for name in group if name not in self._demos):
            self.notes.add("Members of 'data' that are not episodes (demo_N), left out", *unknown)

    def _check_times(self, demo: Any) -> None:
        """Check that the time of a step exists; add a note about times that are not used."""
        names = [*_arrays(demo, ""), *(f"obs/{name}" for name in _arrays(demo))]
        if self._time is not None and self._time not in names:
            raise ConfigError(f"format.time names {self._time!r}, which no step has; {nearest(self._time, names)}")
        if self._time is None and (times := [name for name in names if _TIME_NAME.search(name.lower())]):
            self.notes.add("Times that are not compared with the control rate (format.time)", *times)

    def _compare(self, group: Any, attribute: str, count: int) -> None:
        stated = group.attrs.get(attribute)
        if stated is not None and not (np.size(stated) == 1 and str(np.ravel(stated)[0]) in (str(count), f"{count}.0")):
            raise DataError(
                f"{self._path}: {group.name} has {count} actions, but its attribute {attribute!r} states {stated}: a "
                "part is missing, or the attribute is wrong; copy the file again, or correct it"
            )

    def episodes(self) -> Iterator[EpisodeArrays]:
        """Yield the episodes, in order."""
        with open_hdf5(self._path, "data") as file:
            for number, name in enumerate(self._demos):
                demo = file["data"][name]
                actions = self._numbers(demo, "actions")
                if not len(actions):
                    self.notes.add("Episodes without an action between two observations, left out", str(number))
                    continue
                apart: set[int] = set()
                episode = ForeignEpisode(
                    number,
                    f"{self._path}: {name}",
                    {key: self._rows(demo, key, apart) for key in self.spec.observation},
                    actions if actions.ndim > 1 else actions[:, None],
                    rewards=self._of_steps(demo, "rewards") if self.spec.reward_terms else None,
                    done=self._of_steps(demo, "dones"),
                    stamp_ns=self._stamps(demo, len(actions)),
                    names={key: f"obs/{stored_name}" for key, stored_name in self._keys.items()},
                    apart=sorted(apart),
                )
                yield from foreign_episodes(self._config, self.spec, episode, self.notes)

    def _rows(self, demo: Any, key: str, apart: set[int]) -> Array:
        """Return the rows of an observation in the form of the spec.

        Args:
            demo: group of the episode.
            key: key of the observation.
            apart: receives the steps whose ``next_obs`` is not the observation of the next step. Images are not
                compared.
        """
        name, array, images = f"obs/{self._keys[key]}", self.spec.observation[key], self._layouts.get(key)
        rows, following = _observation(demo, self._keys[key], self._path)
        if following is not None and images is None and rows.dtype.kind in _NUMBERS:
            where = f"{self._path}: {demo.name}/next_{name}"
            apart.update(_steps_apart(following[:-1], rows[1:-1], self._keys[key], where))
        shape, kind = (array.shape, "number") if images is None else (images.stored, str(images.dtype))
        rows = rows[:, None] if rows.ndim == 1 and shape == (1,) else rows
        row_kind = str(rows.dtype) if images is not None or rows.dtype.kind not in _NUMBERS else kind
        if (rows.shape[1:], row_kind) != (shape, kind):
            raise DataError(
                f"{self._path}: {demo.name}/{name} has rows of shape {rows.shape[1:]} ({rows.dtype}), but those of "
                f"{self._demos[0]} have shape {shape} ({kind})"
            )
        return as_float32(rows, name, self.notes) if images is None else images.convert(rows)

    def _stamps(self, demo: Any, count: int) -> Array | None:
        """Return the times [ns] of the observations (L,) or (L + 1,), if they are known."""
        if self._time is None:
            return None
        where, rows = f"{self._path}: {demo.name}/{self._time}", read_array(demo, self._time, self._path)
        if rows.ndim == 0 or len(rows) not in (count, count + 1):
            raise DataError(f"{where} has {rows.size} times, but there are {count} actions")
        return as_stamps(rows[:, 0] if rows.shape[1:] == (1,) else rows, self.spec.control_rate, where)

    def _numbers(self, demo: Any, name: str) -> Array:
        rows = read_array(demo, name, self._path)
        if rows.dtype.kind not in _NUMBERS:
            raise DataError(f"{self._path}: expected numbers in {demo.name}/{name}, found {rows.dtype}")
        return rows

    def _of_steps(self, demo: Any, name: str) -> Array | None:
        """Return the values (L,) of a step array; the fill value if they were allocated but never written."""
        if name not in demo:
            return None
        rows = find_array(demo, name, self._path)
        if rows.shape not in ((len(rows),), (len(rows), 1)) or rows.dtype.kind not in _NUMBERS:
            raise DataError(
                f"{self._path}: expected one number per step in {demo.name}/{name}, found {rows.dtype} {rows.shape}"
            )
        if len(rows) and not rows.id.get_storage_size():  # the length was checked, so the array cannot be huge
            value = float(rows.fillvalue)
            self.notes.add(f"{name.capitalize()} that were never written, read as {value:g}", f"{demo.name}/{name}")
            return np.full(len(rows), value, np.float32)
        return read_array(demo, name, self._path).reshape(len(rows))


def _compare_masks(file: Any, demos: list[str], path: Path, notes: ImportNotes) -> None:
    """Add a note about the episodes that the lists in ``mask`` (of training, validation, ...) name but do not exist."""
    masks = file.get("mask")
    for name in _arrays(file, "mask"):
        rows = read_array(masks, name, path)
        listed = {text.decode(errors="replace") for text in rows.ravel().tolist() if isinstance(text, bytes)}
        if absent := listed.difference(demos):
            notes.add("Episodes that a list of the file names, but that it does not have", *sorted(absent))


def _arrays(demo: Any, part: str = "obs") -> list[str]:
    """Return the names of the arrays in a group of observations, or of an episode itself."""
    members = demo.get(part) if part else demo
    return [name for name in members if _is_array(members, name)] if hasattr(members, "keys") else []


def _steps_apart(following: Array, rows: Array, name: str, where: str) -> list[int]:
    """Return the steps whose ``next_obs`` is not the observation of the next step.

    Args:
        following: (L - 1, ...) ``next_obs`` of all steps but the last.
        rows: (L - 1, ...) observations of their next steps.
        name: name of the observation in the file.
        where: file, episode and array, for error messages.

    Raises:
        DataError: if they are nearly all steps, which removed steps do not explain.
    """
    same = np.isclose(following, rows, rtol=_SAME, atol=_SAME, equal_nan=True)
    steps: list[int] = np.flatnonzero(~same.all(axis=tuple(range(1, same.ndim)))).tolist()
    if len(steps) >= max(_FEWEST_APART, _MOST_APART * len(same)):
        at = (steps[0], *np.argwhere(~same[steps[0]])[0])
        raise DataError(
            f"{where} differs from the observation of the next step at {len(steps)} of {len(same)} steps, at step "
            f"{steps[0]} by {float(following[at]) - float(rows[at]):.3g}: it was scaled in another way or recorded at "
            f"another time, or no two steps in a row were kept. Leave {name!r} out (foreign.leave_out), or delete "
            "next_obs from a copy of the file; the last action of each episode is then left out"
        )
    return steps


def _arrays_of_steps(demo: Any) -> list[str]:
    """Return the names of the arrays that have a row for each action."""
    observed = [f"{part}/{name}" for part in ("obs", "next_obs") for name in _arrays(demo, part)]
    return [*observed, *(name for name in _OF_STEPS if name in demo)]


def _is_array(group: Any, name: str) -> bool:
    """Return whether a member is an array, without its shape, for which HDF5 might open external files."""
    try:
        return group.get(name, getclass=True) is library("h5py").Dataset
    except (OSError, RuntimeError):  # a dangling or circular link
        return False


def _key(name: str, rows: Any) -> str:
    """Return the key of an observation.

    Rows of three axes are images; rows of two axes are if their name or their size and type indicate it. Bytes of one
    axis are if they are named so.
    """
    is_image = rows.ndim >= 4 or (rows.ndim == 2 and rows.dtype == np.uint8 and name.endswith((IMAGE, _DEPTH)))
    if rows.ndim == 3:
        is_pixels = rows.dtype in (np.uint8, np.uint16) and min(rows.shape[1:]) >= _SMALLEST
        is_image = name.endswith((IMAGE, _DEPTH)) or is_pixels
    return f"{IMAGES}{name.removesuffix(IMAGE)}" if is_image else name


def _environment(group: Any, path: Path) -> tuple[Mapping[str, Any], float | None]:
    """Return the description of the environment in the file, and the control rate [Hz] or None."""
    environment = _json(group, "env_args", path)
    environment = environment if isinstance(environment, dict) else {"env_args": environment}
    arguments = environment.get("env_kwargs")
    rate = arguments.get("control_freq") if isinstance(arguments, dict) else None
    if isinstance(rate, int | float) and not isinstance(rate, bool) and 0 < rate < math.inf:
        return environment, float(rate)
    return environment, None


def _instruction(demo: Any, path: Path) -> str:
    """Return the instruction from ``lang``, or from ``ep_meta`` if robosuite recorded it; empty if there is none."""
    metadata = _json(demo, "ep_meta", path)
    if not isinstance(metadata, dict | None):
        raise DataError(f"{path}: {demo.name}/ep_meta: expected an object, found {str(metadata)[:40]!r}")
    words = np.ravel(demo.attrs.get("lang", [])).tolist() or [(metadata or {}).get("lang") or ""]
    text = "; ".join(word.decode(errors="replace") if isinstance(word, bytes) else str(word) for word in words)
    return check_text(text, f"{path}: {demo.name}/lang")


def _json(group: Any, attribute: str, path: Path) -> Any:
    """Return the value of an attribute that is a JSON text, or an empty object if it does not exist."""
    text, where = group.attrs.get(attribute, "{}"), f"{path}: {group.name}/{attribute}"
    if not isinstance(text, str | bytes):
        raise DataError(f"{where}: expected JSON text, found {type(text).__name__}")
    return read_foreign_json(text, where)
