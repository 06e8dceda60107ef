"""Distances between rewards: STARC (Skalse et al. 2024) and EPIC (Gleave et al. 2021).

Two rewards that differ only by a positive factor and by potential-based shaping have the same optimal policies; their
distance is 0. The distance of a reward and its negative is 1. Both methods first bring each reward into a canonical
form, which removes such differences, and then compare the canonical forms. The result is exact for a finite Markov
decision process, and an estimate for sampled transitions.

Rewards of finite processes are arrays (S, A, S) over state, action and next state.
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


def epic(one: Array, other: Array, weights: Array | None = None) -> float:
    """Return the EPIC distance in [0, 1] of two rewards in canonical form, from their correlation.

    Args:
        one: canonical form on some transitions.
        other: another canonical form, of the same shape.
        weights: weights of the transitions, of the same shape, with sum 1; None: equal weights.
    """
    if weights is None:
        weights = np.full(one.shape, 1 / one.size)
    centred = [form - (weights * form).sum() for form in (one, other)]
    norms = [np.sqrt((weights * form**2).sum()) for form in centred]
    if min(norms) < 1e-9:
        return 0.0 if max(norms) < 1e-9 else float(np.sqrt(0.5))
    # From the difference of the directions, since 1 minus the correlation would lose half of the digits.
    difference = centred[0] / norms[0] - centred[1] / norms[1]
    return float(np.sqrt((weights * difference**2).sum()) / 2)


def value_adjusted(reward: Array, transitions: Array, policy: Array, gamma: float) -> Array:
    """Return the canonical form (S, A) of STARC: E[R(s, a, S') - V(s) + gamma V(S')], V the values of ``policy``.

    Args:
        reward: (S, A, S).
        transitions: probabilities (S, A, S).
        policy: probabilities (S, A), which must be the same for all rewards to compare.
        gamma: discount, below 1.
    """
    expected = (transitions * reward).sum(2)
    matrix = np.einsum("sa,sat->st", policy, transitions)
    values = np.linalg.solve(np.eye(len(matrix)) - gamma * matrix, (policy * expected).sum(1))
    form: Array = expected - values[:, None] + gamma * transitions @ values
    return form


def mean_adjusted(reward: Array, states: Array, actions: Array, gamma: float) -> Array:
    """Return the canonical form (S, A, S) of EPIC: R + E[gamma R(s', A, S') - R(s, A, S') - gamma R(S, A, S')].

    Args:
        reward: (S, A, S).
        states: probabilities (S,) of S and S'.
        actions: probabilities (A,) of A.
        gamma: discount.
    """
    means = np.einsum("sat,a,t->s", reward, actions, states)
    form: Array = reward + gamma * means - means[:, None, None] - gamma * states @ means
    return form


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


def sampled_mean_adjusted(
    reward: Callable[[Batch], Mapping[str, NDArray[np.floating]]],
    batch: Batch,
    gamma: float,
    samples: int,
    rng: np.random.Generator,
) -> dict[str, Array]:
    """Return estimates (n,) of the canonical form of EPIC of several rewards on n rows, up to a constant.

    Args:
        reward: computes the rewards by name, also of rows that never occurred.
        batch: the rows; actions and next states are drawn from them.
        gamma: discount.
        samples: number of samples of each mean.
        rng: random generator of the samples.
    """
    rows = len(batch["action"])
    forms = {name: values.astype(np.float64) for name, values in reward(batch).items()}
    for _ in range(samples):
        drawn = rng.integers(rows)
        # Transitions from each next state, then from each state, to one sampled next state by the action of its row.
        for factor, prefix in ((gamma, "next_observation/"), (-1.0, "observation/")):
            fake = {key: np.broadcast_to(value[drawn], value.shape) for key, value in batch.items()}
            states = {key: value for key, value in batch.items() if key.startswith(prefix)}
            fake |= {"observation/" + key.removeprefix(prefix): value for key, value in states.items()}
            for name, values in reward(fake).items():
                forms[name] += factor / samples * values
    return forms


def matrix(forms: Mapping[str, Array], distance: Callable[[Array, Array], float]) -> dict[str, dict[str, float]]:
    """Return the distances between all canonical forms."""
    return {one: {other: distance(forms[one], forms[other]) for other in forms} for one in forms}
