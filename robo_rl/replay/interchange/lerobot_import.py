"""Reading a LeRobotDataset."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, DataError, EnvSpec

from ..layout import EpisodeArrays
from . import lerobot_layout as layout
from .data import (
    IMAGES,
    DataSet,
    ForeignConfig,
    counted,
    foreign_episode,
    foreign_spec,
    library,
    make_episode,
    read_facts,
    read_record,
)
from .pictures import VideoDecoder, from_file

Array = NDArray[Any]


class LeRobotReader:
    """Reads a LeRobotDataset, v2.1 or v3.0, of the documented layout.

    Args:
        root: its folder.

    Raises:
        DataError: if there is none, or it is of another version or layout.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.info = self._read_json(layout.INFO)
        self._version = str(self.info.get("codebase_version"))
        self._v3 = self._version == layout.V3
        if not self._v3 and self._version != layout.V21:
            raise DataError(
                f"{root}: a LeRobotDataset of version {self._version!r}; {layout.V21} and {layout.V3} are read. "
                "Convert it with LeRobot's own scripts"
            )
        wanted = (layout.DATA_V3, layout.VIDEO_V3) if self._v3 else (layout.DATA_V21, layout.VIDEO_V21)
        for key, path in zip(("data_path", "video_path"), wanted, strict=True):
            if self.info.get(key) not in (path, None):
                raise DataError(f"{root}: {key} is {self.info[key]!r}, only LeRobot's own layout is read: {path!r}")
        self.features: dict[str, layout.Feature] = self.info["features"]
        self._episodes = self._read_episodes()
        self._table: tuple[Path, Any] | None = None
        self._videos: dict[str, tuple[Path, VideoDecoder]] = {}

    def data_set(self, foreign: ForeignConfig) -> DataSet:
        """Return what there is; ``foreign`` is asked where robo-rl did not write it."""
        facts = self._root / layout.FACTS
        if facts.is_file():
            spec, metadata, instructions = read_facts(facts.read_bytes(), facts)
            count = len(instructions)
            return DataSet(spec, metadata, instructions, lambda: counted(self._own_episodes(spec), count, self._root))
        spec = self._foreign_spec(foreign)
        metadata = {
            "imported": {
                "format": f"LeRobotDataset {self._version}",
                "robot_type": self.info.get("robot_type"),
                "statistics": self._read_json(layout.STATS) if (self._root / layout.STATS).is_file() else None,
                "left_out": [
                    name
                    for name, feature in self.features.items()
                    if name.startswith("observation.") and not _is_read(feature)
                ],
            }
        }
        instructions = ["; ".join(entry["tasks"]) for entry in self._episodes]
        return DataSet(spec, metadata, instructions, lambda: self._foreign_episodes(foreign, spec))

    # --- episodes ----------------------------------------------------------------------------------------------------

    def _own_episodes(self, spec: EnvSpec) -> Iterator[EpisodeArrays]:
        path = self._root / layout.FINAL
        final = self._read_parquet(path)
        if len(final) != len(self._episodes):
            raise DataError(f"{path}: expected {len(self._episodes)} episodes, found {len(final)}; export it again")
        for number, row in enumerate(final.to_pylist()):
            columns = self._columns(number)
            observation = {}
            for key, array in spec.observation.items():
                feature = layout.feature_of(key)
                if key.startswith(IMAGES):
                    rows, last = self._pictures(number, feature), from_file(row[f"final/{key}"], path)
                else:
                    rows, last = columns[feature], np.asarray(row[f"final/{key}"], array.dtype)
                shape = (1, *array.shape)
                observation[key] = np.concatenate([rows.reshape(-1, *array.shape), last.reshape(shape)])
            steps = layout.steps_of(columns, spec)
            yield make_episode(read_record(row["record"], path), spec, observation, steps, self._root)

    def _foreign_spec(self, config: ForeignConfig) -> EnvSpec:
        observation = {}
        for name, feature in self.features.items():
            if not name.startswith("observation.") or not _is_read(feature):
                continue
            key, shape = layout.key_of(name), tuple(feature["shape"])
            if feature["dtype"] in ("image", "video"):
                if shape[0] == 3 and shape[2] != 3:  # some data sets say channels first
                    shape = (shape[1], shape[2], shape[0])
                observation[key] = ArraySpec(shape, "uint8")
            else:
                observation[key] = ArraySpec(shape, "float32", names=_names(feature))
        if "action" not in self.features or not observation:
            raise DataError(
                f"{self._root}: no feature 'action', or no 'observation.*', so there is nothing to learn of"
            )
        action = ArraySpec(tuple(self.features["action"]["shape"]), names=_names(self.features["action"]))
        rewarded, told = "next.reward" in self.features, "next.success" in self.features
        return foreign_spec(config, observation, action, self.info["fps"], rewarded, told)

    def _foreign_episodes(self, config: ForeignConfig, spec: EnvSpec) -> Iterator[EpisodeArrays]:
        for number in range(len(self._episodes)):
            columns = self._columns(number)
            observation = {}
            for key, array in spec.observation.items():
                feature = layout.feature_of(key)
                rows = self._pictures(number, feature) if key.startswith(IMAGES) else columns[feature]
                observation[key] = rows.reshape(-1, *array.shape).astype(array.dtype)
            yield foreign_episode(
                config,
                spec,
                number,
                observation,
                columns["action"].reshape(-1, *spec.action.shape),
                self._root,
                rewards=columns.get("next.reward"),
                terminated="next.done" in columns and bool(columns["next.done"][-1]),
                success=columns.get("next.success"),
            )

    # --- files -------------------------------------------------------------------------------------------------------

    def _columns(self, number: int) -> dict[str, Array]:
        """Return the numbers of an episode by feature."""
        table = self._episode_table(number)
        wanted = {name: feature for name, feature in self.features.items() if feature["dtype"] not in _NOT_NUMBERS}
        if missing := wanted.keys() - set(table.column_names):
            raise DataError(f"{self._root}: episode {number} has no {', '.join(sorted(missing))}; the data is damaged")
        return {name: layout.from_arrow(table[name]) for name in wanted}

    def _episode_table(self, number: int) -> Any:
        entry = self._episodes[number]
        if self._v3:
            place = {"chunk_index": entry["data/chunk_index"], "file_index": entry["data/file_index"]}
            path = self._root / layout.DATA_V3.format(**place)
        else:
            place = {"episode_chunk": number // int(self.info["chunks_size"]), "episode_index": number}
            path = self._root / layout.DATA_V21.format(**place)
        if self._table is None or self._table[0] != path:
            self._table = path, self._read_parquet(path)
        table = self._table[1]
        table = table.filter(library("pyarrow.compute").equal(table["episode_index"], number))
        if len(table) != entry["length"]:
            raise DataError(f"{path}: expected {entry['length']} rows of episode {number}, found {len(table)}")
        return table

    def _pictures(self, number: int, feature: str) -> Array:
        entry = self._episodes[number]
        if self.features[feature]["dtype"] == "image":
            cells = self._episode_table(number)[feature].to_pylist()
            return np.stack([from_file(cell["bytes"] or b"", self._root) for cell in cells])
        first = 0
        if self._v3:
            place = {name: entry[f"videos/{feature}/{name}"] for name in ("chunk_index", "file_index")}
            path = self._root / layout.VIDEO_V3.format(video_key=feature, **place)
            first = round(entry[f"videos/{feature}/from_timestamp"] * self.info["fps"])
        else:
            chunk = number // int(self.info["chunks_size"])
            path = self._root / layout.VIDEO_V21.format(episode_chunk=chunk, video_key=feature, episode_index=number)
        known = self._videos.get(feature)
        if known is None or known[0] != path:
            if known is not None:
                known[1].close()
            known = self._videos[feature] = path, VideoDecoder(path)
        return known[1].read(first, entry["length"])

    def _read_episodes(self) -> list[dict[str, Any]]:
        if self._v3:
            files = sorted((self._root / "meta/episodes").glob("*/*.parquet"))
            rows = [row for file in files for row in self._read_parquet(file).to_pylist()]
        else:
            rows = self._read_lines(layout.EPISODES_V21)
        rows.sort(key=lambda row: int(row["episode_index"]))
        if [row["episode_index"] for row in rows] != list(range(int(self.info["total_episodes"]))):
            raise DataError(
                f"{self._root}: expected episodes 0 to {self.info['total_episodes'] - 1}, found {len(rows)} others; "
                "the data is damaged"
            )
        return rows

    def _read_parquet(self, path: Path) -> Any:
        if not path.is_file():
            raise DataError(f"{path} is missing; the data is damaged")
        try:
            return library("pyarrow.parquet").ParquetFile(path).read()
        except (OSError, library("pyarrow").ArrowException) as error:
            raise DataError(f"{path} is damaged ({error})") from error

    def _read_json(self, name: str) -> Any:
        path = self._root / name
        if not path.is_file():
            raise DataError(f"{self._root} is no LeRobotDataset: it has no {name}")
        try:
            return json.loads(path.read_bytes())
        except ValueError as error:
            raise DataError(f"{path} is damaged ({error})") from error

    def _read_lines(self, name: str) -> list[dict[str, Any]]:
        path = self._root / name
        try:
            return [json.loads(line) for line in path.read_text().splitlines() if line]
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is missing or damaged ({error})") from error


_NOT_NUMBERS = ("image", "video", "string", "language")


def _is_read(feature: Mapping[str, Any]) -> bool:
    """Return whether an observation of others is numbers or a colour image: not words, not depth."""
    if feature["dtype"] in ("image", "video"):
        return 3 in (feature["shape"][0], feature["shape"][-1])
    return feature["dtype"] not in _NOT_NUMBERS


def _names(feature: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a feature's elements where it has one for each; some data sets nest them in an object."""
    names = feature.get("names")
    if isinstance(names, dict):
        names = next(iter(names.values()), None)
    fits = isinstance(names, list) and [len(names)] == list(feature["shape"])
    return tuple(map(str, names)) if fits and isinstance(names, list) else ()
