"""The values that travel between rooms."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Observation = dict[str, NDArray[Any]]
"""Arrays by key, as :class:`~robo_rl.core.specs.EnvSpec` says: ``state``, ``object``, ``images/<camera>``."""

Batch = dict[str, NDArray[Any]]
"""Contiguous arrays with a leading batch axis of n rows:

- ``observation/<key>`` and ``next_observation/<key>`` (n, ...): for an agent that has a
  :class:`~robo_rl.core.FeatureExtractor`, features take the place of images.
- ``action`` (n, A) float32: what was *executed*; values are learned of it.
- ``proposed_action`` (n, A) float32: what was asked for; cloning imitates it. For an agent of action chunks both are
  (n, h A): the actions of h steps, one after the other.
- ``reward`` (n,) float32: of one step, or the discounted sum of several.
- ``discount`` (n,) float32: factor of the next observation's value, gamma to the number of steps summed in
  ``reward``; 0 where the episode *terminated*, never where it was only truncated.
- ``demonstration`` (n,) float32, in batches for ``Agent.update`` alone: above 0 where a row is a demonstration, and how
  much it counts as one; else 0.
- ``online_example`` (n,) float32, in the same batches: 1 where a row of the running training is to be imitated.
- ``return_to_go`` (n,) float32, in batches for ``OfflineLearner.pretrain_critics`` alone: a lower bound of the
  discounted rewards that were earned from there on.
"""

State = dict[str, NDArray[Any]]
"""Flat named arrays: everything an object needs to go on exactly where it stopped. Saved as safetensors."""

Metrics = dict[str, float]
"""Numbers for the log by name."""


class Comparisons(NamedTuple):
    """Pairs of segments, unbroken stretches of steps, and which of the two somebody preferred.

    Attributes:
        segments: rows, arrays (n, 2, length, ...): ``observation/<key>`` of all that are not images, and ``action``.
        second: (n,) float32: 1 where the second is preferred, else 0.
    """

    segments: Batch
    second: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What safety did to an action, and why.

    Attributes:
        changed: whether the executed action differs from the proposed one.
        stop: whether the episode is to end and the robot to be brought to rest.
        reasons: names of the causes, for counting, such as ``workspace`` or ``contact``; empty if there was none.
        message: the causes for people, with values and limits; empty where the names say it all.
    """

    changed: bool = False
    stop: bool = False
    reasons: tuple[str, ...] = ()
    message: str = ""

    @property
    def stop_reason(self) -> str | None:
        """The reason for which the episode ends; None: it goes on."""
        return self.reasons[-1] if self.stop else None


PASSED = Verdict()
"""The verdict on an action that is executed as it was proposed."""


class Source(IntEnum):
    """Who chose an action."""

    POLICY = 0
    HUMAN = 1
    SCRIPT = 2
    RANDOM = 3


TEACHERS = Source.HUMAN, Source.SCRIPT
"""Those whose actions in a training are interventions: nobody explores by them."""


def happened(rewards: Mapping[str, float], terms: Iterable[str]) -> bool:
    """Return whether one of ``terms``, which tell of something (``success``, ``crashed``), says so: it is above 0.5."""
    return any(rewards[term] > 0.5 for term in terms)


@dataclass(frozen=True, slots=True)
class Step:
    """What a backend returns from ``reset`` and ``step``.

    Attributes:
        observation: arrays by key.
        rewards: unweighted reward terms by name; all zero after ``reset``.
        terminated: the task itself ended; there is no value beyond this observation.
        truncated: the episode was cut (time limit, fault); the observation still has a value.
        stamp_ns: monotonic time at which the observation was taken [ns].
        success: whether the task is solved in this observation; None where nobody knows.
        executed_action: (A,) float32 in [-1, 1], what the robot really did; None if it did what it was told.
        verdict: of the safety filters on the action that led here.
        info: further facts for logs; never read by the learner. ``lap_seconds`` [s] of a step that completes a lap,
            ``placed`` of a first step: somebody put the robot there.
        expires_ns: monotonic time after which the observation is too old to act on [ns], where the robot's sources say
            how old each may be; else None.
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
        observation: before the action.
        proposed_action: (A,) float32, what the policy, human or script asked for.
        executed_action: (A,) float32, what the robot did after noise and safety filters. Learners train on this one.
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
        verdict: of the safety filters: why ``executed_action`` is not ``proposed_action``.
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
        """Whether ``previous.next_observation`` is this transition's observation: same segment, no gap."""
        return (
            (self.actor, self.session, self.episode) == (previous.actor, previous.session, previous.episode)
            and self.sequence == previous.sequence + 1
            and not (previous.terminated or previous.truncated)
        )


@dataclass(frozen=True, slots=True)
class Intervention:
    """What a teleoperation device says now.

    Attributes:
        action: (A,) float32 in [-1, 1].
        in_control: whether the human has taken over.
        buttons: pressed buttons by name, for example ``success``, ``discard``, ``stop``.
        message: what the device has to tell the person, such as that it was unplugged; empty: nothing.
    """

    action: NDArray[np.float32]
    in_control: bool
    buttons: frozenset[str] = frozenset()
    message: str = ""


@dataclass(frozen=True, slots=True)
class ResetOutcome:
    """How a reset ended.

    Attributes:
        step: the first step of the next episode; None if every attempt failed.
        attempts: how many there were.
        reason: why there is no step; else empty.
    """

    step: Step | None
    attempts: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Steps of a session that cannot be learned from. They are counted: produced = stored + refused.

    Attributes:
        sequence: number of the first of them within the session.
        count: how many, 1 or more.
        reason: what was wrong, for people.
    """

    sequence: int
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class SessionProgress:
    """How far one session of an actor has come at the learner.

    Attributes:
        wanted: next sequence number to be taken in.
        settled: all steps below this number are stored durably, or durably counted as refused.
        stored: steps stored durably.
        refused: steps durably counted as refused.
    """

    wanted: int
    settled: int
    stored: int
    refused: int
