"""A backend whose observations are relative to the pose in which the episode began."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .errors import ConfigError
from .protocols import EnvBackend, GoalTask
from .specs import ArraySpec, EnvSpec
from .types import Observation, Step
from .wrapped_backend import WrappedBackend

Array = NDArray[np.float64]

OBSERVATION_FRAME = "observation_frame"
"""Key of ``EnvSpec.extra`` for the frame of the end effector's pose in ``state``; a spec without it has base frame."""
FIRST_POSE = "first_pose"
POSITION = tuple(f"end_effector_{axis}" for axis in "xyz")
COLUMNS = tuple(f"end_effector_r{row}{column}" for column in (1, 2) for row in (1, 2, 3))
"""Names of the first two columns of the end effector's rotation matrix."""
VELOCITIES = tuple(tuple(f"end_effector_{kind}{axis}" for axis in "xyz") for kind in "vw")
"""Names of the end effector's linear and angular velocity."""


class RelativeBackend(WrappedBackend):
    """An :class:`EnvBackend` that observes the end effector relative to its pose at the beginning of the episode.

    A policy then acts in the same way wherever the base stands and the episode begins, as with ``RelativeFrame`` of
    SERL (Luo et al. 2024), whose actions are in the end effector's frame. In ``state``:

    - The end effector's position [m] and orientation are those in the frame of its first observed pose.
    - Its linear [m/s] and angular velocity [rad/s] are in its own current frame.
    - Joint positions and velocities, which would disclose the pose in the base frame, are left out.

    Everything else is unchanged, including force and torque, which are measured in the frame of the wrist, and
    ``object``.

    Args:
        backend: backend of an arm that observes the pose in the base frame.

    Attributes:
        inner: that backend.
        measured: the newest observation of ``inner``; empty before the first episode.
        relabel: see :class:`~robo_rl.core.GoalTask`; goals are not in ``state``, so they are not relative.

    Raises:
        ConfigError: if the pose is not observed, or actions do not move the end effector.
    """

    def __init__(self, backend: EnvBackend) -> None:
        spec = backend.spec
        names = spec.observation["state"].names if "state" in spec.observation else ()
        absent = [name for name in (*POSITION, *COLUMNS) if name not in names]
        if absent:
            raise ConfigError(
                f"task.observation.relative=true needs the pose of an end effector in the observation 'state', but "
                f"task {spec.task!r} has no {', '.join(absent)}"
            )
        if spec.action_space != "end_effector_delta":
            raise ConfigError(
                "task.observation.relative=true leaves out the joints, so that actions have to move the end effector: "
                f"expected task.controller.action_space=end_effector_delta, got {spec.action_space}"
            )
        joints = backend.robot.joints if backend.robot is not None else ()
        hidden = {f"{joint}_{kind}" for joint in joints for kind in ("position", "velocity")}
        self._kept = [place for place, name in enumerate(names) if name not in hidden]
        self._position = [names.index(name) for name in POSITION]
        self._columns = [names.index(name) for name in COLUMNS]
        self._velocities = [[names.index(name) for name in part] for part in VELOCITIES if {*part} <= {*names}]
        self._origin, self._attitude = np.zeros(3), np.eye(3)
        super().__init__(backend)
        self.relabel = backend.relabel if isinstance(backend, GoalTask) else None
        self.measured: Observation = {}
        state = ArraySpec((len(self._kept),), names=tuple(names[place] for place in self._kept))
        observation = {**spec.observation, "state": state}
        self._spec = replace(spec, observation=observation, extra={**spec.extra, OBSERVATION_FRAME: FIRST_POSE})

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode, whose first observed pose is the frame of the following ones."""
        step = self.inner.reset(seed)
        state = step.observation["state"].astype(np.float64)
        self._origin, self._attitude = state[self._position], self._rotation(state)
        return self._relative(step)

    def step(self, action: NDArray[np.float32]) -> Step:
        return self._relative(self.inner.step(action))

    def _relative(self, step: Step) -> Step:
        self.measured = step.observation
        state = step.observation["state"].astype(np.float64)
        rotation = self._rotation(state)
        state[self._position] = self._attitude.T @ (state[self._position] - self._origin)
        state[self._columns] = (self._attitude.T @ rotation)[:, :2].T.ravel()
        for velocity in self._velocities:
            state[velocity] = rotation.T @ state[velocity]
        return replace(step, observation={**step.observation, "state": state[self._kept].astype(np.float32)})

    def _rotation(self, state: Array) -> Array:
        """Return the observed rotation matrix (3, 3), whose columns noise may have made not quite orthonormal."""
        x, y = state[self._columns].reshape(2, 3)
        x = x / np.linalg.norm(x)
        y = y - (x @ y) * x
        y = y / np.linalg.norm(y)
        return np.stack([x, y, np.cross(x, y)], axis=1)


def find_relative(backend: EnvBackend) -> RelativeBackend | None:
    """Return the relative backend that ``backend`` is or contains; None if observations are in the base frame."""
    inner: object = backend
    while isinstance(inner, WrappedBackend):
        if isinstance(inner, RelativeBackend):
            return inner
        inner = inner.inner
    return None
