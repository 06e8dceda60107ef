"""Prior data: its share in minibatches, and the episodes in the state of a buffer."""

import json
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robo_rl.core import CheckpointError, ConfigError, DataError, RoboRLError
from robo_rl.replay import ReplayRing, SavedEpisodes

from ..rigs.replay_episodes import SPEC, make_episode
from ..rigs.wrong_types import mutations
from .test_sampler import DEMONSTRATIONS, ONLINE, TAKEN_OVER, ring_of, sampler_of
from .test_sampler import SPEC as RING_SPEC

PRIOR = ring_of(range(101, 121))
NOTHING = ReplayRing(10, RING_SPEC)


def shares(batch, block):
    """Return the numbers of rows of demonstrations, prior data and online data, in this order, of each minibatch."""
    states = batch["observation/state"].reshape(-1, block)
    kinds = np.select([states < 0, states > 100], [0, 1], 2)
    assert (np.diff(kinds, axis=1) >= 0).all()
    return [[int((row == kind).sum()) for kind in range(3)] for row in kinds]


@given(data=st.data(), minibatches=st.integers(1, 4), block=st.integers(1, 17))
def test_each_minibatch_holds_its_exact_share_of_each(data, minibatches, block):
    ratio = data.draw(st.floats(0, 1))
    prior_ratio = data.draw(st.floats(0, 1 - ratio))
    batch = sampler_of(ONLINE, DEMONSTRATIONS, ratio, prior=PRIOR, prior_ratio=prior_ratio).sample(
        minibatches * block, block
    )
    demonstrations = round(ratio * block)
    prior = min(round(prior_ratio * block), block - demonstrations)
    assert shares(batch, block) == minibatches * [[demonstrations, prior, block - demonstrations - prior]]
    states = batch["observation/state"].ravel()
    np.testing.assert_array_equal(batch["reward"], states)
    assert not batch["demonstration"][states > 0].any(), "prior data is not imitated"


def test_prior_data_takes_the_place_of_online_data_that_is_missing():
    assert shares(sampler_of(NOTHING, DEMONSTRATIONS, 0.25, prior=PRIOR, prior_ratio=0.5).sample(8, 8), 8) == [
        [2, 6, 0]
    ]
    assert shares(sampler_of(NOTHING, None, 0.25, prior=PRIOR, prior_ratio=0.5).sample(8, 8), 8) == [[0, 8, 0]]
    assert shares(sampler_of(NOTHING, DEMONSTRATIONS, 0.25, prior=NOTHING, prior_ratio=0.5).sample(8, 8), 8) == [
        [8, 0, 0]
    ]
    with pytest.raises(DataError, match="nothing to sample"):
        sampler_of(NOTHING, None, 0.25, prior=NOTHING, prior_ratio=0.5).sample(8, 8)


def test_own_successes_and_interventions_in_it_are_not_imitated():
    sampler = sampler_of(ONLINE, None, 0.25, prior=TAKEN_OVER, prior_ratio=1 - 0.25, imitate_online=True)
    batch = sampler.sample(40, 40)
    assert not batch["online_example"].any() and not batch["demonstration"].any()


def test_without_prior_data_the_rows_are_those_of_ever():
    one, other = (sampler_of(ONLINE, DEMONSTRATIONS, **more) for more in ({}, {"prior": None, "prior_ratio": 0.3}))
    for _ in range(3):
        first = {name: value.copy() for name, value in one.sample(16, 8).items()}
        for name, value in other.sample(16, 8).items():
            np.testing.assert_array_equal(value, first[name])


def test_shares_beyond_one_are_refused():
    with pytest.raises(ConfigError, match=r"prior_ratio must be in \[0, 1 - demonstration_ratio = 0.5\], got 0.6"):
        sampler_of(ONLINE, DEMONSTRATIONS, 0.5, prior=PRIOR, prior_ratio=0.6)


def filled(capacity=60):
    """Return a buffer with two whole episodes, an open one, and their transitions."""
    episodes = [make_episode(0, 5), make_episode(1, 4, end="truncated"), make_episode(2, 3, end="open")]
    ring = ReplayRing(capacity, SPEC)
    for episode in episodes:
        ring.append(episode)
    return ring, episodes


def assert_equal_content(found, expected):
    assert [len(episode) for episode in found] == [len(episode) for episode in expected]
    for one, other in zip(chain(*found), chain(*expected), strict=True):
        for name in ("rewards", "terminated", "truncated", "source", "success", "policy_version"):
            assert getattr(one, name) == getattr(other, name), name
        for key in SPEC.observation:
            np.testing.assert_array_equal(one.observation[key], other.observation[key], strict=True)
            np.testing.assert_array_equal(one.next_observation[key], other.next_observation[key], strict=True)
        np.testing.assert_array_equal(one.executed_action, other.executed_action, strict=True)
        np.testing.assert_array_equal(one.proposed_action, other.proposed_action, strict=True)


def test_the_episodes_of_a_saved_buffer_are_those_that_were_stored():
    ring, episodes = filled()
    saved = SavedEpisodes(ring.state(), SPEC)
    assert len(saved) == 12 and saved.spec == SPEC
    assert_equal_content(list(saved), episodes)
    assert_equal_content(list(saved), episodes)  # again


def test_an_overwritten_beginning_is_left_out():
    ring, episodes = filled(capacity=12)  # 15 slots are needed: three of the first episode are gone
    assert_equal_content(list(SavedEpisodes(ring.state(), SPEC)), [episodes[0][3:], *episodes[1:]])


def test_a_damaged_buffer_is_an_error_and_never_an_endless_loop():
    ring, _ = filled()
    state = {name: array.copy() for name, array in ring.state().items()}
    for slot in (-1, 10**6):
        links = state["next"].copy()
        links[0] = slot
        with pytest.raises(CheckpointError):
            SavedEpisodes(state | {"next": links}, SPEC)
    circle = np.zeros_like(state["next"])
    with pytest.raises(CheckpointError, match="links a slot to an older one"):
        SavedEpisodes(state | {"next": circle}, SPEC)
    sources = np.full_like(state["source"], 77)
    with pytest.raises(CheckpointError, match="damaged"):
        list(SavedEpisodes(state | {"source": sources}, SPEC))
    with pytest.raises(CheckpointError):
        SavedEpisodes({name: state[name] for name in state if name != "action"}, SPEC)
    facts = json.loads(state["facts"].tobytes())
    for what, changed in mutations(facts):
        document = np.frombuffer(json.dumps(changed).encode(), np.uint8)
        try:
            list(SavedEpisodes(state | {"facts": document}, SPEC))
        except RoboRLError:
            continue
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
