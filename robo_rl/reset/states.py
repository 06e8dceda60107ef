"""The state machine of a robot that practises autonomously (FastRLAP, Stachowicz et al. 2023)."""

from enum import Enum, auto

import numpy as np

from robo_rl.core import Clock, State, saved_counts, whole_number


class PracticeState(Enum):
    """The state of the robot; see :data:`TRANSITIONS`."""

    LEARNING = auto()
    """The policy acts and learns from its transitions."""

    CRASHED = auto()
    """A failure has ended the episode; the robot has to come to rest."""

    RECOVERY = auto()
    """A reset controller brings the robot back to where the policy can continue. The policy does not learn from it."""

    TELEOP = auto()
    """The operator controls the robot, by an intervention or because all attempts of a reset failed."""


class Event(Enum):
    """An event in the practice of a robot."""

    CRASH = auto()
    STUCK = auto()
    EPISODE_ENDED = auto()
    RECOVERY_BEGINS = auto()
    RECOVERED = auto()
    GAVE_UP = auto()
    TAKEN_OVER = auto()
    HANDED_BACK = auto()


TRANSITIONS = {
    (PracticeState.LEARNING, Event.CRASH): PracticeState.CRASHED,
    (PracticeState.LEARNING, Event.STUCK): PracticeState.RECOVERY,
    (PracticeState.LEARNING, Event.EPISODE_ENDED): PracticeState.RECOVERY,
    (PracticeState.LEARNING, Event.TAKEN_OVER): PracticeState.TELEOP,
    (PracticeState.CRASHED, Event.RECOVERY_BEGINS): PracticeState.RECOVERY,
    (PracticeState.CRASHED, Event.TAKEN_OVER): PracticeState.TELEOP,
    (PracticeState.RECOVERY, Event.RECOVERED): PracticeState.LEARNING,
    (PracticeState.RECOVERY, Event.GAVE_UP): PracticeState.TELEOP,
    (PracticeState.RECOVERY, Event.TAKEN_OVER): PracticeState.TELEOP,
    (PracticeState.TELEOP, Event.HANDED_BACK): PracticeState.LEARNING,
    (PracticeState.TELEOP, Event.CRASH): PracticeState.CRASHED,
    (PracticeState.TELEOP, Event.STUCK): PracticeState.RECOVERY,
    (PracticeState.TELEOP, Event.EPISODE_ENDED): PracticeState.RECOVERY,
}
"""The state after each possible event, by state and event."""

_STATES = tuple(PracticeState)


class PracticeMachine:
    """The state machine, which also measures the total time in each state. It begins in LEARNING.

    Args:
        clock: clock of the robot's time.

    Attributes:
        current: state of the robot.
        entries: number of entries into each state, not counting the initial one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ns = clock.now_ns()
        self._spent_ns = dict.fromkeys(PracticeState, 0)
        self.current = PracticeState.LEARNING
        self.entries = dict.fromkeys(PracticeState, 0)

    def happens(self, event: Event) -> PracticeState:
        """Change the state by ``event`` and return the new state.

        Raises:
            ValueError: if ``event`` cannot happen in the current state.
        """
        next_state = TRANSITIONS.get((self.current, event))
        if next_state is None:
            possible = ", ".join(possible_event.name for state, possible_event in TRANSITIONS if state is self.current)
            raise ValueError(f"{event.name} cannot happen in {self.current.name}; what can: {possible}")
        self._spend()
        self.current = next_state
        self.entries[next_state] += 1
        return next_state

    def seconds(self, state: PracticeState) -> float:
        """Return the total time that the robot has been in ``state`` [s]."""
        self._spend()
        return self._spent_ns[state] * 1e-9

    def _spend(self) -> None:
        now = self._clock.now_ns()
        self._spent_ns[self.current] += now - self._since_ns
        self._since_ns = now

    def state(self) -> State:
        """Return the state, entries and times."""
        self._spend()
        return {
            "machine": np.array([_STATES.index(self.current)], np.int64),
            "entries": np.array([self.entries[state] for state in _STATES], np.int64),
            "spent_ns": np.array([self._spent_ns[state] for state in _STATES], np.int64),
        }

    def load(self, state: State) -> None:
        """Restore what :meth:`state` returned; the time in between does not count.

        Raises:
            ValueError: if it is not such a state.
        """
        (number,) = saved_counts(state["machine"], 1)
        self.current = _STATES[whole_number(number, 0, len(_STATES) - 1)]
        self.entries = dict(zip(_STATES, saved_counts(state["entries"], len(_STATES)), strict=True))
        self._spent_ns = dict(zip(_STATES, saved_counts(state["spent_ns"], len(_STATES)), strict=True))
        self._since_ns = self._clock.now_ns()
