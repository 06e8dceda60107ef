"""Dormant neurons against networks counted by hand; perturbation against its formula; Adam begins anew."""

import dataclasses

import numpy as np
import pytest
import torch

from robo_rl.agents.drq import DormancyConfig, DrQ, DrQConfig, EncoderConfig
from robo_rl.agents.drq.dormancy import dormant_ratio, perturbation_factor
from robo_rl.core import ArraySpec, ConfigError

from ..rigs.specs import toy_spec

SPEC = toy_spec({"state": ArraySpec((3,)), "images/front": ArraySpec((8, 8, 3), "uint8")}, 2)
CONFIG = DrQConfig(
    ensemble_size=3,
    hidden=(16, 16),
    update_to_data=1,
    batch_size=6,
    encoder=EncoderConfig(channels=(4,), latent=7),
    normalise_observations=False,
    device="cpu",
)


def make(seed=0, config=CONFIG, **dormancy):
    return DrQ(dataclasses.replace(config, dormancy=DormancyConfig(**dormancy)), SPEC, seed)


def make_batch(seed):
    rng = np.random.default_rng(seed)
    batch = {
        "action": rng.uniform(-1, 1, (6, 2)).astype(np.float32),
        "proposed_action": rng.uniform(-1, 1, (6, 2)).astype(np.float32),
        "reward": rng.standard_normal(6, dtype=np.float32),
        "discount": np.full(6, 0.9, np.float32),
        "demonstration": np.zeros(6, np.float32),
        "online_example": np.zeros(6, np.float32),
    }
    for group in ("observation", "next_observation"):
        batch[f"{group}/state"] = rng.standard_normal((6, 3), dtype=np.float32)
        batch[f"{group}/images/front"] = rng.integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
    return batch


def updated(agent, count, first=0):
    for seed in range(first, first + count):
        metrics = agent.update(make_batch(seed))
    return metrics


def test_neurons_are_counted_as_by_hand():
    """Mean outputs on the rows (1, 0) and (0, 1): 1, 0.05, 0, 2 in the first layer, whose mean is 0.7625."""
    parameters = {
        "actor/0/weight": torch.tensor([[1.0, 0.1, -1.0, 3.0], [1.0, 0.0, -1.0, 1.0]]),
        "actor/0/bias": torch.zeros(4),
        "actor/1/weight": torch.zeros(4, 3),
        "actor/1/bias": torch.tensor([1.0, 1.0, -5.0]),  # 1, 1 and 0, where relu ends it
        "actor/output/weight": torch.zeros(3, 2),
        "actor/output/bias": torch.zeros(2),
    }
    rows = torch.eye(2)
    # 0.05 / 0.7625 is 0.0656, 1 / 0.7625 is 1.31.
    for threshold, dormant in ((0.0, 2), (0.065, 2), (0.066, 3), (1.0, 3), (1.32, 4), (2.7, 7)):
        assert dormant_ratio(parameters, "actor", rows, "relu", threshold) == pytest.approx(dormant / 7)
    parameters["actor/1/bias"] = torch.full((3,), -1.0)
    assert dormant_ratio(parameters, "actor", rows, "relu", 0.025) == pytest.approx(4 / 7), "a silent layer is dormant"


def test_the_metric_is_that_of_the_actor_on_unshifted_images_and_measured_at_intervals():
    agent = make(interval=3, threshold=0.5)
    measured = []
    for seed in range(7):
        batch = make_batch(seed)
        measured.append(agent.update(batch)["dormant_ratio"])
        state = agent.state()
        images = [torch.from_numpy(batch["observation/images/front"])]
        vector = torch.from_numpy(batch["observation/state"])
        x = agent._policy.inputs(agent._policy.parameters, images, vector).numpy()
        count = 0
        for layer in range(2):
            x = np.maximum(x @ state[f"actor/{layer}/weight"] + state[f"actor/{layer}/bias"], 0)
            count += int((np.abs(x).mean(0) <= 0.5 * np.abs(x).mean()).sum())
        if seed % 3 == 0:
            assert measured[-1] == pytest.approx(count / 32)
    assert measured[0] == measured[1] == measured[2]
    assert measured[3] == measured[4] == measured[5]
    assert "dormant_ratio" not in make().update(make_batch(0))


def test_the_neurons_of_residual_networks_are_those_inside_the_blocks_and_these_are_perturbed():
    config = dataclasses.replace(CONFIG, network="simba", hidden=(8, 8), value_bins=5, value_range=(-2.0, 2.0))
    agent, batch = make(config=config, interval=1, threshold=0.5), make_batch(0)
    measured = agent.update(batch)["dormant_ratio"]
    actor = {name.removeprefix("actor/"): array for name, array in agent.state().items() if name.startswith("actor/")}
    images = [torch.from_numpy(batch["observation/images/front"])]
    vector = torch.from_numpy(batch["observation/state"])
    x = agent._policy.inputs(agent._policy.parameters, images, vector).numpy()
    x = x @ actor["embedding/weight"] + actor["embedding/bias"]
    count = 0
    for block in range(2):
        h = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-6)
        h = h * actor[f"{block}/scale"] + actor[f"{block}/shift"]
        h = np.maximum(h @ actor[f"{block}/expand/weight"] + actor[f"{block}/expand/bias"], 0)
        count += int((h.mean(0) <= 0.5 * h.mean()).sum())
        x = x + h @ actor[f"{block}/project/weight"] + actor[f"{block}/project/bias"]
    assert measured == pytest.approx(count / 64)
    shaken = make(config=config, interval=1, threshold=0.5, perturb_interval=1)
    shaken.update(batch)
    before, after = agent.state(), shaken.state()
    for name in before:
        if name.startswith(("actor/", "critic/", "target_critic/")):
            mixed = name.endswith("/weight") or name == "actor/output/bias"
            mixed = mixed or (name.endswith("/bias") and before[name].any())
            assert np.array_equal(before[name], after[name]) != mixed, name


def test_factors_are_those_of_the_paper():
    config = DormancyConfig(rate=2, min_factor=0.2, max_factor=0.9)
    for ratio, factor in ((0.0, 0.9), (0.05, 0.9), (0.1, 0.8), (0.25, 0.5), (0.4, 0.2), (1.0, 0.2)):
        assert perturbation_factor(ratio, config) == pytest.approx(factor)


def test_dense_layers_are_perturbed_and_adam_begins_anew():
    """What must have been mixed in is solved for: it has to be what a new network has."""
    plain, shaken = make(interval=1, threshold=0.5), make(interval=1, threshold=0.5, perturb_interval=3)
    updated(plain, 3)
    ratio = updated(shaken, 3)["dormant_ratio"]
    factor = min(max(1 - 2 * ratio, 0.2), 0.9)
    before, after = plain.state(), shaken.state()
    kept = 0
    for name in (name for name in before if name.startswith(("actor/", "critic/", "target_critic/", "encoder/"))):
        dense = name.endswith(("/weight", "/bias")) and "/conv" not in name
        if not dense:
            np.testing.assert_array_equal(before[name], after[name])
            kept += 1
            continue
        new = (after[name] - factor * before[name]) / (1 - factor)
        if name.startswith("target_"):
            own = name.removeprefix("target_")
            np.testing.assert_allclose(new, (after[own] - factor * before[own]) / (1 - factor), atol=1e-5)
        elif name == "actor/output/bias":
            np.testing.assert_allclose(new, [0, 0, -1, -1], atol=1e-5)
        elif name.endswith("/bias"):
            np.testing.assert_allclose(new, 0, atol=1e-5)
        else:
            for matrix in new.reshape(-1, *new.shape[-2:]):
                narrow = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
                gram = narrow @ narrow.T
                np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-4)
                np.testing.assert_allclose(np.diag(gram), gram[0, 0], atol=1e-4)
    assert kept == 12, "LayerNorm of critics, targets and encoder, and one convolution"
    assert all(not array.any() for name, array in after.items() if name.startswith(("adam_first", "adam_second")))
    shaken.update(make_batch(3))
    step = np.abs(shaken.state()["critic/0/weight"] - after["critic/0/weight"])
    assert step.max() == pytest.approx(CONFIG.critic_learning_rate, rel=1e-2), (
        "the first step of Adam is as long as this"
    )


def test_an_agent_goes_on_from_its_state_bit_for_bit_across_perturbations():
    options = {"interval": 2, "threshold": 0.5, "perturb_interval": 3}
    unbroken, resumed = make(**options), make(seed=5, **options)
    updated(unbroken, 4)
    resumed.load(unbroken.state())
    assert updated(unbroken, 5, first=4) == updated(resumed, 5, first=4)
    one, other = unbroken.state(), resumed.state()
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"perturb_interval": 100}, "dormancy.interval must be above 0 where networks are perturbed"),
        ({"threshold": -1}, "dormancy.threshold must be 0 or more"),
        ({"max_factor": 0.1}, r"dormancy.max_factor must be in \[min_factor = 0.2, 1\]"),
    ],
)
def test_configuration_is_checked(fields, message):
    with pytest.raises(ConfigError, match=message):
        DormancyConfig(**fields)
