"""What reward modules look at: vectors of chosen observation keys, images as cells."""

import numpy as np
import pytest

from robo_rl.core import ArraySpec, ConfigError
from robo_rl.rewards.parts.vector_input import VectorInput
from robo_rl.rewards.vision.encoder_config import ImagesConfig
from robo_rl.rewards.vision.images import cell_colours

from ..rigs.specs import joint_spec

SPEC = joint_spec(
    {"state": ArraySpec((3,)), "object": ArraySpec((2,)), "images/front": ArraySpec((50, 20, 3), "uint8")},
    action=ArraySpec((2,)),
)

COLOURS = ImagesConfig()


def batch(*leading):
    rng = np.random.default_rng(0)
    arrays = {"action": np.zeros((*leading, 2), np.float32)}
    for prefix in ("observation", "next_observation"):
        arrays[f"{prefix}/state"] = rng.normal(size=(*leading, 3)).astype(np.float32)
        arrays[f"{prefix}/object"] = rng.normal(size=(*leading, 2)).astype(np.float32)
        arrays[f"{prefix}/images/front"] = rng.integers(0, 256, (*leading, 50, 20, 3), dtype=np.uint8)
    return arrays


def test_all_keys_but_images_by_default():
    rows = batch(4, 6)
    look = VectorInput(None, COLOURS, SPEC, "goal")
    assert look.size == 5
    np.testing.assert_array_equal(look(rows)[..., :3], rows["next_observation/state"])
    np.testing.assert_array_equal(look(rows, "observation")[..., 3:], rows["observation/object"])


def test_images_are_averaged_over_cells():
    rows = batch(3)
    look = VectorInput(["state", "images/front"], COLOURS, SPEC, "goal")
    images = rows["next_observation/images/front"]
    # 50 pixels make 12 cells of 4, 20 pixels make 10 cells of 2; two rows of pixels are left over.
    assert look.size == 3 + 12 * 10 * 3
    expected = np.zeros((3, 12, 10, 3))
    for n, i, j, c in np.ndindex(expected.shape):
        expected[n, i, j, c] = images[n, 4 * i : 4 * i + 4, 2 * j : 2 * j + 2, c].mean() / 255
    np.testing.assert_allclose(cell_colours(images, 16), expected, rtol=1e-5)
    np.testing.assert_allclose(look(rows)[:, 3:], expected.reshape(3, -1), rtol=1e-5)


def test_a_small_image_is_taken_as_it_is():
    images = np.random.default_rng(0).integers(0, 256, (2, 7, 16, 3), dtype=np.uint8)
    np.testing.assert_allclose(cell_colours(images, 16), images / 255, rtol=1e-6)


def test_a_trajectory_has_the_first_observation_too():
    rows = batch(5)
    trajectory = VectorInput(["object"], COLOURS, SPEC, "goal").trajectory(rows)
    np.testing.assert_array_equal(trajectory[0], rows["observation/object"][0])
    np.testing.assert_array_equal(trajectory[1:], rows["next_observation/object"])


def test_keys_that_are_not_there_are_named():
    with pytest.raises(ConfigError, match=r"goal.keys: this task has no observation 'stat': did you mean 'state'"):
        VectorInput(["stat"], COLOURS, SPEC, "goal")
    with pytest.raises(ConfigError, match=r"goal.keys: name at least one observation key"):
        VectorInput([], COLOURS, SPEC, "goal")
