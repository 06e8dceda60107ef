"""Files of a LeRobotDataset: metadata, tables, images and videos, which are read only if their sizes are plausible."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import MAX_RATE, DataError, ImageHeader, SpecError, decode_image_file, read_image_header

from . import lerobot_layout as layout
from .data import data_files, library, read_small
from .foreign_json import read_foreign_json
from .lerobot_spans import VideoSpan, video_spans
from .parquet import ColumnLimit, ParquetReader
from .pictures import VideoDecoder

Array = NDArray[Any]

MAX_EPISODES = 10**6
MAX_FRAMES = 10**9
_TASK_BYTES = 2**16
_REQUIRED = ("features", "fps", "total_frames", "total_episodes")
_COUNTS = ["episode_index", "length"]
_IMAGE_BYTES = 2**20
"""Size that an image file may have in addition to four times the size of its pixels [bytes]."""
_FIRST_IMAGE_BYTES = 2**25
"""Largest size of the first image file of a camera [bytes], whose header may state another size than the declared
one.
"""


class LeRobotFiles:
    """Files of a LeRobotDataset, v2.1 or v3.0, of the documented layout.

    Args:
        root: folder of the data set.

    Attributes:
        root: the argument.
        info: content of ``meta/info.json``.
        version: ``v2.1`` or ``v3.0``.
        features: features of the data, by name.
        rate: frames per second [Hz].
        episodes: metadata of each episode: ``length``, ``tasks`` and, for v3.0, the files that it is in.
        rotations: counter-clockwise rotation [degrees] that the newest video of each camera states.
        beyond_range: cameras with a video that exceeds the limited range of colours, but does not state the full one.

    Raises:
        DataError: if the data set is missing, damaged, or of another version or layout.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.info: dict[str, Any] = self.read_json(layout.INFO)
        if not isinstance(self.info, dict):
            raise DataError(f"{root / layout.INFO}: expected an object, found {str(self.info)[:40]!r}")
        self.version = str(self.info.get("codebase_version"))
        self._v3 = self.version == layout.V3
        if not self._v3 and self.version != layout.V21:
            raise DataError(
                f"{root}: a LeRobotDataset of version {self.version!r}; only {layout.V21} and {layout.V3} are "
                "supported. Convert it with LeRobot's own scripts"
            )
        paths = (layout.DATA_V3, layout.VIDEO_V3) if self._v3 else (layout.DATA_V21, layout.VIDEO_V21)
        for key, path in zip(("data_path", "video_path"), paths, strict=True):
            if self.info.get(key) not in (path, None):
                raise DataError(
                    f"{root}: {key} is {self.info[key]!r}, but only LeRobot's own layout is supported: {path!r}"
                )
        if missing := [key for key in _REQUIRED if self.info.get(key) is None]:
            raise DataError(f"{root / layout.INFO} lacks {', '.join(missing)}, which every LeRobotDataset states")
        self.features = layout.check_features(self.info["features"], root / layout.INFO)
        fps = self.info["fps"]
        if isinstance(fps, bool) or not isinstance(fps, int | float) or not 0 < fps <= MAX_RATE:
            raise DataError(
                f"{root / layout.INFO}: fps must be a number above 0, at most {MAX_RATE:g}, found {str(fps)[:40]!r}"
            )
        self.rate = float(fps)
        self._chunk_size = 1 if self._v3 else self._number("chunks_size", MAX_EPISODES, least=1)
        self._frames = self._number("total_frames", MAX_FRAMES)
        self.episodes = self._read_episodes(self._number("total_episodes", MAX_EPISODES))
        self._rows_listed = self._list_tables()
        self._spans = {
            name: self._video_spans(name) for name, feature in self.features.items() if feature["dtype"] == "video"
        }
        self._table: tuple[Path, tuple[str, ...], Any] | None = None
        self._videos: dict[str, tuple[Path, VideoDecoder]] = {}
        self._cells: dict[str, _Cells] = {}
        self.rotations: dict[str, int] = {}
        self.beyond_range: set[str] = set()

    def read_json(self, name: str) -> Any:
        """Return the content of a JSON file."""
        path = self.root / name
        if not path.is_file():
            raise DataError(f"{self.root} is not a LeRobotDataset: it has no {name}")
        return read_foreign_json(read_small(path), path)

    # --- numbers -----------------------------------------------------------------------------------------------------

    def columns(self, number: int, names: list[str]) -> dict[str, Array]:
        """Return features of an episode as numbers (n, *shape), or (n,) if the shape is (1,); missing ones are NaN.

        Raises:
            DataError: if they do not exist, or are not as the features declare them.
        """
        path, table = self._rows(number, tuple(names))
        columns = {}
        for name in names:
            shape = tuple(int(side) for side in self.features[name]["shape"])
            try:
                rows = layout.from_arrow(table[name], shape, name)
            except DataError as error:
                raise DataError(f"{path}: episode {number}: {error}") from error
            columns[name] = rows[:, 0] if shape == (1,) else rows
        return columns

    def data_path(self, number: int) -> Path:
        """Return the path of the table that an episode is in."""
        if self._v3:
            entry = self.episodes[number]
            place = {"chunk_index": int(entry["data/chunk_index"]), "file_index": int(entry["data/file_index"])}
            return self.root / layout.DATA_V3.format(**place)
        place = {"episode_chunk": number // self._chunk_size, "episode_index": number}
        return self.root / layout.DATA_V21.format(**place)

    def _rows(self, number: int, names: tuple[str, ...]) -> tuple[Path, Any]:
        """Return the rows of numbers of an episode, and the file that they are in."""
        path = self.data_path(number)
        if self._table is None or self._table[:2] != (path, names):
            columns = {name: self.features[name] for name in names} | {"episode_index": layout.INDICES["episode_index"]}
            limits = {name: ColumnLimit(int(np.prod(feature["shape"]))) for name, feature in columns.items()}
            self._table = path, names, ParquetReader(path, self._rows_listed[path], limits).read()
        table = self._table[2]
        table = table.filter(library("pyarrow.compute").equal(table["episode_index"], number))
        length = self.episodes[number]["length"]
        if len(table) != length:
            raise DataError(
                f"{path}: expected {length} rows of episode {number}, as its metadata states, found {len(table)}; the "
                "data is incomplete"
            )
        return path, table

    def _list_tables(self) -> Counter[Path]:
        """Return the number of rows of each table according to the episodes.

        Raises:
            DataError: if there are tables that no episode is in, whose data would be lost.
        """
        listed = Counter[Path]()
        for number, entry in enumerate(self.episodes):
            listed[self.data_path(number)] += int(entry["length"])
        for path in data_files(self.root, "data/*/*.parquet"):
            if path not in listed:
                raise DataError(
                    f"{path} is in the data set, but no episode in meta/episodes is in it: the metadata is incomplete, "
                    "as after a recorder was killed, or the file is of another data set; correct it, or move the file"
                )
        return listed

    # --- images ------------------------------------------------------------------------------------------------------

    def image_header(self, feature: str) -> ImageHeader:
        """Return the header of the first image or the first video of a camera."""
        for number, entry in enumerate(self.episodes):
            if entry["length"] and self.features[feature]["dtype"] == "video":
                height, width = self._video(number, feature)[0].size
                return ImageHeader("video", height, width, 3)
            for frame, data in self._image_files(number, feature, _FIRST_IMAGE_BYTES) if entry["length"] else ():
                if data is not None:
                    try:
                        return read_image_header(data)
                    except SpecError as error:
                        place = f"{self.data_path(number)}: episode {number}: {feature!r} of frame {frame}"
                        raise DataError(f"{place}: {error}") from error
        raise DataError(f"{feature!r} has no images: neither in the tables nor as files in {self.root}")

    def images(self, number: int, feature: str, stored: tuple[int, ...], missing: list[int] | None = None) -> Array:
        """Return the images of an episode (n, *stored), as they are stored.

        Args:
            number: number of the episode.
            feature: feature of the camera.
            stored: shape of each image.
            missing: receives the numbers of frames without an image, whose images are zeros; None: they are an error.

        Raises:
            DataError: if there are more or fewer images, or images of another size.
        """
        length = int(self.episodes[number]["length"])
        if self.features[feature]["dtype"] == "video":
            decoder, first = self._video(number, feature, stored[:2])
            images: Array = decoder.read(first, length)
            self.rotations[feature] = decoder.rotation
            if decoder.exceeds_range:
                self.beyond_range.add(feature)
            path, _, is_last = self._spans[feature][number]
            if is_last and not decoder.is_over():
                raise DataError(f"{path}: more images than the {first + length} rows of the episodes in it")
            return images
        rows: list[Array] = []
        absent = []
        for frame, data in self._image_files(number, feature):
            place = f"{self.data_path(number)}: episode {number}: {feature!r} of frame {frame}"
            if data is None:
                if missing is None:
                    raise DataError(f"{place} is missing: neither in the table nor a file in {self.root}")
                absent.append(frame)
                continue
            try:
                image = decode_image_file(data, (stored[0], stored[1]))
            except SpecError as error:
                raise DataError(f"{place}: {error}") from error
            if image.shape != stored or (rows and image.dtype != rows[0].dtype):
                raise DataError(f"{place}: expected an image of shape {stored}, found {image.dtype} {image.shape}")
            rows.append(image)
        if len(rows) + len(absent) != length:  # the rows of the episode have been counted
            raise DataError(
                f"{self.data_path(number)}: the {length} rows of episode {number} do not follow one another, or follow "
                "those of a later episode; sort the table by episode_index and frame_index"
            )
        if missing is not None:
            missing += absent
        for frame in absent:
            rows.insert(frame, np.zeros(stored, rows[0].dtype if rows else np.uint8))
        return np.stack(rows)

    def _image_files(self, number: int, feature: str, most: int = 0) -> Iterator[tuple[int, bytes | None]]:
        """Yield number and content of an episode's image files of at most ``most`` bytes; None for a missing file."""
        path = self.data_path(number)
        most = most or 4 * int(np.prod(self.features[feature]["shape"])) + _IMAGE_BYTES
        cells = self._cells.get(feature)
        if cells is None or cells.path != path or cells.number >= number:
            limits = {feature: ColumnLimit(2, most), "episode_index": ColumnLimit()}
            cells = self._cells[feature] = _Cells(ParquetReader(path, self._rows_listed[path], limits), feature)
        for frame, cell in enumerate(cells.of(number)):
            image = cell if isinstance(cell, dict) else {"path" if isinstance(cell, str) else "bytes": cell}
            data = image.get("bytes")
            if not data:
                data = self._image_by_path(number, feature, frame, image.get("path"), most)
            elif len(data) > most:
                place = f"{path}: episode {number}: {feature!r} of frame {frame}"
                with contextlib.suppress(SpecError):
                    place = f"{place} is {read_image_header(data)}"
                raise DataError(f"{place}: {len(data)} bytes, expected at most {most}")
            yield frame, data

    def _image_by_path(self, number: int, feature: str, frame: int, stated: Any, most: int) -> bytes | None:
        """Return an image from a separate file: at the ``stated`` path or LeRobot's usual path; None if missing."""
        for name in (stated, f"images/{feature}/episode_{number:06d}/frame_{frame:06d}.png"):
            path = self.root / str(name)
            # A path outside the folder could name any file.
            if name is not None and path.is_file() and path.resolve().is_relative_to(self.root.resolve()):
                return read_small(path, most)
        return None

    def _video(self, number: int, feature: str, size: tuple[int, ...] | None = None) -> tuple[VideoDecoder, int]:
        """Return an open video, and the number of the episode's first image in it."""
        path, first, _ = self._spans[feature][number]
        video = self._videos.get(feature)
        if video is None or video[0] != path:
            if video is not None:
                video[1].close()
            expected = (size[0], size[1]) if size is not None else None
            frames = self._frames if self._v3 else int(self.episodes[number]["length"])
            video = self._videos[feature] = path, VideoDecoder(path, self.rate, frames, expected)
        return video[1], first

    def _video_spans(self, feature: str) -> list[VideoSpan]:
        if self._v3:
            return video_spans(self.root, feature, self.episodes, self.rate)
        names = [
            layout.VIDEO_V21.format(episode_chunk=number // self._chunk_size, video_key=feature, episode_index=number)
            for number in range(len(self.episodes))
        ]
        return [VideoSpan(self.root / name) for name in names]

    # --- metadata ----------------------------------------------------------------------------------------------------

    def _number(self, name: str, most: int, least: int = 0) -> int:
        return layout.read_count(self.info, name, self.root / layout.INFO, most, least)

    def _read_episodes(self, count: int) -> list[dict[str, Any]]:
        if self._v3:
            files = data_files(self.root / "meta/episodes", "*/*.parquet")
            rows = [row for file in files for row in self._read_table(file, count)]
            counts = [*_COUNTS, "data/chunk_index", "data/file_index"]
        else:
            path = self.root / layout.EPISODES_V21
            lines = enumerate(read_small(path).splitlines(), 1)
            rows = [read_foreign_json(line, f"{path}, line {number}") for number, line in lines if line]
            counts = _COUNTS
        for number, row in enumerate(rows):
            where = f"{self.root}: episode {number} of the list of episodes"
            row |= {name: layout.read_count(row, name, where, MAX_FRAMES) for name in counts}
        rows.sort(key=lambda row: row["episode_index"])
        if [row["episode_index"] for row in rows] != list(range(count)):
            raise DataError(
                f"{self.root}: expected episodes 0 to {count - 1}, found {len(rows)} episodes, or other numbers; the "
                "data is incomplete"
            )
        total = sum(row["length"] for row in rows)
        if total != self._frames:
            raise DataError(f"{self.root}: info.json states {self._frames} frames, but the episodes have {total}")
        return rows

    def _read_table(self, path: Path, count: int) -> list[dict[str, Any]]:
        videos = [name for name, feature in self.features.items() if feature["dtype"] == "video"]
        places = [
            f"videos/{name}/{field}" for name in videos for field in ("chunk_index", "file_index", "from_timestamp")
        ]
        numbers = ["episode_index", "length", "data/chunk_index", "data/file_index", *places]
        limits = {name: ColumnLimit() for name in numbers} | {"tasks": ColumnLimit(64, _TASK_BYTES)}
        ends = [f"videos/{name}/to_timestamp" for name in videos]
        limits |= {name: ColumnLimit() for name in ends}
        table = ParquetReader(path, count, limits, optional=("tasks", *ends)).read()
        try:
            rows: list[dict[str, Any]] = table.to_pylist()
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: expected UTF-8 text in 'tasks' ({error})") from error
        return rows


class _Cells:
    """Iterator over the cells of a column by episode, so that a table of many episodes is read only once.

    Args:
        reader: reader of the column and of ``episode_index``.
        name: name of the column.

    Attributes:
        path: path of the table.
        number: number of the last requested episode.
    """

    def __init__(self, reader: ParquetReader, name: str) -> None:
        self.path, self.number = reader.path, -1
        self._rows = (
            row
            for batch in reader.batches()
            for row in zip(batch["episode_index"].to_pylist(), batch[name].to_pylist(), strict=True)
        )
        self._next: tuple[int, Any] | None = next(self._rows, None)

    def of(self, number: int) -> Iterator[Any]:
        """Yield the cells of an episode, which must not be before ``self.number``; earlier cells are skipped."""
        self.number = number
        while self._next is not None and self._next[0] <= number:
            episode, cell = self._next
            if episode == number:
                yield cell
            self._next = next(self._rows, None)
