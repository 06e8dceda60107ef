"""State of each end of the transport as the other end knows it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from robo_rl.core import Metrics

WORDS_KEPT = 10
"""Largest number of messages for the operator that an actor or learner keeps until it passes them on. The oldest are
dropped.
"""
WORDS_CHARACTERS = 300
PRESENT_SECONDS = 5.0
"""Time after its last message for which an actor counts as connected [s]."""


@dataclass(frozen=True)
class ActorView:
    """State of an actor as the learner knows it.

    Attributes:
        session: number of its session.
        silent_seconds: time since its last message [s].
        produced: number of steps taken in this session.
        spooled: number of steps in its spool.
        policy_version: version of the policy that it acts with; -1: none.
        refused_policies: number of policies that it did not use.
        held_seconds: time during which it was kept from beginning an episode [s].
        practice_state: state of a robot that resets itself after episodes; empty for other robots.
        practice: metrics of these resets in this session, by name.
        left: whether it has ended its session.
        pictures: its newest JPEG pictures by camera, while an operator watches.
        picture_problem: why there are no pictures; empty: no problem.
        scene_geometry: the shapes around it as JSON, while an operator watches; empty: unknown.
        scene_frame: the newest poses of these shapes as JSON; empty: unknown.
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
    scene_geometry: bytes = b""
    scene_frame: bytes = b""

    @property
    def is_present(self) -> bool:
        """Whether the actor counts as connected."""
        return not self.left and self.silent_seconds < PRESENT_SECONDS


@dataclass(frozen=True)
class LinkStatus:
    """State of the learner as an actor knows it.

    Attributes:
        connected: whether the last message was answered.
        hold: whether to begin no new episode and, if the environment waits for the actor, to take no step.
        stop: whether the run is over.
        env_steps: number of steps of all actors that the learner has received.
        stored: number of steps of this session that the learner has stored durably.
        refused: number of steps of this session that count as refused.
        blocked: why the learner accepts no steps now, such as a full disk or a rate limit; empty: it accepts them.
        watched: whether an operator watches, so that pictures are needed.
        until: sequence number of the first step that the learner does not want yet, if the environment waits.
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
