"""Format RLDS, as TensorFlow Datasets stores it; TensorFlow is not needed."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import EnvSpec, Options, option

from ..layout import EpisodeArrays
from . import rlds_layout as layout
from .data import DataSet, check_names, facts_json, record_json, step_columns
from .foreign import ForeignConfig
from .lerobot_export import as_lists
from .lerobot_layout import SUCCESS_TERM
from .rlds_import import read_rlds
from .rlds_layout import STEPS
from .statistics import FeatureStatistics
from .tfrecord import append_record, encode_example

Array = NDArray[Any]

LAST_STEPS = "observation", "action"


@dataclass(frozen=True)
class Rlds(Options, section="format"):
    """Folder of TFRecord files; see docs/reference/interchange.md.

    Attributes:
        action: action that becomes ``action``: the ``proposed`` one, to be imitated, or the ``executed`` one.
        shard_megabytes: size at which export begins the next file.
        split: split to import.
        last_step: meaning of the last step of an imported episode: only the final ``observation``, as RLDS defines it,
            or a step with an ``action``, after which there is no observation, as in many data sets of Open
            X-Embodiment.
        time: name of the time of a step [s] in imported data, for example ``observation/timestamp``; an episode ends
            where it jumps. Null: the data has no times.
    """

    action: str = option("proposed", choices=("proposed", "executed"))
    shard_megabytes: float = option(128.0, above=0)
    split: str = "train"
    last_step: str = option("observation", choices=LAST_STEPS)
    time: str | None = None

    # --- export ------------------------------------------------------------------------------------------------------

    def export(self, data: DataSet, path: Path) -> None:
        """Write ``data`` to the folder ``path``; see :class:`DataFormat`."""
        check_names(data.spec, layout.observation_name)
        path.mkdir(parents=True)
        features, statistics = layout.features_of(data.spec), FeatureStatistics()
        name = re.sub(r"\W+", "_", data.spec.task).lower()
        shards: list[tuple[int, int]] = []
        stream = None
        transitions = 0
        for number, episode in enumerate(data.episodes()):
            columns = self._columns(episode, data.spec, data.instructions[number])
            record = encode_example({name: feature.encode(columns[name]) for name, feature in features.items()})
            if stream is None or stream.tell() >= self.shard_megabytes * 1e6:
                if stream is not None:
                    stream.close()
                stream = (path / layout.shard_name(name, "train", f"{len(shards):05d}", "")).open("wb")
                shards.append((0, 0))
            append_record(stream, record)
            shards[-1] = shards[-1][0] + 1, stream.tell()
            transitions += episode.record.steps
            actions_and_rewards = {name: columns[f"{STEPS}/{name}"][:-1] for name in ("action", "reward")}
            observed = {layout.observation_name(key): rows[:-1] for key, rows in episode.observation.items()}
            statistics.add({**actions_and_rewards, **observed})
        if stream is not None:
            stream.close()
        for shard in range(len(shards)):
            unnumbered = path / layout.shard_name(name, "train", f"{shard:05d}", "")
            unnumbered.rename(path / layout.shard_name(name, "train", f"{shard:05d}", f"{len(shards):05d}"))
        counts = {"num_trajectories": len(data.instructions), "num_transitions": transitions}
        (path / layout.STATISTICS).write_text(json.dumps({**as_lists(statistics.result()), **counts}))
        (path / layout.FEATURES).write_text(layout.features_json(features))
        (path / layout.INFO).write_text(layout.info_json(name, f"Exported by robo-rl: {data.spec.task}", shards))
        (path / layout.FACTS).write_text(facts_json(data))

    def _columns(self, episode: EpisodeArrays, spec: EnvSpec, instruction: str) -> dict[str, Any]:
        """Return the values of an Example by flat name: L + 1 steps for L actions, the last one only an observation."""
        steps = step_columns(episode, spec)
        count = episode.record.steps + 1
        own_columns = {f"{layout.OURS}/{field.name}": _padded(steps[field.name]) for field in layout.own_fields(spec)}
        reward = episode.rewards.get(SUCCESS_TERM, np.zeros(count - 1, np.float32))
        columns = {
            "action": _padded(steps[f"{self.action}_action"]),
            "reward": _padded(reward),
            "discount": _padded((~episode.terminated).astype(np.float32)),
            "is_first": np.arange(count) == 0,
            "is_last": np.arange(count) == count - 1,
            "is_terminal": (np.arange(count) == count - 1) & episode.terminated[-1],
            layout.INSTRUCTION: [instruction] * count,
            **own_columns,
            **{layout.observation_name(key): rows for key, rows in episode.observation.items()},
        }
        whole: dict[str, Any] = {f"{STEPS}/{name}": rows for name, rows in columns.items()}
        return {**whole, layout.RECORD: [record_json(episode.record)]}

    # --- import ------------------------------------------------------------------------------------------------------

    def load(self, path: Path, foreign: ForeignConfig) -> DataSet:
        """Read the folder ``path``; see :class:`DataFormat`."""
        return read_rlds(path, foreign, self.split, self.last_step, self.time)


def _padded(rows: Array) -> Array:
    """Return ``rows`` followed by a row of zeros, for the last step, in which RLDS ignores the value."""
    return np.concatenate([rows, np.zeros_like(rows[:1])])
