"""Protocols of robots, safety and resets; those of agents, rewards and the transport have their own modules."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .agent_protocols import ScriptedExpert
from .clock import Clock
from .robot import RobotDescription
from .specs import EnvSpec
from .types import (
    Batch,
    Intervention,
    Metrics,
    Observation,
    ResetOutcome,
    State,
    Step,
    Transition,
    Verdict,
)


class EnvBackend(Protocol):
    """A robot or a simulator. It never resets on its own."""

    @property
    def spec(self) -> EnvSpec:
        """Observations, actions, rates and reward terms."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock that stamps observations: monotonic time, or simulated time since the reset."""
        ...

    @property
    def robot(self) -> RobotDescription | None:
        """Description of the robot for safety filters; None if there is none."""
        ...

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode. In simulation the same ``seed`` gives the same episode, whatever happened before.

        Without ``seed`` a robot begins where it stands. If a person or a simulator placed it somewhere else,
        ``info["placed"]`` of the step may report it.
        """
        ...

    def step(self, action: NDArray[np.float32]) -> Step:
        """Execute ``action`` (A,) in [-1, 1] for one control period.

        Raises:
            SpecError: if the action has another shape or dtype, is not finite, or is out of range.
            RuntimeError: if the episode has ended or none was begun.
        """
        ...

    def render(self) -> NDArray[np.uint8]:
        """Return a picture (height, width, 3) of the scene for display.

        Raises:
            RenderingError: if this machine cannot render.
        """
        ...

    def expert(self, seed: int) -> ScriptedExpert:
        """Return a scripted solution of the task.

        Raises:
            ConfigError: if this task has none.
        """
        ...

    def stop(self, reason: str) -> None:
        """Bring the robot to rest."""
        ...

    def close(self) -> None:
        """Release devices and rendering contexts. May be called twice."""
        ...


class SpaceTranslation(Protocol):
    """A translation between the spaces of a foreign environment and those of this platform."""

    def observation(self, observation: Any) -> Observation:
        """Return an observation of the environment in this platform's format.

        Raises:
            ValueError: if it is not an observation of the environment.
        """
        ...

    def action(self, action: NDArray[np.float32]) -> NDArray[Any]:
        """Return ``action`` (A,) in [-1, 1] as an action of the environment."""
        ...


@runtime_checkable
class TranslatingBackend(Protocol):
    """A backend of a foreign environment, whose own observations and actions have another format."""

    translation: SpaceTranslation


class SafetyFilter(Protocol):
    """A function around the policy. Its result depends only on the calls since ``reset``."""

    def reset(self) -> None:
        """Begin an episode."""
        ...

    def __call__(
        self, observation: Observation, action: NDArray[np.float32], now_ns: int
    ) -> tuple[NDArray[np.float32], Verdict]:
        """Return the action (A,) in [-1, 1] to execute instead of ``action``, and why; ``action`` is not modified.

        ``now_ns`` is the time of the backend's clock [ns].
        """
        ...


class ObservationGuard(Protocol):
    """A check whether an observation can be trusted. Its result depends only on the calls since ``reset``."""

    def reset(self) -> None:
        """Begin an episode."""
        ...

    def __call__(self, observation: Observation, stamp_ns: int, now_ns: int) -> Verdict:
        """Return a verdict, with ``stop`` if ``observation``, taken at ``stamp_ns``, must not be acted on.

        Times are those of the backend's clock [ns].
        """
        ...


class ReturnLearner(Protocol):
    """A learner that brings a robot back to where episodes begin, for a :class:`ResetController`."""

    def fit(self, episodes: Sequence[Batch]) -> None:
        """Learn from demonstrations of the task where episodes begin.

        Raises:
            DataError: if there are none.
        """
        ...

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return an action (A,) that leads back, or explores how to get back."""
        ...

    def value(self, observation: Observation, action: NDArray[np.float32]) -> float:
        """Return the estimated discounted return, by the learner's own reward, after ``action`` (A,)."""
        ...

    def is_back(self, observation: Observation) -> bool:
        """Return whether episodes begin in a state like this one."""
        ...

    def add(self, transition: Transition) -> None:
        """Store a step to learn from, of the learner's own policy or of the task's policy."""
        ...

    def learn(self) -> None:
        """Do the updates that one step of the learner's own policy pays for."""
        ...

    def state(self) -> State: ...

    def load(self, state: State) -> None: ...


class ResetController(Protocol):
    """Brings a robot back to where an episode may begin, in a bounded number of attempts.

    The task's policy does not learn from resets: the actor stores no transitions of them.
    """

    def run(self, backend: EnvBackend) -> ResetOutcome:
        """Begin the next episode.

        Returns:
            Its first step; none if every attempt failed and a person has to help.

        Raises:
            SafetyStop: if the robot was stopped on the way.
        """
        ...

    @property
    def learns(self) -> bool:
        """Whether the controller needs demonstrations, for :meth:`fit`."""
        ...

    def fit(self, episodes: Sequence[Batch]) -> None:
        """Prepare from demonstrations, each an episode in order: see :class:`RewardModule` for the rows.

        Raises:
            DataError: if these demonstrations cannot be used.
        """
        ...

    def note(self, transition: Transition) -> None:
        """Record a step of an episode."""
        ...

    def refuses(self, observation: Observation, action: NDArray[np.float32]) -> str:
        """Return why the episode must end before ``action`` (A,) of the policy is executed; empty if it may continue.

        Raises:
            DriverError: if resets cannot solve the problem and a person has to.
        """
        ...

    def watch(
        self, listener: Callable[[str], None], notify: Callable[[str], None], heed: Callable[[], None] | None = None
    ) -> None:
        """From now on, report to ``listener`` in a word what the robot is doing, whenever that changes.

        If every attempt of a reset failed, ``notify`` gets a sentence with the reason. ``heed`` is called before each
        step of a reset, and raises :class:`SafetyStop` if a person stops the robot.
        """
        ...

    def metrics(self) -> Metrics:
        """Return counts and times so far by name, including ``practice/manual_resets``."""
        ...

    def state(self) -> State:
        """Return the state for :meth:`load`."""
        ...

    def load(self, state: State) -> None:
        """Restore the state that :meth:`state` returned."""
        ...


@runtime_checkable
class ReturnScaled(Protocol):
    """The ability of an agent to scale rewards by the magnitude of their returns."""

    def note_returns(self, returns: Sequence[float]) -> None:
        """Record the discounted sums (n,) of the rewards of an episode, G <- gamma G + r, after its newest n steps."""
        ...


@runtime_checkable
class PersistentWorld(Protocol):
    """The ability of a backend, whose episodes may begin where the last one ended, to save and restore its state.

    A simulator has it; a robot does not.
    """

    def world(self) -> State | None:
        """Return all that an episode starting from the current state depends on; None if that cannot be saved."""
        ...

    def restore(self, world: State) -> Step:
        """Begin an episode in the state that :meth:`world` returned, bit for bit."""
        ...


@runtime_checkable
class SimulatedState(Protocol):
    """The model and state of a simulator, which nothing else may write to.

    Attributes:
        model: compiled model (``mujoco.MjModel``).
        data: its state (``mujoco.MjData``).
    """

    model: Any
    data: Any


@runtime_checkable
class PosableWorld(SimulatedState, Protocol):
    """A simulator that observes and draws other states of its model than its own."""

    def object_values(self, data: Any) -> NDArray[np.float64]:
        """Return the elements (m,) of the observation ``object`` without noise, in a state with its kinematics."""
        ...

    def render(self, camera: str = "view", data: Any = None, hidden: Collection[int] = ()) -> NDArray[np.uint8]:
        """Return a picture (H, W, 3) of ``data``, a state with its kinematics, without the bodies numbered ``hidden``.

        Raises:
            RenderingError: if this machine cannot render.
        """
        ...


@runtime_checkable
class GoalTask(Protocol):
    """The ability of a backend to compute what its episodes would have been worth with another goal.

    ``relabel`` returns steps of one episode as they would be if the goal was what the last of them achieved; it is None
    if the goal of this task is not observed, or its reward cannot be computed for other goals.

    - Argument: n consecutive steps, as rows of a replay buffer: ``observation/*``, ``next_observation/*``, ``term/*``
      and ``terminated`` are changed, everything else is kept.
    - Result: up to n rows: they end where the task ends with this goal.
    """

    @property
    def relabel(self) -> Callable[[Batch], Batch] | None: ...


class Teleop(Protocol):
    """A device with which a person controls the robot."""

    def read(self) -> Intervention | None:
        """Return what the person does now, or None if the device has no new data. Never blocks."""
        ...

    def close(self) -> None: ...
