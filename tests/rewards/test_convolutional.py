"""Classifiers that train a convolutional network on images: what they learn, how examples vary, files and resuming."""

import numpy as np
import pytest
import torch

from robo_rl.core import ArraySpec, CheckpointError, ConfigError
from robo_rl.rewards import MODULES
from robo_rl.rewards.modules.classifier import ClassifierConfig, ViceConfig
from robo_rl.rewards.modules.preferences import PreferencesConfig
from robo_rl.rewards.modules.stages import StagesConfig
from robo_rl.rewards.parts.networks import TrainedNetwork
from robo_rl.rewards.parts.vector_input import VectorInput
from robo_rl.rewards.vision.encoder_config import ImagesConfig
from robo_rl.rewards.vision.images import each_moved, moved

from ..rigs.specs import joint_spec

CONVOLUTIONAL = ImagesConfig(model="convolutional")
SHAPE = (24, 24, 3)
KEYS = ("images/front", "state")
FAST = {"keys": KEYS, "images": CONVOLUTIONAL, "fit_steps": 120, "batch_size": 32, "hidden": (32,), "shift": 2}


def spec(shape=SHAPE):
    return joint_spec({"state": ArraySpec((2,), names=("x", "height")), "images/front": ArraySpec(shape, "uint8")})


def pictures(shapes, rng):
    """Noise with, anywhere, a bright square (0), a ring (1) or a cross (2): all of about the same mean colours."""
    found = rng.integers(0, 80, (len(shapes), *SHAPE))
    square, ring, cross = (np.zeros((9, 9), bool) for _ in range(3))
    square[2:8, 2:8] = True
    ring[0], ring[-1], ring[:, 0], ring[:, -1] = True, True, True, True
    cross[3:5], cross[:, 3:5] = True, True
    for picture, shape in zip(found, shapes, strict=True):
        row, column = rng.integers(0, 15, 2)
        picture[row : row + 9, column : column + 9][(square, ring, cross)[shape]] += 150
    return found.astype(np.uint8)


def episodes(count, lengths=(8, 6), seed=0):
    """Episodes whose pictures show what ``pictures`` numbers, each for so many steps, and whose state says nothing."""
    rng = np.random.default_rng(seed)
    shapes = np.repeat(np.arange(len(lengths)), lengths)
    found = []
    for _ in range(count):
        front, state = pictures(shapes, rng), rng.normal(size=(len(shapes), 2)).astype(np.float32)
        rows = {"action": np.zeros((len(shapes) - 1, 1), np.float32)}
        rows |= {"observation/images/front": front[:-1], "next_observation/images/front": front[1:]}
        found.append(rows | {"observation/state": state[:-1], "next_observation/state": state[1:]})
    return found


def errors(module, of_success):
    """The share of wrong judgements of fresh episodes that show success in their last steps, so many."""
    fresh = episodes(6, seed=9)
    truth = np.arange(13) >= 13 - of_success
    return np.mean([(module(each) > 0.5) != truth for each in fresh])


def test_shapes_that_stand_anywhere_are_told_apart():
    module = ClassifierConfig(**FAST, goal_states=6, margin=0, false_positives=0.1).make("goal", spec(), 0)
    module.fit(episodes(24))
    assert errors(module, 6) < 0.15


def test_stages_are_learned_from_labels_and_are_in_the_file_with_the_network(tmp_path):
    lengths = (6, 5, 5)
    labels = [np.repeat([0, 1, 2], lengths)[1:].astype(np.int8) for _ in range(25)]
    guarded = FAST | {"stages": 2, "false_positives": 0.1, "guard": "height > -10"}
    module = StagesConfig(**guarded).make("stages", spec(), 0)
    module.learn(episodes(25, lengths), labels)
    fresh = episodes(5, lengths, seed=9)
    np.testing.assert_allclose(np.mean([np.abs(module(each) - labels[0] / 2) for each in fresh]), 0, atol=0.15)
    module.save(tmp_path / "shapes.safetensors", {})
    loaded = StagesConfig(file=str(tmp_path / "shapes.safetensors")).make("stages", spec(), 5)
    assert loaded.config.images.model == "convolutional"
    for each in fresh:
        np.testing.assert_array_equal(loaded(each), module(each))
        unlike = each | {"next_observation/state": np.full_like(each["next_observation/state"], -20)}
        assert loaded(unlike).max() <= 0.5 < loaded(each).max()


class Practice:
    """Experience that is always the same rows."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return 1000

    def sample_rows(self, n, rng):
        chosen = rng.integers(0, len(self.rows["action"]), n)
        return {key: value[chosen] for key, value in self.rows.items()}


def vice():
    config = ViceConfig(
        **FAST, goal_states=6, margin=0, interval=1, updates=5, soft=True, learning_rate=1e-3, penalty=0.1
    )
    return config.make("goal", spec(), 0)


def test_vice_unlearns_pictures_that_the_policy_shows_and_goes_on_bit_for_bit():
    module = vice()
    module.fit(episodes(24))
    (fresh,) = episodes(1, seed=9)
    exploited = {key: value[-5:] for key, value in fresh.items()}
    before = module(exploited).mean()
    for _ in range(6):
        module.update(Practice(exploited))
    assert before > 0.6
    assert module(exploited).mean() < before - 0.15
    other = vice()
    other.load({key: value.copy() for key, value in module.state().items()})
    for each in (module, other):
        each.update(Practice(exploited))
    for key, value in module.state().items():
        np.testing.assert_array_equal(value, other.state()[key], err_msg=key)


class Shapes:
    """Experience in which rings are worth 1 and squares 0."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        shapes = rng.integers(0, 2, 300)
        front, state = pictures(shapes, rng), rng.normal(size=(300, 2)).astype(np.float32)
        rows = {"action": np.zeros((300, 1), np.float32), "term/success": shapes.astype(np.float32)}
        self.rows = rows | {"next_observation/images/front": front, "next_observation/state": state}

    def sample_segments(self, n, length, rng, *, newest=None):
        chosen = rng.integers(0, 300, (n, length))
        return {key: value[chosen] for key, value in self.rows.items()}


def liking():
    config = PreferencesConfig(
        keys=KEYS, images=CONVOLUTIONAL, length=1, term="success", queries=250, interval=1, members=2, hidden=(32,)
    )
    return config.make("liked", spec(), 0)


def test_preferences_are_learned_from_pictures_alone():
    """RL-VLM-F's networks, of single pictures: with an oracle that sees what the state does not tell."""
    module = liking()
    metrics = module.update(Shapes(0))
    assert metrics["answers"] > 100
    fresh = Shapes(1).rows
    liked, truth = module(fresh), fresh["term/success"] == 1
    better = liked[truth][:, None] > liked[~truth]
    assert better.mean() > 0.9
    other = liking()
    other.load({key: value.copy() for key, value in module.state().items()})
    np.testing.assert_array_equal(other(fresh), liked)


def test_a_minibatch_moves_each_picture_by_its_own_and_leaves_the_rest_but_for_noise():
    look = VectorInput(KEYS, CONVOLUTIONAL, spec(), "goal", trains=True)
    assert look.keys == ["state", "images/front"]
    assert look.moves(8, 4, 0) == [(0, 0)]
    (rows,) = episodes(1)
    vectors = look(rows)
    found = look.varied(vectors, np.full(look.size, 0.1, np.float32), 2, np.random.default_rng(0))
    noise = found[:, :2] - vectors[:, :2]
    assert 0.05 < noise.std() < 0.2
    drawn = set()
    for before, after in zip(vectors[:, 2:].reshape(-1, *SHAPE), found[:, 2:].reshape(-1, *SHAPE), strict=True):
        same = [(y, x) for y in range(-2, 3) for x in range(-2, 3) if (moved(before, y, x) == after).all()]
        assert len(same) == 1
        drawn |= set(same)
    assert len(drawn) > 4
    still = each_moved(vectors[:, 2:].reshape(-1, *SHAPE), np.zeros((len(vectors), 2), np.int64))
    np.testing.assert_array_equal(still.reshape(len(vectors), -1), vectors[:, 2:])


def test_the_network_sees_pictures_as_convolutions_do():
    """Against the operations themselves, in float64, with a second picture of another shape beside the first."""
    shapes = ((10, 7, 3), (8, 8, 1))
    network = TrainedNetwork(2 + 210 + 64, (5,), 1, learning_rate=1e-3, seed=0, name="goal", pictures=shapes)
    state = {key: torch.from_numpy(value).double() for key, value in network.state().items()}
    inputs = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 276)).astype(np.float32))
    features = [inputs[:, :2].double()]
    for number, (shape, part) in enumerate(zip(shapes, inputs[:, 2:].double().split([210, 64], 1), strict=True)):
        height, width, channels = shape
        found = torch.stack([part[:, c::channels].reshape(-1, height, width) for c in range(channels)], 1)
        for layer in (0, 2, 4):
            weight, bias = (state[f"encoder._towers.{number}.{layer}.{each}"] for each in ("weight", "bias"))
            found = torch.nn.functional.conv2d(found, weight, bias, stride=2, padding=1).relu()
        prefix = f"encoder._towers.{number}"
        found = found.flatten(1) @ state[f"{prefix}.7.weight"].T + state[f"{prefix}.7.bias"]
        features.append(
            (found - found.mean(1, keepdim=True)) / (found.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        )
    np.testing.assert_allclose(network.embed(inputs).detach(), torch.cat(features, 1), rtol=1e-3, atol=1e-4)
    expected = network(inputs).detach()
    np.testing.assert_allclose(network.evaluate(inputs), expected, rtol=1e-5, atol=1e-6)
    many = inputs.repeat(200, 1)
    np.testing.assert_allclose(network.evaluate(many), expected.repeat(200, 1), rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_said():
    trained = {"classifier", "vice", "stages", "preferences", "annotations"}
    unlike = {"clip", "code", "ensemble", "interventions", "keypoints", "specification", "toggles"}
    for kind in MODULES.keys() - trained - unlike:
        config = MODULES[kind](keys=("images/front",), images=CONVOLUTIONAL)
        with pytest.raises(ConfigError, match=r"goal\.images\.model: classifier, .* and annotations alone train"):
            config.make("goal", spec(), 0)
    with pytest.raises(ConfigError, match=r"convolutional is for images and .*goal.keys names none"):
        ClassifierConfig(images=CONVOLUTIONAL).make("goal", spec(), 0)
    module = ClassifierConfig(**FAST).make("goal", spec(), 0)
    other = ClassifierConfig(**FAST | {"images": ImagesConfig()}).make("goal", spec(), 0)
    with pytest.raises(CheckpointError, match="reward module 'goal': expected"):
        other.load(module.state())
