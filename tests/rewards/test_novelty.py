"""Novelty against brute force, and what it says of where nobody has been."""

import numpy as np
import pytest

from robo_rl.core import ArraySpec, Batch, CheckpointError, ConfigError
from robo_rl.rewards.modules.novelty import NoveltyConfig

from ..rigs.specs import joint_spec

SPEC = joint_spec({"state": ArraySpec((2,))})


def rows(states: np.ndarray) -> Batch:
    return {"action": np.zeros((len(states), 1), np.float32), "next_observation/state": states.astype(np.float32)}


class Replay:
    """States around the origin, ten times as wide in the second element."""

    def __init__(self) -> None:
        self.states = np.random.default_rng(0).normal(0, (1, 10), (300, 2)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.states)

    def sample_rows(self, n: int, rng: np.random.Generator) -> Batch:
        return rows(self.states[rng.integers(0, len(self.states), n)])

    def sample_segments(self, n: int, length: int, rng: np.random.Generator, *, newest: int | None = None) -> None:
        raise AssertionError("not asked for")


def test_it_is_the_distance_to_the_nearest_particles_by_brute_force():
    module = NoveltyConfig(particles=64, neighbours=3, interval=4).make("novelty", SPEC, 0)
    states = np.array([[0, 0], [0, 30], [5, 0], [5, 80]])
    np.testing.assert_array_equal(module(rows(states)), np.zeros(4))
    for _ in range(3):
        assert module.update(Replay()) == {}
    assert module.update(Replay())["novelty"] > 0
    assert module.version == 1
    particles = module.state()["particles"].astype(np.float64)
    scale = particles.std(0)
    expected = [np.log1p(np.sort(np.linalg.norm((particles - state) / scale, axis=1))[:3].mean()) for state in states]
    found = module(rows(states))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert found[0] < found[1] < found[3]
    assert found[0] < found[2] < found[3]


def test_a_saved_one_goes_on_alike_and_another_is_refused():
    config = NoveltyConfig(particles=32, interval=1)
    first, second = config.make("novelty", SPEC, 0), config.make("novelty", SPEC, 0)
    first.update(Replay())
    second.load({key: value.copy() for key, value in first.state().items()})
    for module in (first, second):
        module.update(Replay())
    assert second.version == 2
    states = rows(np.random.default_rng(2).normal(size=(9, 2)))
    np.testing.assert_array_equal(first(states), second(states))
    with pytest.raises(CheckpointError):
        NoveltyConfig(particles=16).make("novelty", SPEC, 0).load(first.state())
    with pytest.raises(ConfigError, match="neighbours must be at most particles=3, got 5"):
        NoveltyConfig(particles=3)
