"""Readers of a LeRobotDataset."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, DataError, EnvSpec, ImageLayout

from ..layout import EpisodeArrays, step_fields
from . import lerobot_layout as layout
from .data import IMAGES, DataSet, counted, make_episode, read_facts, read_record, read_small
from .foreign import ForeignConfig, as_float32, foreign_images, foreign_spec
from .foreign_episodes import GAP, ForeignEpisode, check_times, foreign_episodes
from .lerobot_files import LeRobotFiles
from .notes import ImportNotes
from .parquet import ColumnLimit, ParquetReader
from .pictures import from_file

Array = NDArray[Any]

_RECORD_BYTES = 2**26
"""Largest size of the record of an episode [bytes], which may hold a verdict for each step."""
_TIMES = ("timestamp", "frame_index")
_OF_STEPS = ("next.reward", "next.success", "next.done")


def read_lerobot(root: Path, foreign: ForeignConfig) -> DataSet:
    """Return a LeRobotDataset, v2.1 or v3.0, of the documented layout.

    Args:
        root: folder of the data set.
        foreign: options for data that robo-rl did not write.

    Raises:
        DataError: if the data set is missing, damaged, or of another version or layout.
    """
    files = LeRobotFiles(root)
    facts = root / layout.FACTS
    if facts.is_file():
        spec, metadata, instructions = read_facts(read_small(facts), facts)
        count = len(instructions)
        return DataSet(spec, metadata, instructions, lambda: counted(_own_episodes(files, spec), count, root))
    return ForeignReader(files, foreign).data_set()


# --- data that robo-rl wrote -----------------------------------------------------------------------------------------


def _own_episodes(files: LeRobotFiles, spec: EnvSpec) -> Iterator[EpisodeArrays]:
    path = files.root / layout.FINAL
    limits = {"record": ColumnLimit(1, _RECORD_BYTES)}
    for key, array in spec.observation.items():
        image = key.startswith(IMAGES)
        size = int(np.prod(array.shape))
        limits[f"final/{key}"] = ColumnLimit(1, 2 * size + 2**16) if image else ColumnLimit(size)
    final = ParquetReader(path, len(files.episodes), limits).read()
    if len(final) != len(files.episodes):
        raise DataError(f"{path}: expected {len(files.episodes)} episodes, found {len(final)}; export it again")
    numbers = [name for name, feature in files.features.items() if feature["dtype"] not in _NOT_NUMBERS]
    for number, row in enumerate(final.to_pylist()):
        columns = files.columns(number, numbers)
        observation = {}
        for key, array in spec.observation.items():
            feature = layout.feature_of(key)
            if key.startswith(IMAGES):
                height, width, channels = array.shape
                rows = files.images(number, feature, array.shape if channels == 3 else (height, width))
                last = from_file(row[f"final/{key}"], path, (height, width), 3 if channels == 3 else 1)
            else:
                rows = columns[feature]
                last = np.asarray(row[f"final/{key}"], array.dtype)
            shape = array.shape
            observation[key] = np.concatenate(
                [_as_exported(rows, shape, files), _as_exported(last[None], shape, files)]
            )
        steps = layout.steps_of(columns, spec)
        shapes = {field.name: field.shape for field in step_fields(spec)}
        steps = {name: _as_exported(rows, shapes[name], files) for name, rows in steps.items()}
        yield make_episode(read_record(row["record"], path), spec, observation, steps, files.root)


def _as_exported(rows: Array, shape: tuple[int, ...], files: LeRobotFiles) -> Array:
    """Return ``rows`` with the ``shape`` that they had before the export flattened them."""
    if rows.size != len(rows) * int(np.prod(shape)):
        raise DataError(f"{files.root}: expected rows of shape {shape}, found {rows.shape[1:]}; export the data again")
    return rows.reshape(len(rows), *shape)


# --- data that others wrote ------------------------------------------------------------------------------------------


class ForeignReader:
    """Reads a LeRobotDataset of another project.

    Args:
        files: files of the data set.
        config: properties that the data does not state.

    Raises:
        ConfigError: if the configuration names observations that do not exist.
        DataError: if actions or observations are missing, or images are not as declared.
    """

    def __init__(self, files: LeRobotFiles, config: ForeignConfig) -> None:
        self._files, self._config = files, config
        self._notes = ImportNotes()
        self._layouts: dict[str, ImageLayout] = {}
        self._left_out: list[str] = []
        observed = [name for name in files.features if name.startswith("observation.")]
        named: dict[str, str] = {}
        for name in observed:
            if (first := named.setdefault(layout.key_of(name), name)) != name:
                raise DataError(
                    f"{files.root}: {first!r} and {name!r} would both be named {layout.key_of(name)!r}; rename one of "
                    "them"
                )
        config.check_keys(named)
        self._numbers: list[str] = []
        observation = {}
        for name in observed:
            if (array := self._observation(name, files.features[name])) is not None:
                observation[layout.key_of(name)] = array
        if "action" not in files.features or not observation:
            raise DataError(
                f"{files.root}: no feature 'action', or no supported 'observation.*': there is nothing to learn from"
            )
        action = ArraySpec(_shape(files.features["action"]), names=_names(files.features["action"]))
        if len(action.shape) != 1:
            raise DataError(
                f"{files.root}: expected actions that are vectors of numbers, but shape {action.shape} is declared"
            )
        rewarded, reports_success = "next.reward" in files.features, "next.success" in files.features
        self.spec = foreign_spec(config, observation, action, files.rate, rewarded, reports_success)
        present = [name for name in (*_TIMES, *_OF_STEPS) if name in files.features]
        self._columns = [*self._numbers, "action", *present]
        if config.control_rate not in (None, files.rate):
            self._notes.add(
                f"Control rate of {config.control_rate:g} Hz as configured; the data states {files.rate:g} Hz"
            )
        if "timestamp" not in present:
            self._notes.add("No timestamps in the data: recorded time is computed from the frame numbers")

    def data_set(self) -> DataSet:
        """Return the data set."""
        root, info = self._files.root, self._files.info
        metadata = {
            "imported": {
                "format": f"LeRobotDataset {self._files.version}",
                "robot_type": info.get("robot_type"),
                "statistics": self._files.read_json(layout.STATS) if (root / layout.STATS).is_file() else None,
                "left_out": self._left_out,
            }
        }
        tasks_of_episodes = [entry.get("tasks") or [self._config.task] for entry in self._files.episodes]
        instructions = ["; ".join(map(str, tasks)) for tasks in tasks_of_episodes]
        return DataSet(self.spec, metadata, instructions, self._episodes, self._notes)

    def _observation(self, name: str, feature: Mapping[str, Any]) -> ArraySpec | None:
        """Return the spec of an observation, or None if it is left out, with a note."""
        reason, key = self._why_left_out(name, feature), layout.key_of(name)
        if reason is not None:
            self._left_out.append(name)
            self._notes.add("Observations left out", f"{key}: {reason}")
            return None
        if feature["dtype"] not in ("image", "video"):
            self._numbers.append(name)
            return ArraySpec(_shape(feature), "float32", names=_names(feature))
        header, camera = self._files.image_header(name), key.removeprefix(IMAGES)
        where, declared = f"{self._files.root}: {name!r} of the first frame", layout.declared_image(feature, camera)
        images = foreign_images(self._config, camera, header.shape, header.dtype, self._notes, where, declared)
        if images is None:
            self._left_out.append(name)
            return None
        self._layouts[name] = images
        return ArraySpec(images.shape, "uint8")

    def _why_left_out(self, name: str, feature: Mapping[str, Any]) -> str | None:
        if layout.key_of(name) in self._config.leave_out:
            return "foreign.leave_out"
        if feature["dtype"] in layout.TEXTS:
            return "words"
        if feature["dtype"] not in (*_NOT_NUMBERS, *_NUMBERS):
            return f"values of type {feature['dtype']}"
        info = {**(feature.get("info") or {}), **(feature.get("video_info") or {})}
        if feature["dtype"] == "video" and (info.get("video.is_depth_map") or info.get("is_depth_map")):
            return "depth as a video"
        return None

    def _episodes(self) -> Iterator[EpisodeArrays]:
        files, spec = self._files, self.spec
        keys = {layout.key_of(name): name for name in (*self._numbers, *self._layouts)}
        for number, entry in enumerate(files.episodes):
            if not entry["length"]:
                self._notes.add("Episodes without frames, left out", str(number))
                continue
            columns = files.columns(number, self._columns)
            observation: dict[str, Array] = {}
            missing: dict[str, list[int]] = {}
            for key in spec.observation:
                name = keys[key]
                if name in self._layouts:
                    images = self._layouts[name]
                    frames: list[int] | None = None if self._config.faults == "refuse" else []
                    observation[key] = images.convert(files.images(number, name, images.stored, frames))
                    missing[key] = frames or []
                    if turn := files.rotations.get(name):
                        self._notes.add(f"Videos that state a rotation of {turn} degrees, which is ignored", key)
                    if name in files.beyond_range:
                        self._notes.add(
                            "Videos that exceed brightness 16 to 235 and do not state the full range; if they were "
                            "recorded with it, the imported images have too much contrast",
                            key,
                        )
                else:
                    rows = columns[name] if columns[name].ndim > 1 else columns[name][:, None]
                    observation[key] = as_float32(rows, name, self._notes)
            actions = columns["action"]
            episode = ForeignEpisode(
                number,
                files.data_path(number),
                observation,
                actions if actions.ndim > 1 else actions[:, None],
                rewards=_scalars(columns, "next.reward"),
                done=_scalars(columns, "next.done"),
                success=_scalars(columns, "next.success"),
                stamp_ns=self._stamps(number, columns),
                names=keys,
                missing=missing,
            )
            yield from foreign_episodes(self._config, spec, episode, self._notes)

    def _stamps(self, number: int, columns: Mapping[str, Array]) -> Array:
        """Return the times of an episode's frames [ns], as recorded or computed from the numbers of the frames."""
        place = f"{self._files.data_path(number)}: episode {number}"
        frames = columns.get("frame_index")
        seconds = columns.get("timestamp")
        for name, rows in (("frame_index", frames), ("timestamp", seconds)):
            if rows is not None and not np.isfinite(rows).all():
                frame = int((~np.isfinite(rows)).argmax())
                raise DataError(f"{place}: {name!r} of frame {frame} is missing or not finite")
        if (
            frames is not None
            and (back := np.diff(frames) < 0).any()
            and (np.sort(frames) == np.arange(len(frames))).all()
        ):
            row = int(back.argmax())
            raise DataError(
                f"{place}: its rows are not in the order of 'frame_index': frame {frames[row + 1]:g} follows frame "
                f"{frames[row]:g}; sort the table by episode_index and frame_index"
            )
        if seconds is not None:
            check_times(seconds, self.spec.control_rate, f"{place}: 'timestamp'")
        if seconds is None:
            seconds = (
                np.arange(self._files.episodes[number]["length"]) if frames is None else frames
            ) / self._files.rate
        elif frames is not None:
            neighbours = np.abs(np.diff(seconds) * self.spec.control_rate - 1) <= GAP
            if (skipped := neighbours & (np.diff(frames) != 1)).any():
                frame = int(skipped.argmax())
                raise DataError(
                    f"{place}: frame_index goes from {frames[frame]} to {frames[frame + 1]}, timestamp from "
                    f"{seconds[frame]:.4g} to {seconds[frame + 1]:.4g} s: they contradict each other"
                )
        check_times(np.asarray(seconds), self.spec.control_rate, f"{place}: 'frame_index'")
        stamps: Array = np.rint(np.asarray(seconds, np.float64) * 1e9).astype(np.int64)
        return stamps


_NOT_NUMBERS = ("image", "video", *layout.TEXTS)
_FLOATS = ("float16", "float32", "float64")
_NUMBERS = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), *_FLOATS)


def _shape(feature: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(feature["shape"])


def _scalars(columns: Mapping[str, Array], name: str) -> Array | None:
    rows = columns.get(name)
    if rows is not None and rows.ndim != 1:
        raise DataError(f"expected one value of {name!r} per frame, but shape {rows.shape[1:]} is declared")
    return rows


def _names(feature: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a feature's elements if each element has one; some data sets nest them in an object."""
    names = feature.get("names")
    if isinstance(names, dict):
        names = next(iter(names.values()), None)
    is_complete = isinstance(names, list) and [len(names)] == list(feature["shape"])
    return tuple(map(str, names)) if is_complete and isinstance(names, list) else ()
