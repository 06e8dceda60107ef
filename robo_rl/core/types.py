"""The values that packages exchange."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Observation = dict[str, NDArray[Any]]
"""Arrays by key, as in :class:`~robo_rl.core.specs.EnvSpec`: ``state``, ``object``, ``images/<camera>``."""

Batch = dict[str, NDArray[Any]]
"""Contiguous arrays with a leading batch axis of n rows:

- ``observation/<key>`` and ``next_observation/<key>`` (n, ...): for an agent with a
  :class:`~robo_rl.core.FeatureExtractor`, features replace images.
- ``action`` (n, A) float32: the *executed* action, from which values are learned.
- ``proposed_action`` (n, A) float32: the requested action, which cloning imitates. For an agent of action chunks both
  are (n, h A): the actions of h steps in order.
- ``reward`` (n,) float32: of one step, or the discounted sum of several.
- ``discount`` (n,) float32: factor of the next observation's value, gamma to the power of the number of steps summed in
  ``reward``; 0 if the episode *terminated*, but not if it was only truncated.
- ``demonstration`` (n,) float32, only in batches for ``Agent.update``: the weight of a row that is a demonstration,
  above 0; else 0.
- ``online_example`` (n,) float32, in the same batches: 1 for a row of the running training to imitate, else 0.
"""

State = dict[str, NDArray[Any]]
"""Flat named arrays: everything that an object needs to continue exactly where it stopped. Saved as safetensors."""

Metrics = dict[str, float]
"""Numbers for the log, by name."""


class Comparisons(NamedTuple):
    """Pairs of segments and which of the two was preferred.

    Attributes:
        segments: rows, arrays (n, 2, length, ...): ``observation/<key>`` of all keys except images, and ``action``.
        second: (n,) float32: 1 where the second is preferred, else 0.
    """

    segments: Batch
    second: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The effect of safety on an action, and its reasons.

    Attributes:
        changed: whether the executed action differs from the proposed one.
        stop: whether the episode has to end with the robot brought to rest.
        reasons: names of the causes, for counting, such as ``workspace`` or ``contact``; empty if there are none.
        message: the causes in words, with values and limits; empty if the names suffice.
    """

    changed: bool = False
    stop: bool = False
    reasons: tuple[str, ...] = ()
    message: str = ""

    @property
    def stop_reason(self) -> str | None:
        """The reason for which the episode ends; None if it continues."""
        return self.reasons[-1] if self.stop else None


PASSED = Verdict()
"""The verdict on an action that is executed as proposed."""


class Source(IntEnum):
    """The origin of an action."""

    POLICY = 0
    HUMAN = 1
    SCRIPT = 2
    RANDOM = 3


TEACHERS = Source.HUMAN, Source.SCRIPT
"""Sources whose actions are interventions in a training, and not exploration."""


def happened(rewards: Mapping[str, float], terms: Iterable[str]) -> bool:
    """Return whether one of ``terms``, which indicate events (``success``, ``crashed``), is above 0.5."""
    return any(rewards[term] > 0.5 for term in terms)


@dataclass(frozen=True, slots=True)
class Step:
    """The result of ``reset`` and ``step`` of a backend.

    Attributes:
        observation: arrays by key.
        rewards: unweighted reward terms by name; all zero after ``reset``.
        terminated: the task itself ended; there is no value beyond this observation.
        truncated: the episode was cut off (time limit, fault); the observation still has a value.
        stamp_ns: monotonic time at which the observation was taken [ns].
        success: whether the task is solved in this observation; None if unknown.
        executed_action: (A,) float32 in [-1, 1], the action that the robot executed; None if it is the requested one.
        verdict: verdict of the safety filters on the action that led to this observation.
        info: further facts for logs, never read by the learner. ``lap_seconds`` [s] of a step that completes a lap;
            ``placed`` of a first step: the robot was placed there.
        expires_ns: monotonic time after which the observation is too old to act on [ns], if the robot's sources limit
            the age of their data; else None.
    """

    observation: Observation
    rewards: dict[str, float]
    terminated: bool
    truncated: bool
    stamp_ns: int
    success: bool | None = None
    executed_action: NDArray[np.float32] | None = None
    verdict: Verdict = PASSED
    info: dict[str, Any] = field(default_factory=dict)
    expires_ns: int | None = None

    @property
    def ended(self) -> bool:
        """Whether the episode is over, for either reason."""
        return self.terminated or self.truncated


@dataclass(frozen=True, slots=True)
class Transition:
    """One step of experience.

    Attributes:
        observation: observation before the action.
        proposed_action: (A,) float32, action requested by the policy, person or script.
        executed_action: (A,) float32, action executed after noise and safety filters. Learners train on this one.
        rewards: unweighted reward terms by name.
        next_observation: the true observation after the action, also at the end of an episode.
        terminated: see :class:`Step`.
        truncated: see :class:`Step`.
        source: who chose the action.
        actor: identity of the robot or simulator.
        session: number of the actor's run; (actor, session, sequence) is unique.
        episode: number of the episode within the session.
        sequence: number of the step within the session; a gap means lost data and is never bridged.
        policy_version: number of the policy that proposed the action, -1 if none did.
        stamp_ns: monotonic time of ``observation`` [ns].
        success: as in the Step that ended this transition.
        verdict: verdict of the safety filters: why ``executed_action`` differs from ``proposed_action``.
    """

    observation: Observation
    proposed_action: NDArray[np.float32]
    executed_action: NDArray[np.float32]
    rewards: Mapping[str, float]
    next_observation: Observation
    terminated: bool
    truncated: bool
    source: Source
    actor: str
    session: int
    episode: int
    sequence: int
    policy_version: int
    stamp_ns: int
    success: bool | None = None
    verdict: Verdict = PASSED

    def follows(self, previous: "Transition") -> bool:
        """Return whether ``previous.next_observation`` is this transition's observation: same segment, no gap."""
        return (
            (self.actor, self.session, self.episode) == (previous.actor, previous.session, previous.episode)
            and self.sequence == previous.sequence + 1
            and not (previous.terminated or previous.truncated)
        )


@dataclass(frozen=True, slots=True)
class Intervention:
    """The current reading of a teleoperation device.

    Attributes:
        action: (A,) float32 in [-1, 1].
        in_control: whether the person has taken control.
        buttons: pressed buttons by name, for example ``success``, ``discard``, ``stop``.
        message: a message of the device for the person, such as that it was unplugged; empty if there is none.
    """

    action: NDArray[np.float32]
    in_control: bool
    buttons: frozenset[str] = frozenset()
    message: str = ""


@dataclass(frozen=True, slots=True)
class ResetOutcome:
    """The outcome of a reset.

    Attributes:
        step: the first step of the next episode; None if every attempt failed.
        attempts: number of attempts.
        reason: why there is no step; otherwise empty.
    """

    step: Step | None
    attempts: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Steps of a session that cannot be learned from. They are counted: produced = stored + refused.

    Attributes:
        sequence: number of the first of these steps within the session.
        count: number of steps, 1 or more.
        reason: description of the problem.
    """

    sequence: int
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class SessionProgress:
    """Progress of one session of an actor at the learner.

    Attributes:
        wanted: next sequence number to take in.
        settled: all steps below this number are stored durably, or durably counted as refused.
        stored: steps stored durably.
        refused: steps durably counted as refused.
    """

    wanted: int
    settled: int
    stored: int
    refused: int
