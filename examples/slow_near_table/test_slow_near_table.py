"""Test of the safety filter ``SlowNearTable``."""

import numpy as np
from slow_near_table import SlowNearTable

from robo_rl.core import PASSED, Verdict
from robo_rl.sim import make_backend


def test_actions_are_scaled_near_the_table_alone() -> None:
    backend = make_backend("pick_cube")
    observation = backend.reset(seed=0).observation
    action = np.ones(backend.spec.action.shape, np.float32)
    for height, expected in ((0.0, PASSED), (2.0, Verdict(changed=True, reasons=("slow_near_table",)))):
        changed, verdict = SlowNearTable(backend.spec, backend.robot, height)(observation, action, 0)
        assert verdict == expected
        np.testing.assert_allclose(changed, [0.5] * (len(action) - 1) + [1.0] if verdict.changed else action)
