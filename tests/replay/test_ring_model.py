"""The replay ring against a plain list of transitions, for random episodes, gaps, actors and capacities."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robo_rl.core import Source, Transition
from robo_rl.replay import ReplayRing

from ..rigs.replay_stream import EVENTS, REWARD, SPEC, Stream, number_of


@dataclass
class Held:
    """A transition in the model: serial numbers of the two observations, and what follows."""

    transition: Transition
    serial: int
    next_serial: int
    follower: "Held | None" = None


class Model:
    """What a ring must hold, from serial numbers of the observations: the newest ``capacity`` of them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.newest = 0
        self.all = []
        self.last = {}

    def append(self, transition: Transition) -> None:
        previous = self.last.get(transition.actor)
        linked = (
            previous is not None
            and transition.follows(previous.transition)
            and transition.observation["state"][0] == previous.transition.next_observation["state"][0]
            # One more observation is about to be stored, and must not push this one out.
            and previous.next_serial > self.newest + 1 - self.capacity
        )
        serial = previous.next_serial if linked else self.newest + 1
        self.newest = max(self.newest, serial) + 1
        held = Held(transition, serial, self.newest)
        if linked:
            previous.follower = held
        self.last[transition.actor] = held
        self.all.append(held)

    def rows(self):
        """The transitions held, by their action, which no two share."""
        return {
            float(held.transition.executed_action[0]): held
            for held in self.all
            if held.serial > self.newest - self.capacity
        }


def expected_row(held: Held, gamma: float, n_step: int):
    """Reward, discount, next observation, and the transitions whose rewards count, by the definition."""
    total, steps, summed = 0.0, 0, []
    while True:
        summed.append(held.transition)
        rewards = held.transition.rewards
        total += gamma**steps * (2.0 * rewards["success"] - 0.5 * rewards["distance"] - 1.0)
        steps += 1
        if steps == n_step or held.follower is None:
            break
        held = held.follower
    discount = 0.0 if held.transition.terminated else gamma**steps
    return total, discount, int(held.transition.next_observation["state"][0]), summed


def compare(ring: ReplayRing, model: Model, gamma: float, n_step: int, action_chunk: int, rng) -> None:
    rows = model.rows()
    assert len(ring) == len(rows)
    indices = ring.rows.sample_indices(60 * len(rows), rng)
    batch = ring.rows.gather(indices, gamma=gamma, n_step=n_step, reward=REWARD, action_chunk=action_chunk)
    labels = ring.rows.labels(indices)
    seen, first = np.unique(batch["action"][:, 0], return_index=True)
    assert set(seen.tolist()) == rows.keys()
    actions = ring.rows.gather(ring.rows.available.interventions, gamma=gamma, n_step=1, reward=REWARD)["action"][
        :, 0
    ].tolist()
    by_others = [action for action, held in rows.items() if held.transition.source in (Source.HUMAN, Source.SCRIPT)]
    assert sorted(actions) == sorted(by_others)
    for row in first:
        held = rows[float(batch["action"][row, 0])]
        transition = held.transition
        number = number_of(batch["observation/state"][row], batch["observation/images/front"][row])
        assert number == transition.observation["state"][0]
        reward, discount, following, summed = expected_row(held, gamma, n_step)
        assert batch["reward"][row] == pytest.approx(reward, rel=1e-5, abs=1e-5)
        assert batch["discount"][row] == pytest.approx(discount, rel=1e-6)
        found = number_of(batch["next_observation/state"][row], batch["next_observation/images/front"][row])
        assert found == following
        chunk = (summed + [summed[-1]] * action_chunk)[:action_chunk]
        np.testing.assert_array_equal(batch["action"][row], np.concatenate([each.executed_action for each in chunk]))
        proposed = np.concatenate([each.proposed_action for each in chunk])
        np.testing.assert_array_equal(batch["proposed_action"][row], proposed)
        assert labels["source"][row] == transition.source
        assert labels["policy_version"][row] == transition.policy_version
        assert labels["success"][row] == (-1 if transition.success is None else transition.success)
        assert labels["terminated"][row] == transition.terminated
        assert labels["truncated"][row] == transition.truncated


@settings(max_examples=300)
@given(
    capacity=st.integers(2, 23),
    script=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(EVENTS)), min_size=1, max_size=120),
    returns=st.integers(1, 5).flatmap(lambda n_step: st.tuples(st.just(n_step), st.integers(1, n_step))),
    chunk=st.integers(1, 9),
    moves=st.booleans(),
)
def test_every_row_is_a_true_transition_and_every_transition_is_reached(capacity, script, returns, chunk, moves):
    ring, model, stream, rng = ReplayRing(capacity, SPEC), Model(capacity), Stream(moves), np.random.default_rng(0)
    for start in range(0, len(script), chunk):
        transitions = [stream.next(actor, event) for actor, event in script[start : start + chunk]]
        assert ring.append(transitions) == len(transitions)
        for transition in transitions:
            model.append(transition)
        compare(ring, model, 0.9, *returns, rng)
