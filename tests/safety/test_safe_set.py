"""What is safe, from demonstrations alone: distances against brute force, and a corridor that is never spoken of."""

import numpy as np
import pytest

from robo_rl.core import DataError
from robo_rl.safety.feasibility import FeasibilityConfig, FeasibilityModel
from robo_rl.safety.safe_set import SafeSet


def walks(count: int, seed: int, length: int = 30) -> list[np.ndarray]:
    """Demonstrations: walks through a corridor along x, some 0.1 wide."""
    rng = np.random.default_rng(seed)
    x = np.linspace(-1, 1, length)
    return [np.stack([x + rng.normal(0, 0.02, length), rng.uniform(-0.1, 0.1, length)], 1).astype(np.float32)
            for _ in range(count)]  # fmt: skip


def test_the_cost_is_the_distance_by_brute_force():
    demonstrations = walks(4, seed=0)
    safe = SafeSet(demonstrations, reach=1.5, still=0.01)
    everything = np.concatenate(demonstrations).astype(np.float64)
    scale = everything.std(0)

    def nearest(state, others):
        return min(np.linalg.norm((state - other) / scale) for other in others)

    apart = [
        nearest(state, np.concatenate([walk for walk in demonstrations if walk is not own]))
        for own in demonstrations
        for state in own.astype(np.float64)
    ]
    radius = 1.5 * np.quantile(apart, 0.9)
    states = np.random.default_rng(1).uniform(-1.5, 1.5, (50, 2)).astype(np.float32)
    expected = [nearest(state, everything) / radius - 1 for state in states.astype(np.float64)]
    np.testing.assert_allclose(safe.cost(states), expected, rtol=2e-3, atol=2e-3)
    assert (safe.cost(demonstrations[0]) < -0.99).all()


def test_an_element_that_never_changed_counts_once_it_does():
    demonstrations = [np.pad(walk, ((0, 0), (0, 1))) for walk in walks(3, seed=0)]
    safe = SafeSet(demonstrations, reach=2.0, still=0.01)
    state = demonstrations[0][5:6].copy()
    assert safe.cost(state)[0] < -0.99
    state[0, 2] = 0.5
    assert safe.cost(state)[0] > 1


def test_from_where_one_can_stay_is_learned_from_data_that_nobody_labelled():
    """A cart with speed: near a wall of the corridor it is safe now, and yet lost if it is fast."""
    rng = np.random.default_rng(0)
    # Demonstrations stay within |y| < 0.5 and are slow.
    demonstrations = [
        np.stack([rng.uniform(-0.5, 0.5, 200), rng.uniform(-0.6, 0.6, 200)], 1).astype(np.float32) for _ in range(4)
    ]
    safe = SafeSet(demonstrations, reach=2.0, still=0.01)
    states = rng.uniform(-0.8, 0.8, (8000, 2)).astype(np.float32)
    actions = rng.uniform(-1, 1, (8000, 1)).astype(np.float32)
    speed = states[:, 1] + 0.1 * actions[:, 0]
    after = np.stack([states[:, 0] + 0.1 * speed, speed], 1).astype(np.float32)
    model = FeasibilityModel(2, 1, (32, 32))
    config = FeasibilityConfig(hidden=(32, 32), steps=1200)
    model.fit(states, actions, after, safe.cost(after), np.zeros(len(states), bool), config)
    probes = np.array([[0.0, 0.0], [0.3, 0.0], [0.45, 0.55], [-0.45, -0.55], [0.45, -0.5]], np.float32)
    assert (safe.cost(probes) < 0).all(), "all are near to what was demonstrated"
    np.testing.assert_array_equal(model.value(probes) <= 0, [True, True, False, False, True])


def test_demonstrations_that_are_copies_tell_no_distance_either():
    (walk,) = walks(1, seed=0, length=60)
    for copies in ([walk, walk], [walk, walk * np.float32(np.nan)]):
        with pytest.raises(DataError, match="give demonstrations that are no copies of each other"):
            SafeSet(copies, reach=2.0, still=0.01)


def test_one_demonstration_tells_no_distance():
    with pytest.raises(DataError, match="takes two demonstrations or more, got 1"):
        SafeSet(walks(1, seed=0), reach=2.0, still=0.01)
