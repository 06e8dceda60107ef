"""What all controllers of practice without resets have in common: the state machine, its time, and what is counted."""

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
)

from .states import Event, PracticeMachine, PracticeState


class PracticeReset(ABC):
    """Begins episodes where the robot stands; a ``ResetController``. Time is the robot's: control periods counted.

    Args:
        spec: of the backend.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self._rate = spec.control_rate
        self._period_ns = round(1e9 / spec.control_rate)
        self._clock = ManualClock()
        self._machine = PracticeMachine(self._clock)
        self._attempts = self._manual_resets = 0
        self._listener: Callable[[str], None] | None = None
        self._tell: Callable[[str], None] | None = None
        self._heed: Callable[[], None] | None = None

    @property
    def state(self) -> PracticeState:
        """What the robot is doing."""
        return self._machine.state

    @property
    def learns(self) -> bool:
        """Whether it wants demonstrations: a script does not."""
        return False

    def fit(self, episodes: Sequence[Batch]) -> None:
        """Nothing to prepare."""
        return

    def refuses(self, observation: Observation, action: NDArray[np.float32]) -> str:
        """Whatever the policy does, a script does not know whether it can be undone."""
        return ""

    def watch(
        self, listener: Callable[[str], None], tell: Callable[[str], None], heed: Callable[[], None] | None = None
    ) -> None:
        """Tell ``listener`` from now on what the robot is doing, whenever that changes, and ``tell`` what failed.

        ``heed`` hears people, before each step that brings the robot back.
        """
        self._listener, self._tell, self._heed = listener, tell, heed
        listener(self._machine.state.name)

    def note(self, transition: Transition) -> None:
        """Take note of a step of an episode."""
        self._clock.advance_ns(self._period_ns)
        in_control = transition.source is Source.HUMAN
        if in_control != (self._machine.state is PracticeState.TELEOP):
            self._happens(Event.TAKEN_OVER if in_control else Event.HANDED_BACK)

    @abstractmethod
    def run(self, backend: EnvBackend) -> ResetOutcome:
        """Bring the robot to where the next episode can begin, and begin it.

        Raises:
            SafetyStop: if the robot was stopped on the way.
        """

    def metrics(self) -> Metrics:
        """Return counts and times so far, by name."""
        return {
            "practice/manual_resets": self._manual_resets,
            "practice/learning_seconds": self._machine.seconds(PracticeState.LEARNING),
            "practice/recovery_seconds": self._machine.seconds(PracticeState.RECOVERY)
            + self._machine.seconds(PracticeState.CRASHED),
        }

    def save(self) -> State:
        """Return everything needed to go on."""
        return self._machine.save() | {"counts": np.array([self._attempts, self._manual_resets], np.int64)}

    def load(self, saved: State) -> None:
        """Go on from what :meth:`save` returned."""
        self._machine.load(saved)
        self._attempts, self._manual_resets = (int(count) for count in saved["counts"])

    def _begin(self, backend: EnvBackend) -> Step:
        """Begin where the robot stands, and count it where somebody or something put it there."""
        step = backend.reset()
        if step.info.get("placed"):
            # Somebody carried it, or a simulator that is not told to leave it where it is did.
            self._manual_resets += 1
        return step

    def _happens(self, event: Event) -> None:
        state = self._machine.happens(event)
        if self._listener is not None:
            self._listener(state.name)

    def _gives_up(self, attempts: int, reason: str) -> ResetOutcome:
        """Return that nothing was reached in ``attempts``: somebody has to help."""
        self._happens(Event.GAVE_UP)
        self._manual_resets += 1
        if self._tell is not None:
            self._tell(f"Reset failed in {attempts} attempts: {reason}")
        return ResetOutcome(None, attempts, reason)

    def _act(self, backend: EnvBackend, step: Step, action: NDArray[np.float32]) -> Step:
        """Take one step that nobody learns from."""
        if self._heed is not None:
            self._heed()
        if step.ended:
            backend.reset()
        self._clock.advance_ns(self._period_ns)
        return backend.step(action)


class Element:
    """One element of the observation, by its name.

    Args:
        spec: names the elements.
        name: of the element.

    Raises:
        ConfigError: if it is not observed.
    """

    def __init__(self, spec: EnvSpec, name: str) -> None:
        for key, array in spec.observation.items():
            if name in array.names:
                self._key, self._index = key, array.names.index(name)
                return
        known = [other for array in spec.observation.values() for other in array.names]
        raise ConfigError(f"reset: observations of task {spec.task!r} have no element {name!r}: {nearest(name, known)}")

    def __call__(self, observation: Observation) -> float:
        """Return its value in ``observation``."""
        values: NDArray[Any] = observation[self._key]
        return float(values[self._index])
