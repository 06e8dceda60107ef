"""The discriminator: its optimum in closed form, the Lipschitz penalty by differences, and what an end is worth."""

import numpy as np
import pytest
import torch

from robo_rl.core import ArraySpec, CheckpointError, DataError
from robo_rl.rewards.modules.gail import GailConfig, GailReward

from ..rigs.specs import joint_spec

SPEC = joint_spec({"state": ArraySpec((2,))})

PLACES = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], np.float32)


def rows(before, after, terminated, actions=None):
    before, after = (np.asarray(each, np.float32) for each in (before, after))
    actions = np.zeros((len(before), 1), np.float32) if actions is None else np.asarray(actions, np.float32)
    terminated = np.asarray(terminated, np.bool_)
    return {
        "observation/state": before,
        "next_observation/state": after,
        "action": actions,
        "terminated": terminated,
        "truncated": ~terminated,
    }


def repeated(counts):
    """Rows between places: so many of each (from, to, terminated)."""
    steps = [step for step, count in counts.items() for _ in range(count)]
    before, after, terminated = zip(*steps, strict=True)
    return rows(PLACES[list(before)], PLACES[list(after)], terminated)


class Experience:
    """A replay that holds ``rows``."""

    def __init__(self, held):
        self.held = held

    def __len__(self):
        return 1000

    def sample_rows(self, n, rng):
        chosen = rng.integers(0, len(self.held["action"]), n)
        return {key: value[chosen] for key, value in self.held.items()}


SMALL = {"hidden": (32,), "interval": 1, "updates": 20, "learning_rate": 1e-2, "batch_size": 256}


def gail(demonstrations, **options) -> GailReward:
    module = GailConfig(**SMALL | options).make("gail", SPEC, 0)
    module.fit([demonstrations])
    return module


def test_the_optimum_is_the_log_of_the_ratio_of_densities():
    """Steps between four places, of which both sides do some more often; some end the episode."""
    demonstrated = {(0, 1, False): 4, (1, 2, False): 3, (2, 3, False): 1, (1, 3, True): 2}
    visited = {(0, 1, False): 2, (1, 2, False): 3, (2, 3, False): 4, (1, 3, True): 1}
    module = gail(repeated(demonstrated), discount=0.9)
    sides = [repeated(counts) for counts in (demonstrated, visited)]
    inputs = [module._with_absorbing(module._vectors(side), side["terminated"]) for side in sides]
    for _ in range(400):
        module._network.descend(module._cross_entropy(*inputs, 10))
    log_ratio = np.log([demonstrated[step] / visited[step] for step in demonstrated])
    np.testing.assert_allclose(module._logits(module._absorbing), np.log(2 / 1), atol=0.01)
    found = module(repeated(dict.fromkeys(demonstrated, 1)))
    np.testing.assert_allclose(found, log_ratio + np.array([0, 0, 0, 0.9 / 0.1 * np.log(2 / 1)]), atol=0.1)
    np.testing.assert_allclose(found[:3], log_ratio[:3], atol=0.01)


def test_to_end_is_worth_neither_more_nor_less_than_to_go_on():
    """Where the discriminator says c of everything, absorbing states too, all episodes have the return c / (1 - g)."""
    module = gail(repeated({(0, 1, False): 1}), discount=0.9)
    state = module.state()
    for key, value in state.items():
        state[key] = np.zeros_like(value) if key.startswith("network/3") else value
    state["network/3.bias"] = np.array([-0.7], np.float32)
    module.load(state)
    for length in (1, 4, 30):
        terminated = np.arange(length) == length - 1
        episode = rows(np.zeros((length, 2)), np.ones((length, 2)), terminated)
        value = (0.9 ** np.arange(length)) @ module(episode)
        assert value == pytest.approx(-0.7 / (1 - 0.9), rel=1e-5)
    cut = rows(np.zeros((3, 2)), np.ones((3, 2)), [False] * 3)
    np.testing.assert_allclose(module(cut), -0.7, rtol=1e-6)
    assert module.discount() == 0.9


def test_ends_that_only_demonstrations_have_are_sought():
    going_on = {(0, 1, False): 5, (1, 0, False): 5}
    module = gail(repeated({**going_on, (1, 3, True): 2}))
    for _ in range(12):
        module.update(Experience(repeated(going_on)))
    ends, goes_on = module(repeated({(1, 3, True): 1, (1, 0, False): 1}))
    assert ends > 1 / (1 - 0.97) > 10 * abs(goes_on)


def in_float64(module):
    """Return the network as a function of inputs (n, P) in float64."""
    state = {key: value.astype(np.float64) for key, value in module._network.state().items()}

    def logit(x):
        hidden = x @ state["0.weight"].T + state["0.bias"]
        hidden = (hidden - hidden.mean(1, keepdims=True)) / np.sqrt(hidden.var(1, keepdims=True) + 1e-5)
        hidden = np.maximum(hidden * state["1.weight"] + state["1.bias"], 0)
        return (hidden @ state["3.weight"].T + state["3.bias"])[:, 0]

    return logit


def trained(**options):
    """A module that has learned something, and inputs of either side, the last of each absorbing."""
    rng = np.random.default_rng(0)
    module = gail(rows(rng.normal(size=(30, 2)), rng.normal(size=(30, 2)), [False] * 30), penalty=0.0, **options)
    module.update(Experience(rows(rng.normal(2, 1, (30, 2)), rng.normal(2, 1, (30, 2)), [False] * 30)))
    inputs = rng.normal(size=(2, 9, module._absorbing.shape[1])).astype(np.float32)
    inputs[..., -1] = 0
    inputs[:, -1:] = module._absorbing
    return module, inputs


def test_the_loss_is_that_of_a_computation_by_hand():
    module, (demonstrated, visited) = trained()
    probability = 1 / (1 + np.exp(-in_float64(module)(np.concatenate((demonstrated, visited)).astype(np.float64))))
    expected = -(np.log(probability[:9]).sum() + np.log(1 - probability[9:]).sum()) / 8
    assert float(module._cross_entropy(demonstrated, visited, 8).detach()) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("actions", [False, True])
def test_the_penalty_is_that_of_gradients_from_differences(actions):
    """At points between both sides, how far between drawn for each of the two parts; only norms above 1 count."""
    module, (demonstrated, visited) = trained(actions=actions)
    found = float(module._penalty(demonstrated, visited, 50, np.random.default_rng(1)).detach())

    rng = np.random.default_rng(1)
    one, other = (side[rng.integers(0, 9, 50)].astype(np.float64) for side in (demonstrated, visited))
    first, second = rng.uniform(size=(50, 2)).T
    widths = (2, 1, 1) if actions else (2, 2, 1)
    share = np.concatenate([np.tile(s[:, None], w) for s, w in zip((first, second, first), widths, strict=True)], 1)
    between, step, logit = share * one + (1 - share) * other, 1e-6, in_float64(module)
    units = np.eye(sum(widths))
    gradient = np.stack([(logit(between + step * e) - logit(between - step * e)) / (2 * step) for e in units], axis=1)
    norm = np.linalg.norm(gradient, axis=1)
    assert norm.min() < 1 < norm.max()
    assert found == pytest.approx((np.maximum(0, norm - 1) ** 2).mean(), rel=1e-3)


def test_the_penalty_bounds_the_slope_of_the_reward():
    """Sides that never overlap: without it the logit rises without end."""
    rng = np.random.default_rng(2)
    demonstrated, visited = (
        rows(rng.normal(m, 0.1, (40, 2)), rng.normal(m, 0.1, (40, 2)), [False] * 40) for m in (0, 1)
    )
    slopes = {}
    for penalty in (0.0, 10.0):
        module = gail(demonstrated, penalty=penalty)
        for _ in range(8):
            metrics = module.update(Experience(visited))
        gap = np.linalg.norm(module._vectors(demonstrated).mean(0) - module._vectors(visited).mean(0))
        slopes[penalty] = (module(demonstrated).mean() - module(visited).mean()) / gap
        assert set(metrics) == {"loss", "penalty", "demonstrated", "policy"}
    assert slopes[10.0] < 1.2
    assert slopes[0.0] > slopes[10.0]


def test_actions_are_looked_at_where_they_shall_be():
    """The same observations, other actions: told by actions alone."""
    still = np.zeros((20, 2))
    demonstrated, visited = (rows(still, still, [False] * 20, np.full((20, 1), action)) for action in (-0.5, 0.5))
    for actions in (False, True):
        module = gail(demonstrated, actions=actions, penalty=0.1)
        for _ in range(5):
            module.update(Experience(visited))
        assert (module(demonstrated).mean() > module(visited).mean() + 1) == actions


def test_updates_come_at_their_interval_and_state_goes_on_bit_for_bit():
    rng = np.random.default_rng(3)
    demonstrations = rows(rng.normal(size=(30, 2)), rng.normal(size=(30, 2)), rng.uniform(size=30) < 0.2)
    experience = Experience(rows(rng.normal(size=(40, 2)), rng.normal(size=(40, 2)), rng.uniform(size=40) < 0.2))
    config = GailConfig(**SMALL | {"interval": 3, "updates": 2})
    module, other = (config.make("gail", SPEC, 0) for _ in range(2))
    module.fit([demonstrations])
    versions = []
    for _ in range(7):
        module.update(experience)
        versions.append(module.version)
    assert versions == [0, 0, 1, 1, 1, 2, 2]
    other.load({key: value.copy() for key, value in module.state().items()})
    for each in (module, other):
        for _ in range(5):
            each.update(experience)
    for key, value in module.state().items():
        np.testing.assert_array_equal(value, other.state()[key], err_msg=key)
    torch.testing.assert_close(module(demonstrations), other(demonstrations), rtol=0, atol=0)
    with pytest.raises(CheckpointError, match="reward module 'gail': expected 'shift'"):
        other.load({})


def test_there_must_be_demonstrations():
    with pytest.raises(DataError, match="'gail' needs demonstrations, and there are none"):
        GailConfig().make("gail", SPEC, 0).fit([])
