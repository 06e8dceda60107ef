"""Time-contrastive encoders: loss and measure against brute force, training, files, and who can load them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from robo_rl.agents.parts.resnet import apply_resnet, load_resnet
from robo_rl.core import ConfigError, DataError
from robo_rl.rewards.vision.config import ContrastConfig
from robo_rl.rewards.vision.contrast import TimeContrastiveTrainer, contrastive_loss, misalignment
from robo_rl.rewards.vision.encoder import load_encoder
from robo_rl.rewards.vision.encoder_config import EncoderConfig
from robo_rl.rewards.vision.files import BUNDLED, find_files
from robo_rl.rewards.vision.libraries import timm

CONFIG = ContrastConfig(
    image_size=32, channels=(16, 16, 32, 32), steps=150, batch_size=32, episodes=4, learning_rate=5e-3
)


def episodes(n=6, length=24, cameras=2, seed=0, size=32):
    """Episodes in which a square turns from red to blue; the second camera sees it from the other side, in the dark."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        row, column = rng.integers(4, size - 16, 2)
        one = np.full((length, size, size, 3), 60, np.uint8)
        for frame, share in zip(one, np.linspace(0, 1, length), strict=True):
            frame[row : row + 12, column : column + 12] = (250 * (1 - share), 60, 250 * share)
        found.append(np.stack((one, one[:, :, ::-1] // 2))[:cameras])
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contrast") / "made"
    trainer = TimeContrastiveTrainer(CONFIG, 0)
    losses = []
    trainer.train(episodes(), lambda _, loss: losses.append(loss) is None)
    trainer.save(folder, {"description": "for tests"})
    return trainer, folder, losses


def test_the_loss_is_that_of_every_moment_found_among_the_others():
    rng = np.random.default_rng(0)
    first, second = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in rng.normal(size=(2, 7, 5)))
    numbers, moments = np.array([0, 0, 0, 1, 1, 2, 0]), np.array([4, 5, 9, 4, 6, 4, 4])
    expected = []
    for one, other in ((first, second), (second, first)):
        for row in range(7):
            near = [numbers[row] == numbers[k] and abs(moments[row] - moments[k]) < 2 for k in range(7)]
            weights = {k: np.exp(one[row] @ other[k] / 0.2) for k in range(7) if k == row or not near[k]}
            expected.append(-np.log(weights[row] / sum(weights.values())))
    tensors = [torch.from_numpy(each) for each in (first, second, numbers, moments)]
    np.testing.assert_allclose(
        float(contrastive_loss(*tensors, margin=2, temperature=0.2)), np.mean(expected), rtol=1e-12
    )


def test_misalignment_is_the_distance_in_time_of_what_is_most_alike():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(3, 9, 4)).astype(np.float32)
    apart = [
        abs(max(range(9), key=lambda k: features[b, k] @ features[a, t] / np.linalg.norm(features[b, k])) - t)
        for a in range(3) for b in range(3) if a != b for t in range(9)
    ]  # fmt: skip
    chance = np.mean([abs(t - k) for t in range(9) for k in range(9)])
    assert misalignment(features) == pytest.approx(np.mean(apart) / chance)
    assert misalignment(np.stack((features[0], 3 * features[0]))) == 0
    angles = np.linspace(0, 1, 9)
    along = np.stack((np.cos(angles), np.sin(angles)), -1).astype(np.float32)
    assert misalignment(along[None]) == pytest.approx(1 / chance), "with one camera the next moment is the nearest"
    many = rng.normal(size=(2, 400, 3)).astype(np.float32)
    assert misalignment(many) == pytest.approx(1, abs=0.1)


def test_it_learns_to_tell_moments_apart(made):
    trainer, folder, losses = made
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])
    fresh = episodes(3, seed=7)
    assert np.mean([trainer.misaligned(folder, episode) for episode in fresh]) < 0.4
    untrained = TimeContrastiveTrainer(CONFIG, 0)
    untrained.save(folder.parent / "untrained", {})
    assert np.mean([trainer.misaligned(folder.parent / "untrained", episode) for episode in fresh]) > 0.6


def test_the_same_seed_gives_the_same_file(tmp_path):
    for name, seed in (("one", 0), ("again", 0), ("other", 1)):
        trainer = TimeContrastiveTrainer(replace(CONFIG, steps=4), seed)
        trainer.train(episodes())
        trainer.save(tmp_path / name, {})
    one, again, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "again", "other"))
    assert one == again != other


def test_with_one_camera_the_other_view_is_a_little_apart_in_time():
    """Each frame says when it is, so what is drawn can be read off."""
    trainer = TimeContrastiveTrainer(CONFIG, 0)
    one = [np.broadcast_to(np.arange(9, dtype=np.uint8)[None, :, None, None, None], (1, 9, 32, 32, 3))] * 2
    views, numbers, moments = trainer._drawn(one, np.random.default_rng(0))
    first, second = views[:32, 0, 0, 0].astype(int), views[32:, 0, 0, 0].astype(int)
    np.testing.assert_array_equal(first, moments)
    assert set(np.abs(second - first)) == {0, 1} and set(numbers.tolist()) == {0, 1}
    two = [np.concatenate((one[0], 100 + one[0]))] * 2
    views, _, moments = trainer._drawn(two, np.random.default_rng(0))
    eyes, when = np.divmod(views[:, 0, 0, 0].astype(int), 100)
    np.testing.assert_array_equal(when, np.concatenate((moments, moments)))
    assert (eyes[:32] == 0).all() and (eyes[32:] == 1).all(), "first views are compared with second ones alone"


def test_a_saved_encoder_is_one_of_timm_and_of_the_agent_that_learns_from_images(made):
    folder = made[1]
    images = np.concatenate(episodes(1, seed=3)[0][:, ::6])
    encoder = load_encoder(EncoderConfig(model=f"local-dir:{folder}"))
    found = encoder.encode(images)
    assert found.shape == (8, 32)
    reference = timm().create_model(f"local-dir:{folder}", pretrained=True).eval()
    known = timm().data.resolve_model_data_config(reference)
    mean, deviation = (torch.tensor(known[key]).view(3, 1, 1) for key in ("mean", "std"))
    pictures = (torch.from_numpy(images).permute(0, 3, 1, 2) / 255 - mean) / deviation
    with torch.inference_mode():
        np.testing.assert_allclose(found, reference(pictures).numpy(), atol=1e-4)
    parameters, _ = load_resnet(folder / "model.safetensors", 4)
    maps = apply_resnet(parameters, "", torch.from_numpy(images), torch.float32)
    np.testing.assert_allclose(found, maps.mean(-1).numpy(), atol=1e-3)


def test_frames_are_brought_to_the_size_of_the_encoder():
    trainer = TimeContrastiveTrainer(CONFIG, 0)
    frames = episodes(1)[0][0]
    np.testing.assert_array_equal(trainer.prepared(frames), frames)
    large = np.repeat(np.repeat(frames, 2, 1), 4, 2)
    difference = trainer.prepared(large).astype(int) - frames
    assert trainer.prepared(large).shape == frames.shape and np.abs(difference).mean() < 4


def test_training_refuses_what_cannot_be_learned_and_ends_where_the_report_says_so():
    trainer = TimeContrastiveTrainer(CONFIG, 0)
    with pytest.raises(DataError, match=r"no episode has more than trainer.margin=3 moments"):
        trainer.train(episodes(length=3))
    steps: list[int] = []
    trainer.train(episodes(2), lambda step, _: bool(steps.append(step)))
    assert steps == [0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": 60}, r"trainer.batch_size must be a multiple of episodes \(8\)"),
        ({"window": 3}, r"trainer.window must be 0 or more, below margin \(3\)"),
        ({"channels": (8, 8)}, "trainer.channels must be four numbers"),
        ({"temperature": 0.0}, "trainer.temperature must be above 0"),
        ({"jitter": 1.0}, "trainer.jitter must be in"),
    ],
)
def test_bad_values_are_named(values, message):
    with pytest.raises(ConfigError, match=message):
        ContrastConfig(**values)


def test_damaged_files_are_refused(made, tmp_path):
    copy = Path(shutil.copytree(made[1], tmp_path / "copy"))

    def load():
        return load_encoder(EncoderConfig(model=f"local-dir:{copy}"))

    weights = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(weights[:-1] + b"\1")
    with pytest.raises(DataError, match=r"model.safetensors is not the file that card.json describes"):
        load()
    (copy / "card.json").unlink()
    (copy / "model.safetensors").write_bytes(weights[:100])
    with pytest.raises(DataError, match="cannot be loaded from"):
        load()
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(ConfigError, match=r"has no model.safetensors; pickles can run code and are not read"):
        load()
    for content, message in (
        ("[]", "is not a configuration of timm"),
        ('{"architecture": "resnet81"}', "names 'resnet81'"),
    ):
        (copy / "config.json").write_text(content)
        with pytest.raises(DataError, match=message):
            load()


def test_the_bundled_encoder_is_small_and_tells_moments_of_play_apart():
    files = find_files("play", None, False)
    assert files.weights.parent == BUNDLED["play"] and files.library == "timm"
    assert sum(file.stat().st_size for file in BUNDLED["play"].iterdir()) < 3_000_000
    card = json.loads((BUNDLED["play"] / "card.json").read_text())
    assert all(each["misalignment"] < 0.7 for each in card["held_out"]), card["held_out"]
    assert load_encoder(EncoderConfig(model="play")).size == 256
