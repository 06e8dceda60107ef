"""Configuration files of a robot of one's own, filled in from the model of its arm."""

import importlib.resources
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from robo_rl.core import ConfigError, printable

from . import make_backend
from .arm_description import ArmDescription, describe_arm
from .config import ArmConfig, ControllerConfig

WORKSPACE = (0.3, 0.4, 0.25)
"""Half of the workspace's sides, as shares of the reach."""
GOALS = (0.15, 0.2, 0.12)
"""Half of the sides of the box of goals, as shares of the reach."""
LOWEST = 0.02
"""Lowest corner of both boxes above the table [m]."""
LARGEST_SCALE = 0.1
"""Largest motion of a joint by a full action [rad or m]."""
CONTROL_RATE = 10.0


def make_robot_files(
    name: str, model: Path, task: str | None = None, end_effector: str | None = None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the texts of the files by their paths, and assumptions to check, a sentence each.

    A URDF file becomes an MJCF file among them, in which everything that URDF cannot say can be corrected. An MJCF file
    that refers to no other files is copied; one with meshes stays where it is.

    Args:
        name: name of the robot.
        model: path of its arm's MJCF or URDF file.
        task: name of a task of the user's own that the arm is to do, besides ``reach``; None if there is none.
        end_effector: name of a site or body of the arm; None: it is looked for.

    Raises:
        ConfigError: if the model cannot be read, or the arm cannot be simulated.
    """
    path = str(model.resolve())
    arm = describe_arm(path, end_effector)
    options = _options(path, arm)
    files = {}
    with tempfile.TemporaryDirectory() as scratch:
        if mjcf := arm.mjcf or _whole(model):
            files[f"arm/{name}.xml"] = mjcf
            written = Path(scratch) / f"{name}.xml"
            written.write_text(mjcf, encoding="utf-8")
            options["arm"]["model"] = str(written)
        parts = {"arm": ArmConfig(**options["arm"]), "controller": ControllerConfig(**options["controller"])}
        make_backend("reach", **options | parts).reset(seed=0)  # raises what the model does not allow
    if mjcf:
        options["arm"]["model"] = f"arm/{name}.xml"  # robo-rl looks for it where it finds the configuration
    files |= {
        f"arm/{name}.yaml": _arm(model.name, options, arm.notes),
        f"task/reach_{name}.yaml": _reach(name, options),
        f"robot/{name}.yaml": _robot(name),
    }
    if task is not None:
        files[f"task/{task}_{name}.yaml"] = _own_task(task, name)
    return files, arm.notes


def _whole(model: Path) -> str:
    """Return the text of an MJCF file; an empty one if it refers to other files, such as meshes, or is not UTF-8."""
    if any("file" in element.attrib for element in ElementTree.parse(model).iter()):
        return ""
    try:
        return model.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def _options(path: str, arm: ArmDescription) -> dict[str, Any]:
    """Return the options of the task ``reach`` for an arm."""
    workspace, goals = _box(arm, WORKSPACE), _box(arm, GOALS)
    return {
        "control_rate": CONTROL_RATE,
        "arm": {
            "model": path,
            "joints": arm.joints,
            "end_effector": arm.end_effector,
            "home": arm.home,
            "velocity_limits": arm.velocity_limits,
            "torque_limits": arm.torque_limits,
            "gripper_actuator": arm.gripper_actuator,
            "gripper_joints": arm.gripper_joints,
            "gripper_closed": arm.gripper_range[0],
            "gripper_open": arm.gripper_range[1],
            "wrist_sensor_site": None,
        },
        "controller": {
            "action_space": "joint_delta",
            "action_axes": "xyz",
            "joint_scale": min(LARGEST_SCALE, round(min(arm.velocity_limits) / CONTROL_RATE, 4)),
            "workspace_low": workspace[0],
            "workspace_high": workspace[1],
        },
        "goal_low": goals[0],
        "goal_high": goals[1],
        "tolerance": 0.03,
    }


def _box(arm: ArmDescription, shares: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the corners of a box around the end effector at home, above the table."""
    sides = [
        (round(float(centre) - share * arm.reach, 3), round(float(centre) + share * arm.reach, 3))
        for centre, share in zip(arm.home_position, shares, strict=True)
    ]
    low, high = (list(corner) for corner in zip(*sides, strict=True))
    low[2] = max(low[2], LOWEST)
    high[2] = max(high[2], low[2] + LOWEST)
    return tuple(low), tuple(high)


def _arm(model: str, options: Mapping[str, Any], notes: Sequence[str]) -> str:
    """Return the file of the arm, which tasks include.

    Args:
        model: name of the file that the user named.
        options: options of the task ``reach``.
        notes: assumptions.

    Raises:
        ConfigError: if a name cannot be written to it.
    """
    arm = {key: options[key] for key in ("arm", "controller")}
    comments = [f"The arm of {model}, moved by changes of joint positions. Tasks include this file."]
    comments += [f"Check {note}." for note in notes]
    head = [f"# {' '.join(printable(comment).split())}" for comment in comments]  # names may hold line breaks
    text = _dump(arm)
    try:
        kept = OmegaConf.to_container(OmegaConf.create(text), resolve=True)
    except (OmegaConfBaseException, yaml.YAMLError) as error:
        raise ConfigError(f"a name in {model} cannot stand in a configuration: {error}") from error
    if kept != yaml.safe_load(yaml.safe_dump(arm)):
        raise ConfigError(f"a name in {model} would be read as something else from a configuration: rename it")
    return "\n".join([*head, text])


def _reach(name: str, options: Mapping[str, Any]) -> str:
    """Return the file of a task in which the arm reaches a point."""
    own = {key: value for key, value in options.items() if key not in ("arm", "controller")}
    return f"# Task reach with {name}.\n{_including('reach', name)}{_dump(own)}"


def _own_task(task: str, name: str) -> str:
    """Return the file of a task of the user's own with the arm."""
    return (
        f"# Task {task} with {name}.\n{_including(task, name)}controller:\n"
        "  # Scripted experts move the end effector. A robot whose driver takes joint positions needs joint_delta.\n"
        "  action_space: end_effector_delta\n"
    )


def _including(task: str, name: str) -> str:
    """Return the list of defaults of a task with the arm ``name``."""
    return f"defaults:\n  - {task}\n  - /arm/{name}@_here_\n  - _self_\n\n"


def _dump(values: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(dict(values), sort_keys=False, default_flow_style=None, width=120)
    return text


def _robot(name: str) -> str:
    """Return the file of the robot: that of the example, for ros2_control's forward_position_controller."""
    example = importlib.resources.files("robo_rl.examples") / "six_joint_arm" / "robot" / "six_joint_arm.yaml"
    return example.read_text(encoding="utf-8").replace("six_joint_arm", name)
