"""DrQ: shifts against a loop, the update against modules and autograd in float64, state, configuration, learning."""

import dataclasses
import functools

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from robo_rl.agents.drq import DrQ, DrQConfig, EncoderConfig, make_drq
from robo_rl.agents.drq import agent as drq_agent
from robo_rl.agents.drq.update import DrQUpdate, PixelMinibatches
from robo_rl.agents.parts.augmentation import draw_shifts, shift_images
from robo_rl.agents.sac.critics import train_state
from robo_rl.agents.sac.update import METRICS, Minibatches, draw_noise
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


class Camera(nn.Module):
    """The encoder of one camera from the modules of PyTorch."""

    def __init__(self, own, convolutions):
        super().__init__()
        self.convolutions = nn.ModuleList()
        for layer in range(convolutions):
            weight = own[f"conv{layer}/weight"]
            module = nn.Conv2d(weight.shape[1], weight.shape[0], 3, stride=2, padding=1)
            module.weight.data, module.bias.data = weight.clone(), own[f"conv{layer}/bias"].clone()
            self.convolutions.append(module)
        self.spatial = nn.Parameter(own["spatial"].clone()) if "spatial" in own else None
        weight = own["dense/weight"].T.clone()
        self.dense, self.norm = nn.Linear(*reversed(weight.shape)), nn.LayerNorm(len(weight), eps=1e-6)
        self.dense.weight.data, self.dense.bias.data = weight, own["dense/bias"].clone()
        self.norm.weight.data, self.norm.bias.data = own["dense/scale"].clone(), own["dense/shift"].clone()

    def forward(self, images):
        x = images.double().movedim(-1, 1) / 255 - 0.5
        for convolution in self.convolutions:
            x = convolution(x).relu()
        if self.spatial is not None:
            channels, _, embeddings = self.spatial.shape
            sums = [
                (x[:, c].flatten(1) * self.spatial[c, :, e]).sum(1) for c in range(channels) for e in range(embeddings)
            ]
            x = torch.stack(sums, 1)
        return self.norm(self.dense(x.flatten(1))).tanh()

    def named(self):
        found = {"spatial": self.spatial} if self.spatial is not None else {}
        for layer, module in enumerate(self.convolutions):
            found |= {f"conv{layer}/weight": module.weight, f"conv{layer}/bias": module.bias}
        return found | {
            "dense/weight": self.dense.weight.T,
            "dense/bias": self.dense.bias,
            "dense/scale": self.norm.weight,
            "dense/shift": self.norm.bias,
        }


class Reference:
    """DrQ with autograd, modules for the encoders and one optimiser for each loss."""

    def __init__(self, config, keys, parameters):
        self.config, self.keys = config, keys
        names = [f"encoder/{key.removeprefix('images/')}/" for key in keys]
        own = [{k.removeprefix(n): v for k, v in parameters.items() if k.startswith(n)} for n in names]
        self.names, self.cameras = names, [Camera(part, len(config.encoder.channels)) for part in own]
        self.nets = {
            name: {k.removeprefix(f"{name}/"): v.clone() for k, v in parameters.items() if k.startswith(f"{name}/")}
            for name in ("critic", "target_critic", "actor")
        }
        self.log_alpha = parameters["temperature/log_alpha"].clone().requires_grad_()
        for name in ("critic", "actor"):
            for tensor in self.nets[name].values():
                tensor.requires_grad_()
        encoders = [p for camera in self.cameras for p in camera.parameters()]
        whose = "critic" if config.critic_keys is None else "actor"
        trained = {
            name: [*self.nets[name].values(), *(encoders if name == whose else [])] for name in ("critic", "actor")
        }
        self.critic_adam = torch.optim.Adam(trained["critic"], config.critic_learning_rate)
        self.actor_adam = torch.optim.Adam(trained["actor"], config.actor_learning_rate)
        self.temperature_adam = torch.optim.Adam([self.log_alpha], config.temperature_learning_rate)

    def see(self, images, vector):
        return torch.cat([camera(image) for camera, image in zip(self.cameras, images, strict=True)] + [vector], 1)

    def values(self, name, seen, action):
        net, rows = self.nets[name], torch.cat((seen, action), 1)
        values = []
        for e in range(self.config.ensemble_size):
            hidden = rows @ net["0/weight"][e] + net["0/bias"][e]
            hidden = nn.functional.layer_norm(hidden, hidden.shape[1:], net["0/scale"][e], net["0/shift"][e], eps=1e-6)
            values.append((hidden.relu() @ net["output/weight"][e] + net["output/bias"][e])[:, 0])
        return torch.stack(values)

    def policy(self, seen):
        net = self.nets["actor"]
        output = (seen @ net["0/weight"] + net["0/bias"]).relu() @ net["output/weight"] + net["output/bias"]
        return output[:, :A], output[:, A:].exp()

    def update(self, batch, noise):
        config, vectors = self.config, batch.vectors
        losses, seen_values, targets = [], [], []
        for u in range(config.update_to_data):
            with torch.no_grad():
                seen = self.see([x[u] for x in batch.next_images], vectors.next_observation[u])
                mean, deviation = self.policy(seen)
                seen = seen if batch.critic is None else batch.critic[1][u]
                values = self.values("target_critic", seen, (mean + deviation * noise.next_action[u]).tanh())
                target = vectors.reward[u] + vectors.discount[u] * values[noise.subset[u]].min(0).values
            seen = self.see([x[u] for x in batch.images], vectors.observation[u])
            values = self.values("critic", seen if batch.critic is None else batch.critic[0][u], vectors.action[u])
            loss = sum(((value - target) ** 2).mean() for value in values)
            self.critic_adam.zero_grad()
            loss.backward()
            self.critic_adam.step()
            for key, tensor in self.nets["target_critic"].items():
                tensor.data = (1 - config.tau) * tensor + config.tau * self.nets["critic"][key].detach()
            losses.append(loss.item() / config.ensemble_size)
            seen_values.append(values.detach())
            targets.append(target)
        seen, alpha = seen if batch.critic is not None else seen.detach(), self.log_alpha.exp().detach()
        mean, deviation = self.policy(seen)
        distribution = TransformedDistribution(Independent(Normal(mean, deviation), 1), TanhTransform(cache_size=1))
        action = (mean + deviation * noise.action).tanh()
        log_prob = distribution.log_prob(action)
        judged = seen if batch.critic is None else batch.critic[0][-1]
        climbing = (alpha * log_prob - self.values("critic", judged, action).mean(0)).mean()
        shown = getattr(vectors, "proposed_action", vectors.action)[-1]
        cloning = (vectors.cloning[-1] * ((mean.tanh() - shown) ** 2).sum(1)).mean()
        self.actor_adam.zero_grad()
        (climbing + cloning).backward()
        self.actor_adam.step()
        entropy = -log_prob.mean().detach()
        self.temperature_adam.zero_grad()
        (self.log_alpha.exp() * (entropy + 0.5 * A)).backward()
        self.temperature_adam.step()
        every = torch.stack(seen_values)
        figures = (np.mean(losses), every.mean(), every.abs().max(), torch.stack(targets).mean())
        return [float(x) for x in (*figures, climbing.detach(), entropy, alpha)]

    def parameters(self):
        found = {f"{name}/{key}": tensor for name, net in self.nets.items() for key, tensor in net.items()}
        for name, camera in zip(self.names, self.cameras, strict=True):
            found |= {name + key: tensor for key, tensor in camera.named().items()}
        return {key: tensor.detach() for key, tensor in (found | {"temperature/log_alpha": self.log_alpha}).items()}


def prepared(config, seed=0, dtype=torch.float64):
    """Return the agent's policy, and its parameters in another dtype, away from zeros that would hide mistakes."""
    agent = DrQ(config, SPEC, seed)
    source = torch.Generator().manual_seed(seed)
    parameters = {
        name: (tensor + 0.1 * torch.randn(tensor.shape, generator=source)).to(dtype)
        for name, tensor in agent._parameters.items()
    }
    return agent._policy, parameters


def experience(config, policy, seed, dtype=torch.float64):
    lead = (config.update_to_data, config.batch_size)
    source = torch.Generator().manual_seed(seed)
    batch = make_batch(lead[0] * lead[1], seed)
    fields = {
        "observation": batch["observation/state"],
        "next_observation": batch["next_observation/state"],
        "cloning": 0.5 * batch["demonstration"],
        **{name: batch[name] for name in Minibatches._fields if name in batch},
    }
    shaped = {name: torch.from_numpy(x).to(dtype).view(*lead, *x.shape[1:]) for name, x in fields.items()}
    images, following = (
        [x.view(*lead, *x.shape[1:]) for x in policy.training_images(batch, group)]
        for group in ("observation", "next_observation")
    )
    critic = None
    if config.critic_keys is not None:
        critic = (shaped["observation"].flip(-1), shaped["next_observation"].flip(-1))
    noise = draw_noise(config, A, source)
    noise = noise._replace(next_action=noise.next_action.to(dtype), action=noise.action.to(dtype))
    return PixelMinibatches(Minibatches(**shaped), images, following, critic), noise


@pytest.mark.parametrize("variant", VARIANTS)
def test_update_is_the_reference_in_float64(variant):
    """The reference trains the encoder by the critics' loss alone (asymmetric: the actor's), so the other does not."""
    config = VARIANTS[variant]
    policy, parameters = prepared(config)
    reference = Reference(config, policy.encoder.keys, parameters)
    update = DrQUpdate(config, policy.inputs, train_state(parameters))
    for k in range(3):
        batch, noise = experience(config, policy, 10 + k)
        found = update(batch, noise, k)
        expected = reference.update(batch, noise)
        assert dict(zip(METRICS, found.tolist(), strict=True)) == pytest.approx(
            dict(zip(METRICS, expected, strict=True)), rel=1e-8, abs=1e-10
        )
    expected_parameters = reference.parameters()
    assert parameters.keys() == expected_parameters.keys()
    for name, tensor in expected_parameters.items():
        torch.testing.assert_close(parameters[name], tensor, rtol=1e-8, atol=1e-10)


def test_gradient_of_the_encoder_is_the_slope_of_the_critics_loss():
    config = dataclasses.replace(SMALL, update_to_data=1)
    policy, parameters = prepared(config)
    batch, noise = experience(config, policy, 3)

    def loss():
        fresh = {name: tensor.clone() for name, tensor in parameters.items()}
        # The target moves with the encoder too, but the gradient is that of the loss with a fixed target.
        fixed = batch._replace(vectors=batch.vectors._replace(discount=torch.zeros_like(batch.vectors.discount)))
        state = train_state(fresh)
        metrics = DrQUpdate(config, policy.inputs, state)(fixed, noise, 0)
        return metrics[0].item() * config.ensemble_size, state.first

    gradients = loss()[1]
    source = np.random.default_rng(0)
    for name in sorted(name for name in parameters if name.startswith("encoder/")):
        flat = parameters[name].view(-1)
        index, step = int(source.integers(flat.numel())), 1e-6
        kept = flat[index].item()
        sides = []
        for side in (kept + step, kept - step):
            flat[index] = side
            sides.append(loss()[0])
        flat[index] = kept
        slope = (sides[0] - sides[1]) / (2 * step)
        # Adam's first mean after one step is a tenth of the gradient.
        assert 10 * gradients[name].view(-1)[index].item() == pytest.approx(slope, rel=1e-5, abs=1e-7), name


def test_compiled_steps_are_one_graph_and_the_same(monkeypatch):
    # Traced as torch.compile does, but run without the minutes that code generation takes on a busy machine.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager", fullgraph=True))
    config = dataclasses.replace(SMALL, update_to_data=1)
    results = []
    for compiled in (False, True):
        policy, parameters = prepared(config, dtype=torch.float32)
        update = DrQUpdate(config, policy.inputs, train_state(parameters), compiled=compiled)
        results.append((update(*experience(config, policy, 1, torch.float32), 0), parameters))
    torch.testing.assert_close(results[1][0], results[0][0], rtol=1e-4, atol=1e-5)
    for name, tensor in results[0][1].items():
        torch.testing.assert_close(results[1][1][name], tensor, rtol=1e-3, atol=1e-4)


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


def test_bfloat16_sees_nearly_the_same():
    batch = make_batch(1)
    agents = [make(implementation="torch", precision=precision) for precision in ("float32", "bfloat16")]
    seen = [
        agent._policy.inputs(agent._parameters, agent._policy.training_images(batch), torch.zeros(1, V))
        for agent in agents
    ]
    assert seen[1].dtype == torch.float32
    assert not torch.equal(*seen)
    torch.testing.assert_close(*seen, rtol=0.1, atol=0.1)


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
    with pytest.raises(ConfigError, match="images compute in one process: start this one without torchrun"):
        make()
