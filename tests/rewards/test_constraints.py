"""Constraints of a reward: the arithmetic of multipliers, bounded rewards, costs of steps, and what is refused."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robo_rl.core import ArraySpec, Batch, CheckpointError, ConfigError, RewardWeights, Source, find_constraints
from robo_rl.rewards import ComposedRewardConfig, Module
from robo_rl.rewards.constraints import HIGHEST, ConstrainedReward, constrained
from robo_rl.rewards.parts.multiplier import Multiplier

from ..rigs.specs import joint_spec

NAMES = ("end_effector_vx", "end_effector_vy", "end_effector_vz", "wrist_force_x", "wrist_force_y", "wrist_force_z")
SPEC = joint_spec({"state": ArraySpec((6,), names=NAMES)}, reward_terms=("success", "distance"))
GENTLE = {"keep": "force < 10 N", "most": 0.25}


def rows(
    forces: list[float],
    *,
    speeds: list[float] | None = None,
    sources: list[Source] | None = None,
    success: int = 0,
    ends: bool = True,
) -> Batch:
    """An episode with these forces after its steps; it terminates if it is solved, else it is truncated."""
    n = len(forces)
    states = np.zeros((n + 1, 6), np.float32)
    states[1:, 3] = forces
    states[1:, 0] = [0.0] * n if speeds is None else speeds
    last = np.arange(n) == n - 1
    return {
        "observation/state": states[:-1],
        "next_observation/state": states[1:],
        "action": np.zeros((n, 1), np.float32),
        "terminated": last & bool(success == 1 and ends),
        "truncated": last & bool(success != 1 and ends),
        "source": np.array([Source.POLICY] * n if sources is None else sources, np.uint8),
        "success": np.where(last, success, 0).astype(np.int8),
        "term/success": (last & (success == 1)).astype(np.float32),
        "term/distance": np.arange(n, dtype=np.float32),
    }


def make(entries: dict[str, object], reward: object = None) -> ConstrainedReward:
    return constrained(RewardWeights().make(SPEC, 0) if reward is None else reward, entries, SPEC)  # type: ignore[arg-type]


def play(reward: ConstrainedReward, *episodes: Batch) -> list[dict[str, float]]:
    """Score episodes as those of a run; return the metrics after each."""
    metrics = []
    for episode in episodes:
        reward.scorer.score(episode, online=True)
        metrics.append(reward.scorer.update(None))  # type: ignore[arg-type]
    return metrics


def combined(reward: ConstrainedReward, batch: Batch) -> np.ndarray:
    scores = reward.scorer.score(batch, online=False)
    values = np.stack([batch["term/success"], batch["term/distance"], *scores.values()], axis=-1)
    return reward.combine((*SPEC.reward_terms, *reward.scorer.terms), values, 0.97)


def test_a_multiplier_follows_a_sequence_computed_by_hand() -> None:
    multiplier = Multiplier((0.1, 0.5, 1.0), 0.0, episodes=2)
    followed = []
    for total, steps in ((3, 10), (1, 10), (0, 20), (0, 20)):
        multiplier.add(total, steps)
        assert multiplier.end_episode(0.2)
        followed.append((multiplier.mean, multiplier.error, multiplier.value))
    # mean 0.3 = 3/10, 0.2 = 4/20, 1/30, 0; error (mean - 0.2) / 0.2; integral 0.25, 0.25, 0 (clipped), 0
    expected = [(0.3, 0.5, 0.05 + 0.25 + 0.5), (0.2, 0.0, 0.25), (1 / 30, -5 / 6, 0.0), (0.0, -1.0, 0.0)]
    np.testing.assert_allclose(followed, expected, atol=1e-12)


def test_the_error_is_clipped_and_rises_in_part() -> None:
    multiplier = Multiplier((0.0, 0.5, 0.0), 1.0, episodes=1)
    multiplier.add(9, 10)
    multiplier.end_episode(0.1, rising=0.2)
    assert (multiplier.error, multiplier.value) == (1.0, pytest.approx(1.1))
    multiplier.add(5, 10)
    multiplier.end_episode(0.8, least=True)
    assert multiplier.error == pytest.approx(0.375)
    assert not multiplier.end_episode(0.8), "an episode without steps that count"


def test_costs_are_of_the_steps_that_the_policy_chose() -> None:
    reward = make({"gentle": GENTLE | {"proportional": 0, "integral": 1.0, "episodes": 1}})
    human = [Source.HUMAN, Source.RANDOM, Source.POLICY, Source.POLICY]
    (first, second, third) = play(
        reward,
        rows([30, 30, 3, 30], sources=human),
        rows([30, 30], sources=[Source.HUMAN, Source.HUMAN]),
        rows([3, 3, 3, 3, 3, 3, 3, 10]),
    )
    assert first == {
        "constraint/gentle/value": 0.5,
        "constraint/gentle/limit": 0.25,
        "constraint/gentle/multiplier": 1.0,
    }
    assert second == {}, "the policy did not act"
    assert third["constraint/gentle/value"] == 0.125, "a force of 10 N is not below 10 N"
    assert third["constraint/gentle/multiplier"] == pytest.approx(0.5)


def test_demonstrations_move_nothing_but_are_weighed() -> None:
    reward = make({"gentle": GENTLE | {"initial": 1.0}})
    demonstration = rows([30, 3], success=1)
    reward.scorer.score(demonstration, online=False)
    assert reward.scorer.update(None) == {}  # type: ignore[arg-type]
    np.testing.assert_allclose(combined(reward, demonstration), [-0.5, 0.5])


def test_an_open_episode_ends_later() -> None:
    reward = make({"gentle": GENTLE | {"integral": 1.0, "proportional": 0}})
    assert play(reward, rows([30, 30], ends=False)) == [{}]
    (metrics,) = play(reward, rows([3, 3]))
    assert metrics["constraint/gentle/value"] == 0.5


def test_means_have_the_unit_of_their_quantity() -> None:
    entries = {
        "slow": {"term": "speed", "most": 0.1},
        "smooth": {"term": "acceleration", "most": 1.0},
        "near": {"term": "distance", "most": 0.5},
    }
    reward = make(entries)
    costs = reward.costs(rows([0, 0, 0], speeds=[0.2, 0.2, 0.6]))
    np.testing.assert_allclose(costs["slow"], [0.2, 0.2, 0.6], rtol=1e-6)
    np.testing.assert_allclose(costs["smooth"], [2.0, 0.0, 4.0], rtol=1e-5)
    np.testing.assert_array_equal(costs["near"], [0, 1, 2])
    assert [limit.unit for limit in reward.limits] == ["m/s", "m/s2", ""]
    assert reward.reads == {"end_effector_vx", "end_effector_vy", "end_effector_vz", "distance"}


def test_a_reward_without_multipliers_is_the_reward() -> None:
    episode = rows([30, 3, 3], success=1)
    np.testing.assert_array_equal(combined(make({"gentle": GENTLE}), episode), [0, 0, 1])


def test_the_task_is_learned_first() -> None:
    entries = {
        "gentle": GENTLE | {"proportional": 0, "integral": 0.1, "episodes": 1},
        "solved": {"success": 0.8, "proportional": 0, "integral": 0.1, "episodes": 2},
    }
    reward = make(entries)
    failed, solved = rows([30, 30]), rows([30, 30], success=1)
    metrics = play(reward, failed, failed, solved, solved, failed)
    gentle = [each["constraint/gentle/multiplier"] for each in metrics]
    success = [each["constraint/solved/multiplier"] for each in metrics]
    # success of the newest two episodes 0, 0, 1/2, 1, 1/2: errors 1, 1, 3/8, -1/4, 3/8
    np.testing.assert_allclose(gentle, [0, 0, 0.0625, 0.1625, 0.225], atol=1e-12)
    np.testing.assert_allclose(success, [0, 0, 0, 0, 0.0375], atol=1e-12)
    multipliers = np.array([0.0375, 0.225])
    expected = (1.0375 * np.array([0, 1]) - 0.225) / (1 + multipliers.sum())
    np.testing.assert_allclose(combined(reward, solved), expected, rtol=1e-6)


@given(
    st.lists(st.floats(0, 1e3, width=32), min_size=1, max_size=6),
    st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=6),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
)
def test_rewards_keep_their_bounds(
    forces: list[float], earned: list[float], gentle: float, soft: float, solved: float
) -> None:
    entries = {
        "gentle": GENTLE | {"initial": gentle},
        "soft": {"term": "force", "most": 5.0, "initial": soft},
        "signed": {"term": "distance", "most": 0.01, "initial": soft},
        "solved": {"success": 0.9, "initial": solved},
    }
    reward = make(entries, RewardWeights({"distance": 1.0}))
    batch = rows((forces * 6)[:6])
    batch["term/distance"] = np.resize(np.array(earned, np.float32), 6)
    assert (np.abs(combined(reward, batch)) <= 1 + 1e-5).all()


def test_a_cost_is_bounded_by_a_multiple_of_its_limit() -> None:
    reward = make({"soft": {"term": "force", "most": 5.0, "initial": 1.0}})
    episode = rows([5, 5 * HIGHEST, 1e6])
    np.testing.assert_allclose(combined(reward, episode), np.array([-0.1, -1, -1]) / 2, rtol=1e-6)


def test_a_restored_multiplier_continues_bit_for_bit() -> None:
    entries = {"gentle": GENTLE, "solved": {"success": 0.9}}
    episodes = [rows([30, 3, 3], success=1), rows([30, 3]), rows([3, 30, 30]), rows([3], success=1)]
    one, other = make(entries), make(entries)
    play(one, *episodes[:2], rows([30], ends=False))
    state = {key: value.copy() for key, value in one.scorer.state().items()}
    other.scorer.load(state)
    assert play(one, *episodes[2:]) == play(other, *episodes[2:])
    for key, value in one.scorer.state().items():
        np.testing.assert_array_equal(value, other.scorer.state()[key], strict=True)
    with pytest.raises(CheckpointError, match=r"constraint/gentle.*episodes"):
        make({"gentle": GENTLE | {"episodes": 3}}).scorer.load(state)


@dataclass(frozen=True)
class Doubled:
    """A module: twice the force; ``learned``: one that changes."""

    learned: bool = False

    def make(self, name: str, spec: object, seed: int) -> Module:
        module = DoubledModule()
        module.learned = self.learned
        return module


class DoubledModule(Module):
    def __call__(self, batch: Batch) -> np.ndarray:
        return np.asarray(2 * batch["next_observation/state"][:, 3])


def test_a_module_is_limited_without_judging_the_policy() -> None:
    composed = ComposedRewardConfig({"twice": Doubled()}, {"twice": {"weight": 0.0}, "success": {"weight": 1.0}})
    reward = make({"soft": {"term": "twice", "most": 5.0}}, composed.make(SPEC, 0))
    np.testing.assert_array_equal(reward.costs(rows([1, 3]))["soft"], [2, 6])
    assert reward.scorer.held_out == () and tuple(reward.scorer.modules) == ("twice",)
    assert reward.scorer.terms == ("twice", "constraint/soft")


def test_a_reward_finds_its_constraints() -> None:
    reward = make({"gentle": GENTLE})
    assert find_constraints(reward) is reward and find_constraints(RewardWeights()) is None
    assert not reward.is_weighed and make({"gentle": GENTLE | {"initial": 0.5}}).is_weighed
    assert reward.task == RewardWeights()


LEARNED = ComposedRewardConfig({"twice": Doubled(learned=True)})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"keep": "forse < 10 N", "most": 0.1}, r"reward\.constraints\.x\.keep: .*'forse'.*did you mean.*force"),
        ({"keep": "force < 10 m", "most": 0.1}, r"x\.keep: .*units differ"),
        ({"keep": "always (force < 10 N)", "most": 0.1}, r"x\.keep: .*more than one moment.*leave out"),
        ({"keep": "1 < 2", "most": 0.1}, r"x\.keep: .*a comparison names a signal"),
        ({"keep": "force <", "most": 0.1}, r"x\.keep: "),
        ({"keep": "force < 10 N", "most": 1.5}, r"x\.most must be a share of the steps, below 1, got 1\.5"),
        ({"keep": "force < 10 N"}, r"x\.most must be the largest share or mean, got None"),
        ({"term": "speed", "most": 0.0}, r"x\.most must be null or above 0, and finite, got 0"),
        ({"term": "sped", "most": 0.1}, r"x\.term: there is no quantity, term or module 'sped'.*speed"),
        ({"term": "twice", "most": 0.1}, r"x\.term: .*fixed meaning.*'twice' learns"),
        ({"success": 1.2}, r"x\.success must be .*\(0, 1\], got 1\.2"),
        ({"success": 0.9, "most": 0.1}, r"x\.most must be left out with success"),
        (
            {"keep": "force < 1 N", "term": "speed", "most": 0.1},
            r"x must be a limit with one of keep, term and success",
        ),
        ({"most": 0.1}, r"x must be a limit with one of keep, term and success, got \[\]"),
        ({"keep": "force < 1 N", "most": 0.1, "gain": 2}, r"x has no field 'gain'"),
        ({"keep": "force < 1 N", "most": "few"}, r"reward\.constraints\.x: "),
        (0.3, r"reward\.constraints\.x must be fields, for example \{keep"),
    ],
)
def test_unclear_limits_are_refused(entry: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make({"x": entry}, LEARNED.make(SPEC, 0))


def test_two_limits_on_success_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"at most one limits success, got \['a', 'b'\]"):
        make({"a": {"success": 0.9}, "b": {"success": 0.8}})


def test_data_without_costs_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no costs constraint/gentle"):
        make({"gentle": GENTLE}).combine(SPEC.reward_terms, np.zeros((1, 2), np.float32), 0.97)
