"""Closed curves in the plane: the track's centre line, and the checkpoints of a demonstrated lap."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robo_rl.core import ConfigError, generator

from .config import TrackConfig

Array = NDArray[np.float64]

HARMONICS = (2, 3, 4)
DENSE = 4000
ATTEMPTS = 300


class ClosedPath:
    """A closed polygon, with positions given by arc length s [m] from its first corner.

    Args:
        points: corners (n, 2) [m], in driving order, the first not repeated.

    Attributes:
        points: the corners.
        length: length of a full round [m].
    """

    def __init__(self, points: ArrayLike) -> None:
        self.points: Array = np.array(points, dtype=np.float64)
        self._edges = np.roll(self.points, -1, axis=0) - self.points
        self._lengths = np.hypot(*self._edges.T)
        self._starts = np.concatenate([[0.0], np.cumsum(self._lengths)])
        self.length = float(self._starts[-1])

    def at(self, s: ArrayLike) -> Array:
        """Return the points (..., 2) at arc lengths ``s`` (...), which may exceed one round."""
        around = np.mod(s, self.length)
        edge = np.clip(np.searchsorted(self._starts, around, side="right") - 1, 0, len(self.points) - 1)
        share = (around - self._starts[edge]) / self._lengths[edge]
        point: Array = self.points[edge] + share[..., None] * self._edges[edge]
        return point

    def tangent(self, s: ArrayLike) -> Array:
        """Return unit directions (..., 2) of the path at ``s`` (...), along a chord of 0.2 m."""
        chord = self.at(np.asarray(s) + 0.1) - self.at(np.asarray(s) - 0.1)
        direction: Array = chord / np.hypot(chord[..., 0], chord[..., 1])[..., None]
        return direction

    def locate(self, point: ArrayLike, near: float | None = None, within: float = 1.0) -> float:
        """Return the arc length in [0, length) of the point on the path that is nearest to ``point`` (2,).

        Args:
            point: any point [m].
            near: consider only points within ``within`` of this arc length; None for all points.
            within: see ``near`` [m].
        """
        away = np.asarray(point) - self.points
        share = np.clip((away * self._edges).sum(1) / self._lengths**2, 0.0, 1.0)
        s = self._starts[:-1] + share * self._lengths
        distance = np.hypot(*(away - share[:, None] * self._edges).T)
        if near is not None:
            distance = np.where(np.abs(self.ahead(s, near)) <= within, distance, np.inf)
            if not np.isfinite(distance).any():
                return near % self.length
        return float(s[np.argmin(distance)]) % self.length

    def ahead(self, s: ArrayLike, origin: float) -> Array:
        """Return the distance from ``origin`` ahead to ``s`` in the shorter direction, in [-length / 2, length / 2)."""
        distance: Array = np.mod(np.asarray(s) - origin + self.length / 2, self.length) - self.length / 2
        return distance

    def curvature(self, s: ArrayLike) -> Array:
        """Return the curvature (...) at ``s`` [1/m], positive to the left: that of the circle through three points."""
        first, second, third = (self.at(np.asarray(s) + offset) for offset in (-0.3, 0.0, 0.3))
        incoming, outgoing, chord = second - first, third - second, third - first
        cross = incoming[..., 0] * outgoing[..., 1] - incoming[..., 1] * outgoing[..., 0]
        lengths = np.hypot(incoming[..., 0], incoming[..., 1]) * np.hypot(outgoing[..., 0], outgoing[..., 1])
        curvature: Array = 2 * cross / (lengths * np.hypot(chord[..., 0], chord[..., 1]))
        return curvature

    def resampled(self, spacing: float) -> "ClosedPath":
        """Return a path with corners on this one, evenly spaced by about ``spacing`` [m]."""
        count = max(3, round(self.length / spacing))
        return ClosedPath(self.at(np.arange(count) * self.length / count))


def make_track(config: TrackConfig) -> ClosedPath:
    """Return the centre line of a track: a circle whose radius has random waves, driven counter-clockwise.

    As the radius is a function of the angle, no track crosses itself. A shape is drawn again if it has bends tighter
    than ``config.min_radius``, or parts closer to each other than two widths.

    Raises:
        ConfigError: if no shape of this length and waviness is wide enough.
    """
    rng = generator(config.seed, "track")
    angle = np.linspace(0.0, 2 * np.pi, DENSE, endpoint=False)
    for _ in range(ATTEMPTS):
        radius = np.ones_like(angle)
        for harmonic in HARMONICS:
            amplitude = config.waviness * rng.uniform(0.4, 1.0) / (harmonic - 1)
            radius += amplitude * np.cos(harmonic * angle + rng.uniform(0.0, 2 * np.pi))
        if radius.min() < 0.1:
            continue
        path = ClosedPath(radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))
        path = ClosedPath(path.points * (config.length / path.length)).resampled(0.1)
        everywhere = np.arange(len(path.points)) * path.length / len(path.points)
        if np.abs(path.curvature(everywhere)).max() > 1 / config.min_radius:
            continue
        if _narrowest(path, everywhere) > 2 * config.width:
            return path
    raise ConfigError(
        f"track: no track of {config.length} m, waviness {config.waviness}, width {config.width} m and bends of at "
        f"least {config.min_radius} m was found from seed {config.seed}; take a longer, rounder or narrower one"
    )


def _narrowest(path: ClosedPath, s: Array) -> float:
    """Return the smallest distance between two points that are far from each other along the path [m]."""
    points = path.at(s)
    distance = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    along = np.abs(path.ahead(s[:, None], 0.0) - path.ahead(s[None], 0.0))
    along = np.minimum(along, path.length - along)
    far = along > np.pi * path.length / 20
    return float(distance[far].min())
