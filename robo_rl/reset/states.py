"""What a robot that practises on its own is doing, as a state machine (FastRLAP, Stachowicz et al. 2023)."""

from enum import Enum, auto

import numpy as np

from robo_rl.core import Clock, State


class PracticeState(Enum):
    """What the robot is doing; see :data:`TRANSITIONS`."""

    LEARNING = auto()
    """The policy acts, and what happens is learned from."""

    CRASHED = auto()
    """A failure ended the episode; the robot is to come to rest."""

    RECOVERY = auto()
    """A script brings the robot back to where the policy can go on. Nothing of it is learned from."""

    TELEOP = auto()
    """A person has the robot: took over, or was called because the script gave up."""


class Event(Enum):
    """What happens to a robot that practises."""

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
"""Every transition that there is, by state and event."""

_STATES = tuple(PracticeState)


class PracticeMachine:
    """Follows what the robot is doing, and for how long in all.

    Args:
        clock: of the robot's time. The machine begins in LEARNING.

    Attributes:
        state: what the robot is doing.
        entries: how often each state was entered, the beginning not counted.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ns = clock.now_ns()
        self._spent_ns = dict.fromkeys(PracticeState, 0)
        self.state = PracticeState.LEARNING
        self.entries = dict.fromkeys(PracticeState, 0)

    def happens(self, event: Event) -> PracticeState:
        """Go where ``event`` leads and return the new state.

        Raises:
            ValueError: if ``event`` cannot happen in the present state.
        """
        after = TRANSITIONS.get((self.state, event))
        if after is None:
            possible = ", ".join(other.name for state, other in TRANSITIONS if state is self.state)
            raise ValueError(f"{event.name} cannot happen in {self.state.name}; what can: {possible}")
        self._spend()
        self.state = after
        self.entries[after] += 1
        return after

    def seconds(self, state: PracticeState) -> float:
        """Return how long the robot has been in ``state`` in all [s]."""
        self._spend()
        return self._spent_ns[state] * 1e-9

    def _spend(self) -> None:
        now = self._clock.now_ns()
        self._spent_ns[self.state] += now - self._since_ns
        self._since_ns = now

    def save(self) -> State:
        """Return the state, entries and times."""
        self._spend()
        return {
            "machine": np.array([_STATES.index(self.state)], np.int64),
            "entries": np.array([self.entries[state] for state in _STATES], np.int64),
            "spent_ns": np.array([self._spent_ns[state] for state in _STATES], np.int64),
        }

    def load(self, saved: State) -> None:
        """Go on from what :meth:`save` returned; the time between does not count."""
        self.state = _STATES[int(saved["machine"][0])]
        self.entries = dict(zip(_STATES, map(int, saved["entries"]), strict=True))
        self._spent_ns = dict(zip(_STATES, map(int, saved["spent_ns"]), strict=True))
        self._since_ns = self._clock.now_ns()
