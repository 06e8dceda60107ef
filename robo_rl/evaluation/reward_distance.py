"""How different two rewards are for whoever learns from them: STARC (Skalse et al. 2024) and EPIC (Gleave et al. 2021).

Two rewards that differ by a positive factor and by shaping with a potential have the same best policies; their distance
is 0, that of a reward and its negative is 1. Both bring a reward into a canonical form first, in which such differences
are gone, and compare these. On a finite Markov decision process that is exact, on sampled transitions an estimate.

Rewards of finite processes are arrays (S, A, S), of state, action and next state.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ..core import Batch

Array = NDArray[np.float64]


def starc(one: Array, other: Array) -> float:
    """Return the STARC distance in [0, 1] of two rewards in canonical form: half that of their directions.

    A reward whose canonical form is 0 has no direction: it is 0.5 from all others, and 0 from its like.
    """
    norms = [np.linalg.norm(form) for form in (one, other)]
    directions = [form / norm if norm > 1e-9 else 0 * form for form, norm in zip((one, other), norms, strict=True)]
    return float(np.linalg.norm(directions[0] - directions[1]) / 2)


def epic(one: Array, other: Array, weights: Array | None = None) -> float:
    """Return the EPIC distance in [0, 1] of two rewards in canonical form, from their correlation.

    Args:
        one: canonical form on some transitions.
        other: of the same shape.
        weights: of the transitions, of that shape too, summing to 1; None: all alike.
    """
    if weights is None:
        weights = np.full(one.shape, 1 / one.size)
    centred = [form - (weights * form).sum() for form in (one, other)]
    norms = [np.sqrt((weights * form**2).sum()) for form in centred]
    if min(norms) < 1e-9:
        return 0.0 if max(norms) < 1e-9 else float(np.sqrt(0.5))
    # By the difference of the directions: 1 less the correlation would lose half of the digits.
    difference = centred[0] / norms[0] - centred[1] / norms[1]
    return float(np.sqrt((weights * difference**2).sum()) / 2)


def value_adjusted(reward: Array, transitions: Array, policy: Array, gamma: float) -> Array:
    """Return the canonical form (S, A) of STARC: E[R(s, a, S') - V(s) + gamma V(S')], V the values of ``policy``.

    Args:
        reward: (S, A, S).
        transitions: probabilities (S, A, S).
        policy: probabilities (S, A), the same for all rewards to compare.
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
    """Return another canonical form (n,) of STARC, on n transitions: the smallest reward that shaping can make of it.

    Shaping with every potential that is linear in features is removed without a rest. Other than with
    :func:`value_adjusted` no values need be estimated, which few samples do not bear.

    Args:
        reward: (n,).
        before: features (n, F) of the states.
        after: of the next states.
        gamma: discount.
    """
    shaping = gamma * after - before
    form: Array = reward - shaping @ np.linalg.lstsq(shaping, reward, rcond=1e-10)[0]
    return form


def features(batch: Batch) -> tuple[Array, Array]:
    """Return features (n, F) of the states and next states of n rows: 1, each element that varies, and its square.

    Images are left out. Terminations are left out of account, as if episodes went on: else a constant, which a
    composition adds or takes off anyway, would decide whether it is good to end an episode, and with it the distance.
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
    """Return an estimate (n,) of the canonical form of EPIC, but for a constant, of several rewards on n rows.

    Args:
        reward: gives the rewards by name of rows that need not have happened.
        batch: the rows; actions and next states are drawn from them.
        gamma: discount.
        samples: how many means are taken over.
        rng: for these.
    """
    rows = len(batch["action"])
    forms = {name: values.astype(np.float64) for name, values in reward(batch).items()}
    for _ in range(samples):
        drawn = rng.integers(rows)
        # From each next state, then from each state, to one drawn next state, by an action drawn with it.
        for factor, prefix in ((gamma, "next_observation/"), (-1.0, "observation/")):
            fake = {key: np.broadcast_to(value[drawn], value.shape) for key, value in batch.items()}
            states = {key: value for key, value in batch.items() if key.startswith(prefix)}
            fake |= {"observation/" + key.removeprefix(prefix): value for key, value in states.items()}
            for name, values in reward(fake).items():
                forms[name] += factor / samples * values
    return forms


def matrix(forms: Mapping[str, Array], distance: Callable[[Array, Array], float]) -> dict[str, dict[str, float]]:
    """Return the distance of each canonical form to each."""
    return {one: {other: distance(forms[one], forms[other]) for other in forms} for one in forms}
