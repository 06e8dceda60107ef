"""DrQ: shifts against a loop, state, configuration, learning."""

import dataclasses

import numpy as np
import pytest
import torch

from robo_rl.agents.drq import DrQ, DrQConfig, EncoderConfig, make_drq
from robo_rl.agents.drq import agent as drq_agent
from robo_rl.agents.parts.augmentation import draw_shifts, shift_images
from robo_rl.core import ArraySpec, ConfigError

from ..rigs.specs import toy_spec

A, V = 2, 3
CAMERAS = {"images/front": ArraySpec((9, 12, 3), "uint8"), "images/wrist": ArraySpec((8, 8, 3), "uint8")}
SPEC = toy_spec({"state": ArraySpec((V,)), **CAMERAS}, A)
SMALL = DrQConfig(
    ensemble_size=3,
    hidden=(16,),
    update_to_data=2,
    batch_size=6,
    encoder=EncoderConfig(channels=(4, 5), latent=7),
    shift=2,
    actor_learning_rate=1e-3,
    critic_learning_rate=2e-3,
    temperature_learning_rate=3e-3,
    tau=0.1,
    initial_temperature=0.3,
    cloning_weight=0.5,
    normalise_observations=False,
)
VARIANTS = {
    "dense": SMALL,
    "spatial_embeddings": dataclasses.replace(
        SMALL, encoder=EncoderConfig(channels=(4,), head="spatial_embeddings", embeddings=2, latent=5)
    ),
    "asymmetric": dataclasses.replace(SMALL, critic_keys=("state",)),
    "one_camera": dataclasses.replace(SMALL, image_keys=("images/wrist",), update_to_data=1, shift=0),
}


def make_batch(rows, seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    batch = {
        "action": np.tanh(normal(rows, A)),
        "proposed_action": np.tanh(normal(rows, A)),
        "reward": normal(rows),
        "discount": np.full(rows, 0.9, np.float32),
        "demonstration": (np.arange(rows) % 2).astype(np.float32),
        "online_example": (np.arange(rows) % 4 == 0).astype(np.float32),
    }
    for group in ("observation", "next_observation"):
        batch[f"{group}/state"] = normal(rows, V)
        for key, spec in CAMERAS.items():
            batch[f"{group}/{key}"] = rng.integers(0, 256, (rows, *spec.shape), dtype=np.uint8)
    return batch


def observation_of(batch, row=0):
    return {k.removeprefix("observation/"): v[row] for k, v in batch.items() if k.startswith("observation/")}


def make(seed=0, **fields):
    return DrQ(dataclasses.replace(SMALL, **fields), SPEC, seed)


def same(one, other):
    assert one.keys() == other.keys()
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_shifts_are_those_of_a_loop_over_pixels():
    images = torch.randint(0, 256, (5, 6, 4, 3), dtype=torch.uint8)
    shifts = torch.tensor([[0, 0], [2, -3], [-7, 1], [5, 9], [-1, -1]])
    shifted = shift_images(images, shifts)
    for b, (dy, dx) in enumerate(shifts.tolist()):
        for y in range(6):
            for x in range(4):
                expected = images[b, min(max(y + dy, 0), 5), min(max(x + dx, 0), 3)]
                assert torch.equal(shifted[b, y, x], expected)


def test_shifts_are_those_of_padding_and_cropping():
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    shifts = draw_shifts((40,), 3, torch.Generator().manual_seed(0))
    assert set(shifts.flatten().tolist()) == set(range(-3, 4))
    padded = np.pad(images, ((0, 0), (3, 3), (3, 3), (0, 0)), mode="edge")
    crops = [image[3 + y : 11 + y, 3 + x : 11 + x] for image, (y, x) in zip(padded, shifts.tolist(), strict=True)]
    np.testing.assert_array_equal(shift_images(torch.from_numpy(images), shifts).numpy(), np.stack(crops))


def test_an_agent_goes_on_from_its_state_bit_for_bit():
    unbroken = make(normalise_observations=True)
    unbroken.fit_normaliser(make_batch(50))
    unbroken.pretrain(make_batch(8))
    unbroken.update(make_batch(unbroken.update_rows))
    resumed = make(seed=5, normalise_observations=True)
    resumed.load(unbroken.state())
    observation = observation_of(make_batch(1))
    for k in range(2):
        batch = make_batch(unbroken.update_rows, k)
        assert unbroken.update(batch) == resumed.update(batch)
        assert unbroken.pretrain(make_batch(8)) == resumed.pretrain(make_batch(8))
        for explore in (True, False):
            np.testing.assert_array_equal(
                unbroken.act(observation, explore=explore), resumed.act(observation, explore=explore)
            )
    assert same(unbroken.state(), resumed.state())
    assert any(name.startswith("encoder/") for name in unbroken.policy_state())
    pupil = make(seed=9, normalise_observations=True)
    pupil.load_policy(unbroken.policy_state())
    np.testing.assert_array_equal(unbroken.act(observation, explore=False), pupil.act(observation, explore=False))


def test_a_processor_that_would_emulate_products_of_bfloat16_computes_in_float32(monkeypatch):
    monkeypatch.setattr("robo_rl.agents.parts.native.multiplies_bfloat16", lambda: False)
    agents = [make(implementation="auto", precision=precision) for precision in ("bfloat16", "float32")]
    assert agents[0].implementation == "torch, in float32: this processor has no products of bfloat16 (AVX512_BF16)"
    for agent in agents:
        agent.update(make_batch(agent.update_rows))
    assert same(agents[0].state(), agents[1].state())


def test_critics_may_see_the_true_state_and_the_actor_not():
    spec = dataclasses.replace(SPEC, observation=SPEC.observation | {"object": ArraySpec((4,))})
    fields = {"observation_keys": ("state",), "critic_keys": ("object", "state"), "normalise_observations": True}
    agent = DrQ(dataclasses.replace(SMALL, **fields), spec, 0)
    batch = make_batch(agent.update_rows)
    for k, group in enumerate(("observation", "next_observation")):
        batch[f"{group}/object"] = 5 + np.random.default_rng(k).standard_normal((agent.update_rows, 4), np.float32)
    agent.fit_normaliser(batch)
    np.testing.assert_allclose(agent.state()["critic_normaliser/mean"][:4], batch["observation/object"].mean(0), 1e-5)
    before = agent.state()
    agent.update(batch)
    assert before["critic/0/weight"].shape == (3, 4 + V + A, 16)
    assert not np.array_equal(before["encoder/front/conv0/weight"], agent.state()["encoder/front/conv0/weight"])
    observation = observation_of(batch)
    action = agent.act(observation, explore=False)
    value = agent.value(observation, action)
    observation["object"] = observation["object"] + 1
    np.testing.assert_array_equal(agent.act(observation, explore=False), action)
    assert agent.value(observation, action) != value
    with pytest.raises(ConfigError, match=r"agent.critic_keys: unknown vector observation 'objct'"):
        DrQ(dataclasses.replace(SMALL, critic_keys=("objct",)), spec, 0)


def test_configuration_is_checked():
    blind = dataclasses.replace(SPEC, observation={"state": ArraySpec((V,))})
    with pytest.raises(ConfigError, match=r"has no images.*task.observation.cameras=\[front,wrist\]"):
        make_drq(spec=blind, seed=0)
    with pytest.raises(
        ConfigError, match=r"agent.image_keys: unknown image 'images/frnt'; did you mean 'images/front'"
    ):
        make(image_keys=("images/frnt",))
    with pytest.raises(ConfigError, match=r"agent.image_keys is empty"):
        make(image_keys=())
    with pytest.raises(ConfigError, match=r"unknown agent.implementation 'native'; Valid: auto, compile, torch"):
        make(implementation="native")
    with pytest.raises(ConfigError, match=r"agent.encoder.channels must be one or more"):
        EncoderConfig(channels=())


def spots(rows, seed):
    """Pictures of a bright spot; the right action is where it is."""
    rng = np.random.default_rng(seed)
    place = rng.integers(2, 10, (rows, 2))
    images = rng.integers(0, 40, (rows, 12, 12, 3), dtype=np.uint8)
    for image, (y, x) in zip(images, place, strict=True):
        image[y - 1 : y + 2, x - 1 : x + 2] = 250
    return images, ((place - 5.5) / 5).astype(np.float32)


@pytest.mark.parametrize("head", ["dense", "spatial_embeddings"])
def test_learns_from_images_alone_what_to_do(head):
    """A bandit: the reward is minus the squared distance between action and spot. Cloning first, then reward."""
    spec = dataclasses.replace(
        SPEC, observation={"state": ArraySpec((1,)), "images/view": ArraySpec((12, 12, 3), "uint8")}
    )
    agent = make_drq(
        spec=spec, seed=0, hidden=(32,), ensemble_size=2, batch_size=64, shift=0, cloning_weight=0.0,
        final_cloning_weight=0.0,
        encoder=EncoderConfig(channels=(8, 16), head=head, latent=32), normalise_observations=False,
        actor_tau=1.0, actor_learning_rate=2e-3, critic_learning_rate=2e-3,
    )  # fmt: skip

    def batch(seed, action=None):
        images, right = spots(64, seed)
        action = right if action is None else action
        zeros = np.zeros((64, 1), np.float32)
        return {
            "observation/state": zeros,
            "next_observation/state": zeros,
            "observation/images/view": images,
            "next_observation/images/view": images,
            "action": action,
            "proposed_action": action,
            "reward": -((action - right) ** 2).sum(1),
            "discount": np.zeros(64, np.float32),
            "demonstration": np.zeros(64, np.float32),
            "online_example": np.zeros(64, np.float32),
        }

    def error():
        images, right = spots(50, 999)
        acted = [agent.act({"state": np.zeros(1, np.float32), "images/view": x}, explore=False) for x in images]
        return float(((np.array(acted) - right) ** 2).sum(1).mean())

    began = error()
    rng = np.random.default_rng(0)
    for k in range(150):
        agent.update(batch(k, rng.uniform(-1, 1, (64, 2)).astype(np.float32)))
    learned = error()
    assert learned < 0.3 * began
    clone = make_drq(spec=spec, seed=0, hidden=(32,), shift=1, actor_learning_rate=3e-3,
                     encoder=EncoderConfig(channels=(8, 16), head=head, latent=32))  # fmt: skip
    losses = [clone.pretrain(batch(k))["bc_loss"] for k in range(80)]
    assert np.mean(losses[-5:]) < 0.3 * losses[0]


def test_images_are_learned_from_in_one_process(monkeypatch):
    monkeypatch.setattr(drq_agent, "several_ranks", lambda: True)
    with pytest.raises(ConfigError, match="agents that learn from images run in one process"):
        make()
