"""Readers of an RLDS data set of TensorFlow Datasets."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, ConfigError, DataError, EnvSpec, ImageLayout, nearest

from ..layout import EpisodeArrays
from . import rlds_layout as layout
from .data import IMAGES, DataSet, counted, data_files, make_episode, read_facts, read_record, read_small
from .foreign import ForeignConfig, as_float32, foreign_images, foreign_spec
from .foreign_episodes import ForeignEpisode, as_stamps, foreign_episodes
from .foreign_json import read_foreign_json
from .notes import ImportNotes
from .rlds_layout import STEPS, Feature
from .tfrecord import Values, decode_example, read_records

Array = NDArray[Any]


def read_rlds(path: Path, foreign: ForeignConfig, split: str, last_step: str, time: str | None) -> DataSet:
    """Return the data set in the folder ``path``.

    Args:
        path: folder.
        foreign: options for data that robo-rl did not write.
        split: split to read.
        last_step: meaning of the last step of such data, ``observation`` or ``action``; see :class:`Rlds`.
        time: name of the time in a step of such data; see :class:`Rlds`.

    Raises:
        DataError: if the data set is missing, damaged or incomplete.
    """
    if not (path / layout.FEATURES).is_file():
        raise DataError(
            f"{path} is not an RLDS data set of TensorFlow Datasets: it has no {layout.FEATURES}; expected the folder "
            "of a version, such as NAME/1.0.0"
        )
    features = layout.read_features(read_small(path / layout.FEATURES), path / layout.FEATURES)
    shards = data_files(path, layout.shard_name("*", split, "*", "*"))
    if not shards:
        raise DataError(
            f"{path} has no TFRecord files of split {split!r}; check its file names for another split or format"
        )
    counts = {shard.name.rpartition("-of-")[2] for shard in shards}
    if counts != {f"{len(shards):05d}"}:
        stated = " or ".join(sorted(counts))
        raise DataError(
            f"{path}: the file names state {stated} TFRecord files of split {split!r}, found {len(shards)}; copy the "
            "data again"
        )
    if (facts := path / layout.FACTS).is_file():
        spec, metadata, instructions = read_facts(read_small(facts), facts)
        count = len(instructions)
        return DataSet(
            spec, metadata, instructions, lambda: counted(_own_episodes(shards, features, spec), count, path)
        )
    return ForeignReader(shards, features, foreign, last_step, time).data_set(_declared_episodes(path, split))


def _declared_episodes(path: Path, split: str) -> int | None:
    """Return the number of episodes that the data set declares, or None if it does not."""
    if not (path / layout.INFO).is_file():
        return None
    info = read_foreign_json(read_small(path / layout.INFO), path / layout.INFO)
    try:
        splits = info.get("splits", [])
        return next((sum(map(int, entry["shardLengths"])) for entry in splits if entry["name"] == split), None)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path / layout.INFO} is damaged ({type(error).__name__}: {error})") from error


# --- data that robo-rl wrote -----------------------------------------------------------------------------------------


def _own_episodes(shards: list[Path], features: Mapping[str, Feature], spec: EnvSpec) -> Iterator[EpisodeArrays]:
    for file, example in _examples(shards, None):
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


def _examples(shards: list[Path], names: Container[str] | None) -> Iterator[tuple[Path, dict[str, Values]]]:
    for file in shards:
        for record in read_records(file):
            yield file, decode_example(record, file, names)


def _decoded(example: Mapping[str, Values], name: str, features: Mapping[str, Feature], where: object) -> Array:
    """Return the values of a feature (n, ...)."""
    if name not in example or name not in features:
        raise DataError(f"{where}: an episode has no {name!r}")
    return features[name].decode(example[name], f"{where}: {name!r}")


# --- data that others wrote ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Observation:
    """Feature of another project that becomes an observation; ``images`` is the layout of images, otherwise None."""

    name: str
    images: ImageLayout | None = None


class ForeignReader:
    """Reads an RLDS data set of another project.

    Args:
        shards: TFRecord files.
        features: features that ``features.json`` declares.
        config: properties that the data does not state.
        last_step: ``observation`` or ``action``.
        time: name of the time in a step.

    Raises:
        ConfigError: if the configuration names parts that the data does not have.
        DataError: if observations or actions are missing.
    """

    def __init__(
        self,
        shards: list[Path],
        features: Mapping[str, Feature],
        config: ForeignConfig,
        last_step: str,
        time: str | None,
    ) -> None:
        self._shards, self._features, self._config = shards, dict(features), config
        self._has_action, self._time = last_step == "action", f"{STEPS}/{time}" if time else None
        self._notes = ImportNotes()
        if self._time is not None and self._time not in features:
            names = [name.removeprefix(f"{STEPS}/") for name in features]
            raise ConfigError(f"format.time names {time!r}, which no step has; {nearest(str(time), names)}")
        self._keys = {name: key for name, feature in features.items() if (key := layout.observation_key(name, feature))}
        config.check_keys(set(self._keys.values()))
        action = features.get(f"{STEPS}/action")
        if (
            not self._keys
            or action is None
            or action.kind != "tensor"
            or len(action.shape) != 1
            or None in action.shape
        ):
            raise DataError(
                f"{shards[0].parent}: expected observations and actions that are vectors of numbers, found "
                f"{', '.join(features)}"
            )
        self._action = ArraySpec(tuple(side for side in action.shape if side is not None))

    def data_set(self, declared: int | None) -> DataSet:
        """Return the data set; ``declared`` is the number of episodes that it declares."""
        instruction_name = next(
            (
                name
                for name, feature in self._features.items()
                if feature.kind == "text" and name.endswith("instruction")
            ),
            "",
        )
        instructions = []
        empty = dict.fromkeys(self._shards)
        for file, example in _examples(self._shards, {instruction_name}):
            empty.pop(file, None)
            texts = example.get(instruction_name, [])
            instructions.append(
                texts[0].decode(errors="replace") if isinstance(texts, list) and texts else self._config.task
            )
        where = self._shards[0].parent
        if not instructions or declared not in (None, len(instructions)):
            expected = "at least one episode" if declared is None else f"{declared} episodes, as {layout.INFO} states"
            raise DataError(f"{where}: expected {expected}, found {len(instructions)}")
        if empty:
            self._notes.add("Files without an episode", *(file.name for file in empty))
        _, first = next(_examples(self._shards, set(self._keys)))
        self._observations = self._observe(first)
        observation = {
            key: ArraySpec(source.images.shape, "uint8")
            if source.images
            else ArraySpec(tuple(int(side or 0) for side in self._features[source.name].shape) or (1,))
            for key, source in self._observations.items()
        }
        if not observation:
            raise DataError(f"{where}: all observations are left out")
        rewarded = f"{STEPS}/reward" in self._features
        self.spec = foreign_spec(self._config, observation, self._action, None, rewarded)
        imported = {source.name for source in self._observations.values()}
        left_out = [name for name in self._features if name.startswith(f"{STEPS}/observation") and name not in imported]
        metadata = {"imported": {"format": "rlds", "left_out": left_out}}
        for name in left_out:
            if name not in self._keys:
                kind = "words" if self._features[name].kind == "text" else "of an unsupported kind"
                self._notes.add("Observations left out", f"{name}: {kind}")
        if self._time is None:
            self._notes.add("The data has no times: one control period between all steps is assumed (format.time)")
        return DataSet(self.spec, metadata, instructions, self._episodes, self._notes)

    def _observe(self, first: Mapping[str, Values]) -> dict[str, _Observation]:
        """Return the observations that are imported, by key."""
        observations = {}
        for name, key in self._keys.items():
            feature = self._features[name]
            if name not in first:
                self._notes.add("Observations left out", f"{key}: declared, but not in the data")
            elif key.startswith(IMAGES):
                rows = _decoded(first, name, self._features, self._shards[0])
                is_declared = feature.kind == "image" and None not in feature.shape
                declared = tuple(int(side or 0) for side in feature.shape) if is_declared else None
                where = f"{self._shards[0]}: {name!r} of the first step"
                images = foreign_images(
                    self._config, key.removeprefix(IMAGES), rows.shape[1:], rows.dtype, self._notes, where, declared
                )
                if images is not None:
                    observations[key] = _Observation(name, images)
            elif key in self._config.leave_out:
                self._notes.add("Observations left out", f"{key}: foreign.leave_out")
            else:
                observations[key] = _Observation(name)
        return observations

    def _episodes(self) -> Iterator[EpisodeArrays]:
        flags = [f"{STEPS}/{name}" for name in ("is_first", "is_last", "is_terminal", "reward")]
        names = {f"{STEPS}/action", *(source.name for source in self._observations.values())}
        names |= {name for name in (*flags, self._time) if name is not None and name in self._features}
        for number, (file, example) in enumerate(_examples(self._shards, names)):
            where = f"{file}: episode {number}"
            rows = {name: _decoded(example, name, self._features, where) for name in sorted(names)}
            yield from foreign_episodes(self._config, self.spec, self._episode(number, file, rows), self._notes)

    def _episode(self, number: int, file: Path, rows: Mapping[str, Array]) -> ForeignEpisode:
        where, steps = f"{file}: episode {number}", len(rows[f"{STEPS}/action"])
        for name, values in rows.items():
            if len(values) != steps:
                raise DataError(f"{where}: {name!r} has {len(values)} rows, but there are {steps} steps")
        for name, place in (("is_first", 0), ("is_last", steps - 1), ("is_terminal", steps - 1)):
            flags = rows.get(f"{STEPS}/{name}")
            if flags is not None and not np.isin(flags, (0, 1)).all():
                raise DataError(f"{where}: expected one flag per step in {name}, 0 or 1, found {np.unique(flags)[:5]}")
            if flags is not None and (wrong := np.flatnonzero(flags != 0)).size and (wrong != place).any():
                raise DataError(
                    f"{where}: {name} is set in step {wrong[wrong != place][0]} of {steps}, expected only in step "
                    f"{place}"
                )
        observation = {}
        for key, source in self._observations.items():
            values, images = rows[source.name], source.images
            shape = self.spec.observation[key].shape
            observation[key] = images.convert(values) if images else self._as_rows(source.name, values, shape, where)
        # RLDS ignores action and reward of the last step.
        acting = slice(None) if self._has_action else slice(-1)
        stamps = (
            None
            if self._time is None
            else as_stamps(rows[self._time], self.spec.control_rate, f"{where}: {self._time!r}")
        )
        terminal = rows.get(f"{STEPS}/is_terminal")
        rewards = rows.get(f"{STEPS}/reward")
        return ForeignEpisode(
            number,
            file,
            observation,
            rows[f"{STEPS}/action"][acting],
            rewards=None if rewards is None else rewards[acting],
            done=None if terminal is None else _flag_last(terminal[-1:], len(rows[f"{STEPS}/action"][acting])),
            stamp_ns=stamps,
            names={key: source.name for key, source in self._observations.items()},
        )

    def _as_rows(self, name: str, values: Array, shape: tuple[int, ...], where: str) -> Array:
        """Return numbers as float32 rows (n, *shape); a single number per step becomes a row of one element."""
        rows = values[:, None] if values.ndim == 1 else values
        if rows.shape[1:] != shape:
            raise DataError(f"{where}: expected rows of shape {shape} of {name!r}, found {rows.shape[1:]}")
        return as_float32(rows, name, self._notes)


def _flag_last(flag: Array, steps: int) -> Array:
    """Return flags (steps,) of which only the last one may be set: to the ``flag`` (1,) of the last row."""
    return np.asarray((np.arange(steps) == steps - 1) & flag.any())
