"""Episodes of a simulated robot: the base classes of simulations and tasks, and the backend that joins them."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    ArraySpec,
    DriverError,
    EnvSpec,
    ManualClock,
    Observation,
    RobotDescription,
    ScriptedExpert,
    State,
    Step,
    generator,
)

from .cameras import Cameras
from .goals import make_goal_shift
from .observation import flatten, object_spec

Array = NDArray[np.float64]
Initialise = Callable[[mujoco.MjModel, mujoco.MjData, np.random.Generator], None]


class Actions(NamedTuple):
    """The actions of a robot, as described in an :class:`EnvSpec`."""

    names: tuple[str, ...]
    space: str
    frame: str
    extra: dict[str, Any]


class Simulation(ABC):
    """The physics of a robot in the scene of a task.

    Attributes:
        config: configuration of the task.
        model: compiled model.
        data: state of the model.
        state_names: names of the elements of :meth:`measure_state`.
        actions: actions that :meth:`execute` takes.
        remedy: advice to users if the simulation becomes unstable.
    """

    config: Any
    model: Any
    data: Any
    state_names: tuple[str, ...]
    actions: Actions
    remedy: ClassVar[str]

    @abstractmethod
    def place(self, initialise: Initialise, rng: np.random.Generator, noise: np.random.Generator) -> None:
        """Put robot and objects where an episode begins.

        Args:
            initialise: the task's function, called with ``rng`` when the robot is in place.
            rng: random generator of everything that is drawn for the episode.
            noise: random generator of sensor noise from now on.
        """

    def hold(self) -> None:
        """Begin an episode in the current state. A second call changes nothing."""
        return

    @abstractmethod
    def execute(self, action: NDArray[np.float32]) -> None:
        """Execute ``action`` for one control period."""

    @abstractmethod
    def measure_state(self) -> Array:
        """Return the elements (n,) of the observation ``state``, with sensor noise."""

    def measure_objects(self, objects: Mapping[str, Array]) -> Array:
        """Return the elements (m,) of the observation ``object``, with noise; ``objects`` is the true state."""
        return flatten(objects)

    def pose(self) -> None:
        """Update the poses that cameras need."""
        return

    @abstractmethod
    def world(self) -> State | None:
        """Return what the next step depends on, or None if it cannot be saved."""

    @abstractmethod
    def restore(self, world: State) -> None:
        """Return to the state that :meth:`world` returned, bit for bit.

        Raises:
            CheckpointError: if the state is another simulator's.
        """


class SimulatedTask(ABC):
    """A task: the objects around the robot, and how episodes begin, are rewarded and end.

    One object serves one backend, which calls ``build`` and ``bind`` once and ``initialise`` for each episode.

    Attributes:
        config_class: configuration class of this task, whose defaults define the task.
        cameras: cameras for ``observation.cameras`` that the task has in any configuration.
        shaped_terms: names of the reward terms besides ``success``.
    """

    config_class: ClassVar[Any]
    cameras: ClassVar[tuple[str, ...]]
    shaped_terms: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def make_backend(self) -> "SimulatedBackend":
        """Return the backend of the robot in this task."""

    @abstractmethod
    def build(self, spec: mujoco.MjSpec) -> None:
        """Add bodies, sites and cameras to ``spec.worldbody``."""

    @abstractmethod
    def bind(self, model: mujoco.MjModel) -> None:
        """Look up the elements of the compiled model that the other methods need."""

    @abstractmethod
    def initialise(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Write the random initial state of an episode into ``data.qpos``; velocities are zero."""

    def begin_here(self, data: mujoco.MjData) -> None:
        """Begin an episode in the state that the last one left. All changes must depend on that state alone."""
        return

    def follow(self, data: mujoco.MjData) -> dict[str, Any]:
        """Record the control period that has passed. Return the ``info`` of the step."""
        return {}

    @abstractmethod
    def object_state(self, data: mujoco.MjData) -> dict[str, Array]:
        """Return named vectors for the observation key ``object``, in the same order and sizes every time."""

    @abstractmethod
    def success(self, data: mujoco.MjData) -> bool:
        """Return whether the task is solved in this physics state."""

    def reward_terms(self, data: mujoco.MjData) -> dict[str, float]:
        """Return the terms named in ``shaped_terms``, each in [0, 1]."""
        return {}

    def captions(self, data: mujoco.MjData) -> dict[str, bool]:
        """Return sentences about images of this state, always the same ones, and whether each is true."""
        return {}

    def rewards(self, data: mujoco.MjData) -> dict[str, float]:
        """Return all reward terms of this physics state, ``success`` first."""
        return {"success": float(self.success(data)), **self.reward_terms(data)}

    def ending(self, rewards: Mapping[str, float]) -> tuple[bool, bool]:
        """Return whether a step with these reward terms terminates the episode, and whether it truncates it."""
        return rewards["success"] > 0 and self.config.terminate_on_success, False

    @abstractmethod
    def expert(self, backend: Any, rng: np.random.Generator) -> ScriptedExpert:
        """Return a scripted expert that uses the true state of the simulation ``backend``."""


class SimulatedBackend:
    """A simulated robot in a task, as an ``EnvBackend``.

    The same seed gives the same episode, bit for bit, whatever happened before.

    Args:
        task: task of the episodes.
        simulation: physics of the robot in the scene of the task.
        in_place: whether an episode without a seed begins in the state that the last one left.

    Attributes:
        task: the task.
        config: configuration of the task.
        simulation: the simulation.
        model: compiled model of the simulation.
        data: state of the model.
        object_values: returns the elements (m,) of the observation ``object`` in any state of the model, without noise.
        clock: simulated time since the episode began.
        relabel: see :class:`~robo_rl.core.GoalTask`.
    """

    def __init__(self, task: SimulatedTask, simulation: Simulation, in_place: bool = True) -> None:
        self.task = task
        self.config = task.config
        self.simulation = simulation
        self.model, self.data = simulation.model, simulation.data
        self.object_values: Callable[[mujoco.MjData], Array] = lambda data: flatten(task.object_state(data))
        self.clock = ManualClock()
        self._in_place = in_place
        self._cameras = Cameras(self.model, self.config.observation)
        self._steps = 0
        self._running = self._placed = False
        task.bind(self.model)
        simulation.place(task.initialise, generator(0), generator(0))
        self.relabel = make_goal_shift(task, task.object_state(self.data)) if self.config.observation.object else None
        self._spec = _make_spec(task, simulation, self._cameras.specs())

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    @property
    def robot(self) -> RobotDescription | None:
        """The robot's description for safety filters; None unless the robot is an arm."""
        return None

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode, with the placement that ``seed`` determines; ``Step.info["placed"]`` is then true.

        Without ``seed``, the episode begins in the current state if the backend allows it (``in_place``) and an episode
        was placed before. Otherwise it is placed with a random seed.
        """
        if seed is None and self._in_place and self._placed:
            return self._begin_here()
        if seed is None:
            seed = secrets.randbits(63)
        self.simulation.place(self.task.initialise, generator(seed, "episode"), generator(seed, "observation"))
        self._placed = True
        return self._first_step({"placed": True})

    def world(self) -> State | None:
        """Return everything that the next episode depends on if it begins in the current state.

        None with domain randomisation, whose draws are not stored.
        """
        return self.simulation.world()

    def restore(self, world: State) -> Step:
        """Begin an episode in a state from :meth:`world`, bit for bit.

        Raises:
            CheckpointError: if the state is another simulator's.
        """
        self.simulation.restore(world)
        self._placed = True
        return self._begin_here()

    def step(self, action: NDArray[np.float32]) -> Step:
        """Execute ``action`` for one control period. ``stamp_ns`` of the result is simulated time since the reset.

        Raises:
            SpecError: if the action does not match the spec.
            RuntimeError: if no episode is running.
            DriverError: if the simulation became unstable.
        """
        if not self._running:
            raise RuntimeError("no episode is running; call reset() first")
        self._spec.action.check("action", action)
        self.simulation.execute(action)
        return self.conclude()

    def conclude(self) -> Step:
        """Return the step for the control period that has passed.

        Raises:
            DriverError: if the simulation became unstable.
        """
        self._steps += 1
        stamp_ns = round(self._steps / self.config.control_rate * 1e9)
        self.clock.sleep_until_ns(stamp_ns)
        if not np.isfinite(self.data.qpos).all():
            self._running = self._placed = False
            raise DriverError(
                f"the simulation became unstable in step {self._steps} of the episode; reset() begins another. "
                f"{self.simulation.remedy} helps"
            )
        info = self.task.follow(self.data)
        rewards = self.task.rewards(self.data)
        terminated, truncated = self.task.ending(rewards)
        truncated = not terminated and (truncated or self._steps >= self.config.max_episode_steps)
        self._running = not (terminated or truncated)
        success = rewards["success"] > 0
        return Step(self._observe(), rewards, terminated, truncated, stamp_ns, success, info=info)

    def render(self, camera: str = "view", data: Any = None, hidden: Collection[int] = ()) -> NDArray[np.uint8]:
        """Return a picture (picture_height, picture_width, 3) from ``camera``.

        Args:
            camera: name of the camera.
            data: another state of the model (``mujoco.MjData``), with its kinematics computed; None: the current one.
            hidden: numbers of the bodies to leave out.

        Raises:
            RenderingError: if this machine cannot render.
            ConfigError: if there is no such camera.
        """
        if data is None:
            self.simulation.pose()
        return self._cameras.picture(self.data if data is None else data, camera, hidden)

    def expert(self, seed: int) -> ScriptedExpert:
        """Return a scripted expert of the task."""
        return self.task.expert(self.simulation, generator(seed, "expert"))

    def stop(self, reason: str) -> None:
        """End the episode. A simulated robot moves only in steps and needs no braking."""
        self._running = False

    def close(self) -> None:
        self._running = False
        self._cameras.close()

    def _begin_here(self) -> Step:
        self.task.begin_here(self.data)
        self.simulation.hold()
        return self._first_step({})

    def _first_step(self, info: dict[str, Any]) -> Step:
        self._cameras.begin()
        self.clock.restart()
        self._steps = 0
        self._running = True
        rewards = dict.fromkeys(self._spec.reward_terms, 0.0)
        return Step(self._observe(), rewards, False, False, 0, self.task.success(self.data), info=info)

    def _observe(self) -> Observation:
        view = self.config.observation
        observation: Observation = {"state": self.simulation.measure_state().astype(np.float32)}
        if view.object:
            objects = self.simulation.measure_objects(self.task.object_state(self.data))
            observation["object"] = objects.astype(np.float32)
        if view.cameras:
            self.simulation.pose()
        return observation | self._cameras.observe(self.data)


def _make_spec(task: SimulatedTask, simulation: Simulation, images: dict[str, ArraySpec]) -> EnvSpec:
    config = task.config
    observation = {"state": ArraySpec(shape=(len(simulation.state_names),), names=simulation.state_names)}
    if config.observation.object:
        observation["object"] = object_spec(task.object_state(simulation.data))
    actions = simulation.actions
    return EnvSpec(
        task=config.name,
        observation=observation | images,
        action=ArraySpec(shape=(len(actions.names),), low=-1.0, high=1.0, names=actions.names),
        action_space=actions.space,
        action_frame=actions.frame,
        control_rate=config.control_rate,
        max_episode_steps=config.max_episode_steps,
        reward_terms=("success", *task.shaped_terms),
        extra=actions.extra,
    )
