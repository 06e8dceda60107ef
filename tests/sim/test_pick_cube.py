"""What is observed of a cube whose faces are all alike."""

from itertools import product

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robo_rl.sim import make_backend
from robo_rl.sim.tasks.base import Array, cube_axes

SAME = Rotation.create_group("O").as_matrix()
"""The 24 turns that lead a cube onto itself."""


def test_a_cube_is_observed_alike_however_it_was_turned_onto_itself() -> None:
    for rotation in Rotation.random(200, rng=0).as_matrix():
        x_axis, z_axis = cube_axes(rotation)
        turned = [rotation @ same for same in SAME]
        best: Array = max(turned, key=lambda each: (round(float(each[2, 2]), 9), float(each[0, 0])))
        np.testing.assert_allclose(x_axis, best[:, 0])
        np.testing.assert_allclose(z_axis, best[:, 2])
        for each in turned:
            np.testing.assert_allclose(cube_axes(each), (x_axis, z_axis))


@pytest.mark.parametrize("roll", [0.0, 90.0, 180.0, -90.0])
def test_pick_cube_observes_a_cube_on_another_face_as_the_same_cube(roll: float) -> None:
    backend = make_backend("pick_cube")
    before = backend.reset(seed=1).observation["object"]
    for yaw, pitch in product((0.0, 90.0), (0.0, 180.0)):
        turn = Rotation.from_euler("xyz", [roll, pitch, yaw], degrees=True)
        free = backend.data.qpos[backend.model.joint("cube").qposadr[0] :][:7]
        free[3:] = (Rotation.from_quat(free[3:], scalar_first=True) * turn).as_quat(scalar_first=True)
        after = backend.reset().observation["object"]
        np.testing.assert_allclose(after, before, atol=1e-3)
