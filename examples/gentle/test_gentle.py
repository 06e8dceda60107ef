"""Test of the reward term ``gentle``."""

import gentle
import numpy as np


def test_forces_beyond_the_limit_cost_their_share_of_it() -> None:
    forces = np.array([[0, 0, 0], [3, 4, 0], [0, 0, -20]])
    np.testing.assert_allclose(gentle.GentleConfig(limit=10).score(forces), [0, 0, -1])
