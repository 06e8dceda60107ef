"""Pictures of foreign environments, in the layouts that people have."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from robo_rl.core import ConfigError, DriverError, RenderingError
from robo_rl.sim.gymnasium_backend import GymnasiumBackend
from robo_rl.sim.gymnasium_config import GymnasiumConfig

from ..odd_environments import registered

COLOUR = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
GREY = COLOUR[..., 0]
STACK = np.concatenate([COLOUR, COLOUR[::-1]], axis=2)


def make(env_id: str, **fields: Any) -> GymnasiumBackend:
    return GymnasiumBackend(GymnasiumConfig(env_id=env_id, **fields))


def with_picture(box: spaces.Box, value: Any) -> dict[str, Any]:
    """Return the changes for an observation of a camera and a vector."""
    space = spaces.Dict({"camera": box, "position": spaces.Box(-1, 1, (2,))})
    return {"space": space, "observation": lambda env: {"camera": value, "position": np.zeros(2, np.float32)}}


def bytes_of(shape: tuple[int, ...]) -> spaces.Box:
    return spaces.Box(0, 255, shape, np.uint8)


def three(grey: Any) -> Any:
    return np.repeat(grey[..., None], 3, axis=2)


@pytest.mark.parametrize(
    ("box", "value", "expected"),
    [
        (bytes_of((20, 24, 3)), COLOUR, COLOUR),
        (bytes_of((3, 20, 24)), COLOUR.transpose(2, 0, 1), COLOUR),
        (bytes_of((20, 24, 1)), GREY[..., None], three(GREY)),
        (bytes_of((1, 20, 24)), GREY[None], three(GREY)),
        (bytes_of((20, 24)), GREY, three(GREY)),
        (bytes_of((20, 24, 1)), GREY, three(GREY)),
        (bytes_of((20, 24, 6)), STACK, STACK),
        (bytes_of((6, 20, 24)), STACK.transpose(2, 0, 1), STACK),
        (bytes_of((20, 24, 3)), COLOUR.astype(np.int64), COLOUR),
        (bytes_of((20, 24, 3)), COLOUR[None], COLOUR),
        (spaces.Box(0, 1, (20, 24, 3), np.float32), COLOUR / np.float32(255), COLOUR),
        (spaces.Box(0, 1, (3, 20, 24), np.float64), COLOUR.transpose(2, 0, 1) / 255, COLOUR),
        (spaces.Box(0, 1, (20, 24), np.float32), GREY / np.float32(255), three(GREY)),
        (spaces.Box(0, 255, (20, 24, 3), np.float32), COLOUR.astype(np.float32), COLOUR),
    ],
)
def test_layouts_become_ours(box: spaces.Box, value: Any, expected: Any) -> None:
    with registered(**with_picture(box, value)) as env_id:
        backend = make(env_id)
        step = backend.reset(seed=0)
        backend.spec.check_observation(step.observation)
        assert step.observation.keys() == {"state", "images/camera"} and step.observation["state"].shape == (2,)
        np.testing.assert_array_equal(step.observation["images/camera"], expected)
        step.observation["images/camera"][...] = 0
        again = backend.step(np.zeros(2, np.float32)).observation["images/camera"]
        np.testing.assert_array_equal(again, expected), "nothing is shared with the environment"


@pytest.mark.parametrize(
    "box",
    [
        spaces.Box(-1, 1, (2, 2), np.float32),
        spaces.Box(0, 1, (4, 4, 3), np.float32),
        spaces.Box(-np.inf, np.inf, (200, 3), np.float32),
        spaces.Box(0, 255, (64,), np.uint8),
        spaces.Box(0, 9, (3, 3), np.uint8),
        spaces.Box(0, 9, (20, 20), np.int64),
    ],
)
def test_other_arrays_are_vectors(box: spaces.Box) -> None:
    with registered(space=box, observation=lambda env: np.zeros(box.shape, box.dtype)) as env_id:
        backend = make(env_id)
        assert backend.spec.observation.keys() == {"state"}
        assert backend.reset(seed=0).observation["state"].shape == (np.prod(box.shape),)


@pytest.mark.parametrize(
    "box",
    [
        bytes_of((20, 24, 4)),
        bytes_of((24, 24, 24)),
        bytes_of((4, 20, 24, 3)),
        spaces.Box(-1, 1, (20, 24, 3), np.float32),
        spaces.Box(0, np.inf, (20, 24, 1), np.float32),
    ],
)
def test_pictures_of_an_unclear_layout_are_refused_by_name(box: spaces.Box) -> None:
    changes, message = (
        with_picture(box, np.zeros(box.shape, box.dtype)),
        r"task.env_id=test/Odd-v0: observation 'camera' is of .* expected pictures",
    )
    with registered(**changes) as env_id, pytest.raises(ConfigError, match=message):
        make(env_id)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (COLOUR.transpose(2, 0, 1), r"expected shape \(20, 24, 3\) as in its space, got \(3, 20, 24\)"),
        (COLOUR[:18], r"expected shape \(20, 24, 3\) as in its space, got \(18, 24, 3\)"),
        (COLOUR / 255, "expected whole numbers from 0 to 255, got float64"),
        (COLOUR.astype(np.int16) * 2, "expected values from 0 to 255, got 0 to 510"),
        (None, "expected shape"),
    ],
)
def test_pictures_that_are_not_as_declared_are_refused(value: Any, told: str) -> None:
    changes = with_picture(bytes_of((20, 24, 3)), COLOUR)
    true = changes["observation"]
    changes["observation"] = lambda env: true(env) | ({"camera": value} if env.count == 2 else {})
    with registered(**changes) as env_id:
        backend = make(env_id)
        backend.reset(seed=0)
        backend.step(np.zeros(2, np.float32))
        with pytest.raises(DriverError, match=f"environment test/Odd-v0, step 2 .*observation 'camera': {told}"):
            backend.step(np.zeros(2, np.float32))


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (COLOUR / 255, COLOUR),
        ((COLOUR / 255).astype(np.float32), COLOUR),
        (GREY, three(GREY)),
        (GREY[..., None], three(GREY)),
        (np.concatenate([COLOUR, three(GREY)[..., :1]], axis=2), COLOUR),
        ([COLOUR[::-1], COLOUR], COLOUR),
        (COLOUR.astype(np.int32), COLOUR),
    ],
)
def test_what_is_drawn_becomes_a_picture(frame: Any, expected: Any) -> None:
    with registered(frame=lambda env: frame) as env_id:
        backend = make(env_id, picture=True)
        np.testing.assert_array_equal(backend.reset(seed=0).observation["images/view"], expected)
        np.testing.assert_array_equal(backend.render(), expected)


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (None, "got NoneType"),
        ([], r"got float64 \(0,\)"),
        (COLOUR * 1.0, "float64 from 0 to 1 from render"),
        (COLOUR - 300.0, "float64 from 0 to 1 from render"),
        (COLOUR.transpose(2, 0, 1), r"got uint8 \(3, 20, 24\)"),
        ("picture.png", "got str"),
    ],
)
def test_what_is_no_picture_is_refused(frame: Any, told: str) -> None:
    with registered(frame=lambda env: frame) as env_id:
        backend = make(env_id)
        backend.reset(seed=0)
        with pytest.raises(RenderingError, match=f"test/Odd-v0: expected .*{told}"):
            backend.render()


def test_an_observed_picture_keeps_its_size() -> None:
    with registered(frame=lambda env: np.zeros((20 + env.count, 24, 3), np.uint8)) as env_id:
        backend = make(env_id, picture=True)
        backend.reset(seed=0)
        with pytest.raises(DriverError, match=r"step 1 of the episode: render\(\) gave a picture of \(21, 24, 3\)"):
            backend.step(np.zeros(2, np.float32))
