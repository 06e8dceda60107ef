"""Format robomimic, HDF5 files: https://robomimic.github.io/docs/datasets/overview.html."""

import errno
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import EnvSpec, Options, option

from ..layout import EpisodeArrays
from .data import DataSet, check_names, facts_json, library, record_json, step_columns
from .foreign import ForeignConfig
from .lerobot_layout import SUCCESS_TERM
from .robomimic_import import OURS, name_of, read_robomimic

Array = NDArray[Any]

_GYM_ENVIRONMENT = 2
"""``EnvType.GYM_TYPE`` of robomimic, the most similar of its environment types."""


@dataclass(frozen=True)
class Robomimic(Options, section="format"):
    """One HDF5 file. All options but ``time`` are only for export.

    Attributes:
        action: action that becomes ``actions``: the ``proposed`` one, to be imitated, or the ``executed`` one.
        compression: level of gzip for arrays, from 1 (fast) to 9 (small); 0: no compression.
        time: name of the time of a step [s] in the episodes of imported data, for example ``obs/timestamp``; an episode
            ends where it jumps. Null: the data has no times.
    """

    action: str = option("proposed", choices=("proposed", "executed"))
    compression: int = option(1, low=0, high=9)
    time: str | None = None

    def export(self, data: DataSet, path: Path) -> None:
        """Write ``data`` to the file ``path``; see :class:`DataFormat`."""
        spec, total = data.spec, 0
        check_names(spec, name_of)
        compression = {"compression": "gzip", "compression_opts": self.compression} if self.compression else {}
        path.parent.mkdir(parents=True, exist_ok=True)
        with _PatientFile(path) as stream, library("h5py").File(stream, "w") as file:
            group = file.create_group("data")
            arguments = {"control_freq": spec.control_rate, "lang": next(iter(data.instructions), "")}
            environment = {"env_name": spec.task, "type": _GYM_ENVIRONMENT, "env_kwargs": arguments}
            group.attrs["env_args"] = json.dumps(environment)
            file.create_dataset(OURS, data=facts_json(data))  # outside ``data``, whose members are episodes
            for number, episode in enumerate(data.episodes()):
                demo = group.create_group(f"demo_{number}")
                demo.attrs["num_samples"] = episode.record.steps
                demo.attrs["lang"] = data.instructions[number]
                demo.attrs["ep_meta"] = json.dumps({"lang": data.instructions[number]})  # the format of robosuite
                demo.create_dataset(f"{OURS}/record", data=record_json(episode.record))
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
            **{f"{OURS}/{name}": rows for name, rows in steps.items() if rows.size},
        }
        for key, rows in episode.observation.items():
            arrays |= {f"obs/{name_of(key)}": rows[:-1], f"next_obs/{name_of(key)}": rows[1:]}
        return arrays

    def load(self, path: Path, foreign: ForeignConfig) -> DataSet:
        """Read the file ``path``; see :class:`DataFormat`."""
        return read_robomimic(path, foreign, self.time)


class _PatientFile(io.FileIO):
    """File for writing that accepts data even if the disk is full, because HDF5 would crash the process on an error.

    Data that could not be written is lost. :meth:`check` raises the error, and so does the end of a ``with`` block.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w+")
        self._refusal: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of ``data``, or store the error."""
        size = memoryview(data).nbytes
        try:
            if self._refusal is None and super().write(data) < size:
                self._refusal = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._refusal = error
        return size

    def truncate(self, size: int | None = None) -> int:
        """Set the size, or store the error."""
        try:
            return super().truncate(size)
        except OSError as error:
            self._refusal = self._refusal or error
            return size or 0

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.check()

    def check(self) -> None:
        """Raise the error of a failed write, if there was one."""
        if self._refusal is not None:
            raise self._refusal
