"""Shapes of the bodies of a MuJoCo model, as a browser draws them."""

import json
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from .scene_meshes import encode_meshes
from .scene_sizes import MOST_BODIES, MOST_GEOMS, SHAPES

VISIBLE_GROUPS = 3
"""Number of groups of geoms that MuJoCo shows by default: the first ones. Geoms of the others collide."""
KEEP_OUT_COLOUR = (0.9, 0.35, 0.1, 0.25)
CAMERA = "view"
"""Name of the camera whose view the scene has at first, if the model has it."""
GEOMETRY_BYTES = 1 << 20
"""Largest size of a geometry [bytes]; the learner refuses larger ones."""
DECIMALS = 6
"""Decimals of positions [m] and quaternions."""

TYPES = {int(getattr(mujoco.mjtGeom, f"mjGEOM_{shape.upper()}")): shape for shape in SHAPES}
"""Types of geoms that are shown, by MuJoCo's number."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SceneLimits:
    """Limits of the safety filters that a scene shows.

    Attributes:
        low: lower corner (3) of the box in which the end effector stays [m]; None: there is no box.
        high: upper corner (3) of this box [m]; None: there is no box.
        keep_out: names of the geoms from which the arm keeps away.
    """

    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    keep_out: tuple[str, ...] = ()


class SceneGeometry:
    """Choice of the geoms of a model that are shown, and of the bodies that move them.

    Bodies without joints belong to the body that moves them; those that nothing moves, to the world. Shown are the
    geoms that MuJoCo shows by default or, if a moving body has none of these, those with which it collides. Textures
    are replaced by their mean colour; height fields, skins and tendons are left out.

    Args:
        model: the compiled model.
        limits: limits that are shown.
        known: numbers of the bodies whose poses are known; others are left out if they move. None: all are.

    Attributes:
        bodies: numbers of the moving bodies that have shapes.
    """

    def __init__(self, model: Any, limits: SceneLimits, known: Collection[int] | None = None) -> None:
        self._model, self._limits = model, limits
        self._anchors = _anchors(model)
        self._tints = {each: _tint(model, each) for each in range(model.nmat)}
        posed = {0, *(range(model.nbody) if known is None else known)}
        numbers = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, name) for name in limits.keep_out]
        keep_out = {number for number in numbers if number >= 0}
        by_body: dict[int, list[int]] = {}
        for number in range(model.ngeom):
            anchor = self._anchors[model.geom_bodyid[number]]
            is_drawn = self._rgba(number)[3] > 0 or number in keep_out
            if anchor in posed and is_drawn and int(model.geom_type[number]) in TYPES:
                by_body.setdefault(anchor, []).append(number)
        self._geoms: list[int] = []
        for numbers in by_body.values():
            visible = [each for each in numbers if model.geom_group[each] < VISIBLE_GROUPS or each in keep_out]
            self._geoms += visible or numbers
        del self._geoms[MOST_GEOMS:]
        self._keep_out = keep_out
        used = {self._anchors[model.geom_bodyid[number]] for number in self._geoms} - {0}
        self.bodies = sorted(used)[:MOST_BODIES]
        kept = {0, *self.bodies}
        self._geoms = [each for each in self._geoms if self._anchors[model.geom_bodyid[each]] in kept]
        meshes = {int(model.geom_dataid[each]) for each in self._geoms if TYPES[int(model.geom_type[each])] == "mesh"}
        self._mesh_numbers = sorted(meshes)
        self._meshes = encode_meshes(model, self._mesh_numbers)

    def describe(self, data: Any) -> dict[str, Any]:
        """Return the scene as JSON values, given a state whose kinematics are computed; cameras are computed here.

        - ``geoms``: ``type``, MuJoCo's ``size`` (3) [m], ``colour`` (4), ``body``, the place of its body in
          :attr:`bodies` plus one or 0 for the world, ``pose`` (7) in this body, and ``mesh``, a place in ``meshes``.
        - ``meshes``: see :func:`.encode_meshes`.
        - ``bodies``: the names of the moving bodies.
        - ``box``: corners (6) of the workspace [m]; empty: none.
        - ``camera``: position (3), point at which it looks (3) [m], and vertical angle of view [degrees].
        """
        low, high = self._limits.low, self._limits.high
        mujoco.mj_comPos(self._model, data)
        mujoco.mj_camlight(self._model, data)
        return {
            "bodies": [self._model.body(number).name or f"body {number}" for number in self.bodies],
            "geoms": [self._geom(data, number) for number in self._geoms],
            "meshes": self._meshes,
            "box": [] if low is None or high is None else [*map(float, (*low, *high))],
            "camera": self._camera(data),
        }

    def poses(self, data: Any) -> list[float]:
        """Return position [m] and quaternion (7 numbers) of each of :attr:`bodies`, one after another."""
        poses = np.concatenate([data.xpos[self.bodies], data.xquat[self.bodies]], axis=1)
        return rounded(poses.ravel())

    def _geom(self, data: Any, number: int) -> dict[str, Any]:
        model = self._model
        body = self._anchors[model.geom_bodyid[number]]
        turned, relative, world = np.empty(4), np.empty(4), np.empty(4)
        mujoco.mju_negQuat(turned, data.xquat[body])
        mujoco.mju_mat2Quat(world, data.geom_xmat[number])
        mujoco.mju_mulQuat(relative, turned, world)
        offset = data.xmat[body].reshape(3, 3).T @ (data.geom_xpos[number] - data.xpos[body])
        colour = self._rgba(number)
        if number in self._keep_out and colour[3] in (0.0, 1.0):
            colour = KEEP_OUT_COLOUR
        geom = {
            "type": TYPES[int(model.geom_type[number])],
            "size": rounded(model.geom_size[number]),
            "colour": [round(float(part), 3) for part in colour],
            "body": 0 if body == 0 else self.bodies.index(body) + 1,
            "pose": rounded(np.concatenate([offset, relative])),
        }
        if geom["type"] == "mesh":
            geom["mesh"] = self._mesh_numbers.index(int(model.geom_dataid[number]))
        return geom

    def _rgba(self, number: int) -> Sequence[float]:
        """Return the colour of a geom: its own unless it is MuJoCo's default, otherwise that of its material."""
        model, own = self._model, self._model.geom_rgba[number].tolist()
        material = int(model.geom_matid[number])
        if material < 0 or own != [0.5, 0.5, 0.5, 1.0]:
            return list(own)
        return list((model.mat_rgba[material] * self._tints[material]).tolist())

    def _camera(self, data: Any) -> list[float]:
        """Return a camera: its position, the point of its axis that is nearest to the scene's centre, and its angle."""
        model, centre = self._model, np.array(self._model.stat.center)
        number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, CAMERA)
        if number < 0:
            extent = float(model.stat.extent)
            return rounded([*(centre + extent * np.array([1.1, -1.1, 0.8])), *centre, 45.0])
        position, axis = data.cam_xpos[number], -data.cam_xmat[number].reshape(3, 3)[:, 2]
        distance = max(float((centre - position) @ axis), 0.1)
        return rounded([*position, *(position + distance * axis), float(model.cam_fovy[number])])


def rounded(values: Any) -> list[float]:
    """Return numbers with :data:`DECIMALS` decimals."""
    result: list[float] = np.round(np.asarray(values, np.float64), DECIMALS).tolist()
    return result


def encoded(shapes: dict[str, Any]) -> tuple[str, bytes]:
    """Return the ``version`` of a scene of :meth:`SceneGeometry.describe`, and both as a JSON text.

    Meshes of a scene that is larger than :data:`GEOMETRY_BYTES` are left out.
    """
    version = f"{zlib.crc32(json.dumps(shapes).encode()):08x}"
    text = json.dumps({"version": version, **shapes}, separators=(",", ":")).encode()
    if len(text) > GEOMETRY_BYTES:  # the shapes are bounded in number, so these are meshes
        shapes["geoms"] = [geom for geom in shapes["geoms"] if geom["type"] != "mesh"]
        text = json.dumps({"version": version, **shapes, "meshes": []}, separators=(",", ":")).encode()
    return version, text


def arm_bodies(model: Any, body: int) -> set[int]:
    """Return the bodies of the tree that ``body``, one of an arm, is in, without those that are placed from outside."""
    root = model.body_rootid[body]
    return {each for each in range(1, model.nbody) if model.body_rootid[each] == root and model.body_mocapid[each] < 0}


def _anchors(model: Any) -> list[int]:
    """Return for each body the body that moves it: itself if it has joints or is a mocap body, 0 if nothing does."""
    anchors = [0]
    for body in range(1, model.nbody):
        moves = model.body_jntnum[body] > 0 or model.body_mocapid[body] >= 0
        anchors.append(body if moves else anchors[model.body_parentid[body]])
    return anchors


def _tint(model: Any, material: int) -> Array:
    """Return the factors (4) by which the texture of a material changes its colour on average."""
    tint, texture = np.ones(4), int(model.mat_texid[material].max())
    if texture >= 0:
        begin, channels = int(model.tex_adr[texture]), int(model.tex_nchannel[texture])
        end = begin + int(model.tex_height[texture]) * int(model.tex_width[texture]) * channels
        tint[:3] = model.tex_data[begin:end].reshape(-1, channels)[:, :3].mean(axis=0) / 255
    return tint
