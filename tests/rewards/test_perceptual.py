"""Perceptual rewards: segmentation against brute force, step rewards against a computation row by row."""

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from robo_rl.core import ArraySpec, ConfigError, DataError
from robo_rl.rewards.modules.perceptual import PerceptualConfig, PerceptualReward, discrimination
from robo_rl.rewards.parts.segmentation import segment, segment_jointly

from ..rigs.specs import joint_spec

SPEC = joint_spec({"state": ArraySpec((3,)), "object": ArraySpec((2,)), "images/front": ArraySpec((2, 2, 3), "uint8")})


def brute_force(features, segments, min_length):
    """All ways to cut, by the mean over segments of the mean deviation."""
    best = None
    for cuts in itertools.combinations(range(1, len(features)), segments - 1):
        begins = [0, *cuts, len(features)]
        if min(np.diff(begins)) < min_length:
            continue
        cost = np.mean([features[i:j].std(0).mean() for i, j in itertools.pairwise(begins)])
        if best is None or cost < best[0] - 1e-12:
            best = (cost, [0, *cuts])
    return best


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), steps=st.integers(4, 11), segments=st.integers(1, 4), min_length=st.integers(1, 2))
def test_segmentation_is_the_best_of_all(seed, steps, segments, min_length):
    features = np.random.default_rng(seed).normal(size=(steps, 3)) + 100
    if steps < segments * min_length:
        with pytest.raises(DataError, match=f"has no {segments} steps"):
            segment(features, segments, min_length)
        return
    cost, begins = brute_force(features, segments, min_length)
    found = segment(features, segments, min_length)
    assert found == begins
    ends = [*found[1:], steps]
    assert np.mean([features[i:j].std(0).mean() for i, j in zip(found, ends, strict=True)]) == pytest.approx(cost)


def all_cuts(steps, segments, min_length):
    """All ways to cut so many rows."""
    for cuts in itertools.combinations(range(1, steps), segments - 1):
        if min(np.diff([0, *cuts, steps])) >= min_length:
            yield [0, *cuts]


def parts(trajectory, begins):
    return [trajectory[i:j] for i, j in itertools.pairwise([*begins, len(trajectory)])]


def squares(trajectories, cuts):
    """The squared distances of rows to the means of their segments, which are over all trajectories."""
    pooled = zip(*(parts(*each) for each in zip(trajectories, cuts, strict=True)), strict=True)
    return sum(np.square(np.concatenate(part) - np.concatenate(part).mean(0)).sum() for part in pooled)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    lengths=st.lists(st.integers(4, 9), min_size=1, max_size=3),
    segments=st.integers(1, 4),
    min_length=st.integers(1, 2),
)
def test_joint_segmentation_cannot_be_bettered_for_its_means(seed, lengths, segments, min_length):
    rng = np.random.default_rng(seed)
    trajectories = [rng.normal(size=(steps, 3)) + np.arange(steps)[:, None] / 4 for steps in lengths]
    if min(lengths) < segments * min_length:
        with pytest.raises(DataError, match=f"has no {segments} steps"):
            segment_jointly(trajectories, segments, min_length)
        return
    found = segment_jointly(trajectories, segments, min_length)
    pooled = zip(*(parts(*each) for each in zip(trajectories, found, strict=True)), strict=True)
    means = [np.concatenate(part).mean(0) for part in pooled]
    for trajectory, begins in zip(trajectories, found, strict=True):

        def cost(cuts, trajectory=trajectory):
            of_each = zip(parts(trajectory, cuts), means, strict=True)
            return sum(np.square(part - mean).sum() for part, mean in of_each)

        assert cost(begins) == pytest.approx(min(map(cost, all_cuts(len(trajectory), segments, min_length))))
    equal = [[steps * number // segments for number in range(segments)] for steps in lengths]
    assert squares(trajectories, found) <= squares(trajectories, equal) + 1e-9


def test_joint_segmentation_finds_the_steps_that_trajectories_have_in_common():
    """Three steps that take different times; what else happens in one trajectory decides where it is cut by itself."""
    rng = np.random.default_rng(0)
    lengths = [[2, 5, 3], [4, 1, 4], [3, 3, 1]]
    trajectories = []
    for each in lengths:
        place = np.repeat([0.0, 1.0, 3.0], each)
        trajectories.append(place[:, None] + 0.3 * rng.normal(size=(len(place), 4)))
    trajectories[0][4:, 3] += 2
    found = segment_jointly(trajectories, 3)
    assert found == [[0, *np.cumsum(each)[:2]] for each in lengths]
    together = itertools.product(*(list(all_cuts(sum(each), 3, 1)) for each in lengths))
    assert squares(trajectories, found) == pytest.approx(min(squares(trajectories, cuts) for cuts in together))
    assert segment(trajectories[0], 3) != found[0]


def demonstration(rng, lengths):
    """Three steps that features 0, 2 and 4 tell; 1 is noise and 3 never changes."""
    step = np.repeat([0, 1, 2], lengths)
    place = np.array([0.0, 1.0, 3.0])[step]
    state = rng.normal(size=(len(step), 3)).astype(np.float32)
    state[:, 0] = place + 0.05 * rng.normal(size=len(step))
    state[:, 2] = 10 - 2 * place
    observed = np.stack([np.full(len(step), 7.0), -place], axis=1).astype(np.float32)
    return {
        "action": np.zeros((len(step) - 1, 1), np.float32),
        "observation/state": state[:-1],
        "next_observation/state": state[1:],
        "observation/object": observed[:-1],
        "next_observation/object": observed[1:],
    }, step


def fitted(**options) -> tuple[PerceptualReward, list]:
    rng = np.random.default_rng(0)
    demonstrations = [demonstration(rng, lengths) for lengths in ([4, 6, 5], [7, 3, 6], [5, 5, 5])]
    module = PerceptualConfig(**{"steps": 3, "features": 3, "min_length": 3} | options).make("steps", SPEC, 0)
    module.fit([episode for episode, _ in demonstrations])
    return module, demonstrations


def observations(demonstrations):
    """All observations (n, 5), the step of each, and what features are divided by."""
    everything = np.concatenate(
        [
            np.concatenate([episode[f"{when}/state"][rows], episode[f"{when}/object"][rows]], axis=1)
            for episode, _ in demonstrations
            for when, rows in (("observation", slice(0, 1)), ("next_observation", slice(None)))
        ]
    ).astype(np.float64)
    label = np.concatenate([step for _, step in demonstrations])
    scale = everything.std(0)
    scale[3] = 1  # never changes
    return everything, label, scale


def test_noise_and_constants_are_not_what_tells_a_step():
    module, _ = fitted()
    np.testing.assert_array_equal(module.state()["chosen"], [[0, 2, 4], [0, 2, 4]])
    few = fitted(features=None)[0].state()["chosen"]
    assert few.shape == (2, 2) and set(few.ravel()) <= {0, 2, 4}, "the root of 5 is about 2"


def test_where_something_stands_is_not_what_tells_a_step():
    rng = np.random.default_rng(0)
    demonstrations = []
    # The longer the last step, the farther away it stands: its mean differs between steps.
    for place, lengths in ((0.0, [5, 5, 5]), (1.0, [5, 5, 60])):
        episode, _ = demonstration(rng, lengths)
        for when in ("observation", "next_observation"):
            steps = len(episode["action"])
            episode[f"{when}/object"][:, 0] = place + 0.001 * rng.normal(size=steps)
            episode[f"{when}/state"][:] = rng.normal(size=(steps, 3))
        demonstrations.append(episode)
    module = PerceptualConfig(steps=3, features=4, min_length=3).make("steps", SPEC, 0)
    module.fit(demonstrations)
    assert 3 not in module.state()["chosen"]


@pytest.mark.parametrize("segmentation", ["joint", "separate"])
@pytest.mark.parametrize("density", ["gaussian", "cauchy"])
def test_rewards_agree_with_a_computation_row_by_row(density, segmentation):
    module, demonstrations = fitted(density=density, segmentation=segmentation)
    everything, label, scale = observations(demonstrations)
    batch = demonstrations[0][0]
    expected = []
    for state, observed in zip(batch["next_observation/state"], batch["next_observation/object"], strict=True):
        total = 0.0
        for step, weight in ((1, 1 / 3), (2, 2 / 3)):
            for value, feature in ((state[0], 0), (state[2], 2), (observed[1], 4)):
                column = (everything[:, feature] - everything[:, feature].mean()) / scale[feature]
                inside = column[label == step]
                x = (value - everything[:, feature].mean()) / scale[feature]
                distance = (x - inside.mean()) ** 2 / (inside.var() + 0.01)
                total += weight * (-distance / 2 if density == "gaussian" else -np.log(1 + distance)) / 3
        expected.append(total)
    np.testing.assert_allclose(module(batch), expected, rtol=1e-5)
    assert module(batch).dtype == np.float32


@pytest.mark.parametrize("density", ["gaussian", "cauchy"])
def test_progress_is_the_expected_step_by_bayes(density):
    module, demonstrations = fitted(density=density, reward="progress")
    everything, label, scale = observations(demonstrations)
    # The second half is strange: as far from the demonstrations as nothing in them.
    batch = {
        key: np.concatenate([value, value + 0.5 * (key != "action")]) for key, value in demonstrations[0][0].items()
    }
    distribution = {"gaussian": scipy.stats.norm, "cauchy": scipy.stats.cauchy}[density]
    expected = []
    for state, observed in zip(batch["next_observation/state"], batch["next_observation/object"], strict=True):
        likelihoods, distances = [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]
        for value, feature in ((state[0], 0), (state[2], 2), (observed[1], 4)):
            column = (everything[:, feature] - everything[:, feature].mean()) / scale[feature]
            x = (value - everything[:, feature].mean()) / scale[feature]
            for step in range(3):
                inside = column[label == step]
                likelihoods[step] *= distribution.pdf(x, inside.mean(), np.sqrt(inside.var() + 0.01))
                distances[step] += (x - inside.mean()) ** 2 / (inside.var() + 0.01) / 3
        progress = (0.5 * likelihoods[1] + likelihoods[2]) / sum(likelihoods)
        expected.append((progress, min(distances)))
    # Of the demonstrations all are familiar, the others the less the farther they are.
    farthest = max(
        min(
            np.mean([(row[f] - c[label == step].mean()) ** 2 / (c[label == step].var() + 0.01) for f, c in columns])
            for step in range(3)
        )
        for columns in [[(f, (everything[:, f] - everything[:, f].mean()) / scale[f]) for f in (0, 2, 4)]]
        for row in (everything - everything.mean(0)) / scale
    )
    familiar = [min(1, farthest / distance) ** 2 for _, distance in expected]
    half = len(expected) // 2
    assert set(familiar[:half]) == {1} and max(familiar[half:]) < 0.5
    expected = [progress * share - 1 for (progress, _), share in zip(expected, familiar, strict=True)]
    np.testing.assert_allclose(module(batch), expected, rtol=1e-4, atol=1e-6)
    assert module(batch).dtype == np.float32


def test_progress_does_not_fall_where_what_was_achieved_is_left_again():
    """A lever is turned and let go: the sum over steps falls when it is turned, the expected step does not."""
    lever = np.repeat([0.0, 1.0, 0.0], 6)
    door = np.repeat([0.0, 0.0, 1.0], 6)
    noise = np.random.default_rng(3).normal(0, 0.05, (18, 3))
    state, observed = np.zeros((18, 3)), np.stack((lever, door), 1) + noise[:, :2]
    episode = {
        "action": np.zeros((17, 1), np.float32),
        "observation/state": state[:-1],
        "next_observation/state": state[1:],
        "observation/object": observed[:-1],
        "next_observation/object": observed[1:],
    }
    means = {}
    for reward in ("density", "progress"):
        options = {"steps": 3, "keys": ("object",), "features": 2, "density": "gaussian"}
        module = PerceptualConfig(reward=reward, **options).make("steps", SPEC, 0)
        module.fit([episode])
        rewards = module(episode)
        means[reward] = [rewards[:5].mean(), rewards[5:11].mean(), rewards[11:].mean()]
    np.testing.assert_allclose(means["progress"], [-1, -0.5, 0], atol=1e-3)
    assert means["density"][1] < means["density"][0] < means["density"][2]


@pytest.mark.parametrize("density", ["gaussian", "cauchy"])
def test_later_steps_are_worth_more_and_nothing_is_above_zero(density):
    module, _ = fitted(density=density, growth=3.0)
    episode, step = demonstration(np.random.default_rng(9), [5, 5, 5])
    rewards = module(episode)
    means = [rewards[step[1:] == each].mean() for each in (0, 1, 2)]
    assert means[0] < means[1] < means[2] <= 0


def test_discrimination():
    inside, outside = np.array([[0.0, 2.0], [2.0, 2.0]]), np.array([[5.0, 2.0], [5.0, 4.0]])
    # Means 1, 2 and 5, 3; deviations 1, 0 and 0, 1.
    np.testing.assert_allclose(discrimination(inside, outside, 5.0), [5 * 4 - 1, 5 * 1 - 1])


def test_features_tell_a_step_from_earlier_ones_or_from_all_others():
    """What is achieved in the second step and stays (0), or what is there in that step alone, but less clearly (1)."""
    step = np.repeat([0, 1, 2], 5)
    state = np.zeros((15, 3), np.float32)
    state[:, 0] = step > 0
    state[:, 1] = (step == 1) * np.tile([1, 1, 0, 1, 1], 3)
    state[:, 2] = step  # tells the last step, by either
    episode = {
        "action": np.zeros((14, 1), np.float32),
        **{f"{when}/object": np.zeros((14, 2), np.float32) for when in ("observation", "next_observation")},
        "observation/state": state[:-1],
        "next_observation/state": state[1:],
    }
    features = (state - state.mean(0)) / state.std(0)
    for negatives, expected in (("earlier", 0), ("all", 1)):
        config = PerceptualConfig(keys=("state",), steps=3, features=1, negatives=negatives)
        module = config.make("steps", SPEC, 0)
        module.fit([episode, episode])
        others = step < 1 if negatives == "earlier" else step != 1
        inside, outside = features[step == 1], features[others]
        score = 5 * abs(inside.mean(0) - outside.mean(0)) - inside.std(0) - outside.std(0)
        assert score.argmax() == expected
        np.testing.assert_array_equal(module.state()["chosen"], [[expected], [2]])


def test_one_outlying_feature_does_not_drown_the_others():
    """A heavy tail: however far feature 0 is off, what feature 2 says counts as much as ever."""
    module, demonstrations = fitted(density="cauchy")
    near, far = ({key: value.copy() for key, value in demonstrations[0][0].items()} for _ in range(2))
    gains = []
    for batch, off in ((near, 0.0), (far, 1e4)):
        batch["next_observation/state"][:, 0] = off
        batch["next_observation/state"][:, 2] = 10.0
        before = module(batch)
        batch["next_observation/state"][:, 2] = 4.0  # of the last step
        gains.append(module(batch) - before)
    np.testing.assert_allclose(gains[0], gains[1], atol=1e-5)
    assert (gains[0] > 0.5).all()


@pytest.mark.parametrize("reward", ["density", "progress"])
def test_state_goes_on_without_demonstrations(reward):
    module, demonstrations = fitted(reward=reward)
    other = PerceptualConfig(steps=3, features=3, reward=reward).make("steps", SPEC, 1)
    other.load(module.state())
    np.testing.assert_array_equal(module(demonstrations[0][0]), other(demonstrations[0][0]))


def test_a_demonstration_too_short_for_all_steps_is_left_out():
    module, demonstrations = fitted()
    other = PerceptualConfig(steps=3, features=3, min_length=3).make("steps", SPEC, 0)
    short, _ = demonstration(np.random.default_rng(5), [1, 1, 1])
    other.fit([short, *(episode for episode, _ in demonstrations)])
    for key, value in module.state().items():
        np.testing.assert_array_equal(value, other.state()[key])


def test_what_is_wrong_is_said():
    module = PerceptualConfig(steps=3, min_length=2).make("steps", SPEC, 0)
    with pytest.raises(DataError, match="needs demonstrations, and there are none"):
        module.fit([])
    with pytest.raises(DataError, match="'steps' needs demonstrations of 6 observations, the longest has 4"):
        module.fit([demonstration(np.random.default_rng(0), [2, 1, 1])[0]])
    with pytest.raises(ConfigError, match=r"reward.modules.steps.keys: this task has no observation 'stat'.*'state'"):
        PerceptualConfig(keys=("stat",)).make("steps", SPEC, 0)
    with pytest.raises(ConfigError, match="density must be one of cauchy, gaussian"):
        PerceptualConfig(density="normal")
    with pytest.raises(ConfigError, match="segmentation must be one of joint, separate"):
        PerceptualConfig(segmentation="own")
    with pytest.raises(ConfigError, match="min_length must be 2 or more with segmentation=separate, got 1"):
        PerceptualConfig(segmentation="separate")
    with pytest.raises(ConfigError, match="reward must be one of density, progress"):
        PerceptualConfig(reward="sum")
    with pytest.raises(ConfigError, match="negatives must be one of earlier, all"):
        PerceptualConfig(negatives="others")
