"""Distances between rewards by STARC (Skalse et al. 2024).

Two rewards that differ only by a positive factor and by potential-based shaping have the same optimal policies; their
distance is 0. The distance of a reward and its negative is 1. Each reward is brought into a canonical form, which
removes such differences; the distance is that of the canonical forms.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ..core import Batch

Array = NDArray[np.float64]


def starc(one: Array, other: Array) -> float:
    """Return the STARC distance in [0, 1] of two rewards in canonical form: half the distance of their directions.

    A reward whose canonical form is 0 has no direction: its distance is 0 to another such reward, and 0.5 to all other
    rewards.
    """
    norms = [np.linalg.norm(form) for form in (one, other)]
    directions = [form / norm if norm > 1e-9 else 0 * form for form, norm in zip((one, other), norms, strict=True)]
    return float(np.linalg.norm(directions[0] - directions[1]) / 2)


def least(reward: Array, before: Array, after: Array, gamma: float) -> Array:
    """Return another canonical form (n,) of STARC on n transitions: the smallest reward that shaping can produce.

    This removes shaping with any potential that is linear in the features completely. Unlike :func:`value_adjusted`, it
    requires no estimate of values, for which there are often too few samples.

    Args:
        reward: (n,).
        before: features (n, F) of the states.
        after: features (n, F) of the next states.
        gamma: discount.
    """
    shaping = gamma * after - before
    form: Array = reward - shaping @ np.linalg.lstsq(shaping, reward, rcond=1e-10)[0]
    return form


def features(batch: Batch) -> tuple[Array, Array]:
    """Return features (n, F) of the states and next states of n rows: 1, each element that varies, and its square.

    Images are left out. Terminations are ignored, as if episodes continued. Otherwise a constant offset of the reward
    would decide whether ending an episode is good, and would dominate the distance.
    """
    keys = [key.removeprefix("next_") for key in batch if key.startswith("next_") and "/images/" not in key]
    rows = len(batch["action"])
    before, after = (
        np.concatenate([batch[prefix + key].reshape(rows, -1) for key in keys], axis=1, dtype=np.float64)
        for prefix in ("", "next_")
    )
    mean, deviation = before.mean(0), before.std(0)
    varies = deviation > 1e-6
    scaled = [((part - mean) / np.where(varies, deviation, 1))[:, varies] for part in (before, after)]
    first, second = (np.column_stack([np.ones(rows), part, part**2]) for part in scaled)
    return first, second


def matrix(forms: Mapping[str, Array], distance: Callable[[Array, Array], float]) -> dict[str, dict[str, float]]:
    """Return the distances between all canonical forms."""
    return {one: {other: distance(forms[one], forms[other]) for other in forms} for one in forms}
