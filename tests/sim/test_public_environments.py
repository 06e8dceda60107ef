"""Environments of the DeepMind Control Suite and of OGBench."""

import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from robo_rl.core import ConfigError, derive_seed
from robo_rl.sim.gymnasium_backend import GymnasiumBackend
from robo_rl.sim.gymnasium_options import GymnasiumConfig

SUITE = "dm_control/cartpole-balance_sparse-v0"


def make(env_id: str, **fields: Any) -> GymnasiumBackend:
    pytest.importorskip("ogbench" if "singletask" in env_id else "shimmy", exc_type=ImportError)
    pytest.importorskip("dm_control")
    return GymnasiumBackend(GymnasiumConfig(env_id=env_id, **fields))


def play(backend: GymnasiumBackend, seed: int, steps: int) -> tuple[NDArray[np.float32], list[float]]:
    """Return the last observation and the rewards of some random steps."""
    rng = np.random.default_rng(0)
    step = backend.reset(seed)
    rewards = []
    for _ in range(steps):
        step = backend.step(rng.uniform(-1, 1, backend.spec.action.shape).astype(np.float32))
        rewards.append(step.rewards["reward"])
    return step.observation["state"], rewards


@pytest.mark.parametrize(
    ("env_id", "size", "rate", "limit"),
    [
        ("dm_control/cheetah-run-v0", 17, 100.0, 1_000),
        ("cube-single-singletask-task1-v0", 28, 20.0, 200),
        ("pointmaze-medium-singletask-v0", 2, None, 1_000),
    ],
)
def test_the_same_seed_gives_the_same_episode(env_id: str, size: int, rate: float | None, limit: int) -> None:
    fields: dict[str, Any] = {"max_episode_steps": 1_000} if "dm_control" in env_id else {}
    backend = make(env_id, **fields)
    assert backend.spec.observation["state"].shape == (size,)
    assert backend.spec.max_episode_steps == limit
    assert rate in (None, backend.spec.control_rate)
    seed = derive_seed(3, "episode")
    assert seed >= 2**32  # more than legacy generators take
    first, rewards = play(backend, seed, 20)
    second, again = play(backend, seed, 20)
    np.testing.assert_array_equal(first, second)
    assert rewards == again
    assert not np.array_equal(play(backend, seed + 1, 20)[0], first)


def test_repeated_actions_sum_rewards_and_count_decisions() -> None:
    single, triple = make(SUITE, max_episode_steps=1_000), make(SUITE, action_repeat=3, max_episode_steps=7)
    assert triple.spec.max_episode_steps == 7
    assert triple.spec.control_rate == pytest.approx(single.spec.control_rate / 3)
    single.reset(0)
    triple.reset(0)
    action = np.ones(1, np.float32)
    for number in range(7):
        parts = [single.step(action) for _ in range(3)]
        step = triple.step(action)
        np.testing.assert_array_equal(step.observation["state"], parts[-1].observation["state"])
        assert step.rewards["reward"] == sum(part.rewards["reward"] for part in parts)
        assert step.truncated == (number == 6)


def test_an_episode_that_ends_between_repetitions_ends_the_step() -> None:
    backend = make(SUITE, action_repeat=3, max_episode_steps=400)  # the suite itself ends after 1,000 steps
    backend.reset(0)
    steps = 0
    ended = False
    while not ended:
        step = backend.step(np.zeros(1, np.float32))
        ended, steps = step.ended, steps + 1
    assert steps == 334  # 3 * 333 and one more
    assert step.truncated and not step.terminated


def test_a_repetition_is_at_least_one() -> None:
    with pytest.raises(ConfigError, match=r"task\.action_repeat must be 1 or more, got 0"):
        GymnasiumConfig(action_repeat=0)


@pytest.mark.parametrize(
    ("env_id", "package"),
    [("dm_control/cheetah-run-v0", "shimmy dm_control"), ("cube-double-singletask-v0", "ogbench dm_control")],
)
def test_a_missing_package_is_named(env_id: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package.split()[0], None)
    with pytest.raises(ConfigError, match=f"pip install {package}"):
        GymnasiumBackend(GymnasiumConfig(env_id=env_id))
