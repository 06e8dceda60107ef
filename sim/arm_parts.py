"""Parts of an arm in its model: the chain of its joints, the joints of its gripper, and the hand."""

import re
from collections.abc import Iterator
from typing import Any

import mujoco

from robo_rl.core import ConfigError

MOVABLE = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
GRIPPER_NAME = re.compile("grip|finger|jaw|knuckle|claw", re.IGNORECASE)


def find_parts(world: Any, path: str) -> tuple[tuple[str, ...], list[str], Any]:
    """Return the names of the arm's joints and of its gripper's, and the body that the last joint of the arm moves.

    Raises:
        ConfigError: if the model is not that of one arm, for all reasons at once.
    """
    chain, branches = _chain(world)
    unnamed = [body.name for body in chain for joint in body.joints if not joint.name]
    problems = [f"a joint of the body {body!r} has no name" for body in unnamed]
    joints = [(joint.name, body) for body in chain for joint in body.joints if joint.type in MOVABLE and joint.name]
    beyond = [joint for branch in branches for body in branch for joint in body.joints]
    fingers = [joint.name for joint in beyond if joint.type in MOVABLE and joint.name]
    while joints and GRIPPER_NAME.search(joints[-1][0]):
        fingers.insert(0, joints.pop()[0])
    if any(joint.type not in MOVABLE for body in chain for joint in body.joints):
        problems.append("a ball or free joint is between base and end effector, where only hinges and slides may be")
    if not joints:
        problems.append("it has no chain of named hinges and slides that begins at the world")
    elif max((sum(len(body.joints) for body in branch) for branch in branches), default=0) > len(joints):
        problems.append(
            f"it forks after {joints[-1][0]!r} into longer chains of joints; an arm forks at its gripper alone"
        )
    if problems:
        raise ConfigError(f"{path} cannot be used as an arm: {'; '.join(problems)}")
    return tuple(name for name, _ in joints), fingers, joints[-1][1]


def below(body: Any, rigid: bool = False) -> Iterator[Any]:
    """Yield a body and all that hang on it; with ``rigid``, those alone that do not move against it."""
    yield body
    for child in body.bodies:
        if not rigid or not child.joints:
            yield from below(child, rigid)


def _moves(body: Any) -> bool:
    return any(each.joints for each in below(body))


def _chain(world: Any) -> tuple[list[Any], list[list[Any]]]:
    """Return the bodies from the base to where the chain of joints ends or forks, and those of each branch of a fork.

    Raises:
        ConfigError: if several chains begin at the world.
    """
    chain: list[Any] = []
    children = [child for child in world.bodies if _moves(child)]
    if len(children) > 1:
        names = ", ".join(repr(child.name) for child in children)
        raise ConfigError(f"the model must hold one arm alone, but {names} move independently of each other")
    while len(children) == 1:
        chain.append(children[0])
        children = [child for child in children[0].bodies if _moves(child)]
    return chain, [list(below(child)) for child in children]
