"""Poses of an arm and of the objects of its task along a recorded episode, from what was observed."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from ..core import DataError, EnvBackend, EnvSpec, posable_world
from .object_posing import ObjectPosing
from .scene_geometry import SceneGeometry, SceneLimits, arm_bodies, encoded, rounded
from .scene_posing import ArmPosing

STARTS = 8
"""Number of starts of episodes that show where the objects of a task may be."""
MOST_UNKNOWN = 0.1
"""Largest share of an episode's rows in which an object that is shown may keep its earlier pose."""

MOST_NAMED = 8

Array = NDArray[np.float64]


@dataclass(frozen=True)
class EpisodePoses:
    """State of a model in each of n rows of an episode.

    Attributes:
        rows: places of these rows in the episode.
        qpos: joint positions (n, nq).
        mocap: positions and quaternions (n, nmocap, 7) of the bodies that are placed from outside.
        known: numbers of the bodies whose poses are known.
        hidden: names of the moving bodies whose poses are not.
        kept: number of rows in which the objects keep their earlier poses, because none fit what was observed.
    """

    rows: list[int]
    qpos: Array
    mocap: Array
    known: frozenset[int]
    hidden: tuple[str, ...]
    kept: int

    @property
    def note(self) -> str:
        """Sentences that state the source of the poses, and the bodies that are hidden."""
        sentences = ["The recorded states are shown; no action is applied."]
        if self.hidden:
            names = ", ".join(self.hidden[:MOST_NAMED]) + " and more" * (len(self.hidden) > MOST_NAMED)
            sentences.append(f"Hidden, because their pose does not follow from the recording: {names}.")
        if self.kept:
            sentences.append(f"In {self.kept} of {len(self.rows)} states the objects keep their earlier pose.")
        return " ".join(sentences)


class RecordedPoses:
    """Poses along the recorded episodes of one data set. No action is applied: recorded states alone are used.

    The arm is posed by its observed joint positions. Objects are posed by the observation ``object``, if the task
    observes there what tells their poses; the others are hidden.

    Args:
        backend: simulation of the task.
        spec: spec of the recorded episodes.

    Raises:
        DataError: if the task has no model of an arm, or the arm's joint positions were not recorded.
    """

    def __init__(self, backend: EnvBackend, spec: EnvSpec) -> None:
        world, robot = posable_world(backend), backend.robot
        if world is None or robot is None:
            raise DataError(f"the task {spec.task} has no model of an arm to pose")
        state = spec.observation.get("state")
        names = state.names if state is not None else ()
        self._world, self._robot = world, robot
        self._arm = ArmPosing(robot, names)
        if self._arm.unobserved:
            missing = ", ".join(f"{name}_position" for name in self._arm.unobserved)
            raise DataError(
                f"the joint positions of the arm were not recorded: the observation 'state' of {spec.task} lacks "
                f"{missing}"
            )
        starts = []
        for seed in range(STARTS):
            backend.reset(seed)
            starts.append(copy.copy(world.data))
        self.data: Any = copy.copy(world.data)
        self._objects = ObjectPosing(world.model, self._arm.addresses, world.object_values, starts)
        recorded, own = (each.observation.get("object") for each in (spec, backend.spec))
        self._sees_objects = recorded is not None and recorded == own
        site = int(world.model.site(robot.end_effector).id)
        self._site = site
        self._of_arm = arm_bodies(world.model, int(world.model.site_bodyid[site]))

    @property
    def keys(self) -> list[str]:
        """Keys of the observations that :meth:`find` needs."""
        return ["state", "object"] if self._sees_objects else ["state"]

    def find(self, observation: Mapping[str, NDArray[Any]], rows: list[int]) -> EpisodePoses:
        """Return the poses in ``rows`` of an episode with the observations of :attr:`keys`."""
        data, qpos, mocap, kept = self.data, [], [], 0
        known = set(self._objects.bodies) if self._sees_objects else set()
        for row in rows:
            self._arm.place(data, observation["state"][row])
            mujoco.mj_kinematics(self._world.model, data)
            if self._sees_objects:
                placed = self._objects.place(data, observation["object"][row].astype(np.float64))
                known, kept = known if placed is None else known & placed, kept + (placed is None)
            qpos.append(data.qpos.copy())
            mocap.append(np.concatenate([data.mocap_pos, data.mocap_quat], axis=1))
        if kept > MOST_UNKNOWN * len(rows):
            known = set()
        model, posed = self._world.model, frozenset(known | self._of_arm)
        geometry = SceneGeometry(model, SceneLimits())
        hidden = tuple(model.body(each).name or f"body {each}" for each in geometry.bodies if each not in posed)
        return EpisodePoses(rows, np.array(qpos), np.array(mocap), posed, hidden, kept if known else 0)

    def scene(self, poses: EpisodePoses, limits: SceneLimits | None = None) -> "RecordedScene":
        """Return the shapes of the bodies whose poses are known."""
        return RecordedScene(self, SceneGeometry(self._world.model, limits or SceneLimits(), poses.known), poses)

    def show(self, poses: EpisodePoses, place: int) -> Any:
        """Return the state (``mujoco.MjData``) at ``place`` in the rows, with its kinematics computed."""
        data = self.data
        data.qpos[:] = poses.qpos[place]
        data.mocap_pos[:], data.mocap_quat[:] = poses.mocap[place][:, :3], poses.mocap[place][:, 3:]
        mujoco.mj_kinematics(self._world.model, data)
        return data

    def picture(self, poses: EpisodePoses, place: int) -> NDArray[np.uint8]:
        """Return a picture (H, W, 3) of the state at ``place`` in the rows, without the hidden bodies.

        Raises:
            RenderingError: if this machine cannot render.
        """
        hidden = set(self._objects.bodies) - poses.known
        data = self.show(poses, place)
        mujoco.mj_comPos(self._world.model, data)
        mujoco.mj_camlight(self._world.model, data)
        return self._world.render(data=data, hidden=hidden)

    def tip(self, data: Any) -> Array:
        """Return the position (3,) of the end effector in a state [m]."""
        position: Array = data.site_xpos[self._site]
        return position


class RecordedScene:
    """Scene of a recorded episode: its geometry once, and a frame for each row, as :class:`.SceneNews` describes them.

    Attributes:
        geometry: JSON text.
        version: version of the geometry.
    """

    def __init__(self, recorded: RecordedPoses, shapes: SceneGeometry, poses: EpisodePoses) -> None:
        self._recorded, self._shapes, self._poses = recorded, shapes, poses
        self.version, self.geometry = encoded(shapes.describe(recorded.show(poses, 0)))

    def frame(self, place: int) -> dict[str, Any]:
        """Return the frame at ``place`` in the rows, as JSON values."""
        data = self._recorded.show(self._poses, place)
        tip = rounded(self._recorded.tip(data))
        return {"version": self.version, "poses": self._shapes.poses(data), "tip": tip, "changed": []}
