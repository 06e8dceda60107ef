"""Files and features of an RLDS data set, as TensorFlow Datasets (TFDS) stores it.

Written from https://github.com/google-research/rlds (steps and their flags) and from the output of TFDS 4.9: a folder
with ``dataset_info.json``, ``features.json`` and TFRecord files with one Example per episode. An Example holds the
values of all steps under flat names, such as ``steps/observation/state``.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, DataError, EnvSpec, SpecError, decode_image_file, read_image_header

from ..layout import step_fields
from .data import IMAGES, as_type, check_packed
from .foreign_json import read_foreign_json
from .pictures import to_png
from .tfrecord import Values

INFO = "dataset_info.json"
FEATURES = "features.json"
FACTS = "robo_rl.json"
STATISTICS = "dataset_statistics.json"

STEPS = "steps"
OURS = "robo_rl"
RECORD = "episode_metadata/robo_rl_record"
INSTRUCTION = "language_instruction"

_OBSERVATION = "observation/"
_IMAGE = "_image"
_CLASS = "tensorflow_datasets.core.features"
_EXACT = ("float64", "uint64")
"""Types of numbers that an Example cannot hold exactly; they are stored as bytes."""


@dataclass(frozen=True)
class Feature:
    """One value of a step or an episode.

    Attributes:
        kind: ``tensor``, ``image``, ``text``, or ``other``, which is not read.
        shape: shape of one value; None for a variable size.
        dtype: dtype of the value.
        as_bytes: whether a tensor is stored as bytes.
    """

    kind: str
    shape: tuple[int | None, ...] = ()
    dtype: str = "float32"
    as_bytes: bool = False

    def encode(self, rows: NDArray[Any] | list[str]) -> Values:
        """Return values (n, ...) in the form in which an Example holds them."""
        if isinstance(rows, list):
            return [text.encode() for text in rows]
        if self.kind == "image":
            return [to_png(picture) for picture in rows]
        return [row.tobytes() for row in rows] if self.as_bytes else rows

    def decode(self, values: Values, where: object) -> NDArray[Any]:
        """Inverse of :meth:`encode` for numbers and images: (n, ...).

        Images of other projects have the shape of their files: (n, height, width) with one channel.

        Raises:
            DataError: if ``values`` are of another kind, or have another shape than declared.
        """
        if self.kind == "image":
            return self._images(values, where)
        try:
            rows = np.frombuffer(b"".join(_bytes(values)), self.dtype) if self.as_bytes else np.asarray(values)
            size = math.prod(_fixed_sides(self.shape))
            if None in self.shape or len(rows) % max(size, 1) or not size:
                raise ValueError(f"found {len(rows)} values, which is not a multiple")
            return as_type(rows, self.dtype).reshape(len(rows) // size, *_fixed_sides(self.shape))
        except (ValueError, TypeError) as error:
            raise DataError(f"{where}: expected {self.kind} values of shape {self.shape} ({error})") from error

    def _images(self, values: Values, where: object) -> NDArray[Any]:
        try:
            files = _bytes(values)
        except ValueError as error:
            raise DataError(f"{where}: expected images of shape {self.shape} ({error})") from error
        rows: list[NDArray[Any]] = []
        stored = sum(map(len, files))
        for number, data in enumerate(files):
            try:
                if not rows:
                    header = read_image_header(data)
                    size = (header.height, header.width)
                    declared = tuple(
                        side or stored_side for side, stored_side in zip(self.shape, (*size, 0), strict=False)
                    )
                    if declared[:2] != size:
                        raise SpecError(f"declared as {self.shape}, stored as {header}")
                    check_packed(stored, len(files) * math.prod(header.shape) * np.dtype(header.dtype).itemsize, where)
                rows.append(decode_image_file(data, size))
                if (rows[-1].shape, rows[-1].dtype) != (rows[0].shape, rows[0].dtype):
                    raise SpecError(f"its shape is {rows[-1].shape}, that of the first image is {rows[0].shape}")
            except SpecError as error:
                raise DataError(f"{where}: image of step {number}: {error}") from error
        return np.stack(rows) if rows else np.zeros((0, *_fixed_sides(self.shape)), self.dtype)

    def to_json(self) -> dict[str, Any]:
        """Return the feature in the form of ``features.json``."""
        shape = {"dimensions": [str(-1 if side is None else side) for side in self.shape]} if self.shape else {}
        if self.kind == "text":
            return {"pythonClassName": f"{_CLASS}.text_feature.Text", "text": {}}
        if self.kind == "image":
            image = {"shape": shape, "dtype": self.dtype, "encodingFormat": "png"}
            return {"pythonClassName": f"{_CLASS}.image_feature.Image", "image": image}
        name = "tensor_feature.Tensor" if self.shape else "scalar.Scalar"
        tensor = {"shape": shape, "dtype": self.dtype, "encoding": "bytes" if self.as_bytes else "none"}
        return {"pythonClassName": f"{_CLASS}.{name}", "tensor": tensor}


def features_of(spec: EnvSpec) -> dict[str, Feature]:
    """Return the features of an export of data with ``spec``, by flat name."""
    flags = {name: Feature("tensor", (), "bool") for name in ("is_first", "is_last", "is_terminal")}
    scalars = {name: Feature("tensor") for name in ("reward", "discount")}
    step = {"action": _tensor(spec.action), **scalars, **flags, INSTRUCTION: Feature("text")}
    step |= {observation_name(key): _tensor(array, key) for key, array in spec.observation.items()}
    step |= {f"{OURS}/{field.name}": Feature("tensor", field.shape, field.dtype) for field in own_fields(spec)}
    return {**{f"{STEPS}/{name}": feature for name, feature in step.items()}, RECORD: Feature("text")}


def own_fields(spec: EnvSpec) -> list[Any]:
    """Return the non-empty step arrays that are specific to robo-rl."""
    return [field for field in step_fields(spec) if math.prod(field.shape)]


def observation_name(key: str) -> str:
    """Return the flat name of an observation within a step: without slashes in the key, with a suffix for images."""
    image = _IMAGE if key.startswith(IMAGES) else ""
    return f"{_OBSERVATION}{key.removeprefix(IMAGES).replace('/', '_')}{image}"


def observation_key(name: str, feature: Feature) -> str | None:
    """Return the key of another project's observation from its flat name, or None if it is not an observation.

    Numbers with three axes are assumed to be images, since robots record no other such data.
    """
    if name == f"{STEPS}/observation":
        return "state"
    inner = name.removeprefix(f"{STEPS}/{_OBSERVATION}")
    if inner == name or feature.kind in ("text", "other"):
        return None
    image = feature.kind == "image" or len(feature.shape) == 3
    return f"{IMAGES}{inner.removesuffix(_IMAGE)}" if image else inner


def features_json(features: Mapping[str, Feature]) -> str:
    """Return ``features.json``: the features as a tree, whose ``steps`` are a nested data set."""
    tree: dict[str, Any] = {}
    for name, feature in features.items():
        *folders, last = name.split("/")
        node = tree
        for folder in folders:
            node = node.setdefault(folder, {})
        node[last] = feature.to_json()
    return json.dumps(_dictionary({**tree, STEPS: {"sequence": tree[STEPS]}}), indent=2)


def read_features(text: str | bytes, where: Path) -> dict[str, Feature]:
    """Inverse of :func:`features_json`; features that are not numbers, images or text have kind ``other``.

    Raises:
        DataError: if ``text`` is damaged.
    """
    features: dict[str, Feature] = {}

    def visit(node: Mapping[str, Any], name: str) -> None:
        if "featuresDict" in node:
            for key, child in node["featuresDict"]["features"].items():
                visit(child, f"{name}/{key}" if name else key)
        elif "sequence" in node and name == STEPS:
            visit(node["sequence"]["feature"], name)
        else:
            features[name] = _read_feature(node)

    try:
        visit(read_foreign_json(text, where), "")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{where} is damaged ({type(error).__name__}: {error})") from error
    return features


def _read_feature(node: Mapping[str, Any]) -> Feature:
    if "image" in node:
        shape, dtype = _shape(node["image"]), node["image"].get("dtype", "uint8")
        if len(shape) == 3 and dtype in ("uint8", "uint16"):
            return Feature("image", shape, dtype)
    elif "tensor" in node:
        tensor = node["tensor"]
        shape, dtype, encoding = _shape(tensor), tensor.get("dtype", "float32"), tensor.get("encoding", "none")
        if dtype in ("string", "object"):
            return Feature("text")
        number = np.dtype(dtype)
        if number.kind in "biuf" and None not in shape and encoding in ("none", "bytes"):
            return Feature("tensor", shape, str(number), encoding == "bytes")
    return Feature("text" if "text" in node else "other")


def info_json(name: str, description: str, sizes: list[tuple[int, int]]) -> str:
    """Return ``dataset_info.json`` for shards of ``sizes`` (episodes, bytes)."""
    split = {
        "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
        "name": "train",
        "numBytes": str(sum(size for _, size in sizes)),
        "shardLengths": [str(episodes) for episodes, _ in sizes],
    }
    info = {"description": description, "fileFormat": "tfrecord", "name": name, "splits": [split], "version": "1.0.0"}
    return json.dumps(info, indent=2)


def shard_name(name: str, split: str, number: str, count: str) -> str:
    """Return the name of a TFRecord file."""
    return f"{name}-{split}.tfrecord-{number}-of-{count}"


def _tensor(array: ArraySpec, key: str = "") -> Feature:
    if key.startswith(IMAGES) and array.dtype == "uint8" and array.shape[2:] == (3,):
        return Feature("image", array.shape, "uint8")
    return Feature("tensor", array.shape, array.dtype, array.dtype in _EXACT)


def _dictionary(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tree of features in the form of TFDS."""
    features = {}
    for name, node in tree.items():
        if name == STEPS and "sequence" in node:
            steps = {"feature": _dictionary(node["sequence"]), "length": "-1"}
            features[name] = {"pythonClassName": f"{_CLASS}.dataset_feature.Dataset", "sequence": steps}
        else:
            features[name] = node if "pythonClassName" in node else _dictionary(node)
    return {"pythonClassName": f"{_CLASS}.features_dict.FeaturesDict", "featuresDict": {"features": features}}


def _shape(node: Mapping[str, Any]) -> tuple[int | None, ...]:
    sides = (int(side) for side in node.get("shape", {}).get("dimensions", ()))
    return tuple(None if side < 0 else side for side in sides)


def _fixed_sides(shape: tuple[int | None, ...]) -> list[int]:
    return [side for side in shape if side is not None]


def _bytes(values: Values) -> list[bytes]:
    if not isinstance(values, list):
        raise ValueError("found numbers")
    return values
