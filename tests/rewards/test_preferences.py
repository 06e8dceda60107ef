"""Rewards from preferences: the loss in float64, the oracle's errors, the order learned from noisy answers."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from robo_rl.core import ArraySpec, ConfigError, DataError
from robo_rl.rewards.asking.scripted_oracle import noisy_answers, ranked
from robo_rl.rewards.modules.distillation import draw_segments
from robo_rl.rewards.modules.preferences import PreferencesConfig, preference_loss

from ..rigs.specs import joint_spec

SPEC = joint_spec({"state": ArraySpec((2,))}, reward_terms=("success", "near"))


class World:
    """Experience: states anywhere in a square; the term ``near`` says how close they are to its middle."""

    def __len__(self):
        return 1000

    def sample_segments(self, n, length, rng, *, newest=None):
        state = rng.uniform(-1, 1, (n, length, 2)).astype(np.float32)
        near = -np.linalg.norm(state, axis=-1)
        zero = np.zeros((n, length), np.float32)
        return {"action": zero[..., None], "next_observation/state": state, "term/near": near, "term/success": zero}


def test_the_loss_is_that_of_bradley_and_terry():
    rng = np.random.default_rng(0)
    rewards, second = rng.normal(size=(7, 2, 5)), rng.integers(0, 2, 7)
    expected = []
    for pair, answer in zip(rewards, second, strict=True):
        first, other = np.exp(pair[0].sum()), np.exp(pair[1].sum())
        expected.append(-np.log((other if answer else first) / (first + other)))
    found = preference_loss(torch.from_numpy(rewards), torch.from_numpy(second.astype(float)))
    assert float(found) == pytest.approx(np.mean(expected), rel=1e-12)


def test_the_oracle_errs_at_its_rate_and_has_no_opinion_on_ties():
    difference = np.random.default_rng(0).normal(size=20_000).astype(np.float32)
    difference[:1000] = 0.01
    given_answers, answered = noisy_answers(difference, 0.2, 0.05, np.random.default_rng(1))
    assert (given_answers != (difference > 0)).mean() == pytest.approx(0.2, abs=0.01)
    assert not answered[:1000].any()
    np.testing.assert_array_equal(answered, np.abs(difference) > 0.05)
    np.testing.assert_array_equal(noisy_answers(difference, 0.0, 0.0, np.random.default_rng(1))[0], difference > 0)


def test_the_most_important_factor_that_clearly_differs_decides():
    """Against the decision tree of the paper, one pair after the other."""
    rng = np.random.default_rng(0)
    differences, margins = rng.normal(size=(300, 3)).astype(np.float32), np.array([1.0, 0.5, 0.2], np.float32)
    expected = [next((d for d, m in zip(row, margins, strict=True) if abs(d) > m), 0.0) for row in differences]
    assert 0 < np.count_nonzero(np.array(expected) == 0) < 30
    np.testing.assert_array_equal(ranked(differences, margins), np.array(expected, np.float32))


def said_of(segments, **options):
    """Which pairs of segments (2 n, length) the scripted oracle has an opinion on, and whether it is for the second."""
    module = PreferencesConfig(demonstration_queries=1, epochs=1, members=1, **options).make("liked", SPEC, 0)
    module._oracle.ask(segments, np.random.default_rng(0))
    return module._oracle.collect()


def test_a_ranking_decides_by_factors_and_a_regret_by_what_was_gained():
    near = np.array([[0.0, 1.0], [5.0, 5.0], [2.0, 2.0], [1.0, 0.0], [0.0, 0.0], [3.0, 3.1]], np.float32)
    success = np.array([[0, 0], [0, 0], [0, 1], [0, 0], [0, 0], [0, 0]], np.float32)
    segments = {"term/near": near, "term/success": success}
    assert said_of(segments, length=2).values.tolist() == [1, 0, 1]
    gained = said_of(segments, length=2, regret=True, term="near")
    assert gained.values.tolist() == [0, 0, 1]
    # Success decides the second pair; the sums of ``near`` have a deviation of 3.6 and differ by 9 and by 6.1.
    ordered = said_of(segments, length=2, ranking=("success", "near"), margin=2.0)
    assert ordered.numbers.tolist() == [0, 1]
    assert ordered.values.tolist() == [1, 0]
    with pytest.raises(ConfigError, match=r"reward.modules.liked.ranking: this task has no term 'nearr'.* near"):
        said_of(segments, ranking=("success", "nearr"))
    with pytest.raises(ConfigError, match="term must be null where ranking names terms"):
        PreferencesConfig(term="near", ranking=("near",))
    with pytest.raises(ConfigError, match="length must be 2 or more if regret is true"):
        PreferencesConfig(length=1, regret=True)


def learned(noise, seed=0, times=15):
    config = PreferencesConfig(term="near", noise=noise, interval=1, queries=20, length=4, epochs=10, hidden=(32,))
    module = config.make("liked", SPEC, seed)
    for _ in range(times):
        metrics = module.update(World())
    return module, metrics


@pytest.mark.parametrize("mistakes", [0.01, 0.2, 0.45])
def test_answers_may_be_taken_for_mistakes(mistakes):
    """Against the probability of each answer; a large difference neither overflows nor outweighs all others."""
    rng = np.random.default_rng(0)
    rewards, second = rng.normal(size=(7, 2, 5)), rng.integers(0, 2, 7).astype(float)
    first_better = 1 / (1 + np.exp(rewards[:, 1].sum(1) - rewards[:, 0].sum(1)))
    first_said = (1 - mistakes) * first_better + mistakes * (1 - first_better)
    expected = -np.log(np.where(second == 1, 1 - first_said, first_said)).mean()
    found = preference_loss(torch.from_numpy(rewards), torch.from_numpy(second), mistakes)
    assert float(found) == pytest.approx(expected, rel=1e-12)
    contradicted = torch.tensor([[[1e3], [-1e3]]], dtype=torch.float64, requires_grad=True)
    loss = preference_loss(contradicted, torch.ones(1, dtype=torch.float64), mistakes)
    assert float(loss.detach()) == pytest.approx(-np.log(mistakes))
    (slope,) = torch.autograd.grad(loss, contradicted)
    assert not slope.any()
    with pytest.raises(ConfigError, match=r"mistakes must be in \[0, 0\.5\)"):
        PreferencesConfig(mistakes=0.5)


def test_the_likeliest_difference_is_that_of_the_answers_without_the_mistakes():
    """Seven of ten for the second, two of ten mistaken: 0.7 = 0.8 p + 0.2 (1 - p) at p = 5/6, odds of 5."""
    second = torch.tensor([1.0] * 7 + [0.0] * 3, dtype=torch.float64)
    for mistakes, odds in ((0.0, 7 / 3), (0.2, 5.0)):
        difference = torch.tensor(np.log(odds), requires_grad=True)
        rewards = torch.stack((torch.zeros_like(difference), difference)).expand(10, 2)[..., None]
        (slope,) = torch.autograd.grad(preference_loss(rewards, second, mistakes), difference)
        assert float(slope) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_the_true_order_is_learned_from_answers_of_which_some_are_wrong(noise):
    module, metrics = learned(noise)
    assert metrics["queries"] == 300
    batch = World().sample_segments(300, 1, np.random.default_rng(7))
    rows = {key: value[:, 0] for key, value in batch.items()}
    assert spearmanr(module(rows), rows["term/near"]).statistic > 0.8
    assert np.abs(module(rows)).max() <= 1


def test_before_the_first_answer_there_is_no_reward():
    module = PreferencesConfig().make("liked", SPEC, 0)
    assert not module({"action": np.zeros((3, 1)), "next_observation/state": np.ones((3, 2))}).any()
    assert module.version == 0


def test_questions_are_asked_at_their_interval_and_not_beyond_the_most():
    config = PreferencesConfig(interval=3, queries=4, most_queries=10, epochs=1, members=1, hidden=(4,), length=2)
    module = config.make("liked", SPEC, 0)
    query_counts = [module.update(World()).get("queries") for _ in range(14)]
    assert query_counts == [None, None, 4, None, None, 8, None, None, 10, None, None, None, None, None]


class Recorded(World):
    """Remembers what was drawn."""

    def sample_segments(self, n, length, rng, *, newest=None):
        self.drawn = super().sample_segments(n, length, rng, newest=newest)
        return self.drawn


def test_of_many_candidates_those_are_asked_about_that_networks_disagree_on():
    """Against the deviation of the probabilities that the networks give, one pair after the other."""
    config = PreferencesConfig(
        term="near", interval=1, queries=6, candidates=5, most_queries=12, length=3, epochs=5, hidden=(16,)
    )
    module, world = config.make("liked", SPEC, 0), Recorded()
    module.update(world)
    assert len(world.drawn["action"]) == 2 * 6
    rows = 2 * 6 * config.candidates
    before = config.make("liked", SPEC, 0)
    before.load({key: value.copy() for key, value in module.state().items()})
    module.update(world)
    state = world.drawn["next_observation/state"]
    assert len(state) == rows
    scaled = (state - before._arrays["shift"]) / before._arrays["scale"]
    probabilities = []
    for network in before._networks.values():
        rewards = torch.tanh(network(torch.from_numpy(scaled).flatten(0, 1))[:, 0]).detach().numpy().reshape(rows, 3)
        sums = rewards.astype(np.float64).sum(1).reshape(-1, 2)
        probabilities.append(1 / (1 + np.exp(sums[:, 0] - sums[:, 1])))
    disputed = sorted(np.argsort(-np.std(probabilities, axis=0))[:6])
    np.testing.assert_array_equal(module.state()["asked"][6:], state.reshape(-1, 2, 3, 2)[disputed])
    with pytest.raises(ConfigError, match="members must be 2 or more if candidates is"):
        PreferencesConfig(candidates=5, members=1)


def test_questions_may_be_about_the_newest_steps_alone():
    class Asked(World):
        def sample_segments(self, n, length, rng, *, newest=None):
            self.newest = newest
            return super().sample_segments(n, length, rng)

    for newest in (None, 500):
        world = Asked()
        PreferencesConfig(interval=1, newest=newest).make("liked", SPEC, 0).update(world)
        assert world.newest == newest
    with pytest.raises(ConfigError, match="newest must be null or 1 or more"):
        PreferencesConfig(newest=0)


def test_state_goes_on_bit_for_bit():
    module, _ = learned(0.1, times=3)
    other = module.config.make("liked", SPEC, 0)
    other.load({key: value.copy() for key, value in module.state().items()})
    for each in (module, other):
        each.update(World())
    for key, value in module.state().items():
        np.testing.assert_array_equal(value, other.state()[key], err_msg=key)


def test_an_unknown_term_is_named():
    with pytest.raises(
        ConfigError, match=r"reward.modules.liked.term: this task has no term 'nera': did you mean 'near'"
    ):
        PreferencesConfig(term="nera").make("liked", SPEC, 0)


def episodes_of(lengths, seed=0):
    """Demonstrations, each with states of its own."""
    rng = np.random.default_rng(seed)
    rows = []
    for length in lengths:
        state = rng.uniform(-1, 1, (length, 2)).astype(np.float32)
        zero = np.zeros(length, np.float32)
        near = -np.linalg.norm(state, axis=-1)
        seen = {"observation/state": np.roll(state, 1, 0), "next_observation/state": state}
        pictures = {"observation/images/front": np.zeros((length, 2, 2, 3), np.uint8)}
        rows.append({"action": near[:, None], **seen, **pictures, "term/near": near, "term/success": zero})
    return rows


def test_preferences_may_be_on_demonstrations_before_anything_else_is_learned():
    config = PreferencesConfig(term="near", noise=0.2, length=4, demonstration_queries=300, epochs=150, hidden=(32,))
    module = config.make("liked", SPEC, 0)
    module.fit(episodes_of([40] * 20 + [3]))
    batch = World().sample_segments(300, 1, np.random.default_rng(7))
    rows = {key: value[:, 0] for key, value in batch.items()}
    assert spearmanr(module(rows), rows["term/near"]).statistic > 0.8
    # They count, and the answers are there for later rounds.
    assert module.state()["counters"].tolist() == [0, 300]
    assert len(module.state()["answers"]) == 300
    # An agent may learn from them itself: from what was seen before each step, and done.
    compared = module.comparisons()
    assert {key: array.shape for key, array in compared.segments.items()} == {
        "observation/state": (300, 2, 4, 2),
        "action": (300, 2, 4, 1),
    }
    worth = compared.segments["action"].sum((2, 3))
    assert ((worth[:, 1] > worth[:, 0]) == compared.second).mean() == pytest.approx(0.8, abs=0.06)
    before = -np.linalg.norm(compared.segments["observation/state"], axis=-1)
    np.testing.assert_array_equal(before[:, :, 1:], compared.segments["action"][:, :, :-1, 0])
    assert config.make("liked", SPEC, 0).comparisons() is None
    for episodes, message in (([], "there are none"), (episodes_of([3, 2]), "segments of 4 steps")):
        with pytest.raises(DataError, match=message):
            config.make("liked", SPEC, 0).fit(episodes)


def test_segments_of_demonstrations_are_unbroken_and_uniform():
    episodes = [{"action": np.arange(10 * n, 10 * n + length)} for n, length in enumerate((5, 2, 3))]
    drawn = draw_segments(episodes, 6000, 3, "liked", np.random.default_rng(0))["action"]
    found, counts = np.unique(drawn, axis=0, return_counts=True)
    np.testing.assert_array_equal(found, [[0, 1, 2], [1, 2, 3], [2, 3, 4], [20, 21, 22]])
    assert np.abs(counts - 1500).max() < 150
