"""Three-dimensional scenes of a simulator or of an arm, for its operators."""

import json
import zlib
from typing import Any, NamedTuple

import mujoco
import numpy as np

from robo_rl.core import (
    Clock,
    EnvBackend,
    MonotonicClock,
    Observation,
    Verdict,
    find_relative,
    simulated_state,
)

from .scene_geometry import SceneGeometry, SceneLimits, arm_bodies, encoded, rounded
from .scene_posing import ArmPosing
from .scene_sizes import MOST_REASONS

FRAME_SECONDS = 0.08
"""Shortest time between two frames [s], as between pictures."""
GEOMETRY_SECONDS = 10.0
"""Time after which the geometry is sent again [s], as a message on the way to the learner may be dropped."""
_SHAPES = ("geom_pos", "geom_quat", "geom_size", "geom_rgba", "mat_rgba", "body_pos", "body_quat")
"""Arrays of the model that simulations change between episodes."""


class SceneNews(NamedTuple):
    """Geometry and newest frame of a scene as JSON texts; empty if there is nothing new.

    The geometry is that of :meth:`.SceneGeometry.describe` with its ``version``. A frame has the ``version`` of its
    geometry, the ``poses`` of the bodies, the position of the ``tip`` [m], if there is an end effector, the ``force``
    of the world on the wrist in the base frame [N], if it is measured, and ``changed``, the names of the safety filters
    that changed actions since the last frame.
    """

    geometry: bytes = b""
    frame: bytes = b""


class SceneView:
    """Scene around a robot or simulator: its shapes once, and the poses of its bodies ten times a second.

    The poses are those of the simulation or, for a robot, those of its arm's model with the measured joint positions.
    Of what is around a robot, only what cannot move is shown. The state of the simulation is only read.

    Args:
        backend: robot or simulator. Without a model of it, there is no scene.
        limits: limits that are shown.
        clock: monotonic clock.
    """

    def __init__(self, backend: EnvBackend, limits: SceneLimits | None = None, clock: Clock | None = None) -> None:
        self._clock = clock or MonotonicClock()
        self._due_ns = self._geometry_due_ns = 0
        self._changed: dict[str, None] = {}
        limits = limits or SceneLimits()
        self._relative = find_relative(backend)
        self._simulated = simulated_state(backend)
        robot = backend.robot
        self._model: Any = None
        if self._simulated is not None:
            self._model = self._simulated[0]
        elif robot is not None:
            self._model = robot.model
        else:
            return
        self._site = -1 if robot is None else int(self._model.site(robot.end_effector).id)
        self._data: Any = mujoco.MjData(self._model)
        spec = backend.spec if self._relative is None else self._relative.inner.spec
        names = spec.observation["state"].names if "state" in spec.observation else ()
        self._places = {name: place for place, name in enumerate(names)}
        self._force = [self._places[name] for axis in "xyz" if (name := f"wrist_force_{axis}") in self._places]
        sensor = mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_SENSOR, "wrist_force")
        self._wrist = int(self._model.sensor_objid[sensor]) if sensor >= 0 and len(self._force) == 3 else -1
        self._posing: ArmPosing | None = None
        if robot is not None and self._simulated is None:
            self._posing = ArmPosing(robot, names)
            if self._posing.unobserved:
                self._model = None
                return
        known = None if self._simulated else arm_bodies(self._model, int(self._model.site_bodyid[self._site]))
        self._shapes = SceneGeometry(self._model, limits, known)
        self._describe()

    @property
    def is_possible(self) -> bool:
        """Whether the backend has a model to draw: that of a simulation, or of a robot's arm."""
        return self._model is not None

    def note(self, verdict: Verdict) -> None:
        """Record the verdict of the safety filters on a step, for the next frame."""
        if verdict.changed and len(self._changed) < MOST_REASONS:
            self._changed.update(dict.fromkeys(verdict.reasons or ("safety",)))

    def take(self, observation: Observation, always: bool = False) -> SceneNews:
        """Return what is new; nothing if the last frame is too recent, unless ``always``, or there is no scene."""
        now = self._clock.now_ns()
        if not self.is_possible or (now < self._due_ns and not always):
            return SceneNews()
        self._due_ns = now + round(FRAME_SECONDS * 1e9)
        if self._relative is not None:
            observation = self._relative.measured
        self._place(observation)
        if self._simulated is not None and self._digest() != self._described:
            self._describe()
        geometry = b""
        if now >= self._geometry_due_ns:
            geometry, self._geometry_due_ns = self._geometry, now + round(GEOMETRY_SECONDS * 1e9)
        frame: dict[str, Any] = {"version": self._version, "poses": self._shapes.poses(self._data)}
        if self._site >= 0:
            frame["tip"] = rounded(self._data.site_xpos[self._site])
        if self._wrist >= 0:
            force = self._data.site_xmat[self._wrist].reshape(3, 3) @ observation["state"][self._force]
            frame["force"] = np.round(force, 2).tolist()
        frame["changed"] = [*self._changed]
        self._changed.clear()
        return SceneNews(geometry, json.dumps(frame, separators=(",", ":")).encode())

    def _place(self, observation: Observation) -> None:
        """Compute the poses of all bodies."""
        data = self._data
        if self._simulated is not None:
            source = self._simulated[1]
            data.qpos[:], data.mocap_pos[:], data.mocap_quat[:] = source.qpos, source.mocap_pos, source.mocap_quat
        elif self._posing is not None:
            self._posing.place(data, observation["state"])
        mujoco.mj_kinematics(self._model, data)

    def _describe(self) -> None:
        """Describe the shapes as the model has them now."""
        model = self._model
        if self._simulated is not None:
            self._place({})
        else:
            mujoco.mj_kinematics(model, self._data)
        self._described = self._digest()
        self._version, text = encoded(self._shapes.describe(self._data))
        self._geometry, self._geometry_due_ns = text, 0

    def _digest(self) -> int:
        digest = 0
        for name in _SHAPES:
            digest = zlib.crc32(getattr(self._model, name), digest)
        return digest
