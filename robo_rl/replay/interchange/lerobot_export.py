"""Writer of a LeRobotDataset."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import EnvSpec

from ..layout import EpisodeArrays
from . import lerobot_layout as layout
from .data import IMAGES, DataSet, facts_json, library, record_json
from .pictures import VideoEncoder, to_png
from .statistics import FeatureStatistics, Statistics

Array = NDArray[Any]


class LeRobotWriter:
    """Writes a data set episode by episode.

    Args:
        root: folder to make.
        data: data set to write.
        version: ``v2.1`` or ``v3.0``.
        images: ``png`` or ``video``.
        action: action that becomes ``action``: ``proposed`` or ``executed``.
        quality: quality of videos, see :class:`VideoEncoder`.
        robot_type: name of the robot in ``meta/info.json``.
    """

    def __init__(
        self, root: Path, data: DataSet, *, version: str, images: str, action: str, quality: int, robot_type: str | None
    ) -> None:
        layout.check_holds(data.spec, images)
        self._root, self._spec, self._data = root, data.spec, data
        self._version, self._action, self._quality, self._robot_type = version, action, quality, robot_type
        self._rate = round(data.spec.control_rate)
        self._cameras = {layout.feature_of(key): key for key in data.spec.observation if key.startswith(IMAGES)}
        self._video = images == "video" and bool(self._cameras)
        self._features = layout.features_of(data.spec, "video" if self._video else "image")
        self._schema = layout.arrow_schema(self._features)
        self._tasks = list(dict.fromkeys(data.instructions))
        self._statistics = FeatureStatistics()
        self._episodes: list[dict[str, Any]] = []
        self._frames = 0
        self._table: _RollingTable | None = None
        self._videos: dict[str, _RollingVideo] = {}

    def write(self) -> None:
        """Write the whole data set.

        Raises:
            DataError: if the format cannot hold it.
        """
        parquet = library("pyarrow.parquet")
        self._write_text(layout.FACTS, facts_json(self._data))
        final_schema = _final_schema(self._spec)
        with parquet.ParquetWriter(self._root / layout.FINAL, final_schema) as final:
            for episode in self._data.episodes():
                self._add(episode)
                final.write_table(_final_table(episode, self._spec, final_schema))
        if self._table is not None:
            self._table.close()
        for video in self._videos.values():
            video.close()
        for feature, video in self._videos.items():
            self._features[feature]["info"] = video.information
        self._write_facts()

    def _add(self, episode: EpisodeArrays) -> None:
        number, steps = len(self._episodes), episode.record.steps
        instruction = self._data.instructions[number]
        columns: dict[str, Array] = layout.columns_of(episode, self._spec, self._action) | {
            "timestamp": (np.arange(steps) / self._rate).astype(np.float32),
            "frame_index": np.arange(steps),
            "episode_index": np.full(steps, number),
            "index": self._frames + np.arange(steps),
            "task_index": np.full(steps, self._tasks.index(instruction)),
        }
        pictures = {feature: episode.observation[key][:-1] for feature, key in self._cameras.items()}
        places = self._store_table(number, columns, pictures)
        if self._video:
            for feature, frames in pictures.items():
                places |= self._store_video(number, feature, frames)
        statistics = FeatureStatistics()
        statistics.add(columns | pictures)
        self._statistics.merge(statistics)
        self._episodes.append(
            {
                "episode_index": number,
                "tasks": [instruction],
                "length": steps,
                "places": places,
                "range": (self._frames, self._frames + steps),
                "statistics": as_lists(statistics.result()),
            }
        )
        self._frames += steps

    def _store_table(
        self, number: int, columns: Mapping[str, Array], pictures: Mapping[str, Array]
    ) -> dict[str, int | float]:
        arrow = library("pyarrow")
        arrays = [
            arrow.array([{"bytes": to_png(frame), "path": None} for frame in pictures[field.name]], field.type)
            if field.name in pictures
            else layout.to_arrow(columns[field.name].astype(self._features[field.name]["dtype"]), field.type)
            for field in self._schema
        ]
        table = arrow.Table.from_arrays(arrays, schema=self._schema)
        if self._version == layout.V21:
            path = layout.DATA_V21.format(episode_chunk=number // layout.CHUNK, episode_index=number)
            (self._root / path).parent.mkdir(parents=True, exist_ok=True)
            library("pyarrow.parquet").write_table(table, self._root / path)
            return {}
        if self._table is None:
            self._table = _RollingTable(self._root, self._schema)
        chunk, file = self._table.add(table)
        return {"data/chunk_index": chunk, "data/file_index": file}

    def _store_video(self, number: int, feature: str, frames: NDArray[np.uint8]) -> dict[str, int | float]:
        if feature not in self._videos:
            self._videos[feature] = _RollingVideo(self._root, feature, self._rate, self._quality)
        video = self._videos[feature]
        if self._version == layout.V21:
            chunk = number // layout.CHUNK
            path = layout.VIDEO_V21.format(episode_chunk=chunk, video_key=feature, episode_index=number)
            video.add(frames, self._root / path)
            return {}
        place, begin = video.add(frames)
        return {
            f"videos/{feature}/chunk_index": place // layout.CHUNK,
            f"videos/{feature}/file_index": place % layout.CHUNK,
            f"videos/{feature}/from_timestamp": begin / self._rate,
            f"videos/{feature}/to_timestamp": (begin + len(frames)) / self._rate,
        }

    def _write_facts(self) -> None:
        count = len(self._episodes)
        info: dict[str, Any] = {
            "codebase_version": self._version,
            "robot_type": self._robot_type,
            "total_episodes": count,
            "total_frames": self._frames,
            "total_tasks": len(self._tasks),
            "chunks_size": layout.CHUNK,
            "fps": self._rate,
            "splits": {"train": f"0:{count}"},
        }
        if self._version == layout.V21:
            info |= {
                "total_videos": count * len(self._videos),
                "total_chunks": -(-count // layout.CHUNK),
                "data_path": layout.DATA_V21,
                "video_path": layout.VIDEO_V21 if self._video else None,
            }
            self._write_v21()
        else:
            info |= {
                "data_files_size_in_mb": layout.DATA_MEGABYTES,
                "video_files_size_in_mb": layout.VIDEO_MEGABYTES,
                "data_path": layout.DATA_V3,
                "video_path": layout.VIDEO_V3 if self._video else None,
            }
            self._write_v3()
        self._write_text(layout.INFO, json.dumps(info | {"features": self._features}, indent=4))
        self._write_text(layout.STATS, json.dumps(as_lists(self._statistics.result()), indent=4))

    def _write_v21(self) -> None:
        tasks = [{"task_index": index, "task": task} for index, task in enumerate(self._tasks)]
        episodes = [{key: entry[key] for key in ("episode_index", "tasks", "length")} for entry in self._episodes]
        statistics = [
            {"episode_index": entry["episode_index"], "stats": entry["statistics"]} for entry in self._episodes
        ]
        self._write_text(layout.TASKS_V21, _lines(tasks))
        self._write_text(layout.EPISODES_V21, _lines(episodes))
        self._write_text(layout.EPISODE_STATS_V21, _lines(statistics))

    def _write_v3(self) -> None:
        arrow, parquet = library("pyarrow"), library("pyarrow.parquet")
        tasks = arrow.table({"task_index": list(range(len(self._tasks))), "task": self._tasks})
        # LeRobot reads this file with pandas, and expects the text as the index.
        parquet.write_table(
            tasks.replace_schema_metadata({"pandas": json.dumps(_PANDAS_TASKS)}), self._root / layout.TASKS_V3
        )
        rows = []
        for entry in self._episodes:
            first, last = entry["range"]
            statistics = {
                f"stats/{feature}/{name}": value
                for feature, values in entry["statistics"].items()
                for name, value in values.items()
            }
            row = {key: entry[key] for key in ("episode_index", "tasks", "length")} | entry["places"]
            row |= {"dataset_from_index": first, "dataset_to_index": last}
            rows.append(row | statistics | {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0})
        path = self._root / layout.EPISODES_V3.format(chunk_index=0, file_index=0)
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(arrow.Table.from_pylist(rows), path)

    def _write_text(self, name: str, text: str) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class _RollingTable:
    """Parquet files of many episodes each; the next file begins when one is large enough."""

    def __init__(self, root: Path, schema: Any) -> None:
        self._root, self._schema = root, schema
        self._file = -1
        self._writer: Any = None

    def add(self, table: Any) -> tuple[int, int]:
        """Append an episode; return the numbers of its chunk and file."""
        if self._writer is None:
            self._file += 1
            path = self._root / layout.DATA_V3.format(chunk_index=self._place[0], file_index=self._place[1])
            path.parent.mkdir(parents=True, exist_ok=True)
            self._path = path
            self._writer = library("pyarrow.parquet").ParquetWriter(path, self._schema)
        self._writer.write_table(table)
        place = self._place
        if self._path.stat().st_size >= layout.DATA_MEGABYTES * 2**20:
            self.close()
        return place

    @property
    def _place(self) -> tuple[int, int]:
        return self._file // layout.CHUNK, self._file % layout.CHUNK

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class _RollingVideo:
    """Videos of one camera: one per episode (v2.1), or one for many episodes until it is large enough (v3.0)."""

    def __init__(self, root: Path, feature: str, rate: int, quality: int) -> None:
        self._root, self._feature, self._rate, self._quality = root, feature, rate, quality
        self._encoder: VideoEncoder | None = None
        self._file = -1
        self.information: dict[str, Any] = {}

    def add(self, frames: NDArray[np.uint8], path: Path | None = None) -> tuple[int, int]:
        """Append ``frames``, or write them to their own file ``path``.

        Returns:
            The number of the file, and the number of the first of ``frames`` in it.
        """
        if path is not None:
            self.close()
        if self._encoder is None:
            self._file += 1
            if path is None:
                place = {"chunk_index": self._file // layout.CHUNK, "file_index": self._file % layout.CHUNK}
                path = self._root / layout.VIDEO_V3.format(video_key=self._feature, **place)
            self._encoder = VideoEncoder(path, frames.shape[1], frames.shape[2], self._rate, self._quality)
        encoder, begin = self._encoder, self._encoder.frames
        encoder.add(frames)
        self.information = {
            "video.height": frames.shape[1],
            "video.width": frames.shape[2],
            "video.codec": encoder.codec,
            "video.pix_fmt": "yuv420p",
            "video.is_depth_map": False,
            "video.fps": self._rate,
            "video.channels": 3,
            "has_audio": False,
        }
        if encoder.size >= layout.VIDEO_MEGABYTES * 2**20:
            self.close()
        return self._file, begin

    def close(self) -> None:
        if self._encoder is not None:
            self._encoder.close()
            self._encoder = None


def as_lists(statistics: Statistics) -> dict[str, dict[str, Any]]:
    """Return ``statistics`` as JSON values."""
    return {name: {key: value.tolist() for key, value in values.items()} for name, values in statistics.items()}


def _final_schema(spec: EnvSpec) -> Any:
    """Return the schema of data that the format has no place for: record and true final observation of an episode."""
    arrow = library("pyarrow")
    fields = [("record", arrow.string())]
    for key, array in spec.observation.items():
        kind = arrow.binary() if key.startswith(IMAGES) else arrow.from_numpy_dtype(np.dtype(array.dtype))
        fields.append((f"final/{key}", kind if key.startswith(IMAGES) else arrow.list_(kind)))
    return arrow.schema(fields)


def _final_table(episode: EpisodeArrays, spec: EnvSpec, schema: Any) -> Any:
    row: dict[str, Any] = {"record": record_json(episode.record)}
    for key in spec.observation:
        last = episode.observation[key][-1]
        row[f"final/{key}"] = to_png(last) if key.startswith(IMAGES) else last.ravel()
    return library("pyarrow").Table.from_pylist([row], schema=schema)


def _lines(entries: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"{json.dumps(entry)}\n" for entry in entries)


_TEXT = {"pandas_type": "unicode", "numpy_type": "object"}
_PANDAS_TASKS = {
    "index_columns": ["task"],
    "column_indexes": [{"name": None, "field_name": None, **_TEXT, "metadata": {"encoding": "UTF-8"}}],
    "columns": [
        {
            "name": "task_index",
            "field_name": "task_index",
            "pandas_type": "int64",
            "numpy_type": "int64",
            "metadata": None,
        },
        {"name": "task", "field_name": "task", **_TEXT, "metadata": None},
    ],
    "pandas_version": "2.2.0",
}
