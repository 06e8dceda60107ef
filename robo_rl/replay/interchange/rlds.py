"""RLDS data sets as TensorFlow Datasets stores them, written and read without TensorFlow."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, DataError, EnvSpec, require

from ..layout import EpisodeArrays
from . import rlds_layout as layout
from .data import (
    DataSet,
    ForeignConfig,
    check_names,
    counted,
    facts_json,
    foreign_episode,
    foreign_spec,
    make_episode,
    read_facts,
    read_record,
    record_json,
    step_columns,
)
from .lerobot_export import as_lists
from .lerobot_layout import SUCCESS_TERM
from .rlds_layout import STEPS, Feature
from .statistics import FeatureStatistics
from .tfrecord import Values, append_record, decode_example, encode_example, read_records

Array = NDArray[Any]

LAST_STEPS = "observation", "action"


@dataclass(frozen=True)
class Rlds:
    """A folder of TFRecord files; see docs/interchange.md.

    Attributes:
        action: which action is ``action``: what was ``proposed``, to be imitated, or what was ``executed``.
        shard_megabytes: size at which export begins another file.
        split: which one is imported.
        last_step: what the last step of an imported episode is: the final ``observation`` alone, as RLDS has it, or one
            with an ``action`` of its own, after which nothing was observed, as many data sets of Open X-Embodiment do.
    """

    action: str = "proposed"
    shard_megabytes: float = 128.0
    split: str = "train"
    last_step: str = "observation"

    def __post_init__(self) -> None:
        require(self.action in ("proposed", "executed"), "format.action", "proposed or executed", self.action)
        require(self.shard_megabytes > 0, "format.shard_megabytes", "above 0", self.shard_megabytes)
        require(self.last_step in LAST_STEPS, "format.last_step", " or ".join(LAST_STEPS), self.last_step)

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
            kept = {name: columns[f"{STEPS}/{name}"][:-1] for name in ("action", "reward")}
            observed = {layout.observation_name(key): rows[:-1] for key, rows in episode.observation.items()}
            statistics.add({**kept, **observed})
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
        """Return what an Example holds, by flat name: of L actions L + 1 steps, the last of them an observation."""
        steps = step_columns(episode, spec)
        count = episode.record.steps + 1
        ours = {f"{layout.OURS}/{field.name}": _padded(steps[field.name]) for field in layout.own_fields(spec)}
        reward = episode.rewards.get(SUCCESS_TERM, np.zeros(count - 1, np.float32))
        columns = {
            "action": _padded(steps[f"{self.action}_action"]),
            "reward": _padded(reward),
            "discount": _padded((~episode.terminated).astype(np.float32)),
            "is_first": np.arange(count) == 0,
            "is_last": np.arange(count) == count - 1,
            "is_terminal": (np.arange(count) == count - 1) & episode.terminated[-1],
            layout.INSTRUCTION: [instruction] * count,
            **ours,
            **{layout.observation_name(key): rows for key, rows in episode.observation.items()},
        }
        whole: dict[str, Any] = {f"{STEPS}/{name}": rows for name, rows in columns.items()}
        return {**whole, layout.RECORD: [record_json(episode.record)]}

    # --- import ------------------------------------------------------------------------------------------------------

    def load(self, path: Path, foreign: ForeignConfig) -> DataSet:
        """Read the folder ``path``; see :class:`DataFormat`."""
        if not (path / layout.FEATURES).is_file():
            raise DataError(
                f"{path} is no RLDS data set of TensorFlow Datasets: it has no {layout.FEATURES}; give the folder of a "
                "version, such as NAME/1.0.0"
            )
        features = layout.read_features((path / layout.FEATURES).read_bytes(), path / layout.FEATURES)
        shards = sorted(path.glob(layout.shard_name("*", self.split, "*", "*")))
        if not shards:
            raise DataError(f"{path} has no TFRecord files of split {self.split!r}; is it of another one, or format?")
        counts = {shard.name.rpartition("-of-")[2] for shard in shards}
        if counts != {f"{len(shards):05d}"}:
            told = " or ".join(sorted(counts))
            raise DataError(
                f"{path}: by their names there are {told} TFRecord files of split {self.split!r}, found {len(shards)}; "
                "copy the data again"
            )
        if (facts := path / layout.FACTS).is_file():
            spec, metadata, instructions = read_facts(facts.read_bytes(), facts)
            count = len(instructions)
            return DataSet(
                spec, metadata, instructions, lambda: counted(_own_episodes(shards, features, spec), count, path)
            )
        return self._foreign(shards, features, foreign)

    def _foreign(self, shards: list[Path], features: Mapping[str, Feature], foreign: ForeignConfig) -> DataSet:
        keys = {name: key for name, each in features.items() if (key := layout.observation_key(name, each)) is not None}
        action = features.get(f"{STEPS}/action")
        where = shards[0].parent
        if not keys or action is None or action.kind != "tensor" or len(action.shape) != 1:
            raise DataError(
                f"{where}: expected observations and actions of one row of numbers, found {', '.join(features)}"
            )
        instructions, first = [], None
        told = next(
            (name for name, each in features.items() if each.kind == "text" and name.endswith("instruction")), ""
        )
        for _, example in _examples(shards):
            first = example if first is None else first
            texts = example.get(told, [])
            instructions.append(texts[0].decode() if isinstance(texts, list) and texts else foreign.task)
        if first is None:
            raise DataError(f"{where}: there is no episode in it")
        observation = {}
        for name, key in keys.items():
            rows = _decoded(first, name, features, shards[0])
            dtype = "uint8" if features[name].kind == "image" else "float32"
            observation[key] = ArraySpec(rows.shape[1:] or (1,), dtype)
        rewarded = f"{STEPS}/reward" in features
        spec = foreign_spec(foreign, observation, ArraySpec(_whole(action.shape)), None, rewarded)
        left_out = [name for name in features if name.startswith(f"{STEPS}/observation") and name not in keys]
        metadata = {"imported": {"format": "rlds", "left_out": left_out}}
        return DataSet(
            spec, metadata, instructions, lambda: self._foreign_episodes(shards, features, keys, spec, foreign)
        )

    def _foreign_episodes(
        self,
        shards: list[Path],
        features: Mapping[str, Feature],
        keys: Mapping[str, str],
        spec: EnvSpec,
        foreign: ForeignConfig,
    ) -> Iterator[EpisodeArrays]:
        # As RLDS has it, action and reward of the last step mean nothing.
        acting = slice(None) if self.last_step == "action" else slice(-1)
        for number, (file, example) in enumerate(_examples(shards)):

            def rows_of(name: str, file: Path = file, example: Mapping[str, Values] = example) -> Array:
                return _decoded(example, name, features, file)

            observation = {
                key: rows_of(name).reshape(-1, *spec.observation[key].shape).astype(spec.observation[key].dtype)
                for name, key in keys.items()
            }
            terminal = f"{STEPS}/is_terminal"
            yield foreign_episode(
                foreign,
                spec,
                number,
                observation,
                rows_of(f"{STEPS}/action")[acting],
                file,
                rewards=rows_of(f"{STEPS}/reward")[acting].astype(np.float32) if spec.reward_terms else None,
                terminated=terminal in features and bool(rows_of(terminal)[-1]),
            )


def _padded(rows: Array) -> Array:
    """Return ``rows`` with a row of zeros behind: what RLDS calls invalid."""
    return np.concatenate([rows, np.zeros_like(rows[:1])])


def _whole(shape: tuple[int | None, ...]) -> tuple[int, ...]:
    return tuple(side for side in shape if side is not None)


def _examples(shards: list[Path]) -> Iterator[tuple[Path, dict[str, Values]]]:
    for file in shards:
        for record in read_records(file):
            yield file, decode_example(record, file)


def _decoded(example: Mapping[str, Values], name: str, features: Mapping[str, Feature], file: Path) -> Array:
    """Return the values of a feature (n, ...)."""
    if name not in example or name not in features:
        raise DataError(f"{file}: an episode has no {name!r}; the data is damaged")
    return features[name].decode(example[name], file)


def _own_episodes(shards: list[Path], features: Mapping[str, Feature], spec: EnvSpec) -> Iterator[EpisodeArrays]:
    for file, example in _examples(shards):
        records = example.get(layout.RECORD)
        if not isinstance(records, list) or len(records) != 1:
            raise DataError(f"{file}: an episode has no {layout.RECORD!r}; export the data again")
        record = read_record(records[0], file)
        columns = {
            field.name: _decoded(example, f"{STEPS}/{layout.OURS}/{field.name}", features, file)[:-1]
            for field in layout.own_fields(spec)
        }
        if not spec.reward_terms:
            columns["rewards"] = np.zeros((record.steps, 0), np.float32)
        observation = {
            key: _decoded(example, f"{STEPS}/{layout.observation_name(key)}", features, file)
            for key in spec.observation
        }
        yield make_episode(record, spec, observation, columns, file)
