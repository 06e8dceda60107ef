"""Names that an arm's file and the scene of a task both use."""

from typing import Any

import mujoco

from robo_rl.core import ConfigError

from .config import ArmConfig

KINDS = (
    *("cameras", "lights", "geoms", "materials", "textures"),
    *("bodies", "joints", "sites", "meshes", "hfields", "actuators", "sensors", "tendons", "equalities"),
)
RENAMED = KINDS[:5]
"""Kinds whose names nothing but the file itself refers to, in ways that are known."""
PREFIX = "arm_"


def rename_clashes(arm: mujoco.MjSpec, scene: mujoco.MjSpec, config: ArmConfig) -> None:
    """Rename what ``arm`` names as ``scene`` does: ``front`` becomes ``arm_front``.

    Args:
        arm: is changed.
        scene: without the arm.
        config: names the arm's file.

    Raises:
        ConfigError: if what has that name cannot be renamed, since others refer to it.
    """
    for kind in KINDS:
        taken = {element.name for element in getattr(scene, kind)} - {"", "world"}
        own = {element.name for element in getattr(arm, kind)}
        for element in getattr(arm, kind):
            if element.name not in taken:
                continue
            name = element.name
            if kind not in RENAMED:
                raise ConfigError(
                    f"arm.model: {config.model} and the scene of the task both name one of their {kind} {name!r}; "
                    "rename it in the file"
                )
            new = PREFIX + name
            while new in taken or new in own:
                new = f"{PREFIX}{new}"
            element.name = new
            own.add(new)
            _follow(arm, kind, name, new)


def _follow(arm: mujoco.MjSpec, kind: str, old: str, new: str) -> None:
    """Have what refers to the element ``old`` of ``arm`` refer to ``new``."""
    if kind == "materials":
        for element in (*arm.geoms, *arm.sites, *arm.tendons):
            _replace(element, "material", old, new)
    elif kind == "textures":
        for material in arm.materials:
            textures = list(material.textures)
            if old in textures:
                material.textures = [new if texture == old else texture for texture in textures]
    elif kind == "geoms":
        for pair in arm.pairs:
            _replace(pair, "geomname1", old, new)
            _replace(pair, "geomname2", old, new)
    types = {"cameras": mujoco.mjtObj.mjOBJ_CAMERA, "geoms": mujoco.mjtObj.mjOBJ_GEOM}
    for sensor in arm.sensors:
        if kind in types and sensor.objtype == types[kind]:
            _replace(sensor, "objname", old, new)
        if kind in types and sensor.reftype == types[kind]:
            _replace(sensor, "refname", old, new)


def _replace(element: Any, key: str, old: str, new: str) -> None:
    if getattr(element, key) == old:
        setattr(element, key, new)
