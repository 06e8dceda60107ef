"""Exploration as inexact as the demonstrations: the deviation and the entropy that it aims at."""

import math
from typing import Any

import numpy as np
import pytest

from robo_rl.agents.sac import ranks
from robo_rl.core import ConfigError

from .test_sac import make, make_batch, same

NOISE = np.array([0.05, 0.3], np.float32)
STEPS = 300


def demonstrations(seed: int, noise: np.ndarray = NOISE, rows: int = 256) -> dict[str, np.ndarray]:
    """Return demonstrations (rows, 2) of a demonstrator who does the same everywhere, with noise."""
    batch = make_batch(rows, seed)
    exact = np.array([0.2, -0.1], np.float32)
    batch["proposed_action"] = exact + noise * np.random.default_rng(seed).standard_normal((rows, 2), np.float32)
    return batch


def cloned(noise: np.ndarray = NOISE, **fields: Any) -> Any:
    fields = {"exploration": "demonstrations", "pretrain_steps": STEPS, "actor_learning_rate": 3e-3} | fields
    agent = make(**fields)
    for step in range(STEPS):
        agent.pretrain(demonstrations(step, noise))
    return agent


def deviation(agent: Any) -> np.ndarray:
    return np.exp(agent.state()["actor/output/bias"][2:])


@pytest.mark.parametrize("implementation", ["torch", "auto"])
def test_each_dimension_explores_as_the_demonstrator_erred(implementation: str) -> None:
    agent = cloned(implementation=implementation)
    np.testing.assert_allclose(deviation(agent), NOISE, rtol=0.1)
    gaussian = sum(0.5 * math.log(2 * math.pi * math.e * each**2) for each in deviation(agent))
    assert agent.state()["target_entropy"] == pytest.approx(gaussian, abs=1e-5)
    observation = {"state": np.zeros(3, np.float32), "object": np.full(2, 5, np.float32)}
    samples = np.array([agent.act(observation, explore=True) for _ in range(400)])
    np.testing.assert_allclose(np.arctanh(samples).std(0), NOISE, rtol=0.2)


def test_a_fixed_deviation_stays() -> None:
    agent = cloned(exploration="fixed", initial_log_std=-1.5)
    np.testing.assert_allclose(deviation(agent), math.exp(-1.5), rtol=1e-6)
    assert "target_entropy" not in agent.state()


def test_an_exact_script_leaves_a_little_to_explore_with() -> None:
    assert deviation(cloned(np.zeros(2, np.float32))).min() >= math.exp(-4) - 1e-6


@pytest.mark.parametrize("implementation", ["torch", "auto"])
def test_the_temperature_pursues_the_entropy_of_the_demonstrations(implementation: str) -> None:
    """Above the target the temperature falls, below it rises: the target decides, and survives a resume."""
    fields = {"implementation": implementation, "temperature_learning_rate": 0.1, "update_to_data": 1}
    low, high = cloned(**fields), cloned(target_entropy=10.0, **fields)
    resumed = make(7, exploration="demonstrations", pretrain_steps=STEPS, actor_learning_rate=3e-3, **fields)
    resumed.load(low.state())
    entropies = []
    for step in range(3):
        batch = make_batch(low.update_rows, step)
        entropies.append(low.update(batch)["entropy"])
        high.update(batch)
        resumed.update(batch)
    assert same(low.state(), resumed.state())
    target = float(low.state()["target_entropy"][0])
    began = make(**fields).state()["temperature/log_alpha"]
    fell = low.state()["temperature/log_alpha"] < began
    assert fell == (np.mean(entropies) > target)
    assert high.state()["temperature/log_alpha"] > began


def test_a_warm_start_aims_at_the_entropy_that_its_start_aimed_at() -> None:
    agent = make(1, exploration="demonstrations", pretrain_steps=STEPS)
    start = cloned()
    agent.start_from(start, critics=False)
    assert agent.state()["target_entropy"] == start.state()["target_entropy"]
    np.testing.assert_array_equal(deviation(agent), deviation(start))


def test_what_cannot_be_measured_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"agent\.pretrain_steps must be above 0 for agent\.exploration=demonstr"):
        make(exploration="demonstrations", pretrain_steps=0)
    with pytest.raises(ConfigError, match=r"unknown agent\.exploration 'demonstration'; did you mean 'demonstrations'"):
        make(exploration="demonstration")
    monkeypatch.setattr(ranks.dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(ranks.dist, "is_initialized", lambda: True)
    with pytest.raises(ConfigError, match=r"agent\.exploration must be fixed if several processes"):
        make(exploration="demonstrations", implementation="auto")
