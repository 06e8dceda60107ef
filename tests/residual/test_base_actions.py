"""Observations with the actions of a base policy: chunks, noise, what is refused, and equality with the base alone."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from robo_rl.actor import ActionChoice, Actor
from robo_rl.core import ConfigError, EnvBackend, GoalTask, Observation, PersistentWorld, Source, SpecError
from robo_rl.residual import BASE_ACTION, BASE_POLICY, BaseActionBackend, BasePolicy
from robo_rl.sim import make_backend

SCALE = 0.2


def steering(observation: Observation, noise: NDArray[np.float32]) -> NDArray[np.float32]:
    """A chunk of three actions that depends on observation and noise."""
    first = np.tanh(observation["state"][:3] + (noise[:3] if noise.size else 0)).astype(np.float32)
    return np.stack([first, 0.5 * first, -first])


def base(noise_size: int = 0, backend: EnvBackend | None = None) -> BasePolicy:
    spec = None if backend is None else backend.spec
    return BasePolicy(steering, "steering", "1", spec, noise_size)


def corrected(noise_size: int = 0) -> BaseActionBackend:
    backend = make_backend("reach")
    return BaseActionBackend(backend, base(noise_size, backend), SCALE)


def test_the_base_alone_does_what_it_does_without_the_backend_around_it() -> None:
    around, alone, policy = corrected(noise_size=3), make_backend("reach"), base(noise_size=3)
    for seed in (3, 4):
        step, expected = around.reset(seed), alone.reset(seed)
        policy.begin_episode(seed)
        for _ in range(8):
            action = policy.act(expected.observation)
            np.testing.assert_array_equal(step.observation[BASE_ACTION], action)
            step, expected = around.step(step.observation[BASE_ACTION]), alone.step(action)
            np.testing.assert_array_equal(step.observation["state"], expected.observation["state"])
    around.spec.check_observation(step.observation)
    assert around.spec.extra[BASE_POLICY] == {"fingerprint": "1", "residual_scale": SCALE}
    assert around.spec.action == alone.spec.action and around.spec.observation[BASE_ACTION].shape == (3,)
    around.close()
    alone.close()


def test_a_chunk_continues_within_the_reach_of_residuals_and_is_decided_anew_beyond() -> None:
    backend = corrected()
    first = backend.reset(0).observation[BASE_ACTION]
    step = backend.step((first + SCALE).clip(-1, 1))
    np.testing.assert_array_equal(step.observation[BASE_ACTION], 0.5 * first)
    other = -np.sign(step.observation[BASE_ACTION]).astype(np.float32)  # as a person may act
    step = backend.step(other)
    np.testing.assert_array_equal(step.observation[BASE_ACTION], steering(step.observation, np.zeros(0))[0])
    backend.close()


def test_the_noise_of_an_episode_follows_from_its_seed() -> None:
    backend = corrected(noise_size=3)
    firsts = [backend.reset(seed).observation[BASE_ACTION] for seed in (1, 2, 1)]
    np.testing.assert_array_equal(firsts[0], firsts[2])
    assert np.abs(firsts[0] - firsts[1]).max() > 1e-3
    backend.close()


def test_an_interrupted_episode_is_repeated_exactly() -> None:
    def choose(observation: Observation) -> ActionChoice:
        return ActionChoice((observation[BASE_ACTION] + 0.1).clip(-1, 1), Source.POLICY)

    actor, other = Actor(corrected(3), seed=1), Actor(corrected(3), seed=1)
    for _ in range(4):  # in the middle of a chunk
        actor.take_step(choose)
    other.load(actor.state())
    expected, found = actor.take_step(choose).next_observation, other.take_step(choose).next_observation
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value)


def test_abilities_that_would_be_wrong_with_a_base_are_not_there() -> None:
    backend = corrected()
    assert isinstance(backend, GoalTask) and backend.relabel is None
    assert not isinstance(backend, PersistentWorld)
    backend.close()


def test_another_task_or_rate_is_refused_with_both_sides() -> None:
    other = make_backend("reach")
    spec = replace(other.spec, control_rate=20.0, task="elsewhere")
    with pytest.raises(ConfigError) as error:
        BaseActionBackend(other, BasePolicy(steering, "steering", "1", spec), SCALE)
    text = str(error.value)
    assert "steering was made for task elsewhere" in text and "those of task reach" in text
    assert "control_rate: expected 20.0, found 10.0" in text
    with pytest.raises(ConfigError, match=r"base.residual_scale must be in \(0, 1\]"):
        BaseActionBackend(other, base(), 1.5)
    with pytest.raises(ConfigError, match="no 'base_action' observed"):
        BaseActionBackend(BaseActionBackend(other, base(), SCALE), base(), SCALE)
    other.close()


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.zeros(2), r"the action of the base policy mine.*\(3,\)"),
        (np.full(3, np.nan), "the action of the base policy mine"),
        (np.full(3, 1.5), "the action of the base policy mine"),
        (np.zeros((2, 2, 3)), r"expected an action \(A,\) or a chunk \(h, A\), got shape \(2, 2, 3\)"),
        (np.zeros((0, 3)), "or a chunk"),
    ],
)
def test_a_function_that_returns_no_action_is_named(result: NDArray[np.float64], message: str) -> None:
    backend = make_backend("reach")
    policy = BasePolicy.of_function(lambda _: result.astype(np.float32), "mine")
    with pytest.raises(SpecError, match=message):
        BaseActionBackend(backend, policy, SCALE).reset(0)
    backend.close()
