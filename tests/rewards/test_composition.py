"""Composition of a reward: weights, gates, clipping, normalisation and potentials, and what is refused."""

from dataclasses import dataclass

import numpy as np
import pytest
from omegaconf import OmegaConf

from robo_rl.core import ArraySpec, Batch, ConfigError, RewardWeights, SpecError
from robo_rl.rewards import ComposedRewardConfig, Module, TermConfig

from ..rigs.specs import joint_spec

SPEC = joint_spec({"state": ArraySpec((1,))}, reward_terms=("success", "distance"))


@dataclass(frozen=True)
class Doubled:
    """A module of a user: twice the state, or, ``acting``, twice the action."""

    acting: bool = False
    broken: bool = False

    def make(self, name, spec, seed):
        return DoubledModule(self)


class DoubledModule(Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.judges_state = not config.acting

    def __call__(self, batch):
        values = 2 * batch["action" if self.config.acting else "next_observation/state"][:, 0]
        return values * np.float32(np.nan) if self.config.broken else values

    def state(self):
        return {}

    def load(self, state):
        pass


@dataclass(frozen=True)
class Late:
    """A module of a user that learns once, at its third update: 0 before, then the state."""

    def make(self, name, spec, seed):
        return LateModule()


class LateModule(Module):
    learned = True

    def __init__(self):
        super().__init__()
        self.updates = 0

    def __call__(self, batch):
        return (self.version > 0) * batch["next_observation/state"][:, 0]

    def update(self, experience):
        self.updates += 1
        self.version = int(self.updates >= 3)
        return {"updates": float(self.updates)}

    def state(self):
        return {}

    def load(self, state):
        self.updates, self.version = 3, 1


class Replay:
    """Experience: the given rows."""

    def __init__(self, batch):
        self.batch = batch

    def __len__(self):
        return len(self.batch["action"])

    def sample_rows(self, n, rng):
        chosen = rng.integers(0, len(self), n)
        return {key: value[chosen] for key, value in self.batch.items()}


def rows(states, actions=None, terminated=False) -> Batch:
    states = np.asarray(states, np.float32)[:, None]
    count = len(states) - 1
    return {
        "observation/state": states[:-1],
        "next_observation/state": states[1:],
        "action": np.zeros((count, 1), np.float32) if actions is None else np.asarray(actions, np.float32)[:, None],
        "terminated": np.array([False] * (count - 1) + [terminated]),
        "term/success": np.zeros(count, np.float32),
        "term/distance": np.arange(count, dtype=np.float32),
    }


def reward_of(batch: Batch, gamma=0.9, **options):
    """The rewards of a batch, by way of scoring and combining."""
    reward = ComposedRewardConfig(**options).make(SPEC, 0)
    scores = reward.scorer.score(batch, online=True)
    terms = (*SPEC.reward_terms, *reward.scorer.terms)
    assert tuple(scores) == reward.scorer.terms
    values = np.stack([batch["term/success"], batch["term/distance"], *scores.values()], axis=-1)
    return reward.combine(terms, values, gamma)


def test_a_module_counts_with_weight_one_and_terms_of_the_task_only_if_named():
    np.testing.assert_allclose(reward_of(rows([0, 1, 2]), modules={"twice": Doubled()}), [2, 4])
    np.testing.assert_allclose(
        reward_of(
            rows([0, 1, 2]),
            modules={"twice": Doubled()},
            terms={"twice": TermConfig(weight=0.5), "distance": TermConfig(weight=-3)},
            offset=10.0,
        ),
        [11, 9],
    )


def test_a_module_of_weight_zero_is_computed_to_judge_the_others_and_does_not_count():
    held_out = {"modules": {"twice": Doubled(), "apart": Doubled()}, "terms": {"apart": TermConfig(weight=0)}}
    np.testing.assert_allclose(reward_of(rows([0, 1, 2]), **held_out), [2, 4])
    scorer = ComposedRewardConfig(**held_out).make(SPEC, 0).scorer
    assert scorer.held_out == ("apart",)
    np.testing.assert_allclose(scorer.score(rows([0, 1, 2]), online=True)["apart"], [2, 4])


def test_a_gate_of_weight_zero_counts_and_what_has_yet_to_learn_judges_nobody():
    terms = {"gate": TermConfig(weight=0), "twice": TermConfig(only_where_zero="gate"), "late": TermConfig(weight=0)}
    reward = ComposedRewardConfig({"twice": Doubled(), "gate": Doubled(), "late": Doubled()}, terms).make(SPEC, 0)
    late = reward.scorer._modules["late"]
    assert reward.scorer.held_out == ("late",)
    late.learned = True
    assert reward.scorer.held_out == ()
    late.version = 1
    assert reward.scorer.held_out == ("late",)


def test_several_modules_add_up():
    found = reward_of(rows([0, 1, 2], [5, 7]), modules={"state": Doubled(), "action": Doubled(acting=True)})
    np.testing.assert_allclose(found, [12, 18])


def test_clipping():
    terms = {"twice": TermConfig(clip=(-1.0, 3.0))}
    np.testing.assert_allclose(reward_of(rows([0, -5, 1, 5]), modules={"twice": Doubled()}, terms=terms), [-1, 2, 3])


def test_a_gate_lets_a_term_count_only_where_the_other_is_zero():
    terms = {"twice": TermConfig(only_where_zero="distance")}
    found = reward_of(rows([0, 1, 2, 3]), modules={"twice": Doubled()}, terms=terms)
    np.testing.assert_allclose(found, [2, 0, 0])  # distance is 0, 1, 2


def test_a_potential_is_a_discounted_difference_that_ends_at_zero():
    """Summed with discount along an episode it telescopes to minus the potential of the first state."""
    gamma, states = 0.9, [3.0, 1.0, 4.0, 1.5]
    terms = {"twice": TermConfig(potential=True, weight=0.5)}
    shaping = reward_of(rows(states, terminated=True), gamma, modules={"twice": Doubled()}, terms=terms)
    np.testing.assert_allclose(shaping, [gamma * 1 - 3, gamma * 4 - 1, 0 - 4], rtol=1e-6)
    assert sum(gamma**k * value for k, value in enumerate(shaping)) == pytest.approx(-3)
    cut = reward_of(rows(states), gamma, modules={"twice": Doubled()}, terms=terms)
    assert sum(gamma**k * value for k, value in enumerate(cut)) == pytest.approx(gamma**3 * 1.5 - 3)


def test_potentials_are_clipped_on_both_sides():
    terms = {"twice": TermConfig(potential=True, clip=(0.0, 3.0))}
    found = reward_of(rows([1, 5, 0]), 1.0, modules={"twice": Doubled()}, terms=terms)
    np.testing.assert_allclose(found, [3 - 2, 0 - 3])
    ended = reward_of(rows([1, 5, 2], terminated=True), 1.0, modules={"twice": Doubled()}, terms=terms)
    np.testing.assert_allclose(ended, [3 - 2, 0 - 3])


def test_normalised_terms_have_unit_mean_square():
    rng = np.random.default_rng(0)
    reward = ComposedRewardConfig(modules={"twice": Doubled()}, terms={"twice": TermConfig(normalise=True)})
    made = reward.make(SPEC, 0)
    states = rng.normal(3, 1, 5001)
    values = made.scorer.score(rows(states), online=True)["twice"]
    terms = (*SPEC.reward_terms, "twice")
    columns = np.stack([0 * values, 0 * values, values], axis=-1)
    found = made.combine(terms, columns, 0.9)
    assert np.mean(found**2) == pytest.approx(1, rel=0.1)
    np.testing.assert_array_equal(np.sign(found), np.sign(values))
    # Independently: weights fall by 0.999 with each newer value.
    weights = 0.999 ** np.arange(len(values))[::-1]
    expected = np.sqrt((weights * values.astype(float) ** 2).sum() / weights.sum())
    np.testing.assert_allclose(found, values / expected, rtol=1e-5)
    other = reward.make(SPEC, 1)
    other.scorer.load(made.scorer.state())
    np.testing.assert_array_equal(other.combine(terms, columns, 0.9), found)


def test_a_term_is_clipped_before_it_is_normalised():
    """One value of a thousand is far out: clipped to 1, as all others nearly are, it does not make these nothing."""
    states = np.full(2001, 0.5)
    states[::1000] = 500
    term = TermConfig(normalise=True, clip=(-1, 1))
    made = ComposedRewardConfig(modules={"twice": Doubled()}, terms={"twice": term}).make(SPEC, 0)
    values = made.scorer.score(rows(states), online=True)["twice"]
    assert values.max() == 1000
    columns = np.stack([0 * values, 0 * values, values], axis=-1)
    np.testing.assert_allclose(made.combine((*SPEC.reward_terms, "twice"), columns, 0.9), 1, rtol=1e-6)


@dataclass(frozen=True)
class Short:
    """A module of a user that asks for a discount."""

    def make(self, name, spec, seed):
        return ShortModule(Doubled())


class ShortModule(DoubledModule):
    def discount(self):
        return 0.5


def test_a_module_that_does_not_count_asks_for_no_discount():
    for weight, wanted in ((1, 0.5), (0, None)):
        config = ComposedRewardConfig(modules={"short": Short()}, terms={"short": TermConfig(weight=weight)})
        assert config.make(SPEC, 0).scorer.discount == wanted


def test_a_term_that_is_zero_so_far_is_divided_by_one():
    made = ComposedRewardConfig(modules={"twice": Doubled()}, terms={"twice": TermConfig(normalise=True)}).make(SPEC, 0)
    made.scorer.score(rows(np.zeros(101)), online=True)
    columns = np.array([[0, 0, 1]], np.float32)
    np.testing.assert_allclose(made.combine((*SPEC.reward_terms, "twice"), columns, 0.9), 1)


def test_a_learned_term_has_unit_mean_square_at_once_when_it_has_first_learned():
    """What was stored as 0 is scored again as soon as the module has learned, and the scale is that of what it says."""
    config = ComposedRewardConfig(modules={"late": Late()}, terms={"late": TermConfig(normalise=True)})
    made = config.make(SPEC, 0)
    batch = rows(np.random.default_rng(0).normal(0, 5, 501))
    terms = (*SPEC.reward_terms, "late")

    def rewards():
        values = made.scorer.rescore(batch)["late"]
        return made.combine(terms, np.stack([0 * values, 0 * values, values], axis=-1), 0.9)

    made.scorer.score(batch, online=True)
    for number in (1, 2):
        assert made.scorer.update(Replay(batch)) == {"late/updates": number}
        assert not rewards().any()
    made.scorer.update(Replay(batch))
    assert np.mean(rewards() ** 2) == pytest.approx(1, rel=0.15)
    other = config.make(SPEC, 1)
    other.scorer.load(made.scorer.state())
    for each in (made, other):  # a further update does not begin anew
        each.scorer.score(rows(np.full(21, 7.0)), online=True)
        each.scorer.update(Replay(batch))
    np.testing.assert_array_equal(other.scorer.state()["scale/late"], made.scorer.state()["scale/late"])
    assert made.scorer.state()["scale/late"][1] == pytest.approx(1 - 0.999**21)


def test_what_does_not_count_learns_but_stored_rows_are_not_scored_again_for_it():
    terms = {"held": TermConfig(weight=0), "gate": TermConfig(weight=0), "term": TermConfig(only_where_zero="gate")}
    made = ComposedRewardConfig(modules={name: Late() for name in terms}, terms=terms).make(SPEC, 0)
    batch = rows(np.ones(5))
    for _ in range(3):
        made.scorer.update(Replay(batch))
    assert made.scorer.held_out == ("held",)
    assert made.scorer.version == 2
    assert sorted(made.scorer.rescore(batch)) == ["gate", "term"]
    assert sorted(made.scorer.score(batch, online=True)) == ["gate", "held", "term"]


def test_terms_of_the_task_can_be_normalised_too():
    terms = {"distance": TermConfig(normalise=True)}
    found = reward_of(rows([0, 0, 0]), modules={"twice": Doubled()}, terms=terms)
    np.testing.assert_allclose(found, [0, 1 / np.sqrt(0.5)], rtol=1e-3)


def test_without_modules_nothing_is_scored():
    made = ComposedRewardConfig(terms={"success": TermConfig(weight=2.0)}, offset=-1.0).make(SPEC, 0)
    assert made.scorer is None
    weights = RewardWeights({"success": 2.0}, offset=-1.0)
    values = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)
    np.testing.assert_allclose(
        made.combine(SPEC.reward_terms, values, 0.9), weights.combine(SPEC.reward_terms, values, 0.9), rtol=1e-6
    )


def test_evaluations_report_the_task_whatever_modules_say():
    made = ComposedRewardConfig(modules={"twice": Doubled()}).make(SPEC, 0)
    assert made.task.value({"success": 1.0, "distance": 5.0}) == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"terms": {"succes": TermConfig()}}, "reward.terms: there is no term 'succes': did you mean 'success'?"),
        (
            {"terms": {"success": TermConfig(only_where_zero="twic")}, "modules": {"twice": Doubled()}},
            "reward.terms.success.only_where_zero: there is no term 'twic': did you mean 'twice'?",
        ),
        ({"terms": {"success": {"weigth": 2}}}, "reward.terms.success has no field 'weigth': did you mean 'weight'?"),
        ({"terms": {"success": {"weight": "much"}}}, "reward.terms.success: Value 'much' of type 'str' could not"),
        ({"modules": {"success": Doubled()}}, "reward.modules: 'success' is a term of the task"),
        (
            {"modules": {"mine": 1}},
            "reward.modules.mine: is not a module; choose one with +reward/module@reward.modules.mine=",
        ),
        ({"modules": {"mine": OmegaConf.create({"keys": 1})}}, "reward.modules.mine: is not a module; choose one with"),
        (
            {"modules": {"twice": Doubled(acting=True)}, "terms": {"twice": TermConfig(potential=True)}},
            "reward.terms.twice.potential: only a module that judges states",
        ),
        (
            {"terms": {"success": TermConfig(potential=True)}},
            "reward.terms.success.potential: only a module that judges states",
        ),
    ],
)
def test_what_does_not_fit_is_named(options, message):
    with pytest.raises(ConfigError) as caught:
        ComposedRewardConfig(**options).make(SPEC, 0)
    assert message in str(caught.value)


def test_values_out_of_range_are_named():
    for options, message in (
        ({"clip": (1.0, 1.0)}, "reward.terms.*.clip must be null or [smallest, largest], got [1.0, 1.0]"),
        ({"weight": float("inf")}, "reward.terms.*.weight must be finite, got inf"),
        ({"potential": True, "only_where_zero": "success"}, "null if potential is true"),
        ({"potential": True, "clip": (-5.0, -1.0)}, "clip must be a range that contains 0 if potential is true"),
        ({"potential": True, "clip": (1.0, 2.0)}, "clip must be a range that contains 0 if potential is true"),
    ):
        with pytest.raises(ConfigError) as caught:
            TermConfig(**options)
        assert message in str(caught.value)


def test_a_module_that_returns_no_numbers_is_named():
    made = ComposedRewardConfig(modules={"twice": Doubled(broken=True)}).make(SPEC, 0)
    with pytest.raises(SpecError, match="reward module 'twice': expected 2 finite values"):
        made.scorer.score(rows([0, 1, 2]), online=True)
