"""Comparison of two pictures of one camera: how far it was moved between them, and how its brightness has changed."""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DataError

Picture = NDArray[np.uint8]
Array = NDArray[np.float64]

FEATURES = 2000
"""Largest number of features of a picture; the strongest are used."""
DISTINCT = 0.75
"""Largest distance of a feature's match, as a share of that of the second best match (Lowe's ratio)."""
NEAR = 3.0
"""Largest error of a match that agrees with a motion [pixels]."""
FEWEST_MATCHES = 15
"""Fewest matches that agree with a motion."""
AGREEING = 0.3
"""Smallest share of matches that agree with a motion."""
MOST_ZOOM = 1.5
"""Largest change of the scale of a picture that counts as the same view."""
FEWEST_FEATURES = 40
"""Features below which a picture has too little texture for them, and phase correlation is used."""
PEAK = 0.1
"""Smallest response of a phase correlation that is a motion."""
ALIKE = 0.6
"""Smallest correlation of two pictures of one view, where they overlap after the motion."""
OVERLAP = 0.3
"""Smallest share of the picture that the views have in common."""
BLUR = 2.0
"""Standard deviation of the blur before pictures are correlated [pixels]: parallax moves edges."""


@dataclass(frozen=True)
class ViewChange:
    """Change of a camera's view from a reference picture to another one.

    Attributes:
        shift: motion of the centre of the picture to the right and downwards [pixels].
        farthest: largest motion of a corner of the picture, which rotation and zoom move further [pixels].
        rotation: clockwise rotation of the picture [degrees]; None if it is unknown, as the pictures have few features.
        brightness: mean brightness in relation to that of the reference, where both show the same.
        matches: number of features that agree with the motion; 0 without features.
    """

    shift: tuple[float, float]
    farthest: float
    rotation: float | None
    brightness: float
    matches: int

    @property
    def description(self) -> str:
        """The change in words."""
        right, down = self.shift
        turn = "rotation unknown" if self.rotation is None else f"turned clockwise by {self.rotation:.2f} degrees"
        return (
            f"shifted by {right:.1f} pixels to the right and {down:.1f} down, {turn}; corners moved by up to "
            f"{self.farthest:.1f} pixels; brightness {100 * (self.brightness - 1):+.0f} %"
        )

    def motion_problem(self, largest_shift: float) -> str:
        """Return what to do if a corner has moved by more than ``largest_shift`` [pixels], otherwise an empty text."""
        if self.farthest <= largest_shift:
            return ""
        return (
            f"the view has moved by {self.farthest:.1f} pixels, {largest_shift:g} are allowed (largest_shift): turn "
            "the camera back until the overlay is grey, or calibrate it again"
        )

    def brightness_problem(self, largest_change: float) -> str:
        """Return what to do if the brightness has changed by a larger share than ``largest_change``, as above."""
        if abs(self.brightness - 1) <= largest_change:
            return ""
        return (
            f"the brightness has changed by {100 * (self.brightness - 1):+.0f} %, {100 * largest_change:.0f} % are "
            "allowed (largest_brightness_change): restore the light, or lock exposure and white balance "
            "(camera.settings)"
        )


def compare_views(reference: Picture, picture: Picture) -> ViewChange | None:
    """Return how a view has changed; None if the pictures do not show the same.

    The motion is the similarity that most matches of SIFT features agree with (RANSAC), so that objects and an arm that
    have moved do not count. Pictures with few features are compared by phase correlation, which finds shifts alone.

    Args:
        reference: RGB picture (H, W, 3) from before.
        picture: RGB picture (H, W, 3) from now.

    Raises:
        DataError: if the pictures have different sizes.
    """
    if reference.shape != picture.shape:
        sizes = [f"{width} x {height}" for height, width, _ in (picture.shape, reference.shape)]
        raise DataError(f"the picture has {sizes[0]} pixels, the reference {sizes[1]}: choose the same size again")
    before, now = _grey(reference), _grey(picture)
    matched = _by_features(before, now)
    if matched is None:
        return None
    motion, matches = matched
    brightness = _brightness(before, now, motion)
    if brightness is None:
        return None
    height, width = before.shape
    corners = np.array([[0, 0], [width, 0], [0, height], [width, height], [width / 2, height / 2]])
    moved = np.linalg.norm(corners @ motion[:, :2].T + motion[:, 2] - corners, axis=1)
    shift = motion @ (width / 2, height / 2, 1) - (width / 2, height / 2)
    return ViewChange(
        shift=(float(shift[0]), float(shift[1])),
        farthest=float(moved.max()),
        rotation=float(np.degrees(np.arctan2(motion[1, 0], motion[0, 0]))) if matches else None,
        brightness=brightness,
        matches=matches,
    )


def overlay(reference: Picture, picture: Picture) -> Picture:
    """Return both pictures in one (H, W, 3): the reference in red, the other in cyan, and grey where they agree."""
    before, now = _grey(reference), _grey(picture)
    return np.stack([before, now, now], axis=-1)


def _grey(picture: Picture) -> NDArray[np.uint8]:
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)


def _by_features(before: NDArray[np.uint8], now: NDArray[np.uint8]) -> tuple[Array, int] | None:
    """Return the motion (2, 3) and the number of matches that agree with it; None if there is no motion."""
    sift = cv2.SIFT.create(nfeatures=FEATURES)
    (old, old_features), (new, new_features) = (sift.detectAndCompute(each, None) for each in (before, now))
    if min(len(old), len(new)) < FEWEST_FEATURES:
        shift = _by_phase(before, now)
        return None if shift is None else (shift, 0)
    pairs = cv2.BFMatcher(cv2.NORM_L2).knnMatch(old_features, new_features, k=2)
    good = [pair[0] for pair in pairs if len(pair) == 2 and pair[0].distance < DISTINCT * pair[1].distance]
    if len(good) < FEWEST_MATCHES:
        return None
    source = np.array([old[match.queryIdx].pt for match in good])
    target = np.array([new[match.trainIdx].pt for match in good])
    # OpenCV returns None where there is no motion, which its types do not say.
    estimate: Any = cv2.estimateAffinePartial2D(source, target, method=cv2.RANSAC, ransacReprojThreshold=NEAR)
    motion, agrees = estimate
    if motion is None:
        return None
    agreeing = int(agrees.sum())
    zoom = float(np.hypot(motion[0, 0], motion[1, 0]))
    is_same = agreeing >= max(FEWEST_MATCHES, AGREEING * len(good)) and 1 / MOST_ZOOM < zoom < MOST_ZOOM
    return (np.asarray(motion, np.float64), agreeing) if is_same else None


def _by_phase(before: NDArray[np.uint8], now: NDArray[np.uint8]) -> Array | None:
    """Return the shift of two pictures as a motion (2, 3); None if there is no clear one."""
    window = cv2.createHanningWindow((before.shape[1], before.shape[0]), cv2.CV_64F)
    old, new = (each - each.mean() for each in (before.astype(np.float64), now.astype(np.float64)))
    (right, down), response = cv2.phaseCorrelate(old, new, window)
    return np.array([[1.0, 0.0, right], [0.0, 1.0, down]]) if response >= PEAK else None


def _brightness(before: NDArray[np.uint8], now: NDArray[np.uint8], motion: Array) -> float | None:
    """Return the brightness of ``now`` in relation to ``before`` moved; None if they do not look alike there."""
    size = before.shape[1], before.shape[0]
    moved = cv2.warpAffine(before, motion, size).astype(np.float64)
    inside = cv2.warpAffine(np.full_like(before, 255), motion, size) > 254
    if inside.mean() < OVERLAP:
        return None
    views = [cv2.GaussianBlur(each, (0, 0), BLUR)[inside] for each in (moved, now.astype(np.float64))]
    if min(values.std() for values in views) < 1:  # without contrast, nothing is alike
        return None
    alike = float(np.corrcoef(views[0], views[1])[0, 1])
    return float(views[1].mean() / max(views[0].mean(), 1.0)) if alike >= ALIKE else None
