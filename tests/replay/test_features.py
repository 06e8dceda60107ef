"""Features in the place of images: computed once, of the right images, forgotten with them, part of the state."""

import numpy as np
import pytest

from robo_rl.core import ArraySpec, EnvSpec, RewardWeights, Source, Transition, generator
from robo_rl.replay import MixedSampler, ReplayRing

SPEC = EnvSpec(
    task="toy",
    observation={"state": ArraySpec((1,)), "images/front": ArraySpec((2, 2, 3), "uint8")},
    action=ArraySpec((1,), low=-1, high=1),
    action_space="joint_position",
    action_frame="joint",
    control_rate=10.0,
    max_episode_steps=None,
    reward_terms=("success",),
)
REWARD = RewardWeights({"success": 1.0})


class Extractor:
    """The features of view v of an image are its first pixel, v, and the number of the image."""

    views = 3
    spec = {"images/front": ArraySpec((3,), "float16")}  # noqa: RUF012

    def __init__(self, fingerprint="a"):
        self.fingerprint = fingerprint
        self.computed = []

    def __call__(self, images, numbers):
        self.computed += numbers.tolist()
        first = images["images/front"][:, 0, 0, 0]
        rows = [[(pixel, view, number) for view in range(3)] for pixel, number in zip(first, numbers, strict=True)]
        return {"images/front": np.array(rows, np.float16)}


def observation(number):
    return {"state": np.float32([number]), "images/front": np.full((2, 2, 3), number, np.uint8)}


def transition(number, ended=False):
    action = np.zeros(1, np.float32)
    return Transition(
        observation=observation(number),
        proposed_action=action,
        executed_action=action,
        rewards={"success": 0.0},
        next_observation=observation(number + 1),
        terminated=False,
        truncated=ended,
        source=Source.POLICY,
        actor="robot",
        session=0,
        episode=0,
        sequence=number,
        policy_version=0,
        stamp_ns=number,
    )


def filled(extractor, capacity=10, count=6):
    ring = ReplayRing(capacity, SPEC, extractor=extractor)
    ring.append([transition(number) for number in range(count)])
    return ring


def gather(ring, rng=None):
    indices = ring.rows.sample_indices(40, generator(0, "test"))
    return ring.rows.gather(indices, gamma=0.9, n_step=1, reward=REWARD, rng=rng)


def test_features_stand_for_their_images_and_are_computed_once():
    extractor = Extractor()
    ring = filled(extractor)
    for _ in range(3):
        batch = gather(ring)
        for prefix, later in (("observation", 0), ("next_observation", 1)):
            features = batch[f"{prefix}/images/front"]
            assert features.shape == (40, 3)
            assert features.dtype == np.float16
            np.testing.assert_array_equal(features[:, 0], batch[f"{prefix}/state"][:, 0])
            np.testing.assert_array_equal(features[:, 0], batch["observation/state"][:, 0] + later)
            assert not features[:, 1].any(), "the first view"
    assert sorted(extractor.computed) == list(range(7))


def test_views_are_drawn_for_each_row():
    batch = gather(filled(Extractor()), generator(1, "views"))
    views = [batch[f"{prefix}/images/front"][:, 1] for prefix in ("observation", "next_observation")]
    assert all(set(view.tolist()) == {0, 1, 2} for view in views)
    assert not np.array_equal(*views)


def test_an_overwritten_image_has_new_features():
    extractor = Extractor()
    ring = filled(extractor, capacity=4)
    gather(ring)
    ring.append([transition(number) for number in range(6, 9)])
    batch = gather(ring)
    np.testing.assert_array_equal(batch["observation/images/front"][:, 0], batch["observation/state"][:, 0])
    np.testing.assert_array_equal(batch["next_observation/images/front"][:, 0], batch["next_observation/state"][:, 0])


def test_everything_can_be_computed_at_once():
    extractor = Extractor()
    ring = filled(extractor)
    ring.rows.compute_features()
    assert extractor.computed == list(range(7))
    gather(ring)
    assert len(extractor.computed) == 7


@pytest.mark.parametrize("fingerprint", ["a", "b"])
def test_features_are_part_of_the_state_unless_they_are_of_another_extractor(fingerprint):
    ring = filled(Extractor())
    expected = gather(ring)
    state = {name: array.copy() for name, array in ring.state().items()}
    extractor = Extractor(fingerprint)
    resumed = ReplayRing(10, SPEC, extractor=extractor)
    resumed.append([transition(77)])
    gather(resumed)
    extractor.computed.clear()
    resumed.load(state)
    found = gather(resumed)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
    assert sorted(extractor.computed) == ([] if fingerprint == "a" else list(range(7)))


def test_a_state_with_features_is_of_use_without_them_and_the_other_way_round():
    plain = ReplayRing(10, SPEC)
    plain.load(filled(Extractor()).state())
    assert gather(plain)["observation/images/front"].shape == (40, 2, 2, 3)
    cached = ReplayRing(10, SPEC, extractor=Extractor())
    cached.load(plain.state())
    assert gather(cached)["observation/images/front"].shape == (40, 3)


def test_the_sampler_gives_features_of_both_rings():
    rings = filled(Extractor()), filled(Extractor())
    sampler = MixedSampler(*rings, 0.5, 0.9, 1, REWARD, generator(0, "sampler"))
    batch = sampler.sample(40, 20)
    np.testing.assert_array_equal(batch["observation/images/front"][:, 0], batch["observation/state"][:, 0])
    assert set(batch["observation/images/front"][:, 1].tolist()) == {0, 1, 2}
