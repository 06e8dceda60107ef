"""Closed paths against the closed forms of a circle, and what every track promises."""

import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.sim.driving.config import DriveConfig, TrackConfig
from robo_rl.sim.driving.track import ClosedPath, make_track

RADIUS = 3.0


@pytest.fixture(scope="module")
def circle() -> ClosedPath:
    angle = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    return ClosedPath(RADIUS * np.stack([np.cos(angle), np.sin(angle)], axis=1))


def test_length_points_and_directions(circle):
    assert circle.length == pytest.approx(2 * np.pi * RADIUS, rel=1e-5)
    quarter = circle.length / 4
    np.testing.assert_allclose(circle.at(quarter), (0, RADIUS), atol=1e-3)
    np.testing.assert_allclose(circle.at(5 * quarter), (0, RADIUS), atol=1e-3)
    np.testing.assert_allclose(circle.at(np.array([0.0, -quarter])), [(RADIUS, 0), (0, -RADIUS)], atol=1e-3)
    np.testing.assert_allclose(circle.tangent(quarter), (-1, 0), atol=1e-3)


def test_curvature_has_the_sign_of_the_turn(circle):
    s = np.linspace(0, circle.length, 50)
    np.testing.assert_allclose(circle.curvature(s), 1 / RADIUS, rtol=1e-2)
    np.testing.assert_allclose(ClosedPath(circle.points[::-1]).curvature(s), -1 / RADIUS, rtol=1e-2)


def test_the_nearest_place_is_found_and_can_be_held_near(circle):
    assert circle.locate((0, 2.0)) == pytest.approx(circle.length / 4, abs=0.01)
    # From the middle everywhere is as near; who follows stays where it was.
    assert circle.locate((1e-3, 0), near=circle.length / 2, within=0.5) == pytest.approx(circle.length / 2, abs=0.51)
    with_seam = circle.locate(circle.at(circle.length - 0.1), near=0.1)
    assert with_seam == pytest.approx(circle.length - 0.1, abs=1e-3)


def test_ahead_goes_the_shorter_way_round(circle):
    assert circle.ahead(0.2, circle.length - 0.3) == pytest.approx(0.5)
    assert circle.ahead(circle.length - 0.3, 0.2) == pytest.approx(-0.5)


@pytest.mark.parametrize("seed", range(12))
def test_tracks_are_closed_as_long_as_said_and_wide_enough(seed):
    config = TrackConfig(seed=seed)
    track = make_track(config)
    assert track.length == pytest.approx(config.length, rel=1e-3)
    s = np.linspace(0, track.length, 400, endpoint=False)
    assert np.abs(track.curvature(s)).max() <= 1.02 / config.min_radius
    assert track.curvature(s).max() > 0
    assert track.curvature(s).min() < 0, "bends to both sides"
    # Both edges, brute force: no point of one part's road lies on another part's.
    points = track.at(s)
    apart = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    along = np.abs(np.mod(s[:, None] - s[None] + track.length / 2, track.length) - track.length / 2)
    assert apart[along > 5].min() > 1.9 * config.width


def test_the_same_seed_gives_the_same_track_and_another_another():
    np.testing.assert_array_equal(make_track(TrackConfig(seed=4)).points, make_track(TrackConfig(seed=4)).points)
    assert not np.allclose(make_track(TrackConfig(seed=4)).points, make_track(TrackConfig(seed=5)).points)


def test_impossible_tracks_and_wrong_values_are_refused():
    with pytest.raises(ConfigError, match=r"no track of 8\.0 m"):
        make_track(TrackConfig(length=8.0))
    with pytest.raises(ConfigError, match=r"track.width must be below 2 \* track.min_radius"):
        TrackConfig(width=3.0)
    with pytest.raises(ConfigError, match="must be a whole multiple of control_rate"):
        DriveConfig(control_rate=30.0)
    with pytest.raises(ConfigError, match="truncate_on_success must be false"):
        DriveConfig(truncate_on_success=True)
