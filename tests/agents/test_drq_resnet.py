"""DrQ with a residual network from a file: against modules of PyTorch; frozen or trained; what is refused."""

import dataclasses

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from robo_rl.agents.drq import DrQ, DrQConfig, EncoderConfig
from robo_rl.agents.parts.resnet import DEVIATION, MEAN, apply_resnet, load_resnet, output_shape
from robo_rl.core import ArraySpec, CheckpointError, ConfigError

from ..rigs.specs import toy_spec

SPEC = toy_spec(
    {
        "state": ArraySpec((3,)),
        "images/front": ArraySpec((32, 40, 6), "uint8"),
        "images/wrist": ArraySpec((33, 32, 3), "uint8"),
    },
    2,
)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """As in torchvision, with fewer channels, and without the classifier at the end."""

    def __init__(self, blocks, width=4):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        channels = width
        for stage, count in enumerate(blocks):
            wide = width * 2**stage
            stage_blocks = [
                Block(channels if k == 0 else wide, wide, 2 if stage and k == 0 else 1) for k in range(count)
            ]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*stage_blocks))
            channels = wide

    def forward(self, images, stages):
        x = (images.movedim(-1, 1) / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(DEVIATION).view(3, 1, 1)
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in range(1, stages + 1):
            x = getattr(self, f"layer{stage}")(x)
        return x.flatten(2)


def saved(path, blocks=(1, 1, 1, 1), seed=0):
    """Write a network with statistics as after training; return it."""
    torch.manual_seed(seed)
    network = ResNet(blocks).eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 2)
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_(0, 0.2)
    save_file(network.state_dict(), path)
    return network


def config(file, **encoder):
    return DrQConfig(
        ensemble_size=2, hidden=(8,), batch_size=4, shift=2, normalise_observations=False,
        encoder=EncoderConfig(checkpoint=str(file), latent=6, head="spatial_embeddings", **encoder),
    )  # fmt: skip


def make_batch(rows, seed=0):
    rng = np.random.default_rng(seed)
    batch = {
        "action": rng.uniform(-1, 1, (rows, 2)).astype(np.float32),
        "proposed_action": rng.uniform(-1, 1, (rows, 2)).astype(np.float32),
        "reward": rng.random(rows, np.float32),
        "discount": np.full(rows, 0.9, np.float32),
        "demonstration": np.zeros(rows, np.float32),
        "online_example": np.zeros(rows, np.float32),
    }
    for group in ("observation", "next_observation"):
        for key, spec in SPEC.observation.items():
            values = rng.integers(0, 256, (rows, *spec.shape))
            batch[f"{group}/{key}"] = values.astype(spec.dtype)
    return batch


@pytest.mark.parametrize(("blocks", "stages"), [((1, 1, 1, 1), 4), ((2, 2, 2, 2), 3), ((3, 1, 1, 1), 1)])
def test_residual_network_is_that_of_the_modules(tmp_path, blocks, stages):
    network = saved(tmp_path / "net.safetensors", blocks)
    parameters, digest = load_resnet(tmp_path / "net.safetensors", stages)
    images = torch.randint(0, 256, (2, 41, 64, 3), dtype=torch.uint8)
    with torch.no_grad():
        expected = network(images, stages)
    found = apply_resnet(parameters, "", images, torch.float32)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert output_shape(parameters, 41, 64) == found.shape[1:]
    assert len(digest) == 64


def test_frames_are_looked_at_one_by_one(tmp_path):
    network = saved(tmp_path / "net.safetensors")
    agent = DrQ(config(tmp_path / "net.safetensors"), SPEC, 0)
    images = torch.randint(0, 256, (2, 32, 40, 6), dtype=torch.uint8)
    found = agent._policy.encoder.maps(agent._parameters, "encoder/front", images)
    with torch.no_grad():
        expected = torch.cat([network(images[..., :3], 4), network(images[..., 3:], 4)], 1)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("frozen", [True, False])
def test_a_frozen_network_stays_as_it_is(tmp_path, frozen):
    saved(tmp_path / "net.safetensors")
    agent = DrQ(config(tmp_path / "net.safetensors", frozen=frozen), SPEC, 0)
    before = agent.state()
    kept = {name: tensor.clone() for name, tensor in agent._policy.encoder.frozen.items()}
    agent.update(make_batch(4))
    after = agent.state()
    assert not np.array_equal(before["encoder/front/spatial"], after["encoder/front/spatial"])
    trained = [name for name in before if "resnet/conv1/weight" in name and name.startswith("encoder/")]
    assert len(trained) == (0 if frozen else 2)
    assert all(not np.array_equal(before[name], after[name]) for name in trained)
    assert bool(kept) == frozen
    for name, tensor in kept.items():
        assert torch.equal(tensor, agent._policy.encoder.frozen[name])


def test_a_policy_is_refused_with_another_frozen_network(tmp_path):
    states = []
    for seed in (0, 1):
        saved(tmp_path / "net.safetensors", seed=seed)
        agent = DrQ(config(tmp_path / "net.safetensors"), SPEC, 0)
        states.append(agent.policy_state())
    agent.load_policy(states[1])
    with pytest.raises(CheckpointError, match=r"'frozen_encoder/[0-9a-f]{64}-4-float32'"):
        agent.load_policy(states[0])


def test_files_that_are_no_such_network_are_refused(tmp_path):
    file = tmp_path / "net.safetensors"
    with pytest.raises(ConfigError, match=r"agent.encoder.checkpoint: .*net.safetensors cannot be read"):
        DrQ(config(file), SPEC, 0)
    file.write_bytes(b"\x80\x04cposix\nsystem\n.")
    with pytest.raises(ConfigError, match=r"cannot be read as safetensors"):
        DrQ(config(file), SPEC, 0)
    tensors = saved(file).state_dict()
    save_file({name: tensor for name, tensor in tensors.items() if name != "layer2.0.bn1.running_var"}, file)
    with pytest.raises(ConfigError, match=r"lacks 'layer2.0.bn1.running_var'"):
        DrQ(config(file), SPEC, 0)
    save_file(tensors | {"layer1.0.conv3.weight": torch.zeros(1)}, file)
    with pytest.raises(ConfigError, match=r"bottleneck blocks"):
        DrQ(config(file), SPEC, 0)
    saved(file)
    grey = dataclasses.replace(
        SPEC, observation={"state": ArraySpec((3,)), "images/front": ArraySpec((32, 32, 1), "uint8")}
    )
    with pytest.raises(ConfigError, match=r"expect three colour channels, 'images/front' has 1"):
        DrQ(config(file), grey, 0)


def test_cached_features_are_what_the_frozen_network_makes_of_shifted_images(tmp_path):
    saved(tmp_path / "net.safetensors")
    agent = DrQ(config(tmp_path / "net.safetensors", cached_views=3), SPEC, 0)
    batch = make_batch(4)
    images = {key: batch[f"observation/{key}"] for key in agent.features.spec}
    numbers = np.arange(10, 14)
    found = agent.features(images, numbers)
    encoder = agent._policy.encoder
    for key in encoder.keys:
        assert found[key].shape == (4, 3, *agent.features.spec[key].shape)
        padded = np.pad(images[key], ((0, 0), (2, 2), (2, 2), (0, 0)), mode="edge")
        height, width = images[key].shape[1:3]
        views = [
            encoder.frozen_maps(torch.from_numpy(np.ascontiguousarray(padded[:, y : y + height, x : x + width])))
            for y in range(5)
            for x in range(5)
        ]
        every = torch.stack([view.flatten(1) for view in views], 1).numpy()
        for image, row in zip(every, found[key], strict=True):
            nearest = np.abs(row[:, None].astype(np.float32) - image[None]).max(2).min(1)
            assert (nearest < 2e-3 * np.abs(image).max()).all(), "each view is that of some shift of at most 2 pixels"
        np.testing.assert_array_equal(agent.features(images, numbers)[key], found[key])
    one = agent.features({key: array[1:2] for key, array in images.items()}, numbers[1:2])
    np.testing.assert_allclose(
        one["images/wrist"][0].astype(np.float32), found["images/wrist"][1], rtol=2e-3, atol=2e-3
    )


def test_an_agent_learns_from_features_as_from_the_images(tmp_path):
    """Without shifts the features are those of the images, so that updates are the same up to half precision."""
    saved(tmp_path / "net.safetensors")
    fields = {"shift": 0, "batch_size": 4}
    plain = DrQ(dataclasses.replace(config(tmp_path / "net.safetensors"), **fields), SPEC, 0)
    cached = DrQ(dataclasses.replace(config(tmp_path / "net.safetensors", cached_views=1), **fields), SPEC, 0)
    assert plain.features is None
    batch = make_batch(4)
    features = dict(batch)
    for group in ("observation", "next_observation"):
        found = cached.features({key: batch[f"{group}/{key}"] for key in cached.features.spec}, np.arange(4))
        features |= {f"{group}/{key}": array[:, 0] for key, array in found.items()}
    metrics = plain.update(batch), cached.update(features)
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-2, abs=1e-2)
    observation = {key: batch[f"observation/{key}"][0] for key in SPEC.observation}
    np.testing.assert_allclose(cached.act(observation, explore=False), plain.act(observation, explore=False), atol=1e-2)


def test_only_a_frozen_network_has_cached_features():
    with pytest.raises(ConfigError, match=r"agent.encoder.cached_views must be 0 unless there is a checkpoint"):
        EncoderConfig(cached_views=2)
    with pytest.raises(ConfigError, match=r"agent.encoder.cached_views must be 0 unless there is a checkpoint"):
        EncoderConfig(cached_views=2, checkpoint="net.safetensors", frozen=False)
