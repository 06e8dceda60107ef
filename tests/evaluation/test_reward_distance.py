"""Distances between rewards: what must not matter, on random processes and on samples of them."""

import numpy as np
import pytest

from robo_rl.evaluation.reward_distance import features, least, matrix, starc

S, A, GAMMA = 6, 3, 0.9


@pytest.fixture(params=range(3))
def process(request):
    """Transitions, policy, a reward, the same shaped and scaled, and another reward."""
    rng = np.random.default_rng(request.param)
    transitions, policy = rng.dirichlet(np.ones(S), (S, A)), rng.dirichlet(np.ones(A), S)
    reward, other = rng.normal(size=(2, S, A, S))
    potential = rng.normal(size=S)
    shaped = 5 * reward + GAMMA * potential - potential[:, None, None]
    return rng, transitions, policy, reward, shaped, other


def value_adjusted(reward, transitions, policy, gamma):
    """Return the canonical form (S, A) of STARC: E[R(s, a, S') - V(s) + gamma V(S')], V the values of ``policy``."""
    expected = (transitions * reward).sum(2)
    matrix_of_policy = np.einsum("sa,sat->st", policy, transitions)
    values = np.linalg.solve(np.eye(len(matrix_of_policy)) - gamma * matrix_of_policy, (policy * expected).sum(1))
    return expected - values[:, None] + gamma * transitions @ values


def starc_of(process, one, other):
    _, transitions, policy, *_ = process
    return starc(*(value_adjusted(each, transitions, policy, GAMMA) for each in (one, other)))


def test_starc_does_not_see_scale_shaping_and_what_is_equal_on_average(process):
    rng, transitions, _, reward, shaped, other = process
    assert starc_of(process, reward, shaped) == pytest.approx(0, abs=1e-12)
    redistributed = reward + (noise := rng.normal(size=(S, A, S))) - (transitions * noise).sum(2, keepdims=True)
    assert starc_of(process, reward, redistributed) == pytest.approx(0, abs=1e-12)
    assert starc_of(process, reward, -shaped) == pytest.approx(1)
    assert starc_of(process, reward, np.ones_like(reward)) == pytest.approx(0.5)
    assert 0.1 < starc_of(process, reward, other) < 0.95
    assert starc_of(process, reward, other) == pytest.approx(starc_of(process, other, reward))


def test_the_values_are_those_of_the_policy(process):
    """Against summed discounted rewards, and the definition element by element."""
    _, transitions, policy, reward, *_ = process
    values = np.zeros(S)
    for _ in range(500):
        values = np.array([
            sum(policy[s, a] * transitions[s, a] @ (reward[s, a] + GAMMA * values) for a in range(A)) for s in range(S)
        ])  # fmt: skip
    form = value_adjusted(reward, transitions, policy, GAMMA)
    for s, a in np.ndindex(S, A):
        expected = transitions[s, a] @ (reward[s, a] - values[s] + GAMMA * values)
        assert form[s, a] == pytest.approx(expected, abs=1e-9)


def test_a_small_distance_means_little_regret():
    """The best policy for a reward that is near is nearly as good: over random rewards the two go together."""
    rng = np.random.default_rng(0)
    transitions, policy = rng.dirichlet(np.ones(S), (S, A)), np.full((S, A), 1 / A)
    reward = rng.normal(size=(S, A, S))

    def worth(of):
        """The true mean value of the best policy for a reward."""
        q = np.zeros((S, A))
        for _ in range(300):
            q = (transitions * of).sum(2) + GAMMA * transitions @ q.max(1)
        best = q.argmax(1)
        chosen = transitions[np.arange(S), best]
        gain = (chosen * reward[np.arange(S), best]).sum(1)
        return np.linalg.solve(np.eye(S) - GAMMA * chosen, gain).mean()

    pairs = []
    for mixed in np.linspace(-1, 1, 60):
        other = mixed * reward + (1 - abs(mixed)) * rng.normal(size=(S, A, S))
        forms = (value_adjusted(each, transitions, policy, GAMMA) for each in (reward, other))
        pairs.append((starc(*forms), worth(reward) - worth(other)))
    distances, regrets = np.array(pairs).T
    assert regrets.min() > -1e-9
    assert np.corrcoef(distances, regrets)[0, 1] > 0.8


def samples(n=600, seed=0):
    rng = np.random.default_rng(seed)
    before, after = rng.normal(size=(2, n, 3)).astype(np.float32)
    pictures = np.zeros((n, 2, 2, 3), np.uint8)
    return {
        "action": rng.uniform(-1, 1, (n, 2)).astype(np.float32),
        "observation/state": before,
        "next_observation/state": after,
        "observation/images/front": pictures,
        "next_observation/images/front": pictures,
    }


def test_on_samples_starc_does_not_see_scale_and_shaping():
    batch = samples()
    reward = np.sin(batch["next_observation/state"].astype(np.float64)).sum(1) + batch["action"][:, 0]
    before, after = features(batch)
    assert before.shape == after.shape == (600, 7)
    potential = np.random.default_rng(1).normal(size=7)
    shaped = 4 * reward + 2 + GAMMA * after @ potential - before @ potential
    one, same, other = (least(each, before, after, GAMMA) for each in (reward, shaped, batch["action"][:, 1]))
    distances = matrix({"one": one, "same": same, "negative": -one, "other": other}, starc)
    assert distances["one"]["same"] == pytest.approx(0, abs=1e-6)
    assert distances["same"]["negative"] == pytest.approx(1)
    assert 0.4 < distances["one"]["other"] < 0.9


def test_the_least_form_is_the_least(process):
    """On all transitions of a finite process: no shaping makes it smaller, and there is none left in it."""
    rng, _, _, reward, shaped, other = process
    state, _, after = (each.ravel() for each in np.indices((S, A, S)))
    one_hot = np.eye(S)
    forms = {
        name: least(each.ravel(), one_hot[state], one_hot[after], GAMMA)
        for name, each in {"one": reward, "same": shaped, "other": other}.items()
    }
    for potential in rng.normal(size=(20, S)):
        shaping = GAMMA * potential[after] - potential[state]
        assert shaping @ forms["one"] == pytest.approx(0, abs=1e-9)
        assert np.linalg.norm(forms["one"] + 0.1 * shaping) > np.linalg.norm(forms["one"])
    distances = matrix(forms, starc)
    assert distances["one"]["same"] == pytest.approx(0, abs=1e-9)
    assert 0.3 < distances["one"]["other"] < 0.95


def test_nothing_is_near_to_nothing():
    zero, one = np.zeros(4), np.array([1.0, 2, 3, 4])
    assert starc(zero, zero) == 0 and starc(zero, one) == pytest.approx(0.5)
