"""The CLIP reward: projection against matrices, several texts and cameras, the frame cache, what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robo_rl.core import ArraySpec, CheckpointError, ConfigError
from robo_rl.rewards.modules.clip import PROMPTS, ClipConfig, Prompts, projected_reward
from robo_rl.rewards.vision.cache import FrameCache
from robo_rl.rewards.vision.encoder import load_encoder
from robo_rl.rewards.vision.encoder_config import EncoderConfig
from robo_rl.sim import TASKS, make_backend

from ..rigs.small_clip import frames, make_small_clip
from ..rigs.specs import joint_spec


def spec_with(*cameras, task="test", channels=3):
    images = {f"images/{camera}": ArraySpec((32, 32, channels), "uint8") for camera in cameras}
    return joint_spec({"state": ArraySpec((2,)), **images}, task=task)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_small_clip(tmp_path_factory.mktemp("clip"))


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@settings(max_examples=50)
@given(seed=st.integers(0, 10_000), size=st.integers(2, 40), alpha=st.floats(0, 1))
def test_projection_is_that_of_the_matrix(seed, size, alpha):
    rng = np.random.default_rng(seed)
    images, (goal, baseline) = unit(rng.normal(size=(5, size))), rng.normal(size=(2, size))
    line = goal - baseline
    onto = np.outer(line, line) / (line @ line)
    np.testing.assert_allclose(onto @ onto, onto, atol=1e-12)  # a projector
    matrix = alpha * onto + (1 - alpha) * np.eye(size)
    expected = [1 - 0.5 * np.linalg.norm((image - goal) @ matrix) ** 2 for image in images]
    np.testing.assert_allclose(projected_reward(images, goal, baseline, alpha), expected, rtol=1e-10, atol=1e-10)


def test_without_projection_one_text_gives_the_cosine():
    rng = np.random.default_rng(0)
    images, goal = unit(rng.normal(size=(7, 16))), unit(rng.normal(size=16))
    np.testing.assert_allclose(projected_reward(images, goal, goal, 0.0), images @ goal, atol=1e-12)


def test_full_projection_sees_the_direction_of_the_line_alone():
    rng = np.random.default_rng(1)
    images, goal, baseline = unit(rng.normal(size=(7, 16))), rng.normal(size=16), rng.normal(size=16)
    plain = projected_reward(images, goal, baseline, 1.0)
    # Another baseline on the line through both, on either side of the goal.
    for share in (0.1, 3.0, -2.0):
        np.testing.assert_allclose(projected_reward(images, goal, goal + share * (baseline - goal), 1.0), plain)
    # What is across the line does not count.
    line = unit(goal - baseline)
    across = rng.normal(size=(7, 16))
    across -= np.outer(across @ line, line)
    np.testing.assert_allclose(projected_reward(images + across, goal, baseline, 1.0), plain)
    assert not np.allclose(projected_reward(images + across, goal, baseline, 0.9), plain)


def test_several_texts_and_cameras_are_averaged(model):
    goals, baselines = ("the red cube is lifted", "a robot"), ("the door is open", "a robot arm", "a table")
    config = ClipConfig(model=model, goals=goals, baselines=baselines, alpha=0.3)
    module = config.make("clip", spec_with("front", "side"), 0)
    batch = {"next_observation/images/front": frames(5, seed=1), "next_observation/images/side": frames(5, seed=2)}
    encoder = load_encoder(EncoderConfig(model=model))
    goal, baseline = (np.mean([encoder.texts([text])[0] for text in texts], axis=0, dtype=np.float64)
                      for texts in (goals, baselines))  # fmt: skip
    each = [projected_reward(encoder.encode(images), goal, baseline, 0.3) for images in batch.values()]
    scores = module(batch)
    assert scores.dtype == np.float32 and scores.max() <= 1
    np.testing.assert_allclose(scores, np.mean(each, axis=0), atol=1e-6)
    side = ClipConfig(model=model, goals=goals, baselines=baselines, alpha=0.3, cameras=("side",))
    np.testing.assert_allclose(side.make("clip", spec_with("front", "side"), 0)(batch), each[1], atol=1e-6)


def test_of_a_stack_the_newest_frame_is_judged(model):
    config = ClipConfig(model=model, goals=("a robot",), alpha=0.0)
    old, new = frames(4, seed=1), frames(4, seed=2)
    stacked = {"next_observation/images/front": np.concatenate([old, new], axis=-1)}
    found = config.make("clip", spec_with("front", channels=6), 0)(stacked)
    alone = config.make("clip", spec_with("front"), 0)({"next_observation/images/front": new})
    np.testing.assert_array_equal(found, alone)


def test_modules_share_a_model_and_its_cache(model):
    spec = spec_with("front")
    one = ClipConfig(model=model, goals=("a robot",), alpha=0.0).make("one", spec, 0)
    other = ClipConfig(model=model, goals=("the door is open",), alpha=0.0).make("other", spec, 0)
    encoder = load_encoder(EncoderConfig(model=model))
    before = encoder.images.encoded
    batch = {"next_observation/images/front": frames(6, seed=77)}
    first = one(batch)
    assert not np.array_equal(first, other(batch))
    np.testing.assert_array_equal(one(batch), first)
    assert encoder.images.encoded == before + 6


def test_cached_frames_are_told_by_content():
    calls = []

    def encode(images):
        calls.append(images)
        return images.reshape(len(images), -1)[:, :4].astype(np.float32)

    cache = FrameCache(encode, 4, capacity=100)
    images = frames(6, size=8)
    twice = images[[0, 1, 0, 2, 1]]
    np.testing.assert_array_equal(cache(twice), encode(twice))
    np.testing.assert_array_equal(calls[0], images[[0, 1, 2]])  # each content once
    del calls[:]
    # The same content elsewhere in memory, and not contiguous.
    np.testing.assert_array_equal(cache(np.repeat(images, 2, axis=3)[..., ::2][:3]), images[:3].reshape(3, -1)[:, :4])
    assert not calls
    changed = images[:1].copy()
    changed[0, -1, -1, -1] ^= 1
    cache(changed)
    assert len(calls) == 1
    cache(images[:1].reshape(1, 4, 16, 3))  # the same bytes, another shape
    assert len(calls) == 2 and cache.encoded == 5
    # Some known, some not, in any order.
    mixed = images[[5, 0, 4, 5, 2]]
    np.testing.assert_array_equal(cache(mixed), encode(mixed))
    np.testing.assert_array_equal(calls[2], images[[5, 4]])


@pytest.mark.parametrize("capacity", [0, 1, 3])
def test_a_full_cache_forgets_the_oldest(capacity):
    cache = FrameCache(lambda images: images[:, 0, 0].astype(np.float32), 3, capacity)
    images = frames(5, size=4)
    np.testing.assert_array_equal(cache(images), images[:, 0, 0])
    assert len(cache) == capacity
    np.testing.assert_array_equal(cache(images[5 - capacity :]), images[5 - capacity :, 0, 0])
    assert cache.encoded == 5
    np.testing.assert_array_equal(cache(images), images[:, 0, 0])  # some of them known
    assert cache.encoded == 10 - capacity and len(cache) == capacity


def test_an_embedding_does_not_depend_on_its_company(model):
    encoder = load_encoder(EncoderConfig(model=model, batch_size=8, cache_frames=0))
    images = frames(21)
    together = encoder.encode(images)
    order = np.random.default_rng(0).permutation(21)
    np.testing.assert_array_equal(encoder.encode(images[order]), together[order])
    np.testing.assert_array_equal(np.concatenate([encoder.encode(images[i : i + 1]) for i in range(21)]), together)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)


def test_a_checkpoint_of_another_model_or_text_is_refused(model, tmp_path):
    spec = spec_with("front")
    config = ClipConfig(model=model, goals=("a robot",), alpha=0.0)
    state = config.make("clip", spec, 0).state()
    config.make("clip", spec, 1).load(state)
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in ("open_clip_config.json", "open_clip_model.safetensors"):
        (copy / file).write_bytes((load_folder(model) / file).read_bytes())
    ClipConfig(model=f"local-dir:{copy}", goals=("a robot",), alpha=0.0).make("clip", spec, 0).load(state)
    others = [
        ClipConfig(model=model, goals=("a robot arm",), alpha=0.0),
        ClipConfig(model=model, goals=("a robot",), baselines=("a table",), alpha=0.1),
        ClipConfig(model=make_small_clip(tmp_path / "other", seed=1), goals=("a robot",), alpha=0.0),
    ]
    for other in others:
        with pytest.raises(CheckpointError, match="scored by another model"):
            other.make("clip", spec, 0).load(state)


def load_folder(model):
    from pathlib import Path

    return Path(model.removeprefix("local-dir:"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"alpha": 1.5}, "alpha must be in"),
        ({"baselines": ("a table",)}, "goals must be one or more texts if baselines"),
        ({"goals": ("a robot",)}, "baselines must be one or more texts if alpha is not 0"),
        ({"goals": (" ",)}, "goals must be texts"),
        ({"batch_size": 0}, "batch_size must be 1 or more"),
        ({"cache_frames": -1}, "cache_frames must be 0 or more"),
    ],
)
def test_values_out_of_range_are_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        ClipConfig(**values)


def test_what_does_not_fit_the_task_is_refused(model):
    with pytest.raises(ConfigError, match=r"the task has no cameras: task.observation.cameras=\[front,view\]"):
        ClipConfig(model=model).make("clip", spec_with(task="reach"), 0)
    with pytest.raises(ConfigError, match="no camera 'fornt': did you mean 'front'"):
        ClipConfig(model=model, cameras=("fornt",)).make("clip", spec_with("front", task="reach"), 0)
    with pytest.raises(ConfigError, match="describe what a picture of the goal of 'test' shows"):
        ClipConfig(model=model).make("clip", spec_with("front"), 0)
    with pytest.raises(ConfigError, match="baselines must have another embedding"):
        ClipConfig(model=model, goals=("a robot",), baselines=("a robot",)).make("clip", spec_with("front"), 0)
    with pytest.raises(ConfigError, match="device must be one that PyTorch has here, got 'vulcan'"):
        ClipConfig(model=model, device="vulcan").make("clip", spec_with("front", task="reach"), 0)


@pytest.mark.parametrize("task", PROMPTS)
def test_the_prompts_of_a_task_are_captions_that_it_has(task):
    prompts: Prompts = PROMPTS[task]
    assert task in TASKS
    assert {*prompts.goals, *prompts.baselines} <= set(make_backend(task).captions())
