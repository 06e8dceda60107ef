"""Observations of foreign environments with goals and awkward names."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict

from robo_rl.core import ConfigError
from robo_rl.sim.gymnasium_observations import ObservationReader


def goals(space: gymnasium.Space) -> Dict:
    return Dict({"observation": Box(-1, 1, (2,)), "achieved_goal": space, "desired_goal": space})


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int8", "bool", "float32"])
def test_the_way_to_a_goal_does_not_wrap_around(dtype: str) -> None:
    high = 1 if dtype == "bool" else 100
    reader = ObservationReader(goals(Box(0, high, (1,), np.dtype(dtype))), "some-env")
    read = reader.read(
        {
            "observation": np.zeros(2, "float32"),
            "achieved_goal": np.array([high], dtype),
            "desired_goal": np.array([0], dtype),
        }
    )
    names = reader.specs["state"].names
    assert read["state"][names.index("desired_goal-achieved_goal[0]")] == -high


def test_pictures_as_goals_are_pictures_and_no_difference() -> None:
    space = goals(Box(0, 255, (16, 24, 3), np.uint8))
    reader = ObservationReader(space, "some-env")
    assert set(reader.specs) == {"state", "images/achieved_goal", "images/desired_goal"}
    assert reader.specs["state"].shape == (2,)
    assert set(reader.read(space.sample())) == set(reader.specs)


def test_one_goal_alone_has_no_difference() -> None:
    space = Dict({"achieved_goal": Box(-1, 1, (2,)), "observation": Box(-1, 1, (2,))})
    assert ObservationReader(space, "some-env").specs["state"].shape == (4,)


def test_two_observations_of_one_name_are_refused() -> None:
    space = Dict({"arm.joints": Box(-1, 1, (2,)), "arm": Dict({"joints": Box(-1, 1, (3,))})})
    with pytest.raises(ConfigError, match=r"two observations would have the name 'arm\.joints'"):
        ObservationReader(space, "some-env")
