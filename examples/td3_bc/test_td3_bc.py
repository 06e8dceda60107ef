"""Test of the agent ``td3_bc``: an agent that loads the state of another learns and acts as that one does."""

import numpy as np
import td3_bc

from robo_rl.core import Batch
from robo_rl.sim import make_backend

ROWS = 16
BACKEND = make_backend("reach")


def batch(seed: int) -> Batch:
    rng = np.random.default_rng(seed)
    states = {
        f"{prefix}observation/{key}": rng.standard_normal((ROWS, *array.shape)).astype(np.float32)
        for prefix in ("", "next_")
        for key, array in BACKEND.spec.observation.items()
    }
    action = rng.uniform(-1, 1, (ROWS, *BACKEND.spec.action.shape)).astype(np.float32)
    rewards = {"reward": np.ones(ROWS, np.float32), "discount": np.full(ROWS, 0.99, np.float32)}
    return states | rewards | {"action": action}


def test_a_loaded_agent_goes_on() -> None:
    first, second = (td3_bc.make_td3_bc(spec=BACKEND.spec, seed=seed, hidden=[16]) for seed in (0, 1))
    first.update(batch(0))
    second.load(first.state())
    assert first.update(batch(1)) == second.update(batch(1))
    observation = BACKEND.reset(seed=0).observation
    np.testing.assert_array_equal(first.act(observation, explore=False), second.act(observation, explore=False))
