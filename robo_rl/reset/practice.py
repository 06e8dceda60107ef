"""The base class of controllers for practice without manual resets: state machine, its time, and counters."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    Batch,
    ConfigError,
    EnvBackend,
    EnvSpec,
    ManualClock,
    Metrics,
    Observation,
    ResetOutcome,
    Source,
    State,
    Step,
    Transition,
    nearest,
    saved_counts,
)

from .states import Event, PracticeMachine, PracticeState


class PracticeReset(ABC):
    """A ``ResetController`` that begins episodes where the robot stands. It measures time in control periods."""

    def __init__(self, spec: EnvSpec) -> None:
        self._rate = spec.control_rate
        self._period_ns = round(1e9 / spec.control_rate)
        self._clock = ManualClock()
        self._machine = PracticeMachine(self._clock)
        self._attempts = self._manual_resets = 0
        self._listener: Callable[[str], None] | None = None
        self._notify: Callable[[str], None] | None = None
        self._heed: Callable[[], None] | None = None

    @property
    def practice_state(self) -> PracticeState:
        """State of the robot."""
        return self._machine.current

    @property
    def learns(self) -> bool:
        """Whether the controller needs demonstrations; a script does not."""
        return False

    def fit(self, episodes: Sequence[Batch]) -> None:
        """Do nothing: a script needs no demonstrations."""
        return

    def refuses(self, observation: Observation, action: NDArray[np.float32]) -> str:
        """Return an empty string: a script cannot tell whether it can undo an action."""
        return ""

    def watch(
        self, listener: Callable[[str], None], notify: Callable[[str], None], heed: Callable[[], None] | None = None
    ) -> None:
        """Report the state of the robot to ``listener`` now and on each change, and failed resets to ``notify``.

        ``heed`` is called before each step of a reset, so that the operator can stop the robot.
        """
        self._listener, self._notify, self._heed = listener, notify, heed
        listener(self._machine.current.name)

    def note(self, transition: Transition) -> None:
        """Record a step of an episode."""
        self._clock.advance_ns(self._period_ns)
        in_control = transition.source is Source.HUMAN
        if in_control != (self._machine.current is PracticeState.TELEOP):
            self._happens(Event.TAKEN_OVER if in_control else Event.HANDED_BACK)

    @abstractmethod
    def run(self, backend: EnvBackend) -> ResetOutcome:
        """Bring the robot to where the next episode can begin, and begin it.

        Raises:
            SafetyStop: if the robot is stopped meanwhile.
        """

    def metrics(self) -> Metrics:
        """Return counts and times so far, by name."""
        return {
            "practice/manual_resets": self._manual_resets,
            "practice/learning_seconds": self._machine.seconds(PracticeState.LEARNING),
            "practice/recovery_seconds": self._machine.seconds(PracticeState.RECOVERY)
            + self._machine.seconds(PracticeState.CRASHED),
        }

    def state(self) -> State:
        """Return the state for :meth:`load`."""
        return self._machine.state() | {"counts": np.array([self._attempts, self._manual_resets], np.int64)}

    def load(self, state: State) -> None:
        """Restore the state that :meth:`state` returned."""
        self._machine.load(state)
        self._attempts, self._manual_resets = saved_counts(state["counts"], 2)

    def _begin(self, backend: EnvBackend) -> Step:
        """Begin an episode where the robot stands, and count a manual reset if it was placed there."""
        step = backend.reset()
        if step.info.get("placed"):
            # A person carried the robot, or a simulator is configured to move it at resets.
            self._manual_resets += 1
        return step

    def _happens(self, event: Event) -> None:
        state = self._machine.happens(event)
        if self._listener is not None:
            self._listener(state.name)

    def _gives_up(self, attempts: int, reason: str) -> ResetOutcome:
        """Return the outcome of a reset that failed in all ``attempts``: the operator has to help."""
        self._happens(Event.GAVE_UP)
        self._manual_resets += 1
        if self._notify is not None:
            self._notify(f"Reset failed in {attempts} attempts: {reason}")
        return ResetOutcome(None, attempts, reason)

    def _act(self, backend: EnvBackend, step: Step, action: NDArray[np.float32]) -> Step:
        """Take one step of a reset, of which the actor stores no transition."""
        if self._heed is not None:
            self._heed()
        if step.ended:
            backend.reset()
        self._clock.advance_ns(self._period_ns)
        return backend.step(action)


class ReturningReset(PracticeReset):
    """Base class of controllers that bring the robot back after every episode, and count these resets."""

    _resets = _successes = _refusals = 0

    def note(self, transition: Transition) -> None:
        super().note(transition)
        if transition.terminated or transition.truncated:
            self._happens(Event.EPISODE_ENDED)

    def metrics(self) -> Metrics:
        rate = {"practice/reset_success_rate": self._successes / self._resets} if self._resets else {}
        return {
            "practice/resets": self._resets,
            "practice/reset_attempts": self._attempts,
            "practice/refused_actions": self._refusals,
            **rate,
            **super().metrics(),
        }


class Element:
    """One element of the observation, by name.

    Raises:
        ConfigError: if the observation has no such element.
    """

    def __init__(self, spec: EnvSpec, name: str) -> None:
        for key, array in spec.observation.items():
            if name in array.names:
                self._key, self._index = key, array.names.index(name)
                return
        names = [element_name for array in spec.observation.values() for element_name in array.names]
        raise ConfigError(f"reset: observations of task {spec.task!r} have no element {name!r}: {nearest(name, names)}")

    def __call__(self, observation: Observation) -> float:
        """Return the value of the element in ``observation``."""
        values: NDArray[Any] = observation[self._key]
        return float(values[self._index])
