"""What each end of the wire knows of the other."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from robo_rl.core import Metrics

WORDS_KEPT = 10
"""Messages for people that an actor keeps until they are heard, and a learner until they are told; older ones go."""
WORDS_CHARACTERS = 300
PRESENT_SECONDS = 5.0
"""An actor counts as connected if it spoke within this time."""


@dataclass(frozen=True)
class ActorView:
    """What the learner knows of an actor.

    Attributes:
        session: number of its session.
        silent_seconds: time since its last message [s].
        produced: steps taken in this session.
        spooled: steps that wait in its spool.
        policy_version: version of the policy it acts with; -1: none.
        refused_policies: policies that it did not use.
        held_seconds: time it was kept from beginning an episode [s].
        practice_state: what its robot is doing, where it brings itself back after episodes; empty elsewhere.
        practice: what that came to in this session, by name.
        left: whether it has ended its session.
        pictures: its newest JPEG pictures by camera, where somebody watches.
        picture_problem: why there are none; empty: it knows of no reason.
    """

    session: int
    silent_seconds: float
    produced: int
    spooled: int
    policy_version: int
    refused_policies: int
    held_seconds: float
    practice_state: str
    practice: Metrics
    left: bool
    pictures: Mapping[str, bytes]
    picture_problem: str

    @property
    def is_present(self) -> bool:
        """Whether it counts as connected."""
        return not self.left and self.silent_seconds < PRESENT_SECONDS


@dataclass(frozen=True)
class LinkStatus:
    """What the actor knows of its learner.

    Attributes:
        connected: whether the last message was answered.
        hold: the learner wants no new episode to begin, and no step where the world waits.
        stop: the run is over.
        env_steps: steps of all actors that the learner had taken in.
        stored: steps of this session that are stored durably at the learner.
        refused: steps of this session that were counted as refused.
        blocked: why the learner takes in nothing now, its disk or a rate limit; empty: it does.
        watched: somebody watches, so that pictures are of use.
        until: sequence number from which on the learner wants no step yet where the world waits.
    """

    connected: bool = False
    hold: bool = False
    stop: bool = False
    env_steps: int = 0
    stored: int = 0
    refused: int = 0
    blocked: str = ""
    watched: bool = False
    until: int = sys.maxsize
