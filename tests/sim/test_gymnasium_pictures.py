"""Pictures of foreign environments, in the layouts that people have."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from robo_rl.core import ConfigError, DriverError, RenderingError
from robo_rl.sim.gymnasium_backend import GymnasiumBackend
from robo_rl.sim.gymnasium_options import GymnasiumConfig

from ..rigs.odd_environments import registered

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
    ("box", "problem"),
    [
        (bytes_of((20, 24, 4)), r"RGBA images of shape \(20, 24, 4\); 'task.images={camera:{channels:3}}' drops alpha"),
        (bytes_of((24, 24, 24)), "several orders.*set it with 'task.images={camera:{axes:hwc}}'"),
        (bytes_of((20, 24, 2)), "several orders, or none"),
        (bytes_of((4, 20, 24, 3)), "expected pictures of two or three axes"),
        (
            spaces.Box(-1, 1, (20, 24, 3), np.float32),
            "float32 images .*'task.images={camera:{low:LOW,high:HIGH}}' sets",
        ),
        (spaces.Box(0, np.inf, (20, 24, 1), np.float32), "float32 images"),
        (spaces.Box(0, 65535, (20, 24, 1), np.uint16), "16-bit images, such as depth of shape"),
        (spaces.Box(0, 65535, (20, 24), np.uint16), "16-bit images"),
        (spaces.Box(0, 1023, (20, 24, 3), np.int64), "int64 images"),
    ],
)
def test_pictures_of_an_unclear_layout_are_refused_by_name(box: spaces.Box, problem: str) -> None:
    changes = with_picture(box, np.zeros(box.shape, box.dtype))
    message = f"task.env_id=test/Odd-v0: observation '?camera'?.* {problem}"
    with registered(**changes) as env_id, pytest.raises(ConfigError, match=message):
        make(env_id)


CUBE = np.random.default_rng(1).integers(0, 256, (24, 24, 24), dtype=np.uint8)
LUMINANCE = np.rint(COLOUR @ np.array([0.299, 0.587, 0.114], np.float32)).astype(np.uint8)[..., None]


@pytest.mark.parametrize(
    ("box", "value", "options", "expected"),
    [
        (bytes_of((20, 24, 4)), np.dstack([COLOUR, GREY]), {"channels": 3}, COLOUR),
        (bytes_of((24, 24, 24)), CUBE, {"axes": "chw"}, CUBE.transpose(1, 2, 0)),
        (bytes_of((3, 24, 20)), COLOUR.transpose(2, 1, 0), {"axes": "cwh"}, COLOUR),
        (bytes_of((20, 24, 3)), COLOUR, {"rotate": 90}, np.rot90(COLOUR)),
        (bytes_of((20, 24, 3)), COLOUR, {"channels": 1}, LUMINANCE),
        (bytes_of((20, 24)), GREY, {"channels": 1}, GREY[..., None]),
        (spaces.Box(0, 255, (20, 24, 3), np.int64), COLOUR.astype(np.int64), {"low": 0, "high": 255}, COLOUR),
        (spaces.Box(-1, 1, (20, 24, 3), np.float32), COLOUR / 127.5 - 1, {"low": -1, "high": 1}, COLOUR),
        # Depth [mm] from 1 to 2 m; what is beyond is clipped.
        (
            spaces.Box(0, 65535, (2, 2), np.uint16),
            np.array([[0, 1000], [1200, 9000]], np.uint16),
            {"low": 1000, "high": 2000, "channels": 1},
            np.array([[[0], [0]], [[51], [255]]]),
        ),
        # The same as floats [m], in a box without ends, as small as a vector may be.
        (
            spaces.Box(0, np.inf, (2, 2, 1), np.float32),
            np.array([[[np.inf], [1]], [[1.2], [9]]]),
            {"low": 1, "high": 2},
            three(np.array([[255, 0], [51, 255]])),
        ),
    ],
)
def test_other_layouts_are_converted_on_request(box: Any, value: Any, options: dict[str, Any], expected: Any) -> None:
    with registered(**with_picture(box, value)) as env_id:
        backend = make(env_id, images={"camera": options})
        step = backend.reset(seed=0)
    backend.spec.check_observation(step.observation)
    np.testing.assert_array_equal(step.observation["images/camera"], expected)


def test_options_for_pictures_that_are_not_there_are_refused() -> None:
    message = r"task\.images: there is no observation 'camra'; did you mean 'camera'"
    with registered(**with_picture(bytes_of((20, 24, 3)), COLOUR)) as env_id:
        with pytest.raises(ConfigError, match=message):
            make(env_id, images={"camra": {}})
        with pytest.raises(ConfigError, match=r"images\.\*\.rotate must be one of 0, 90"):
            make(env_id, images={"camera": {"rotate": 45}})
        with pytest.raises(ConfigError, match=r"observation camera: images of shape .* have no axes 'hw'"):
            make(env_id, images={"camera": {"axes": "hw"}})


def test_what_is_drawn_takes_no_other_pictures_place() -> None:
    space = spaces.Dict({"view": bytes_of((20, 24, 3))})
    with (
        registered(space=space, observation=lambda env: {"view": COLOUR}) as env_id,
        pytest.raises(ConfigError, match=r"task\.picture=true: test/Odd-v0 observes an image 'view' itself"),
    ):
        make(env_id, picture=True)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (COLOUR.transpose(2, 0, 1), r"expected shape \(20, 24, 3\) as in its space, got \(3, 20, 24\)"),
        (COLOUR[:18], r"expected shape \(20, 24, 3\) as in its space, got \(18, 24, 3\)"),
        (COLOUR / 255, "expected whole numbers from 0 to 255, got float64"),
        (COLOUR.astype(np.int16) * 2, "expected values from 0 to 255, got 0 to 510"),
        (None, "expected shape"),
    ],
)
def test_pictures_that_are_not_as_declared_are_refused(value: Any, problem: str) -> None:
    changes = with_picture(bytes_of((20, 24, 3)), COLOUR)
    true = changes["observation"]
    changes["observation"] = lambda env: true(env) | ({"camera": value} if env.count == 2 else {})
    with registered(**changes) as env_id:
        backend = make(env_id)
        backend.reset(seed=0)
        backend.step(np.zeros(2, np.float32))
        with pytest.raises(DriverError, match=f"environment test/Odd-v0, step 2 .*observation 'camera': {problem}"):
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
    ("frame", "problem"),
    [
        (None, "got NoneType"),
        ([], r"got float64 \(0,\)"),
        (COLOUR * 1.0, "float64 from 0 to 1 from render"),
        (COLOUR - 300.0, "float64 from 0 to 1 from render"),
        (COLOUR.transpose(2, 0, 1), r"got uint8 \(3, 20, 24\)"),
        ("picture.png", "got str"),
    ],
)
def test_what_is_no_picture_is_refused(frame: Any, problem: str) -> None:
    with registered(frame=lambda env: frame) as env_id:
        backend = make(env_id)
        backend.reset(seed=0)
        with pytest.raises(RenderingError, match=f"test/Odd-v0: expected .*{problem}"):
            backend.render()


def test_an_observed_picture_keeps_its_size() -> None:
    with registered(frame=lambda env: np.zeros((20 + env.count, 24, 3), np.uint8)) as env_id:
        backend = make(env_id, picture=True)
        backend.reset(seed=0)
        with pytest.raises(DriverError, match=r"step 1 of the episode: render\(\) gave a picture of \(21, 24, 3\)"):
            backend.step(np.zeros(2, np.float32))
