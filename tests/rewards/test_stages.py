"""The classifier of stages: what it learns from demonstrations and labels, thresholds, errors, guard, file."""

import numpy as np
import pytest
import torch

from robo_rl.core import ArraySpec, ConfigError, DataError, EnvSpec
from robo_rl.rewards.modules.stages import StagesConfig, StagesReward

from ..rigs.specs import joint_spec


def spec(**observation: ArraySpec) -> EnvSpec:
    return joint_spec(observation or {"state": ArraySpec((2,), names=("x", "height"))})


def rows(states, key="state"):
    states = np.asarray(states)
    return {"action": np.zeros((len(states), 1), np.float32), f"next_observation/{key}": states}


def walks(count, lengths=(8, 6, 9), seed=0):
    """Episodes that stay at 0, then at 1, then at 2, for so many steps each, with a little noise."""
    rng = np.random.default_rng(seed)
    places = np.repeat(np.arange(len(lengths)), lengths)
    paths = [np.stack((places, rng.normal(size=len(places))), 1) for _ in range(count)]
    return [rows((path + 0.02 * rng.normal(size=path.shape)).astype(np.float32)) for path in paths]


SMALL = {"hidden": (16,), "fit_steps": 150, "learning_rate": 1e-2, "batch_size": 48}


def made(environment=None, **options) -> StagesReward:
    return StagesConfig(**SMALL | options).make("stages", environment or spec(), 0)


def test_demonstrations_are_cut_into_stages_and_the_reward_grows_with_them():
    module = made(keys=("x_only",), environment=spec(x_only=ArraySpec((1,))))
    module.fit([rows(each["next_observation/state"][:, :1], "x_only") for each in walks(6)])
    (fresh,) = walks(1, seed=9)
    found = module(rows(fresh["next_observation/state"][:, :1], "x_only"))
    np.testing.assert_array_equal(found, np.repeat([0, 0.5, 1], [8, 6, 9]).astype(np.float32))


def test_labels_are_what_is_learned_and_what_nobody_knows_is_left_out():
    episodes = walks(6)
    labels = [np.repeat([0, 1, 1], [8, 6, 9]).astype(np.int8) for _ in episodes]
    module, other = made(stages=1), made(stages=1)
    for label in labels:
        label[3] = -1
    errors = module.learn(episodes, labels)
    assert (errors["false_positives/1"], errors["false_negatives/1"]) == (0, 0)
    assert (errors["held_out_episodes"], errors["negatives/1"], errors["positives/1"]) == (1, 7, 15)
    np.testing.assert_array_equal(module(walks(1, seed=5)[0]), np.repeat([0, 1, 1], [8, 6, 9]))
    for episode in episodes:
        episode["next_observation/state"][3] = 1e3
    other.learn(episodes, labels)
    for key, value in module.state().items():
        np.testing.assert_array_equal(value, other.state()[key], err_msg=key)


def noise(count=10, length=60):
    """Labelled episodes whose stages cannot be told: states are the same in all."""
    rng = np.random.default_rng(1)
    episodes = [rows(rng.normal(size=(length, 2)).astype(np.float32)) for _ in range(count)]
    return episodes, [rng.integers(-1, 3, length).astype(np.int8) for _ in range(count)]


def test_thresholds_keep_the_promised_share_of_false_positives():
    episodes, labels = noise()
    module = made(stages=2, false_positives=0.05)
    module.learn(episodes, labels)
    state = np.concatenate([each["next_observation/state"] for each in episodes[::5]])
    label = np.concatenate(labels[::5])
    odds = module._odds(state)
    for stage in (1, 2):
        before = odds[(label >= 0) & (label < stage), stage - 1]
        candidates = np.unique(np.append(before, np.float32(0)))
        allowed = [each for each in candidates if each >= 0 and (before > each).mean() <= 0.05]
        assert module.state()["thresholds"][stage - 1] == min(allowed)
    assert module.state()["thresholds"][0] > 0


def test_errors_are_those_of_episodes_held_out():
    episodes, labels = noise()
    module = made(stages=2, false_positives=0.3)
    errors = module.learn(episodes, labels)
    reached = np.concatenate([2 * module(each) for each in episodes[1::5]])
    label = np.concatenate(labels[1::5])
    for stage in (1, 2):
        before, after = (label >= 0) & (label < stage), label >= stage
        assert errors[f"false_positives/{stage}"] == pytest.approx((reached[before] >= stage).mean())
        assert errors[f"false_negatives/{stage}"] == pytest.approx((reached[after] < stage).mean())
        assert (errors[f"negatives/{stage}"], errors[f"positives/{stage}"]) == (before.sum(), after.sum())
    assert 0 < errors["false_positives/1"] < 1


def test_a_stage_is_reached_where_it_or_a_later_one_is_probable():
    """Log odds against the probabilities of the network in float64, and stages one after another."""
    module = made(stages=3)
    states = np.random.default_rng(2).normal(size=(50, 2)).astype(np.float32)
    logits = module._network(torch.from_numpy(states)).detach().numpy().astype(np.float64)
    probability = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    later = np.stack([probability[:, stage:].sum(1) for stage in (1, 2, 3)], 1)
    np.testing.assert_allclose(module._odds(states), np.log(later / (1 - later)), rtol=1e-4, atol=1e-5)
    module._arrays["thresholds"][:] = np.quantile(module._odds(states), 0.3, axis=0)
    over = np.log(later / (1 - later)) > module.state()["thresholds"]
    expected = [next((stage for stage in range(3) if not row[stage]), 3) / 3 for row in over]
    assert len(set(expected)) == 4
    np.testing.assert_allclose(module(rows(states)), expected)


def test_it_learns_from_images():
    """Success is a red dot at the right, wherever it is above or below."""
    rng, key = np.random.default_rng(5), "images/front"
    episodes, labels = [], []
    for _ in range(10):
        label = np.repeat([0, 1], 20).astype(np.int8)
        images = np.zeros((40, 16, 16, 3), np.uint8)
        columns = np.where(label, rng.integers(11, 14, 40), rng.integers(2, 5, 40))
        images[np.arange(40), rng.integers(0, 16, 40), columns, 0] = 255
        episodes.append(rows(images, key))
        labels.append(label)
    module = made(spec(**{key: ArraySpec((16, 16, 3), "uint8")}), keys=(key,), stages=1, shift=2)
    errors = module.learn(episodes, labels)
    assert errors["false_positives/1"] <= 0.1
    assert errors["false_negatives/1"] <= 0.1


def test_the_guard_must_be_true_for_the_last_stage():
    episodes = walks(5)
    labels = [np.repeat([0, 1, 2], [8, 6, 9]).astype(np.int8) for _ in episodes]
    module = made(guard="height > 0.5")
    module.learn(episodes, labels)
    states = np.array([[2, 0.9], [2, 0.1], [1, 0.1], [0, 0.9]], np.float32)
    np.testing.assert_array_equal(module(rows(states)), np.array([1, 0.5, 0.5, 0], np.float32))
    with pytest.raises(ConfigError, match=r"reward.modules.stages.guard: .*'hight'.*height"):
        made(guard="hight > 0.5")


def test_a_file_is_the_classifier_that_was_saved(tmp_path):
    episodes = walks(6)
    module = made(stages=1, guard="height > -1")
    module.learn(episodes, [np.repeat([0, 1, 1], [8, 6, 9]).astype(np.int8) for _ in episodes])
    file = tmp_path / "models" / "goal.safetensors"
    module.save(file, {"seed": 0})
    config = StagesConfig(file=str(file))
    loaded = config.make("other", spec(), 7)
    loaded.fit([])
    states = rows(np.random.default_rng(6).uniform(-2, 3, (200, 2)).astype(np.float32))
    np.testing.assert_array_equal(loaded(states), module(states))
    assert 0 < module(states).mean() < 1

    renamed = spec(state=ArraySpec((2,), names=("y", "height")))
    with pytest.raises(ConfigError, match=r"uses 'state', float32 \[2\] x, height; this task has none"):
        config.make("goal", spec(object=ArraySpec((2,))), 0)
    with pytest.raises(ConfigError, match=r"this task has float32 \[2\] y, height"):
        config.make("goal", renamed, 0)
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(file.read_bytes()[:100])
    with pytest.raises(DataError, match="is not a classifier written by robo-rl label"):
        StagesConfig(file=str(damaged)).make("goal", spec(), 0)
    with pytest.raises(ConfigError, match="there is no file"):
        StagesConfig(file=str(tmp_path / "nowhere")).make("goal", spec(), 0)


def test_what_cannot_be_learned_is_said():
    with pytest.raises(DataError, match="'stages' needs demonstrations of 6 observations, the longest has 3"):
        made().fit(walks(3, (1, 1, 1)))
    with pytest.raises(DataError, match="no observation of stage 1"):
        made(stages=1).learn(walks(3), [np.zeros(23, np.int8)] * 3)
    with pytest.raises(ConfigError, match=r"stages \+ 1 = 4 or more"):
        StagesConfig(stages=3, batch_size=3)
