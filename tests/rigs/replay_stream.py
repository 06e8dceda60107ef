"""Transitions of several actors, made from a list of events, for the tests of the replay ring."""

import numpy as np

from robo_rl.core import ArraySpec, RewardWeights, Source, Transition
from robo_rl.replay import ReplayRing

from .specs import joint_spec

SPEC = joint_spec(
    {"state": ArraySpec((2,)), "images/front": ArraySpec((4, 4, 3), "uint8")},
    action=ArraySpec((2,), low=-1, high=1),
    reward_terms=("success", "distance"),
)
REWARD = RewardWeights({"success": 2.0, "distance": -0.5}, offset=-1.0)


def observe(number: int):
    """An observation that tells its number, in the state and in the pixels."""
    pixels = np.array([number % 256, number // 256, 7], dtype=np.uint8)
    return {
        "state": np.array([number, -number], dtype=np.float32),
        "images/front": np.broadcast_to(pixels, (4, 4, 3)).copy(),
    }


def number_of(state, image):
    """Inverse of observe; fails where state and image are not of the same moment."""
    number = int(state[0])
    expected = observe(number)
    np.testing.assert_array_equal(state, expected["state"])
    np.testing.assert_array_equal(image, expected["images/front"])
    return number


class Stream:
    """Transitions of several actors, from a list of (actor, event).

    If nothing ``moves``, all observations look the same, and only numbers tell what follows what.
    """

    def __init__(self, moves: bool = True) -> None:
        self.moves = moves
        self.observations = 0
        self.open = {}

    def fresh(self):
        self.observations += 1
        return observe(self.observations if self.moves else 1)

    def next(self, actor: int, event: str) -> Transition:
        session, episode, sequence, observation = self.open.get(actor, (0, 0, 0, None))
        if event == "session":
            session, episode, sequence, observation = session + 1, 0, 0, None
        if event == "lost":
            sequence += 1
            observation = None
        if event == "lost while nothing moved":
            sequence += 1
        if event == "other episode where nothing moved":
            episode += 1
        if event == "other observation" or observation is None:
            observation = self.fresh()
        following = self.fresh()
        random = np.random.default_rng(self.observations)
        transition = Transition(
            observation=observation,
            proposed_action=random.uniform(-2, 2, 2).astype(np.float32),
            executed_action=random.uniform(-1, 1, 2).astype(np.float32),
            rewards={"success": float(random.integers(0, 2)), "distance": float(random.normal())},
            next_observation=following,
            terminated=event == "terminate",
            truncated=event in ("truncate", "truncate and go on"),
            source=Source(int(random.integers(0, 4))),
            actor=f"robot {actor}",
            session=session,
            episode=episode,
            sequence=sequence,
            policy_version=int(random.integers(-1, 9)),
            stamp_ns=self.observations,
            success=[None, False, True][int(random.integers(0, 3))],
        )
        ended = event in ("terminate", "truncate")
        self.open[actor] = (session, episode + ended, sequence + 1, None if ended else following)
        return transition


EVENTS = ["step"] * 6 + ["terminate", "truncate", "lost", "session", "other observation"]
EVENTS += ["lost while nothing moved", "other episode where nothing moved", "truncate and go on"]


def fill(ring: ReplayRing, script) -> list[Transition]:
    stream = Stream()
    transitions = [stream.next(actor, event) for actor, event in script]
    ring.append(transitions)
    return transitions


def episode(steps: int, end: str, actor: int = 0):
    return [(actor, "step")] * (steps - 1) + [(actor, end)]
