"""Values that environments mask, and keys of success that are numbers."""

from typing import Any

import numpy as np
import pytest

from robo_rl.core import ConfigError

from ..rigs.odd_environments import registered
from .test_gymnasium_outcomes import episode, make


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": lambda env: np.ma.masked}, r"the reward is masked, expected one finite number"),
        ({"reward": lambda env: np.ma.masked_array([3.0], mask=[True])}, r"(?s)the reward is .* expected one finite"),
        ({"info": lambda env: {"success": np.ma.masked_array([True], mask=[True])}}, r"info\['success'\] is nan"),
        ({"terminated": lambda env: np.ma.masked_array([True], mask=[True])}, r"(?s)terminated is .* a truth value"),
    ],
)
def test_values_behind_a_mask_are_missing(changes: dict[str, Any], message: str) -> None:
    with registered(**changes) as env_id, pytest.raises(ConfigError, match=message):
        make(env_id)


def test_masked_observations_are_not_finite() -> None:
    observed = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])
    with registered(observation=lambda env: observed) as env_id:
        np.testing.assert_array_equal(make(env_id).reset(seed=0).observation["state"], [1, np.nan, 3])
        observed.mask = False
        np.testing.assert_array_equal(make(env_id).reset(seed=0).observation["state"], [1, 2, 3])


@pytest.mark.parametrize(("key", "info"), [("0", {0: True}), ("done.1", {"done": {0: False, 1: True}})])
def test_keys_may_be_numbers(key: str, info: dict[Any, Any]) -> None:
    with registered(info=lambda env: info) as env_id:
        assert episode(make(env_id, success_key=key))[-1].success is True
