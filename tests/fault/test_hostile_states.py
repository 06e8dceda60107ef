"""States in a checkpoint whose hashes are right and whose values no run has: refused when a run resumes."""

import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.actor import Actor
from robo_rl.actor.human_like import HumanLikeChooser
from robo_rl.core import CheckpointError, State, generator, reading
from robo_rl.replay import Hindsight, ReplayRing
from robo_rl.reset.config import RecoveryConfig
from robo_rl.reset.recovery import RecoveryReset
from robo_rl.rewards.composition import RunningScale
from robo_rl.rewards.parts.arrays import take_over
from robo_rl.sim import make_backend

from ..rigs.deployed import make_agent
from ..rigs.replay_episodes import SPEC, make_episode

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
SUBNORMAL = np.float32(1e-44)


def with_one(array: Any, value: float) -> Any:
    """Return a copy whose last element is ``value``."""
    changed = np.array(array)
    changed.reshape(-1)[-1] = value
    return changed


def wrong_counts(array: Any) -> Iterator[Any]:
    """Yield arrays that are not the counts of a run, of the shape of ``array`` or of another."""
    yield from (with_one(array, value) for value in (-2, LEAST, MOST))
    yield array.astype(np.float64) + 0.5
    yield array.astype(np.bool_)
    yield np.append(array, 0)
    yield np.zeros((0,), np.int64)
    yield np.zeros((1, 1, max(array.size, 1)), np.int64)


def refused(load: Callable[[State], Any], state: State, name: str, values: Iterator[Any]) -> None:
    load(state)
    for value in values:
        with pytest.raises(CheckpointError), reading("it", CheckpointError):
            load(state | {name: value})
            raise AssertionError(f"{name} = {value!r} was loaded")


@pytest.mark.parametrize("value", [0.0, -1.0, SUBNORMAL, -0.0, 1e-30])
def test_a_normalisation_that_divides_by_nothing(value: float) -> None:
    for kind in ("sac", "flow", "xqc"):
        agent = make_agent(kind)
        for load, state in ((agent.load, agent.state()), (agent.load_policy, agent.policy_state())):
            with pytest.raises(CheckpointError, match=r"'normaliser/scale' divides by .* smallest scale is 0.02"):
                load(state | {"normaliser/scale": with_one(state["normaliser/scale"], value)})


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("sac", "adam_second/temperature/log_alpha"),
        ("bc", "cloning_second/actor/output/bias"),
        ("xqc", "actor_statistics/input/variance"),
        ("xqc", "returns"),
    ],
)
def test_squares_below_zero(kind: str, name: str) -> None:
    agent = make_agent(kind)
    state = agent.state()
    with pytest.raises(CheckpointError, match=f"'{name}' holds -1, expected none below 0"):
        agent.load(state | {name: with_one(state[name], -1)})


@pytest.mark.parametrize(("kind", "name"), [("sac", "updates"), ("sac", "cloning_steps"), ("fql", "critic_updates")])
def test_counts_of_an_agent(kind: str, name: str) -> None:
    agent = make_agent(kind)
    for value in (-1, LEAST, MOST):
        with pytest.raises(CheckpointError, match=f"'{name}' is not a count"):
            agent.load(agent.state() | {name: np.array([value])})


def hindsight() -> Hindsight:
    ring = ReplayRing(20, SPEC)
    made = Hindsight(ring, lambda rows: rows, copies=1, seed=0)
    for step in make_episode(0, 5, end=""):
        ring.append([step])
        made.add(step)
    return made


def test_the_open_episodes_of_hindsight() -> None:
    state = hindsight().state()
    (name,) = (name for name in state if name.startswith("open/"))
    slots = [np.array(slots) for slots in ([20], [-1], [MOST], [2, 2], [0, 1, 0])]
    refused(hindsight().load, state, name, iter([*slots, np.array([0.5]), np.zeros((2, 2), np.int64)]))
    refused(hindsight().load, state, "episodes", wrong_counts(state["episodes"]))


def test_an_episode_that_is_longer_than_the_buffer_is_noted_once() -> None:
    ring = ReplayRing(8, SPEC)
    made = Hindsight(ring, lambda rows: rows, copies=1, seed=0)
    for step in make_episode(0, 30, end="truncated"):
        ring.append([step])
        made.add(step)
        slots = [slots.tolist() for name, slots in made.state().items() if name.startswith("open/")]
        assert all(len(set(each)) == len(each) for each in slots)
        made.load(made.state())


def test_the_counts_of_a_reset_controller() -> None:
    resets = RecoveryReset(RecoveryConfig(), make_backend("drive").spec, seed=0)
    state = resets.state()
    for name in ("counts", "entries", "spent_ns", "machine"):
        refused(resets.load, state, name, wrong_counts(state[name]))
    refused(resets.load, state, "machine", iter([np.array([4]), np.array([99])]))


def test_the_counts_of_an_actor() -> None:
    actor = Actor(SimpleNamespace(spec=SPEC), seed=0)
    state = actor.state()
    refused(actor.load, state, "counters", wrong_counts(state["counters"]))


def test_the_hand_of_a_simulated_person() -> None:
    hand = HumanLikeChooser(SimpleNamespace(), SPEC, generator(0))
    state = hand.state()
    refused(hand.load, state, "counts", wrong_counts(state["counts"]))
    motion = state["motion"]
    others = [with_one(motion, math.nan), with_one(motion, math.inf), motion[:3], motion[:, :0], motion.astype(int)]
    refused(hand.load, state, "motion", iter(others))


def test_a_world_that_is_not_finite() -> None:
    backend = make_backend("reach")
    backend.reset(0)
    world = backend.world()
    for name in world:
        refused(backend.restore, world, name, iter([with_one(world[name], math.nan), world[name][:0]]))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("scale", 0.0, "divides by 0"),
        ("scale", -1.0, "divides by -1"),
        ("scale", 1e-44, "divides by"),
        ("scale", math.nan, "is not a number"),
        ("scale/reward", -1.0, "holds -1"),
        ("network/weight/exp_avg_sq", -1.0, "holds -1"),
        ("network/weight", math.nan, "is not a number"),
    ],
)
def test_the_arrays_of_a_reward_module(name: str, value: float, reason: str) -> None:
    array = np.ones(3)
    with pytest.raises(CheckpointError, match=reason):
        take_over({name: array}, {name: with_one(array, value)}, "test")
    np.testing.assert_array_equal(array, 1)


def test_a_running_scale_without_weights_divides_by_one() -> None:
    scale = RunningScale()
    scale.sums[...] = 1.0, 0.0
    assert scale.value == 1.0
