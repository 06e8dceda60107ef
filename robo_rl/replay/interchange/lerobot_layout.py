"""Files and features of a LeRobotDataset, v2.1 and v3.0, as huggingface/lerobot documents them.

Written from https://huggingface.co/docs/lerobot/lerobot-dataset-v3 and the readers of lerobot 0.3.2 and 0.6.1.
Data that the format has no place for is in ``meta/robo_rl/``, which its readers ignore.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DataError, EnvSpec, image_axes

from ..layout import EpisodeArrays, step_fields
from .data import IMAGES, check_names, library, step_columns

Array = NDArray[Any]
Feature = dict[str, Any]

V21, V3 = "v2.1", "v3.0"
CHUNK = 1000
DATA_MEGABYTES, VIDEO_MEGABYTES = 100, 200

INFO = "meta/info.json"
STATS = "meta/stats.json"
FACTS = "meta/robo_rl/dataset.json"
FINAL = "meta/robo_rl/episodes.parquet"

TASKS_V21 = "meta/tasks.jsonl"
EPISODES_V21 = "meta/episodes.jsonl"
EPISODE_STATS_V21 = "meta/episodes_stats.jsonl"
DATA_V21 = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
VIDEO_V21 = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"

TASKS_V3 = "meta/tasks.parquet"
EPISODES_V3 = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA_V3 = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_V3 = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"

INDICES: dict[str, Feature] = {
    "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    "frame_index": {"dtype": "int64", "shape": [1], "names": None},
    "episode_index": {"dtype": "int64", "shape": [1], "names": None},
    "index": {"dtype": "int64", "shape": [1], "names": None},
    "task_index": {"dtype": "int64", "shape": [1], "names": None},
}

_KNOWN = {"state": "observation.state", "object": "observation.environment_state"}
_OURS = "robo_rl."
_NEXT = {"terminated": "next.done", "truncated": "next.truncated"}
SUCCESS_TERM = "success"
TEXTS = ("string", "language")
"""Types of features that hold text."""


def feature_of(key: str) -> str:
    """Return the feature name of an observation key: without slashes, and LeRobot's own name if it has one."""
    return _KNOWN.get(key, f"observation.{key.replace('/', '.')}")


def key_of(feature: str) -> str:
    """Return the observation key of a feature ``observation.*``."""
    keys = {name: key for key, name in _KNOWN.items()}
    name = feature.removeprefix("observation.")
    return keys.get(feature, f"{IMAGES}{name[7:]}" if name.startswith("images.") else name)


def check_holds(spec: EnvSpec, images: str) -> None:
    """Check that a LeRobotDataset can hold data with this spec.

    Args:
        spec: spec of the data set.
        images: ``png`` or ``video``.

    Raises:
        DataError: naming what it cannot hold.
    """
    if spec.control_rate != round(spec.control_rate):
        raise DataError(
            f"a LeRobotDataset needs a whole number of frames per second, but the data has {spec.control_rate} Hz"
        )
    check_names(spec, feature_of)
    for key, array in spec.observation.items():
        if key.startswith(IMAGES) and array.shape[2] == 1 and images == "video":
            raise DataError(f"a video needs colour images, but {key!r} has shape {array.shape}: use format.images=png")
        if key.startswith(IMAGES) and array.shape[2] not in (1, 3):
            raise DataError(
                f"a LeRobotDataset holds images of one frame, but {key!r} has shape {array.shape}; record with "
                "task.observation.frame_stack=1, or export to robomimic"
            )


def features_of(spec: EnvSpec, images: str) -> dict[str, Feature]:
    """Return the features of the data, as in ``meta/info.json``.

    Args:
        spec: spec of the data set.
        images: ``image`` or ``video``.
    """
    features: dict[str, Feature] = {}
    for key, array in spec.observation.items():
        if key.startswith(IMAGES):
            names: Any = ["height", "width", "channels"]
            features[feature_of(key)] = {"dtype": images, "shape": list(array.shape), "names": names}
        else:
            size = int(np.prod(array.shape))
            names = list(array.names) or None
            features[feature_of(key)] = {"dtype": array.dtype, "shape": [size], "names": names}
    names = list(spec.action.names) or [f"action_{index}" for index in range(spec.action.shape[0])]
    features["action"] = {"dtype": "float32", "shape": list(spec.action.shape), "names": names}
    if SUCCESS_TERM in spec.reward_terms:
        features["next.reward"] = {"dtype": "float32", "shape": [1], "names": None}
    if spec.reports_success:
        features["next.success"] = {"dtype": "bool", "shape": [1], "names": None}
    for field in step_fields(spec):
        size = int(np.prod(field.shape))
        if size:  # false if a task has no reward terms
            terms = list(spec.reward_terms) if field.name == "rewards" else names
            feature = {"dtype": field.dtype, "shape": [size], "names": terms if field.shape else None}
            features[_column(field.name)] = feature
    return features | INDICES


def _column(name: str) -> str:
    return _NEXT.get(name, _OURS + name)


def columns_of(episode: EpisodeArrays, spec: EnvSpec, action: str) -> dict[str, Array]:
    """Return the features of an episode of L steps except images and indices, (L, ...) by name.

    Args:
        episode: the episode.
        spec: spec of the data set.
        action: action that becomes ``action``: ``proposed`` or ``executed``.
    """
    columns = {feature_of(key): rows[:-1] for key, rows in episode.observation.items() if not key.startswith(IMAGES)}
    steps = step_columns(episode, spec)
    columns["action"] = steps[f"{action}_action"]
    if SUCCESS_TERM in spec.reward_terms:
        columns["next.reward"] = episode.rewards[SUCCESS_TERM]
    if spec.reports_success:
        columns["next.success"] = episode.success == 1
    return columns | {_column(name): rows for name, rows in steps.items() if rows.size}


def steps_of(columns: Mapping[str, Array], spec: EnvSpec) -> dict[str, Array]:
    """Return the step arrays of the data set: inverse of :func:`columns_of`."""
    steps = {field.name: columns[_column(field.name)] for field in step_fields(spec) if _column(field.name) in columns}
    if not spec.reward_terms:
        steps["rewards"] = np.zeros((len(columns["frame_index"]), 0), np.float32)
    return steps


def check_features(features: Any, where: object) -> dict[str, Feature]:
    """Return the features of a foreign data set after checking that each has a type and a shape.

    Raises:
        DataError: naming the feature that lacks one of them.
    """
    if not isinstance(features, dict):
        raise DataError(f"{where}: expected the features as an object, found {str(features)[:40]!r}")
    for name, feature in features.items():
        values = feature if isinstance(feature, dict) else {}
        if not isinstance(values.get("dtype"), str):
            raise DataError(f"{where}: the feature {name!r} states no dtype, such as 'float32'")
        shape = values.get("shape")
        if not isinstance(shape, list) or not all(type(side) is int and side > 0 for side in shape):
            if values["dtype"] in TEXTS and shape is None:
                continue
            raise DataError(
                f"{where}: the feature {name!r} has the shape {shape!r}, expected a list of whole numbers above 0"
            )
    return features


def read_count(values: Any, name: str, where: object, most: int, least: int = 0) -> int:
    """Return a whole number from ``least`` to ``most`` of a foreign object.

    Raises:
        DataError: if it is missing or has another value.
    """
    value = values.get(name) if isinstance(values, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most or value % 1:
        raise DataError(f"{where}: {name!r} must be a whole number from {least} to {most}, found {value!r}")
    return int(value)


def arrow_schema(features: Mapping[str, Feature]) -> Any:
    """Return the schema of the data files, with the metadata for the ``datasets`` library."""
    arrow = library("pyarrow")
    fields: list[tuple[str, Any]] = []
    feature_types: dict[str, Any] = {}
    for name, feature in features.items():
        if feature["dtype"] == "video":
            continue
        if feature["dtype"] == "image":
            kind: Any = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
            feature_types[name] = {"_type": "Image"}
        else:
            kind = arrow.from_numpy_dtype(np.dtype(feature["dtype"]))
            value = {"dtype": feature["dtype"], "_type": "Value"}
            feature_types[name] = value
            if feature["shape"] != [1]:
                kind = arrow.list_(kind, feature["shape"][0])
                feature_types[name] = {"feature": value, "length": feature["shape"][0], "_type": "Sequence"}
        fields.append((name, kind))
    return arrow.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": feature_types}})})


def to_arrow(rows: Array, kind: Any) -> Any:
    """Return ``rows`` (n, ...) as an Arrow array of type ``kind``."""
    arrow = library("pyarrow")
    flat = arrow.array(np.ascontiguousarray(rows).reshape(-1))
    return arrow.FixedSizeListArray.from_arrays(flat, kind.list_size) if arrow.types.is_fixed_size_list(kind) else flat


def from_arrow(column: Any, shape: tuple[int, ...], name: str) -> Array:
    """Return an Arrow column of numbers as rows (n, *shape); a row or number that is null becomes NaN.

    Args:
        column: column of numbers or of lists of numbers.
        shape: shape of one row; a single number may also be in a list.
        name: name of the column, for error messages.

    Raises:
        DataError: if a row has another shape, or does not hold numbers.
    """
    arrow, compute = library("pyarrow"), library("pyarrow.compute")
    values, count, rows_per = column.combine_chunks(), len(column), 1
    for size in shape:
        values = getattr(values, "storage", values)  # for values with an extension type
        if not _is_list(values.type):
            if rows_per * size == 1:
                continue
            raise DataError(f"column {name!r} holds {values.type}, but shape {shape} is declared")
        lengths = compute.fill_null(compute.list_value_length(values), size).to_numpy(zero_copy_only=False)
        if (wrong := lengths != size).any():
            row = int(wrong.argmax())
            raise DataError(
                f"{name!r} of row {row // rows_per} has {lengths[row]} values, expected {size} (declared shape {shape})"
            )
        if values.null_count:
            absent = np.repeat(~values.is_valid().to_numpy(zero_copy_only=False), size)
            values = values.flatten().take(arrow.array(np.cumsum(~absent) - 1, mask=absent))
        else:
            values = values.flatten()
        rows_per *= size
    values = getattr(values, "storage", values)
    kind = values.type
    if not (arrow.types.is_floating(kind) or arrow.types.is_integer(kind) or arrow.types.is_boolean(kind)):
        raise DataError(f"column {name!r} holds {kind}, but numbers of shape {shape} are declared")
    if values.null_count:
        values = values.cast(arrow.float32() if arrow.types.is_boolean(kind) else arrow.float64())
    numbers: Array = values.to_numpy(zero_copy_only=False)
    return numbers.reshape(count, *shape)


def _is_list(kind: Any) -> bool:
    types = library("pyarrow").types
    return bool(types.is_list(kind) or types.is_fixed_size_list(kind) or types.is_large_list(kind))


def declared_image(feature: Mapping[str, Any], name: str) -> tuple[int, int, int]:
    """Return (height, width, channels) of a feature, from its names or from its shape if that is unambiguous.

    Raises:
        SpecError: if the order of the axes is ambiguous.
    """
    shape = tuple(int(side) for side in feature["shape"])
    names = feature.get("names")
    axes = "".join(str(axis)[:1].lower() for axis in names) if isinstance(names, list) else ""
    if sorted(axes) != sorted("hwc"[: len(shape)]):
        axes = image_axes(name, shape, "foreign.images")
    sides = dict(zip(axes, shape, strict=True))
    return sides["h"], sides["w"], sides.get("c", 1)
