"""The interfaces of robots, safety and resets; those of agents, rewards and the wire have files of their own."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

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
    """A robot or a simulator. It never resets by itself."""

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
        """What safety filters must know of the robot; None where there is no description."""
        ...

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode. In simulation the same ``seed`` gives the same episode, whatever went before.

        Without ``seed`` a robot begins where it stands. Where somebody, or a simulator, put it somewhere else,
        ``info["placed"]`` of the step may say so.
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
        """Return a picture (height, width, 3) of the scene for people.

        Raises:
            RenderingError: if this machine cannot render.
        """
        ...

    def expert(self, seed: int) -> ScriptedExpert:
        """Return a scripted solution of the task.

        Raises:
            ConfigError: if there is none for this task.
        """
        ...

    def stop(self, reason: str) -> None:
        """Bring the robot to rest."""
        ...

    def close(self) -> None:
        """Free devices and rendering contexts. May be called twice."""
        ...


class SafetyFilter(Protocol):
    """A function around the policy. What it returns follows from the calls since ``reset`` alone."""

    def reset(self) -> None:
        """Begin an episode."""
        ...

    def __call__(
        self, observation: Observation, action: NDArray[np.float32], now_ns: int
    ) -> tuple[NDArray[np.float32], Verdict]:
        """Return the action (A,) in [-1, 1] to execute instead of ``action``, and why; ``action`` is not written to.

        ``now_ns`` is the time of the backend's clock [ns].
        """
        ...


class ObservationGuard(Protocol):
    """Decides whether an observation can be trusted. What it returns follows from the calls since ``reset`` alone."""

    def reset(self) -> None:
        """Begin an episode."""
        ...

    def __call__(self, observation: Observation, stamp_ns: int, now_ns: int) -> Verdict:
        """Return a verdict, with ``stop`` if ``observation``, taken at ``stamp_ns``, must not be acted on.

        Times are of the backend's clock [ns].
        """
        ...


class ReturnLearner(Protocol):
    """Learns to bring a robot back to where episodes begin, for a :class:`ResetController`."""

    def fit(self, episodes: Sequence[Batch]) -> None:
        """Learn from demonstrations of the task where episodes begin.

        Raises:
            DataError: if there are none.
        """
        ...

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return an action (A,) that leads back, or explores how to."""
        ...

    def value(self, observation: Observation, action: NDArray[np.float32]) -> float:
        """Return the estimated discounted return, of its own reward, after ``action`` (A,) on ``observation``."""
        ...

    def is_back(self, observation: Observation) -> bool:
        """Whether this is a state where episodes begin."""
        ...

    def add(self, transition: Transition) -> None:
        """Store a step, of its own or of the task's policy, to learn from."""
        ...

    def learn(self) -> None:
        """Do the updates that one step of its own pays for."""
        ...

    def state(self) -> State: ...

    def load(self, state: State) -> None: ...


class ResetController(Protocol):
    """Brings a robot back to where an episode may begin, in a bounded number of attempts.

    The task's policy learns from nothing that it does: the actor stores no transition of it.
    """

    def run(self, backend: EnvBackend) -> ResetOutcome:
        """Begin the next episode.

        Returns:
            its first step; none where every attempt failed and a person has to help.

        Raises:
            SafetyStop: if the robot was stopped on the way.
        """
        ...

    @property
    def learns(self) -> bool:
        """Whether it wants demonstrations, for :meth:`fit`."""
        ...

    def fit(self, episodes: Sequence[Batch]) -> None:
        """Prepare from demonstrations, each an episode in order: see :class:`RewardModule` for the rows.

        Raises:
            DataError: if it cannot do with these.
        """
        ...

    def note(self, transition: Transition) -> None:
        """Take note of a step of an episode."""
        ...

    def refuses(self, observation: Observation, action: NDArray[np.float32]) -> str:
        """Return why the episode must end before ``action`` (A,) of the policy is executed; empty: it goes on.

        Raises:
            DriverError: if resets do not help against that, and a person has to.
        """
        ...

    def watch(
        self, listener: Callable[[str], None], tell: Callable[[str], None], heed: Callable[[], None] | None = None
    ) -> None:
        """Tell ``listener`` from now on what the robot is doing, in a word, whenever that changes.

        Where every attempt of a reset failed, ``tell`` gets a sentence that says why. Before each step of a reset
        ``heed`` is called, which raises :class:`SafetyStop` where a person stops the robot.
        """
        ...

    def metrics(self) -> Metrics:
        """Return counts and times so far, by name; ``practice/manual_resets`` among them."""
        ...

    def save(self) -> State:
        """Return everything needed to go on."""
        ...

    def load(self, saved: State) -> None:
        """Go on from what :meth:`save` returned."""
        ...


@runtime_checkable
class PersistentWorld(Protocol):
    """What a backend offers whose episodes may begin where the last one ended, if its world can be saved.

    A simulator's can; a robot's cannot.
    """

    def world(self) -> State | None:
        """Return all that the next episode depends on if it begins where the robot is; None if that cannot be told."""
        ...

    def restore(self, world: State) -> Step:
        """Begin an episode in the world as it was when :meth:`world` returned it, bit for bit."""
        ...


class Teleop(Protocol):
    """A device by which a human drives the robot."""

    def read(self) -> Intervention | None:
        """Return what the human does now, or None if the device says nothing new. Never blocks."""
        ...

    def close(self) -> None: ...
