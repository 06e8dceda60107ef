"""Import of URDF files: what MuJoCo needs beyond them is checked, found or assumed, and stated."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import mujoco
import numpy as np

from robo_rl.core import ConfigError, check_mjcf

from .arm_parts import find_parts
from .urdf_completion import add_armature, add_gripper_servo, add_mimic, exclude_touching, set_groups
from .urdf_meshes import Meshes, resolve_meshes

KEPT = ("link", "joint", "material")
"""Elements of a robot that are imported. Others belong to ROS or Gazebo."""
COMPILER = {"discardvisual": "false", "fusestatic": "false", "strippath": "false", "balanceinertia": "true"}
XACRO = "{http://www.ros.org/wiki/xacro}"


class ArmFile(NamedTuple):
    """Content of the file of an arm.

    Attributes:
        spec: the model.
        velocities: velocity limits by joint [rad/s or m/s]; in MJCF there are none.
        notes: assumptions to check, a sentence each.
        is_urdf: whether it is a URDF file.
    """

    spec: Any
    velocities: Mapping[str, float] = {}
    notes: tuple[str, ...] = ()
    is_urdf: bool = False


def read_urdf(path: str, root: ElementTree.Element) -> ArmFile:
    """Return the arm of a URDF file with shapes for the eye and for contacts, servo of the gripper and armature.

    Args:
        path: path of the file, for messages and to find meshes.
        root: the file's element ``robot``; changed.

    Raises:
        ConfigError: if MuJoCo cannot make a model of it; the message lists all reasons.
    """
    if number := sum(map(_is_xacro, root.iter())):
        raise ConfigError(
            f"arm.model: {path} has {number} unresolved xacro elements; use xacro {Path(path).name} > arm.urdf"
        )
    own = root.find("mujoco/compiler")
    compiler = dict(own.attrib) if own is not None else {}
    meshes = resolve_meshes(root, Path(path), compiler.pop("meshdir", ""))
    for element in [each for each in root if each.tag not in KEPT]:
        root.remove(element)
    ElementTree.SubElement(ElementTree.SubElement(root, "mujoco"), "compiler", compiler | COMPILER)
    problems = [*meshes.problems(), *_link_problems(root), *_joint_problems(root)]
    spec = _parse(path, root, problems)
    parts = None
    try:
        parts = find_parts(spec.worldbody, path)
    except ConfigError as error:
        if problems:
            problems.append(str(error))
    if problems:
        raise ConfigError(f"arm.model: {path} cannot be imported: {'; '.join(problems)}")
    followers = {
        joint.get("name", ""): mimic for joint in root.iterfind("joint[mimic]") for mimic in joint.iter("mimic")
    }
    for name, mimic in followers.items():
        add_mimic(spec, name, mimic.get("joint", ""), (_number(mimic, "offset"), _number(mimic, "multiplier", 1.0)))
    velocities = dict(_velocities(root))
    notes = [*_notes(root, meshes), *add_armature(spec)]
    set_groups(spec)
    if parts is not None:
        notes += add_gripper_servo(spec, [name for name in parts[1] if name not in followers], velocities)
    notes += exclude_touching(spec)
    return ArmFile(spec, velocities, tuple(notes), is_urdf=True)


def _parse(path: str, root: ElementTree.Element, problems: Sequence[str]) -> Any:
    """Return MuJoCo's model of a robot; ``problems`` are reported with those that it finds."""
    check_mjcf(path, "arm.model", ElementTree.tostring(root))
    files: dict[str, str] = {}
    for mesh in root.iter("mesh"):  # MuJoCo takes files of one name in different folders for one mesh
        file = Path(mesh.get("filename", ""))
        alias = next(name for name in _aliases(file) if files.setdefault(name, str(file)) == str(file))
        mesh.set("filename", alias)
    try:
        spec = mujoco.MjSpec.from_string(ElementTree.tostring(root).decode())
    except ValueError as error:
        reasons = "; ".join([*problems, " ".join(str(error).split())])
        raise ConfigError(f"arm.model: {path} cannot be imported: {reasons}") from error
    for mesh in spec.meshes:
        mesh.file = files[mesh.file]
    return spec


def _aliases(file: Path) -> Iterator[str]:
    """Yield names for a mesh, its own first."""
    yield file.name
    yield from (f"{file.stem}_{number}{file.suffix}" for number in count(2))


def _is_xacro(element: ElementTree.Element) -> bool:
    return element.tag.startswith(XACRO) or any(
        sign in text for text in element.attrib.values() for sign in ("${", "$(")
    )


def _link_problems(root: ElementTree.Element) -> Iterator[str]:
    """Yield the links that move without any mass, in one sentence."""
    massless = [name for name, links in _rigid_parts(root) if not any(_mass(link) or _is_solid(link) for link in links)]
    if massless:
        yield (
            f"no inertia: the links {', '.join(massless)} move and have neither mass nor collision geometry; add "
            "<inertial>"
        )


def _joint_problems(root: ElementTree.Element) -> Iterator[str]:
    """Yield what is wrong with joints, a sentence each."""
    names = {joint.get("name") for joint in root.iterfind("joint") if joint.get("type") != "fixed"}
    unlimited = []
    for joint in root.iterfind("joint"):
        name, limit = joint.get("name", ""), joint.find("limit")
        if joint.get("type") in ("revolute", "prismatic"):
            low, high = (0.0, 0.0) if limit is None else (_number(limit, key) for key in ("lower", "upper"))
            if not low < high:
                unlimited.append(name)
        for element, keys in ((limit, ("effort", "velocity")), (joint.find("mimic"), ("offset", "multiplier"))):
            for key in keys:
                if element is not None and np.isnan(_number(element, key)):
                    what = "has a limit" if element is limit else f"mimics {element.get('joint')!r} by"
                    yield f"the joint {name!r} {what} {key}={element.get(key)!r}, which is no number"
        mimic = joint.find("mimic")
        if mimic is not None and not {name, mimic.get("joint")} <= names:
            yield f"the joint {name!r} mimics {mimic.get('joint')!r}, and the model lacks one of them"
    if unlimited:
        yield (
            f"no position limits: {', '.join(unlimited)} need <limit lower= upper=> with lower below upper; a joint "
            "that turns without end has the type continuous"
        )


def _notes(root: ElementTree.Element, meshes: Meshes) -> Iterator[str]:
    """Yield the assumptions about what a file lacks, a sentence each."""
    if meshes.left_out:
        names = ", ".join(dict.fromkeys(meshes.left_out))
        yield (
            f"pictures: MuJoCo cannot read visual meshes of {names}, which are shown by their collision geometry; a "
            "binary .stl or an .obj file of the same name beside each is taken instead"
        )
    moving = [link for _, links in _rigid_parts(root) for link in links]
    if assumed := [link.get("name", "") for link in moving if link.find("inertial") is None and _is_solid(link)]:
        yield f"inertia: none for {', '.join(assumed)}; that of the collision geometry, as dense as water, is taken"
    if unreal := [link.get("name", "") for link in moving if _is_impossible(link)]:
        yield f"inertia: no body has the moments of {', '.join(unreal)}; equal moments with the same sum are taken"


def _rigid_parts(root: ElementTree.Element) -> Iterator[tuple[str, list[ElementTree.Element]]]:
    """Yield the name of each link that a joint moves, with this link and all that are fixed to it."""
    links = {link.get("name", ""): link for link in root.iterfind("link")}
    fixed: dict[str, list[str]] = {}
    moved = []
    for joint in root.iterfind("joint"):
        parent, child = (
            end.get("link", "") if end is not None else "" for end in (joint.find("parent"), joint.find("child"))
        )
        if joint.get("type") == "fixed":
            fixed.setdefault(parent, []).append(child)
        else:
            moved.append(child)
    for name in moved:
        names = [name]
        for each in names:  # grows; a child belongs to one joint alone
            names += [child for child in fixed.get(each, ()) if child not in names]
        yield name, [links[each] for each in names if each in links]


def _mass(link: ElementTree.Element) -> float:
    mass = link.find("inertial/mass")
    value = 0.0 if mass is None else _number(mass, "value")
    return max(value, 0.0)


def _is_solid(link: ElementTree.Element) -> bool:
    return link.find("collision") is not None


def _is_impossible(link: ElementTree.Element) -> bool:
    """Return whether a principal moment of inertia exceeds the sum of the others."""
    inertia = link.find("inertial/inertia")
    if inertia is None:
        return False
    xx, yy, zz, xy, xz, yz = (_number(inertia, f"i{axes}") for axes in ("xx", "yy", "zz", "xy", "xz", "yz"))
    moments = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if not np.isfinite(moments).all():
        return False
    values = np.linalg.eigvalsh(moments)
    return bool(values[2] > (values[0] + values[1]) * (1 + 1e-6))


def _velocities(root: ElementTree.Element) -> Iterator[tuple[str, float]]:
    """Yield the joints that have a velocity limit, with the limit."""
    for joint in root.iterfind("joint[limit]"):
        for limit in joint.iter("limit"):
            value = _number(limit, "velocity")
            if 0 < value < np.inf:
                yield joint.get("name", ""), value


def _number(element: ElementTree.Element, key: str, default: float = 0.0) -> float:
    """Return a number of an element; NaN if it is none."""
    try:
        return float(element.get(key, default))
    except ValueError:
        return float("nan")
