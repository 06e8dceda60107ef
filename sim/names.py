"""Name clashes between an arm's file and the scene of a task or the simulator."""

from collections.abc import Collection, Mapping
from typing import Any

import mujoco

from robo_rl.core import ConfigError

from .config import ArmConfig

KINDS = (
    *("cameras", "lights", "geoms", "materials", "textures", "bodies", "joints", "sites", "sensors", "actuators"),
    *("meshes", "hfields", "tendons", "equalities"),
)
RENAMED = KINDS[:10]
"""Kinds whose references can be changed."""
PREFIX = "arm_"

REFERENCES: dict[str, tuple[tuple[str, str], ...]] = {
    "geoms": (("pairs", "geomname1"), ("pairs", "geomname2")),
    "materials": tuple((kind, "material") for kind in ("geoms", "sites", "tendons", "skins", "meshes")),
    "bodies": (
        *(("excludes", "bodyname1"), ("excludes", "bodyname2")),
        *(("cameras", "targetbody"), ("lights", "targetbody")),
    ),
    "sites": (("actuators", "refsite"), ("actuators", "slidersite")),
}
"""Attributes that refer to a kind by name."""
OBJECTS = {
    "cameras": (mujoco.mjtObj.mjOBJ_CAMERA,),
    "geoms": (mujoco.mjtObj.mjOBJ_GEOM,),
    "bodies": (mujoco.mjtObj.mjOBJ_BODY, mujoco.mjtObj.mjOBJ_XBODY),
    "joints": (mujoco.mjtObj.mjOBJ_JOINT,),
    "sites": (mujoco.mjtObj.mjOBJ_SITE,),
    "actuators": (mujoco.mjtObj.mjOBJ_ACTUATOR,),
}
"""Types under which sensors and equalities refer to a kind."""
TARGETS = {
    "bodies": (mujoco.mjtTrn.mjTRN_BODY,),
    "joints": (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT),
    "sites": (mujoco.mjtTrn.mjTRN_SITE, mujoco.mjtTrn.mjTRN_SLIDERCRANK),
}
"""Types of transmission by which actuators refer to a kind."""


def scene_names(scene: mujoco.MjSpec) -> dict[str, set[str]]:
    """Return the names in a scene by kind."""
    return {kind: {element.name for element in getattr(scene, kind)} - {"", "world"} for kind in KINDS}


def rename_clashes(arm: mujoco.MjSpec, taken: Mapping[str, Collection[str]], config: ArmConfig) -> None:
    """Rename elements of ``arm`` whose names are taken: ``front`` becomes ``arm_front``.

    Args:
        arm: spec of the arm, changed in place. References are updated.
        taken: names that ``arm`` must not use, by kind.
        config: configuration with the arm's file and the elements of it that keep their names.

    Raises:
        ConfigError: if an element has to keep its name, or a reference to it cannot be changed.
    """
    protected: dict[str, set[str | None]] = {
        "joints": {*config.joints, *config.gripper_joints},
        "sites": {config.end_effector, config.wrist_sensor_site},
        "actuators": {config.gripper_actuator},
    }
    counts, renamed = _attached(arm), []
    for kind, names in taken.items():
        own = {element.name for element in getattr(arm, kind)}
        for name in sorted(own & set(names)):
            if kind not in RENAMED or name in protected.get(kind, set()):
                raise _clash(config, kind, name)
            new = PREFIX + name
            while new in names or new in own:
                new = PREFIX + new
            own.add(new)
            next(element for element in getattr(arm, kind) if element.name == name).name = new
            _update_references(arm, kind, name, new)
            renamed.append((kind, name))
    # MuJoCo silently drops elements that refer to a missing name, such as a tendon around a geom.
    if renamed and _attached(arm) != counts:
        raise _clash(config, *renamed[0])


def _clash(config: ArmConfig, kind: str, name: str) -> ConfigError:
    return ConfigError(
        f"arm.model: {config.model} and the scene of the task both name one of their {kind} {name!r}; "
        "rename it in the file"
    )


def _attached(arm: mujoco.MjSpec) -> list[int]:
    """Return the number of elements of each kind that a scene gets from ``arm``."""
    scene = mujoco.MjSpec()
    scene.attach(arm.copy(), prefix="", frame=scene.worldbody.add_frame())
    return [len(getattr(scene, kind)) for kind in (*KINDS, "pairs", "excludes", "skins")]


def _update_references(arm: mujoco.MjSpec, kind: str, old: str, new: str) -> None:
    """Update references to the element ``old`` of ``arm`` to ``new``."""
    for referring, key in REFERENCES.get(kind, ()):
        for element in getattr(arm, referring):
            _replace(element, key, old, new)
    for material in arm.materials if kind == "textures" else ():
        textures = list(material.textures)
        if old in textures:
            material.textures = [new if texture == old else texture for texture in textures]
    for sensor in arm.sensors:
        if sensor.objtype in OBJECTS.get(kind, ()):
            _replace(sensor, "objname", old, new)
        if sensor.reftype in OBJECTS.get(kind, ()):
            _replace(sensor, "refname", old, new)
    for equality in arm.equalities:
        of_joints = kind == "joints" and equality.type == mujoco.mjtEq.mjEQ_JOINT
        if of_joints or equality.objtype in OBJECTS.get(kind, ()):
            _replace(equality, "name1", old, new)
            _replace(equality, "name2", old, new)
    for actuator in arm.actuators:
        if actuator.trntype in TARGETS.get(kind, ()):
            _replace(actuator, "target", old, new)


def _replace(element: Any, key: str, old: str, new: str) -> None:
    if getattr(element, key) == old:
        setattr(element, key, new)
