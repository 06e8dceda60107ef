"""Scenes of active runs for the page of ``robo-rl web``, checked before they are sent: a run may be anybody's."""

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..actor.scene_meshes import MOST_TRIANGLES
from ..actor.scene_sizes import MOST_BODIES, MOST_GEOMS, MOST_REASONS, SHAPES
from ..core import DataError
from ..telemetry import LiveWatch
from ..telemetry.live import FRAME, GEOMETRY
from .run_table import clip

VIEWS = CAMERAS, SCENE, NOTHING = "cameras", "scene", "nothing"
"""Views of robots on a page: pictures, three-dimensional scenes or, while the page is hidden, none."""
LARGEST = 1e4
"""Largest absolute value of a number in a scene, in its unit."""
MOST_MESHES = 200
MOST_VERTICES = 1 << 16
MOST_CHARACTERS = 64
"""Largest length of a name."""


class ScenePart(NamedTuple):
    """New part of the scene of a robot, for a page: ``geometry``, ``frame``, or the ``problem`` with one of these.

    Attributes:
        key: the robot and the part of its scene.
        stamp: number that changes with the part.
        message: JSON object with the ``robot`` and the part.
    """

    key: tuple[str, str]
    stamp: int
    message: dict[str, Any]


def new_scenes(run: Path, sent: Mapping[tuple[str, str], int]) -> list[ScenePart]:
    """Return the parts of a run's scenes whose stamps are not in ``sent`` yet, geometries first."""
    watch = LiveWatch(run)
    watch.watch()
    parts = []
    for key, (file, stamp) in sorted(watch.scenes().items(), key=lambda item: (item[0][1] == FRAME, item[0])):
        robot, part = key
        if sent.get(key) == stamp or part not in _CHECKS:
            continue
        try:
            if (content := watch.read_scene(file)) is None:
                continue
            value: dict[str, Any] = {part: _CHECKS[part](content)}
        except DataError as error:
            value = {"problem": clip(f"The scene of {robot} cannot be shown: {error}")}
        parts.append(ScenePart(key, stamp, {"robot": clip(robot), **value}))
    return parts


def checked_geometry(content: Any) -> dict[str, Any]:
    """Return a geometry, as :class:`~robo_rl.actor.SceneNews` describes it, with its known fields alone.

    Raises:
        DataError: if a field is missing or has another form, a number is not finite or too large, or there are too many
            bodies, geoms, meshes or triangles.
    """
    scene = _fields(content)
    bodies = [_text(name) for name in _list(scene, "bodies", MOST_BODIES)]
    meshes = [_fields(mesh) for mesh in _list(scene, "meshes", MOST_MESHES)]
    left = MOST_TRIANGLES
    for mesh in meshes:
        left -= _triangles(mesh, left)
    geoms = [_geom(_fields(geom), len(bodies), len(meshes)) for geom in _list(scene, "geoms", MOST_GEOMS)]
    return {
        "version": _text(scene.get("version")),
        "bodies": bodies,
        "geoms": geoms,
        "meshes": [{key: mesh[key] for key in ("vertices", "faces")} for mesh in meshes],
        "box": _numbers(scene, "box", 6, optional=True),
        "camera": _numbers(scene, "camera", 7),
    }


def checked_frame(content: Any) -> dict[str, Any]:
    """Return a frame, as :class:`~robo_rl.actor.SceneNews` describes it, with its known fields alone.

    Raises:
        DataError: as :func:`checked_geometry`.
    """
    frame = _fields(content)
    poses = _list(frame, "poses", 7 * MOST_BODIES)
    result: dict[str, Any] = {"version": _text(frame.get("version")), "poses": _numbers(frame, "poses", len(poses))}
    result |= {key: _numbers(frame, key, 3) for key in ("tip", "force") if key in frame}
    result["changed"] = [_text(name) for name in _list(frame, "changed", MOST_REASONS * 2)]
    return result


_CHECKS = {GEOMETRY: checked_geometry, FRAME: checked_frame}


def _geom(geom: Mapping[str, Any], bodies: int, meshes: int) -> dict[str, Any]:
    kind = geom.get("type")
    if kind not in SHAPES:
        raise DataError(f"expected type to be one of {', '.join(SHAPES)}, got {_brief(kind)}")
    result = {
        "type": kind,
        "size": _numbers(geom, "size", 3),
        "colour": _numbers(geom, "colour", 4),
        "body": _place(geom, "body", bodies + 1),
        "pose": _numbers(geom, "pose", 7),
    }
    return result | ({"mesh": _place(geom, "mesh", meshes)} if kind == "mesh" else {})


def _triangles(mesh: Mapping[str, Any], most: int) -> int:
    """Return the number of triangles of a mesh."""
    vertices, faces = (_bytes(mesh, key, size) for key, size in (("vertices", 12), ("faces", 6)))
    points, corners = np.frombuffer(vertices, "<f4"), np.frombuffer(faces, "<u2")
    if not 0 < len(corners) // 3 <= most:
        raise DataError(f"expected 1 to {MOST_TRIANGLES:,} triangles of all meshes, got more or none")
    if len(points) // 3 > MOST_VERTICES or int(corners.max()) >= len(points) // 3:
        raise DataError("expected faces of a mesh to name its vertices")
    if not (np.abs(points) <= LARGEST).all():  # false for NaN, too
        raise DataError(f"expected finite vertices up to {LARGEST:g} m")
    return len(corners) // 3


def _bytes(mesh: Mapping[str, Any], key: str, size: int) -> bytes:
    text = mesh.get(key)
    try:
        content = base64.b64decode(text, validate=True) if isinstance(text, str) else b"?"
    except (binascii.Error, ValueError):
        content = b"?"
    if len(content) % size:
        raise DataError(f"expected {key} of a mesh in base64, {size} bytes each")
    return content


def _fields(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"expected an object, got {_brief(value)}")
    return value


def _list(fields: Mapping[str, Any], key: str, most: int) -> list[Any]:
    value = fields.get(key)
    if not isinstance(value, list) or len(value) > most:
        raise DataError(f"expected {key}, a list of at most {most}, got {_brief(value)}")
    return value


def _numbers(fields: Mapping[str, Any], key: str, count: int, optional: bool = False) -> list[float]:
    values = _list(fields, key, count)
    is_complete = len(values) == count or (optional and not values)
    if not is_complete or not all(type(each) in (int, float) and abs(each) <= LARGEST for each in values):
        raise DataError(f"expected {key}, {count} finite numbers up to {LARGEST:g}, got {_brief(values)}")
    return [float(each) for each in values]


def _place(fields: Mapping[str, Any], key: str, count: int) -> int:
    value = fields.get(key)
    if type(value) is not int or not 0 <= value < count:
        raise DataError(f"expected {key}, a number below {count}, got {_brief(value)}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise DataError(f"expected a name, got {_brief(value)}")
    return clip(value[:MOST_CHARACTERS])


def _brief(value: Any) -> str:
    """Return a short description of a value that was rejected."""
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, str):
        value = value[:20]
    return clip(repr(value))[:30]
