"""The scene around the car: floor, walls along the track, rough patches, light and cameras."""

import math

import mujoco
import numpy as np

from robo_rl.core import generator

from ..arm import looking_at
from ..scene import add_backdrop, set_physics
from .car import BODY, GROUND, WALL, WHEEL
from .config import DriveConfig
from .track import ClosedPath

WALL_PIECE, WALL_THICKNESS = 0.4, 0.2
"""Length on the centre line and thickness of the boxes that make up the walls [m]."""

PATCH_LENGTH, PATCH_RISE, RIB_SPACING = 1.2, 0.002, 0.15
"""Rough patches: length, height of their ground above the floor, and distance between their ribs [m]."""


def make_scene(config: DriveConfig) -> mujoco.MjSpec:
    """Return a floor under a sky."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    set_physics(spec, 1.0 / config.physics_rate)
    _add_looks(spec)
    ground = {"contype": GROUND, "conaffinity": WHEEL | BODY}
    spec.worldbody.add_geom(
        name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=(30, 30, 0.1), material="floor",
        friction=(config.car.friction, 0.005, 0.0001), **ground,
    )  # fmt: skip
    return spec


def add_track(spec: mujoco.MjSpec, config: DriveConfig, track: ClosedPath) -> None:
    """Add walls along ``track``, rough patches on it, and the camera ``view`` of the whole track."""
    _add_walls(spec, config, track)
    _add_rough_patches(spec, config, track)
    low, high = track.points.min(0), track.points.max(0)
    middle, reach = (low + high) / 2, float((high - low).max())
    eye, target = (middle[0], middle[1] - 0.66 * reach, 0.98 * reach), (middle[0], middle[1] - 0.16 * reach, 0)
    spec.worldbody.add_camera(name="view", pos=eye, fovy=54, **looking_at(eye, target))
    spec.stat.extent = reach
    spec.stat.center = (*middle, 0)
    spec.visual.map.znear = 0.005


def _add_looks(spec: mujoco.MjSpec) -> None:
    add_backdrop(spec, light=(0.44, 0.46, 0.48), dark=(0.40, 0.42, 0.44), texrepeat=(1, 1), texuniform=True)
    spec.visual.headlight.ambient = (0.35, 0.35, 0.37)
    spec.visual.headlight.diffuse = (0.2, 0.2, 0.2)
    spec.visual.headlight.specular = (0, 0, 0)
    spec.worldbody.add_light(
        name="sun", type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, pos=(3, -3, 8), dir=(-0.4, 0.5, -1.2),
        diffuse=(0.6, 0.58, 0.55), specular=(0.2, 0.2, 0.2), castshadow=True,
    )  # fmt: skip


def _add_walls(spec: mujoco.MjSpec, config: DriveConfig, track: ClosedPath) -> None:
    height = config.track.wall_height
    count = round(track.length / WALL_PIECE)
    s = np.arange(count) * track.length / count
    forward = track.tangent(s)
    left = np.stack([-forward[:, 1], forward[:, 0]], axis=1)
    for side, name in ((1, "left"), (-1, "right")):
        corners = track.at(s) + side * config.track.width / 2 * left
        for number in range(count):
            start, end = corners[number], corners[(number + 1) % count]
            along = end - start
            outwards = side * np.array([-along[1], along[0]]) / math.hypot(*along)
            middle = (start + end) / 2 + WALL_THICKNESS / 2 * outwards
            colour = (0.85, 0.85, 0.83, 1) if number % 2 else (0.75, 0.25, 0.2, 1)
            spec.worldbody.add_geom(
                name=f"wall_{name}{number}", type=mujoco.mjtGeom.mjGEOM_BOX, pos=(*middle, height / 2),
                size=(math.hypot(*along) / 2 + 0.005, WALL_THICKNESS / 2, height / 2), rgba=colour,
                quat=_about_z(math.atan2(along[1], along[0])), contype=WALL, conaffinity=BODY,
                friction=(0.3, 0.005, 0.0001),
            )  # fmt: skip


def _add_rough_patches(spec: mujoco.MjSpec, config: DriveConfig, track: ClosedPath) -> None:
    """Add patches of slippery ground with ribs across the track, none of them on the start line."""
    rng = generator(config.track.seed, "rough patches")
    friction = (config.track.rough_friction * config.car.friction, 0.005, 0.0001)
    half_width = config.track.width / 2
    count = config.track.rough_patches
    for number in range(count):
        part = track.length / (count + 0.5)
        s = (number + 0.5) * part + rng.uniform(0.0, 0.5) * part
        forward, centre = track.tangent(s), track.at(s)
        patch = spec.worldbody.add_body(
            name=f"rough{number}", pos=(*centre, 0), quat=_about_z(math.atan2(forward[1], forward[0]))
        )
        # If two geoms touch, the one with the higher priority determines the friction.
        surface = {"contype": GROUND, "conaffinity": WHEEL | BODY, "priority": 1, "friction": friction}
        patch.add_geom(
            name=f"rough{number}", type=mujoco.mjtGeom.mjGEOM_BOX, size=(PATCH_LENGTH / 2, half_width, 0.01),
            pos=(0, 0, PATCH_RISE - 0.01), rgba=(0.50, 0.40, 0.28, 1), **surface,
        )  # fmt: skip
        for rib in np.arange(-PATCH_LENGTH / 2 + RIB_SPACING / 2, PATCH_LENGTH / 2, RIB_SPACING):
            radius = 0.02
            patch.add_geom(
                type=mujoco.mjtGeom.mjGEOM_CAPSULE, size=(radius, half_width, 0), rgba=(0.42, 0.33, 0.23, 1),
                pos=(rib + rng.uniform(-0.03, 0.03), 0, PATCH_RISE + config.track.rough_height - radius),
                quat=(math.cos(math.pi / 4), math.sin(math.pi / 4), 0, 0), **surface,
            )  # fmt: skip


def _about_z(angle: float) -> tuple[float, float, float, float]:
    return math.cos(angle / 2), 0.0, 0.0, math.sin(angle / 2)
