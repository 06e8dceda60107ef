"""The penalty for reversing the gripper: by rows, and in an episode of an arm."""

import numpy as np
import pytest

from robo_rl.core import ArraySpec, ConfigError, EnvSpec
from robo_rl.rewards.modules.toggles import TogglesConfig
from robo_rl.sim import make_backend

from ..rigs.specs import steered_spec

NAMES = ("joint1_position", "gripper_opening")


def spec(*names: str) -> EnvSpec:
    return steered_spec(names, observation={"state": ArraySpec((2,), names=NAMES)})


@pytest.mark.parametrize(
    ("opening", "command", "reward"),
    [
        (1.0, 1.0, -1),  # closes
        (1.0, 0.4, 0),  # too weak
        (1.0, -1.0, 0),  # is open already
        (0.5, 1.0, 0),  # holds an object
        (0.5, -1.0, -1),  # drops it
        (0.0, -0.4, 0),
    ],
)
def test_a_step_costs_if_it_reverses_the_gripper(opening: float, command: float, reward: float) -> None:
    module = TogglesConfig().make("toggles", spec("x", "gripper"), 0)
    rows = {
        "action": np.array([[0.9, command]], np.float32),
        "observation/state": np.array([[0.3, opening]], np.float32),
    }
    rewards = module(rows)
    np.testing.assert_array_equal(rewards, [reward])
    assert rewards.dtype == np.float32


def test_a_restless_gripper_costs_more_than_one_that_closes_once() -> None:
    backend = make_backend("pick_cube")
    module = TogglesConfig().make("toggles", backend.spec, 0)
    costs = []
    for period in (40, 4):
        before, states, actions = backend.reset(0), [], []
        for step in range(16):
            action = np.zeros(backend.spec.action.shape, np.float32)
            action[-1] = 1.0 if (step // (period // 2)) % 2 else -1.0
            if period == 40 and step >= 8:
                action[-1] = 1.0
            states.append(before.observation["state"])
            actions.append(action)
            before = backend.step(action)
        rewards = module({"action": np.stack(actions), "observation/state": np.stack(states)})
        costs.append(-float(rewards.sum()))
    assert 1 <= costs[0] <= 2 and costs[1] >= 3 * costs[0]


def test_a_task_without_a_gripper_is_refused() -> None:
    with pytest.raises(ConfigError, match="the reward module toggles needs a gripper"):
        TogglesConfig().make("toggles", spec("x", "y"), 0)
