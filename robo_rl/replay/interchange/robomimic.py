"""HDF5 files of robomimic: https://robomimic.github.io/docs/datasets/overview.html."""

import errno
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, DataError, EnvSpec, require

from ..layout import EpisodeArrays
from .data import (
    IMAGES,
    DataSet,
    check_names,
    counted,
    facts_json,
    library,
    make_episode,
    read_facts,
    read_record,
    record_json,
    step_columns,
)
from .foreign import ForeignConfig, foreign_spec
from .foreign_episodes import ForeignEpisode, foreign_episodes
from .lerobot_layout import SUCCESS_TERM
from .notes import ImportNotes

Array = NDArray[Any]

_OURS = "robo_rl"
_IMAGE = "_image"
_PACKED = 2000
"""More than this to one no compression of HDF5 packs; gzip comes to 1032."""
_GYM_ENVIRONMENT = 2
"""``EnvType.GYM_TYPE`` of robomimic: of its kinds of environments the nearest."""


@dataclass(frozen=True)
class Robomimic:
    """One HDF5 file; only export looks at the options.

    Attributes:
        action: which action is ``actions``: what was ``proposed``, to be imitated, or what was ``executed``.
        compression: of arrays, gzip from 1 (fast) to 9 (small); 0: none.
    """

    action: str = "proposed"
    compression: int = 1

    def __post_init__(self) -> None:
        require(self.action in ("proposed", "executed"), "format.action", "proposed or executed", self.action)
        require(0 <= self.compression <= 9, "format.compression", "0 to 9", self.compression)

    def export(self, data: DataSet, path: Path) -> None:
        """Write ``data`` to the file ``path``; see :class:`DataFormat`."""
        spec, total = data.spec, 0
        check_names(spec, _name)
        compression = {"compression": "gzip", "compression_opts": self.compression} if self.compression else {}
        path.parent.mkdir(parents=True, exist_ok=True)
        with _PatientFile(path) as stream, library("h5py").File(stream, "w") as file:
            group = file.create_group("data")
            arguments = {"control_freq": spec.control_rate, "lang": next(iter(data.instructions), "")}
            environment = {"env_name": spec.task, "type": _GYM_ENVIRONMENT, "env_kwargs": arguments}
            group.attrs["env_args"] = json.dumps(environment)
            file.create_dataset(_OURS, data=facts_json(data))  # robomimic takes all in ``data`` for episodes
            for number, episode in enumerate(data.episodes()):
                demo = group.create_group(f"demo_{number}")
                demo.attrs["num_samples"] = episode.record.steps
                demo.attrs["lang"] = data.instructions[number]
                demo.attrs["ep_meta"] = json.dumps({"lang": data.instructions[number]})  # where robosuite has it
                demo.create_dataset(f"{_OURS}/record", data=record_json(episode.record))
                for name, rows in self._arrays(episode, spec).items():
                    demo.create_dataset(name, data=rows, **compression)
                total += episode.record.steps
                file.flush()
                stream.check()
            group.attrs["total"] = total

    def _arrays(self, episode: EpisodeArrays, spec: EnvSpec) -> dict[str, Array]:
        steps = step_columns(episode, spec)
        arrays = {
            "actions": steps[f"{self.action}_action"],
            "rewards": episode.rewards.get(SUCCESS_TERM, np.zeros(episode.record.steps, np.float32)),
            "dones": episode.terminated.astype(np.int64),
            **{f"{_OURS}/{name}": rows for name, rows in steps.items() if rows.size},
        }
        for key, rows in episode.observation.items():
            arrays |= {f"obs/{_name(key)}": rows[:-1], f"next_obs/{_name(key)}": rows[1:]}
        return arrays

    def load(self, path: Path, foreign: ForeignConfig) -> DataSet:
        """Read the file ``path``; see :class:`DataFormat`."""
        with _open(path) as file:
            group = file["data"]
            demos = sorted((name for name in group if re.fullmatch(r"demo_\d+", name)), key=lambda name: int(name[5:]))
            if not demos:
                raise DataError(f"{path}: there is no episode data/demo_0 in it")
            holder = file if _OURS in file else group  # in older files it lies in ``data``
            if _OURS in holder:
                spec, metadata, instructions = read_facts(_read(holder, _OURS, path).item(), path)
                episodes = partial(_own_episodes, path, demos, spec)
                return DataSet(spec, metadata, instructions, lambda: counted(episodes(), len(instructions), path))
            spec, environment = _foreign_spec(group, demos[0], foreign, path)
            instructions = [_instruction(group[demo], path) or foreign.task for demo in demos]
        metadata = {"imported": {"format": "robomimic", "environment": environment}}
        notes = ImportNotes()
        return DataSet(
            spec, metadata, instructions, lambda: _foreign_episodes(path, demos, spec, foreign, notes), notes
        )


class _PatientFile(io.FileIO):
    """A file to write that takes what a full disk does not: HDF5 crashes the process where its file refuses to grow.

    What was refused is gone: :meth:`check` tells, and so does the end of a ``with``, whatever HDF5 made of it.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w+")
        self._refusal: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of ``data``, or note that it could not be."""
        size = memoryview(data).nbytes
        try:
            if self._refusal is None and super().write(data) < size:
                self._refusal = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._refusal = error
        return size

    def truncate(self, size: int | None = None) -> int:
        """Set the size, or note that it could not be."""
        try:
            return super().truncate(size)
        except OSError as error:
            self._refusal = self._refusal or error
            return size or 0

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.check()

    def check(self) -> None:
        """Raise the error of the first write that was refused."""
        if self._refusal is not None:
            raise self._refusal


def _name(key: str) -> str:
    """Return what robomimic would call an observation: no slashes, and images by their ending."""
    return f"{key.removeprefix(IMAGES).replace('/', '_')}{_IMAGE if key.startswith(IMAGES) else ''}"


def _open(path: Path) -> Any:
    h5py = library("h5py")
    if not path.is_file():
        raise DataError(f"{path} is no file; give the HDF5 file of robomimic")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise DataError(f"{path} is no HDF5 file, or damaged ({error})") from error
    if "data" not in file:
        file.close()
        raise DataError(f"{path} is no robomimic file: it has no group 'data'")
    return file


def _read(demo: Any, name: str, path: Path) -> Array:
    """Return an array that lies in the file itself.

    Raises:
        DataError: if it is missing or damaged, lies in another file, which is whatever the author of this one named, or
            says that it is larger than what there is.
    """
    try:
        rows = demo[name]
        if rows.file.filename != str(path) or rows.external or rows.is_virtual:
            raise DataError(f"{path}: {demo.name}/{name} lies in another file; copy it into this one (h5repack)")
        size, stored = rows.size * rows.dtype.itemsize, rows.id.get_storage_size()
        if size > _PACKED * stored:
            raise DataError(f"{path}: {demo.name}/{name} says it has {size} bytes, stored are {stored}; it is damaged")
        return np.asarray(rows[()])
    except (KeyError, OSError) as error:
        raise DataError(f"{path}: {demo.name}/{name} is missing or damaged ({error})") from error


def _own_episodes(path: Path, demos: list[str], spec: EnvSpec) -> Iterator[EpisodeArrays]:
    with _open(path) as file:
        for name in demos:
            demo = file["data"][name]
            record = read_record(_read(demo, f"{_OURS}/record", path).item(), path)
            columns = {field: _read(demo, f"{_OURS}/{field}", path) for field in demo[_OURS] if field != "record"}
            if not spec.reward_terms:
                columns["rewards"] = np.zeros((record.steps, 0), np.float32)
            observation = {key: _observation(demo, _name(key), path) for key in spec.observation}
            yield make_episode(record, spec, observation, columns, path)


def _observation(demo: Any, name: str, path: Path) -> Array:
    """Return (L + 1, ...) rows of an observation; (L, ...) where the final one was not recorded."""
    rows = _read(demo, f"obs/{name}", path)
    if f"next_obs/{name}" not in demo:
        return rows
    return np.concatenate([rows, _read(demo, f"next_obs/{name}", path)[-1:]])


def _instruction(demo: Any, path: Path) -> str:
    """Return what the robot was told: in ``ep_meta`` where robosuite recorded it; empty where nothing says."""
    try:
        told = json.loads(demo.attrs.get("ep_meta", "{}")).get("lang")
    except (ValueError, AttributeError) as error:
        raise DataError(f"{path}: {demo.name}/ep_meta is damaged ({error})") from error
    return str(demo.attrs.get("lang") or told or "")


def _foreign_spec(group: Any, first: str, config: ForeignConfig, path: Path) -> tuple[EnvSpec, Mapping[str, Any]]:
    demo = group[first]
    try:
        environment = json.loads(group.attrs.get("env_args", "{}"))
    except ValueError as error:
        raise DataError(f"{path}: data/env_args is damaged ({error})") from error
    if "obs" not in demo or "actions" not in demo:
        raise DataError(f"{path}: {first} has no 'obs' or no 'actions'; extract observations with robomimic's scripts")
    observation = {}
    for name, rows in demo["obs"].items():
        picture = rows.dtype == np.uint8 and rows.ndim == 4
        observation[_key(name, picture)] = ArraySpec(rows.shape[1:], "uint8" if picture else "float32")
    rate = environment.get("env_kwargs", {}).get("control_freq")
    rewarded = "rewards" in demo
    spec = foreign_spec(config, observation, ArraySpec(demo["actions"].shape[1:]), rate, rewarded)
    return spec, environment


def _key(name: str, picture: bool) -> str:
    return f"{IMAGES}{name.removesuffix(_IMAGE)}" if picture else name


def _foreign_episodes(
    path: Path, demos: list[str], spec: EnvSpec, config: ForeignConfig, notes: ImportNotes
) -> Iterator[EpisodeArrays]:
    with _open(path) as file:
        for number, name in enumerate(demos):
            demo = file["data"][name]
            names = {_key(each, spec.observation.get(_key(each, True)) is not None): each for each in demo["obs"]}
            if names.keys() != spec.observation.keys():
                raise DataError(f"{path}: {name} has observations {sorted(names)}, expected {sorted(spec.observation)}")
            observation = {
                key: _observation(demo, each, path).astype(spec.observation[key].dtype) for key, each in names.items()
            }
            done = "dones" in demo and bool(_read(demo, "dones", path)[-1])
            rewards = _read(demo, "rewards", path) if spec.reward_terms else None
            actions = _read(demo, "actions", path)
            episode = ForeignEpisode(number, path, observation, actions, rewards=rewards, terminated=done)
            yield from foreign_episodes(config, spec, episode, notes)
