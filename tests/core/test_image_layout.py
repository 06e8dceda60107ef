"""Layouts of images that others recorded: recognised beyond doubt, converted on request, refused by name otherwise."""

import numpy as np
import pytest

from robo_rl.core import ConfigError, ImageConfig, SpecError, image_layout

RANDOM = np.random.default_rng(0)
COLOURS = RANDOM.integers(0, 256, (2, 12, 20, 3), np.uint8)


def convert(rows, declared=None, **options):
    layout = image_layout("front", rows.shape[1:], rows.dtype, ImageConfig(**options), declared=declared)
    images = layout.convert(rows)
    assert images.shape[1:] == layout.shape and images.dtype == np.uint8 and images.flags.c_contiguous
    return images


@pytest.mark.parametrize("axes", ["hwc", "chw", "whc", "wch", "hcw", "cwh"])
def test_axes_that_are_declared_are_followed(axes):
    stored = COLOURS.transpose(0, *(1 + "hwc".index(axis) for axis in axes))
    np.testing.assert_array_equal(convert(stored, axes=axes, declared=(12, 20, 3)), COLOURS)


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ((64, 96, 3), (64, 96, 3)),
        ((3, 64, 96), (64, 96, 3)),
        ((1, 64, 96), (64, 96, 1)),
        ((64, 96, 1), (64, 96, 1)),
        ((64, 96), (64, 96, 1)),
        ((24, 24, 9), (24, 24, 9)),
        ((9, 84, 84), (84, 84, 9)),
        ((3, 4, 4), (4, 4, 3)),
    ],
)
def test_what_can_mean_one_thing_is_recognised(shape, found):
    assert image_layout("front", shape, "uint8").shape == found


@pytest.mark.parametrize(
    ("shape", "dtype", "options", "message"),
    [
        ((3, 64, 3), "uint8", {}, "several orders, or none; set it with 'foreign.images={front:{axes:hwc}}'"),
        ((64, 96, 80), "uint8", {}, "several orders, or none"),
        (
            (2, 64, 96, 3),
            "uint8",
            {},
            r"two or three axes.*got \(2, 64, 96, 3\)",
        ),
        ((64, 96, 4), "uint8", {}, "RGBA images.*{front:{channels:3}}' drops alpha"),
        ((4, 64, 96), "uint8", {}, "RGBA images"),
        ((64, 96), "uint16", {}, "16-bit images.*'foreign.images={front:{low:LOW,high:HIGH}}' sets"),
        ((64, 96, 3), "float32", {}, "float32 images"),
        ((64, 96, 3), "bool", {"low": 0, "high": 1}, "bool images"),
        ((64, 96, 9), "uint8", {"channels": 3}, "9 channels cannot become 3"),
        ((64, 96, 2), "uint8", {"axes": "hwc"}, "two-channel images"),
        ((64, 96), "uint8", {"axes": "hwc"}, "have no axes 'hwc'"),
        ((2, 64, 96, 3), "uint8", {"axes": "hwc"}, "two or three axes"),
        ((5,), "uint8", {"axes": "hw"}, "two or three axes"),
        ((0, 96, 3), "uint8", {"axes": "hwc"}, "none of them empty"),
    ],
)
def test_what_is_unclear_is_refused_by_name(shape, dtype, options, message):
    with pytest.raises(SpecError, match=f"^front: .*{message}"):
        image_layout("front", shape, dtype, ImageConfig(**options))


def test_what_is_declared_is_compared():
    for stored, declared, message in (
        ((96, 64, 3), (64, 96, 3), "{axes:whc}}' transposes"),
        ((32, 48, 3), (64, 96, 3), "correct what the data declares"),
        ((64, 96), (64, 96, 3), "{channels:3}}' repeats it"),
        ((64, 96, 3), (64, 96, 1), "correct what the data declares"),
    ):
        with pytest.raises(SpecError, match=r"front: stored as uint8 .*; declared as .*" + message):
            image_layout("front", stored, "uint8", declared=declared)


def test_conversions():
    floats = COLOURS.astype(np.float32) / 255
    np.testing.assert_array_equal(convert(floats, low=0, high=1), COLOURS)
    np.testing.assert_array_equal(convert(COLOURS.astype(np.float64), low=0, high=255), COLOURS)
    floats[0, 0, 0] = [np.nan, -3, 7]
    assert convert(floats, low=0, high=1)[0, 0, 0].tolist() == [0, 0, 255]
    depth = RANDOM.integers(0, 4000, (2, 12, 20), np.uint16)
    np.testing.assert_allclose(
        convert(depth, low=1000, high=3000)[..., 0], (depth.clip(1000, 3000) - 1000.0) / 2000 * 255, atol=0.51
    )
    rgba = np.concatenate([COLOURS, COLOURS[..., :1]], axis=3)
    np.testing.assert_array_equal(convert(rgba, channels=3), COLOURS)
    grey = convert(COLOURS, channels=1)
    np.testing.assert_allclose(grey[..., 0], COLOURS @ np.array([0.299, 0.587, 0.114]), atol=0.51)
    np.testing.assert_array_equal(convert(grey[..., 0], channels=3), grey.repeat(3, axis=3))
    np.testing.assert_array_equal(convert(COLOURS, rotate=180), COLOURS[:, ::-1, ::-1])
    np.testing.assert_array_equal(convert(COLOURS, rotate=90, declared=(12, 20, 3))[0], np.rot90(COLOURS[0]))


def test_images_that_change_are_named():
    layout = image_layout("front", (12, 20, 3), "uint8")
    for rows in (COLOURS.transpose(0, 2, 1, 3), COLOURS[..., 0], COLOURS.astype(np.uint16)):
        with pytest.raises(SpecError, match=r"front: expected uint8 images of shape \(12, 20, 3\), found"):
            layout.convert(rows)


@pytest.mark.parametrize(
    "options", [{"axes": "xyz"}, {"rotate": 45}, {"channels": 4}, {"low": 0}, {"low": 2, "high": 1}, {"high": 1}]
)
def test_options_are_checked(options):
    with pytest.raises(ConfigError, match=r"images\.\*\.(axes|rotate|channels|high) must be"):
        ImageConfig(**options)
