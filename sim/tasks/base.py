"""The base class of an arm's tasks, and their shared parts: boxes, captions, contacts of the fingers."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from robo_rl.core import Observation, ScriptedExpert

from ..arm import looking_at
from ..backend import ArmBackend
from ..config import ArmConfig, TaskConfig
from ..episode import SimulatedTask
from ..simulation import ArmSimulation

Array = NDArray[np.float64]


class Task(SimulatedTask):
    """A task of an arm: the world around it, made from its configuration.

    The arm's base is at the origin, the table's top is z = 0, and gravity points to -z. When ``build`` is called, arm,
    table, lights and cameras exist already. When ``initialise`` is called, the arm is at home and ``mj_forward`` has
    run; it runs again afterwards.
    """

    config_class: ClassVar[type[TaskConfig]]
    cameras: ClassVar[tuple[str, ...]] = ("front", "wrist")

    def __init__(self, config: TaskConfig) -> None:
        self.config = config

    def make_backend(self) -> ArmBackend:
        return ArmBackend(self)

    @abstractmethod
    def expert(self, backend: ArmSimulation, rng: np.random.Generator) -> ScriptedExpert: ...


class FunctionExpert:
    """An expert without memory.

    Args:
        function: returns an action (A,) float32 in [-1, 1] for the simulator's current state.
    """

    def __init__(self, function: Callable[[], NDArray[np.float32]]) -> None:
        self._function = function

    def reset(self) -> None:
        """Do nothing: the expert has no memory."""

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return the action for the simulator's current state; ``observation`` is ignored."""
        return self._function()


def add_free_box(
    spec: mujoco.MjSpec,
    name: str,
    half_size: ArrayLike,
    mass: float,
    rgba: ArrayLike,
    friction: ArrayLike = (0.8, 0.005, 0.0001),
) -> None:
    """Add a box that can move freely: body ``name``, geom ``name``, free joint ``name``."""
    body = spec.worldbody.add_body(name=name)
    body.add_freejoint(name=name)
    body.add_geom(
        name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=np.asarray(half_size, dtype=float), mass=mass, rgba=rgba,
        friction=friction,
    )  # fmt: skip


def aim_cameras(spec: mujoco.MjSpec, cameras: Sequence[tuple[str, tuple[float, ...], tuple[float, ...]]]) -> None:
    """Move cameras of the scene. Each is given by name, position and the point that it looks at [m]."""
    for name, position, target in cameras:
        camera = spec.camera(name)
        camera.pos, camera.quat = position, looking_at(position, target)["quat"]


def set_free_pose(
    model: mujoco.MjModel, data: mujoco.MjData, joint: str, position: ArrayLike, yaw: float = 0.0
) -> None:
    """Put the body of the free joint ``joint`` at ``position`` (3,) [m], turned by ``yaw`` [rad] about z."""
    address = model.joint(joint).qposadr[0]
    data.qpos[address : address + 3] = position
    data.qpos[address + 3 : address + 7] = (np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2))


def cube_axes(rotation: Array) -> tuple[Array, Array]:
    """Return the directions (3,) of the edges of a cube that point most nearly along x and z of the world.

    All faces of a cube are alike: a cube that was turned on its side looks as before. From the cube's own axes, a
    policy would perceive a different object.

    Args:
        rotation: rotation of the cube in the world (3, 3).
    """
    upright = int(np.argmax(np.abs(rotation[2])))
    axes = [axis for axis in range(3) if axis != upright]
    forward = axes[int(np.argmax(np.abs(rotation[0, axes])))]
    return rotation[:, forward] * np.sign(rotation[0, forward]), rotation[:, upright] * np.sign(rotation[2, upright])


def cube_turn(rotation: Array) -> tuple[Array, Array]:
    """Return the orientation of a cube in a form that is the same for every numbering of its faces.

    Args:
        rotation: rotation of the cube in the world (3, 3).

    Returns:
        Cosine and sine (2,) of four times its yaw, as a cube looks the same after a quarter turn, and how upright its
        most upright axis is (1,): 1 if it is flat on a face.
    """
    upright = int(np.argmax(np.abs(rotation[2])))
    side = rotation[:, (upright + 1) % 3]
    yaw = math.atan2(side[1], side[0])
    return np.array([math.cos(4 * yaw), math.sin(4 * yaw)]), np.abs(rotation[2, upright : upright + 1])


def raised(point: Array, height: float) -> Array:
    """Return the point (3,) ``height`` [m] above ``point``."""
    above: Array = point + np.array([0.0, 0.0, height])
    return above


def distance_captions(thing: str, distance: float, bounds: Sequence[float]) -> dict[str, bool]:
    """Return captions on how far the gripper is from a thing.

    Args:
        thing: name of the thing with its article, for example ``the red cube``.
        distance: distance from the gripper [m].
        bounds: falling distances [m]: the gripper is near below the first, close below the second, and at the thing
            below the third; otherwise it is far.
    """
    near, close, at = (distance < bound for bound in bounds)
    return {
        f"the gripper is far from {thing}": not near,
        f"the gripper is near {thing}": near,
        f"the gripper is close to {thing}": close,
        f"the gripper is at {thing}": at,
    }


class GraspSensor:
    """The contacts between fingers and a body.

    The counterpart of a gripper's only finger is the body that carries it, such as the hand with a fixed jaw.

    Args:
        model: compiled model.
        arm: configuration with the names of the finger joints.
        body: name of the body that may be held.
    """

    def __init__(self, model: mujoco.MjModel, arm: ArmConfig, body: str) -> None:
        self._body = model.body(body).id
        self._fingers = [int(model.joint(name).bodyid[0]) for name in arm.gripper_joints]
        if len(self._fingers) == 1:
            self._fingers.append(int(model.body_parentid[self._fingers[0]]))
        self._geom_body = model.geom_bodyid

    def holds(self, data: mujoco.MjData) -> bool:
        """Return whether each finger is in contact with the body."""
        touching = self._touching(data)
        return bool(self._fingers) and all((touching == finger).any() for finger in self._fingers)

    def touches(self, data: mujoco.MjData) -> bool:
        """Return whether any finger is in contact with the body."""
        return bool(np.isin(self._touching(data), self._fingers).any())

    def _touching(self, data: mujoco.MjData) -> NDArray[np.int32]:
        bodies = self._geom_body[data.contact.geom]
        touching: NDArray[np.int32] = bodies[(bodies == self._body).any(axis=1)]
        return touching
