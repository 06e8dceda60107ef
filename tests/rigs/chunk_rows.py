"""Rows of chunks of two actions, to the left or to the right, and helpers that compare agents on them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from robo_rl.core import ArraySpec, Batch, State

from .specs import toy_spec

SPEC = toy_spec({"state": ArraySpec((2,))}, 1)
ORIGIN = {"state": np.zeros(2, np.float32)}


def two_ways(rows: int, seed: int) -> Batch:
    """Return rows of chunks near -0.6 or 0.6, independent of the observation; those to the right have a reward of 1."""
    rng = np.random.default_rng(seed)
    side = (rng.choice([-0.6, 0.6], (rows, 1)) + rng.normal(0, 0.03, (rows, 2))).astype(np.float32)
    state = rng.uniform(-1, 1, (rows, 2)).astype(np.float32)
    return {
        "observation/state": state,
        "next_observation/state": state,
        "action": side,
        "proposed_action": side,
        "reward": (side[:, 0] > 0).astype(np.float32),
        "discount": np.zeros(rows, np.float32),
        "demonstration": np.ones(rows, np.float32),
        "online_example": np.zeros(rows, np.float32),
    }


def sampled_chunks(act: Callable[[], np.ndarray], count: int = 100) -> np.ndarray:
    """Return ``count`` chunks (count, 2) of the actions that ``act`` returns."""
    return np.array([[act()[0], act()[0]] for _ in range(count)])


def assert_equal_states(first: State, second: State) -> None:
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)


def assert_continues_in_mid_chunk(unbroken: Any, resumed: Any, batch: Callable[[int], Batch]) -> None:
    """Check that ``resumed``, another agent, continues bit for bit from the state of ``unbroken`` within a chunk.

    Args:
        unbroken: agent whose normaliser is fixed.
        resumed: agent of the same configuration and another seed.
        batch: returns the rows of an update, given a seed.
    """
    unbroken.update(batch(1))
    for explore in (True, False, False):
        unbroken.act(ORIGIN, explore=explore)
    resumed.load(unbroken.state())
    for step in range(3):
        for explore in (True, False):
            first, second = (agent.act(ORIGIN, explore=explore) for agent in (unbroken, resumed))
            np.testing.assert_array_equal(first, second)
        assert unbroken.update(batch(step)) == resumed.update(batch(step))
    assert_equal_states(unbroken.state(), resumed.state())
    with pytest.raises(RuntimeError, match="cannot change"):
        unbroken.fit_normaliser(batch(0))
