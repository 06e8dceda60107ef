"""Data about data sets for the page of ``robo-rl web``. All functions read files, so they are called in threads.

A data set may come from anywhere. Links below the named folder are therefore not followed, and sizes are limited before
anything is read.
"""

import math
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..actor import jpeg
from ..core import ArraySpec, DataError, read_bytes
from ..evaluation.runs import folders_in, matching
from ..evaluation.viewer import quantities
from ..recording.quality import FLAGS, is_picture, measure
from ..replay import EpisodeArrays, EpisodeStore
from ..replay.layout import step_fields
from .run_table import clip
from .small_pictures import scaled
from .watched_runs import stamp_of

FACTS_FILE = "dataset.json"
DEMONSTRATIONS = "demonstrations"
"""Name of the data set in a run folder."""


class TextLimits(NamedTuple):
    """Limits on a JSON file. While a text is parsed, no other thread runs, not even that of an emergency stop.

    Attributes:
        size: largest size of the file [bytes].
        line_size: largest size of a line [bytes].
        values: largest number of values of a line, counted by their commas.
        collections: largest number of lists and objects of a line, which take much longer than other values.
    """

    size: int
    line_size: int
    values: int
    collections: int


TEXTS = {
    FACTS_FILE: TextLimits(4 << 20, 4 << 20, 200_000, 50_000),
    "episodes.jsonl": TextLimits(16 << 20, 512 << 10, 20_000, 10_000),
    "labels.json": TextLimits(4 << 20, 4 << 20, 2_000_000, 50_000),
}
MOST_FILES = 100_000
MOST_FOLDERS = 1000
LEVELS = 3
"""Depth to which data sets are searched for below a named folder, as in RUNS/RUN/demonstrations."""
NUMBERS_BYTES = 256 << 20
"""Largest size of an episode whose numbers are read [bytes]."""
PICTURE_BYTES = 16 << 20
"""Largest size of a picture that is shown [bytes]."""
CHECKED_BYTES = 2 << 30
"""Largest size of all pictures of a data set that are checked for flags [bytes]."""
MOST_ELEMENTS = 64
"""Largest number of elements of an observation that is plotted."""
MOST_PLOTS = 24
MOST_LINES = 8
"""Largest number of lines in a plot, each of which has a colour."""
POINTS = 400
"""Largest number of points of a line in a plot."""
SPARK_POINTS = 60
THUMBNAIL_WIDTH = 160
"""Width of the small pictures of an episode [pixels]."""
GAP_WIDTH = 4

Array = NDArray[np.float64]


class SearchResult(NamedTuple):
    """Data sets, and links to folders, which are not searched."""

    sets: list[Path]
    links: list[Path]


def data_sets_in(pattern: str) -> SearchResult:
    """Return the data sets at or below the folders that a pattern names. Links below these folders are not followed.

    Raises:
        DataError: if the pattern is not valid, or there are too many folders.
    """
    found, budget = SearchResult([], []), iter(range(MOST_FOLDERS))
    for match in matching(pattern):
        _find_below(match, LEVELS, budget, found)
    return found


def _find_below(path: Path, levels: int, budget: Iterator[int], found: SearchResult) -> None:
    if next(budget, None) is None:
        raise DataError(f"more than {MOST_FOLDERS:,} folders to search; name those of the data sets, as data=[{path}]")
    try:
        if stat.S_ISREG(os.lstat(path / FACTS_FILE).st_mode):
            # Resolved, because new data sets are written beside it.
            found.sets.append(path if path.name not in ("", "..") else path.resolve())
            return
    except OSError:
        pass
    for each in folders_in(path) if levels else ():
        if each.is_symlink():
            found.links.append(each)
        elif ".partial-" not in each.name:
            _find_below(each, levels - 1, budget, found)


def demonstrations_of(run: Path) -> SearchResult:
    """Return the data set in a run folder, if there is one. A link is not followed."""
    folder, found = run / DEMONSTRATIONS, SearchResult([], [])
    if folder.is_symlink():
        found.links.append(folder)
    else:
        _find_below(folder, 0, iter(range(1)), found)
    return found


def check_files(path: Path) -> int:
    """Check that a data set consists of regular files of limited size and number; return their size [bytes].

    Raises:
        OSError: if a folder cannot be read.
        DataError: if there is a link or another kind of file, or a file is too large.
    """
    folders, count, size = [str(path)], 0, 0
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                count += 1
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    raise DataError(f"{entry.path} is a link or not a regular file; the page shows no such data set")
                if count > MOST_FILES:
                    raise DataError(f"{path} has more than {MOST_FILES:,} files; the page shows no such data set")
                size += entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else 0
    for name, limits in TEXTS.items():
        with suppress(FileNotFoundError):
            text = read_bytes(path / name, limits.size)
            for line in text.split(b"\n") if limits.line_size < limits.size else [text]:
                counts = len(line), line.count(b","), line.count(b"[") + line.count(b"{")
                if any(count > most for count, most in zip(counts, limits[1:], strict=True)):
                    raise DataError(f"{path / name} has too many values to be read for the page")
    return size


def open_data_set(path: Path) -> tuple[EpisodeStore, int]:
    """Open a data set for reading after :func:`check_files`; return its size [bytes], too."""
    size = check_files(path)
    return EpisodeStore.open(path), size


def stamp_of_set(path: Path) -> object:
    """Return a value that changes whenever the data set does."""
    return stamp_of(path / FACTS_FILE), stamp_of(path / "episodes.jsonl")


def describe_set(store: EpisodeStore) -> dict[str, Any]:
    """Return the facts of a data set, with length and success of each episode, as JSON values."""
    records = store.records
    outcomes = [record.success for record in records]
    instructions = store.metadata.get("instructions")
    return {
        "path": str(store.path),
        "name": clip(store.path.name),
        "task": clip(store.spec.task),
        "rate": store.spec.control_rate,
        "steps": [record.steps for record in records],
        "success": outcomes,
        "cameras": cameras(store),
        "sizes": {key: list(store.spec.observation[key].shape[:2]) for key in cameras(store)},
        "joints": observes_joints(store),
        "instructions": [clip(str(each)) for each in instructions] if isinstance(instructions, list) else [],
    }


def observes_joints(store: EpisodeStore) -> bool:
    """Return whether positions of joints are observed, by which an arm can be posed."""
    state = store.spec.observation.get("state")
    return state is not None and any(name.endswith(("_position", "_sin")) for name in state.names)


def cameras(store: EpisodeStore) -> list[str]:
    """Return the observation keys of pictures that can be shown."""
    return [
        key
        for key, array in store.spec.observation.items()
        if is_picture(array) and array.nbytes <= PICTURE_BYTES and min(array.shape) > 0
    ]


def flagged(store: EpisodeStore) -> dict[str, Any]:
    """Return the flags of each episode, their meanings, and whether pictures were checked, as JSON values.

    Raises:
        DataError: if the data is damaged, or an episode is too large.
    """
    spec = store.spec
    longest = max((record.steps + 1 for record in store.records), default=0)
    total = store.files.observation_rows
    pictures = {key for key, array in spec.observation.items() if is_picture(array)}
    picture_bytes = sum(spec.observation[key].nbytes for key in pictures)
    with_pictures = longest * picture_bytes <= NUMBERS_BYTES and total * picture_bytes <= CHECKED_BYTES
    keys = [key for key in spec.observation if with_pictures or key not in pictures]
    check_size(store, longest, [key for key in keys if key not in pictures])
    measured = measure(
        (store.arrays(number, keys) for number in range(len(store))),
        replace(spec, observation={key: spec.observation[key] for key in keys}),
    )
    flags = [{name: clip(text) for name, text in each.flags.items()} for each in measured]
    return {"flags": flags, "meanings": dict(FLAGS), "unchecked": bool(pictures) and not with_pictures}


def check_size(store: EpisodeStore, rows: int, keys: list[str]) -> None:
    """Check the size of an episode: its observations ``keys``, and the other records of its steps.

    Raises:
        DataError: if it is larger than :data:`NUMBERS_BYTES`.
    """
    observed = sum(store.spec.observation[key].nbytes for key in keys)
    recorded = sum(math.prod(field.shape) * np.dtype(field.dtype).itemsize for field in step_fields(store.spec))
    size = rows * (observed + recorded)
    if size > NUMBERS_BYTES:
        raise DataError(
            f"{store.path}: an episode has {size >> 20} MiB of numbers; at most {NUMBERS_BYTES >> 20} are read"
        )


def picture(store: EpisodeStore, number: int, row: int, key: str) -> bytes:
    """Return an observed picture of an episode as JPEG.

    Raises:
        DataError: if it does not exist, is too large or is damaged.
    """
    return jpeg(_pixels(store, number, row, key))


def _pixels(store: EpisodeStore, number: int, row: int, key: str) -> NDArray[np.uint8]:
    """Return a picture (height, width, 3), or (height, width, 1) if it is grey."""
    check_number(store, number)
    if key not in cameras(store):
        raise DataError(f"{store.path}: there is no camera {key!r}")
    pixels: NDArray[np.uint8] = store.files.row(f"observation/{key}", number, row)
    # the last of the stacked frames is the newest
    return pixels[..., -3:] if pixels.shape[2] >= 3 else pixels[..., -1:]


def thumbnail(store: EpisodeStore, number: int, count: int) -> bytes | dict[str, Any]:
    """Return small pictures of an episode side by side or, if it has none, drawings as JSON values.

    Drawings are lines in [0, 1]: the path of the end effector in the plane, if it is known, and the sum of the reward
    terms over time or, if that has fewer than three values, the norm of the action.

    Args:
        store: the data set.
        number: number of the episode.
        count: 1 for the picture in the middle or the first drawing; 3 for the first, middle and last picture or all
            drawings.

    Raises:
        DataError: if the data is damaged, the episode is too large, or ``count`` is another number.
    """
    check_number(store, number)
    if count not in (1, 3):
        raise DataError(f"expected 1 or 3 pictures, got {count}")
    steps = store.records[number].steps
    if keys := cameras(store):
        rows = [0, steps // 2, steps] if count == 3 else [steps // 2]
        pictures = [scaled(_pixels(store, number, row, keys[0]), THUMBNAIL_WIDTH) for row in rows]
        gap = np.full((pictures[0].shape[0], GAP_WIDTH, pictures[0].shape[2]), 255, np.uint8)
        return jpeg(np.concatenate([part for each in pictures for part in (gap, each)][1:], axis=1))
    place = _plane(store)
    check_size(store, steps + 1, [place[0]] if place else [])
    data = store.arrays(number, [place[0]] if place else [])
    drawings = []
    if place:
        key, columns = place
        path = _thinned(data.observation[key].reshape(steps + 1, -1)[:, columns], stride_of(steps + 1, SPARK_POINTS))
        extent = max(float(np.ptp(path, axis=0).max()), 1e-9)
        centre = (path.min(axis=0) + path.max(axis=0)) / 2
        drawings.append({"kind": "path", "line": _rounded((path - centre) / extent + 0.5)})
    return {"drawings": [*drawings, _spark(data)][:count]}


def _spark(data: EpisodeArrays) -> dict[str, Any]:
    """Return the sum of an episode's reward terms over time; the norm of its action if that has fewer than 3 values.

    A run weights the terms, so its reward may differ from their sum.
    """
    steps = data.record.steps
    rewards = np.sum([values.astype(np.float64) for values in data.rewards.values()], axis=0) if data.rewards else None
    if rewards is not None and len(np.unique(rewards)) > 2:
        kind, values = "sum of the reward terms", rewards
    else:
        actions = data.executed_action.reshape(steps, -1).astype(np.float64)
        kind, values = "norm of the action", np.linalg.norm(actions, axis=1)
    values = values[:: stride_of(steps, SPARK_POINTS)]
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    scaled = (values - low) / max(high - low, 1e-9)
    return {"kind": kind, "line": _rounded(np.stack([np.linspace(0, 1, len(scaled)), scaled], axis=1))}


def _plane(store: EpisodeStore) -> tuple[str, list[int]] | None:
    """Return the observation key and the two elements of the end effector's position; None if no names match."""
    for key, array in store.spec.observation.items():
        names = array.names
        for group in quantities(names).values() if len(array.shape) == 1 and array.shape[0] <= MOST_ELEMENTS else ():
            ends = {names[index][-2:]: index for index in group}
            if {"_x", "_y"} <= ends.keys():
                return key, [ends["_x"], ends["_y"]]
    return None


def signals(store: EpisodeStore, number: int) -> dict[str, Any]:
    """Return plots of the numbers of an episode: observations, actions and reward terms, as JSON values.

    Raises:
        DataError: if the data is damaged, or the episode is too large.
    """
    check_number(store, number)
    numbers = {key: array for key, array in store.spec.observation.items() if not is_picture(array)}
    plotted = {key: array for key, array in numbers.items() if math.prod(array.shape) <= MOST_ELEMENTS}
    check_size(store, store.records[number].steps + 1, list(plotted))
    data = store.arrays(number, list(plotted))
    stride = stride_of(data.record.steps + 1, POINTS)  # the same stride for observations, which have one row more
    plots: list[dict[str, Any]] = []
    for title, names, values in _series(data, plotted, store.spec.action.names):
        groups = quantities(names) if title in plotted else {title: list(range(len(names)))}
        for quantity, columns in groups.items():
            for start in range(0, len(columns), MOST_LINES):
                chosen = columns[start : start + MOST_LINES]
                plots.append(
                    {
                        "title": clip(title if title == quantity else f"{title}: {quantity}"),
                        "names": [clip(names[column]) for column in chosen],
                        "values": _rounded(_thinned(values[:, chosen], stride).T),
                    }
                )
    return {
        "plots": plots[:MOST_PLOTS],
        "stride": stride,
        "unplotted": [clip(key) for key in numbers if key not in plotted],
    }


def _series(
    data: EpisodeArrays, plotted: dict[str, ArraySpec], action_names: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...], NDArray[Any]]]:
    """Yield title, names and values (rows, elements) of the numbers of an episode."""
    steps = data.record.steps
    actions = data.executed_action.reshape(steps, -1)[:, :MOST_ELEMENTS]
    action_names = (action_names or tuple(f"action[{index}]" for index in range(actions.shape[1])))[:MOST_ELEMENTS]
    yield "executed action", action_names, actions
    if not np.array_equal(data.executed_action, data.proposed_action):
        yield "proposed action", action_names, data.proposed_action.reshape(steps, -1)[:, :MOST_ELEMENTS]
    if data.rewards:
        terms = list(data.rewards)[:MOST_ELEMENTS]
        yield "reward terms", tuple(terms), np.stack([data.rewards[term] for term in terms], axis=1)
    for key, array in plotted.items():
        names = array.names or tuple(f"{key}[{index}]" for index in range(math.prod(array.shape)))
        yield key, names, data.observation[key].reshape(steps + 1, -1)


def check_number(store: EpisodeStore, number: int) -> None:
    """Check that there is an episode of this number.

    Raises:
        DataError: if not.
    """
    if not 0 <= number < len(store):
        raise DataError(f"{store.path}: there is no episode {number}; it holds {len(store)}, counted from 0")


def stride_of(rows: int, most: int) -> int:
    """Return the distance of rows of which at most ``most`` are chosen."""
    return max(-(-rows // most), 1)


def _thinned(rows: NDArray[Any], stride: int) -> Array:
    return rows[::stride].astype(np.float64)


def _rounded(values: Array) -> list[list[float | None]]:
    """Return values (n, m) as JSON values; None for a value that is not finite, before or after rounding."""
    rounded = [[float(f"{value:.5g}") for value in row] for row in values.tolist()]
    return [[value if math.isfinite(value) else None for value in row] for row in rounded]
