"""The update of DrQ beside a reference with autograd, compiled, and in other precisions."""

import dataclasses
import functools

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from robo_rl.agents.drq import DrQ
from robo_rl.agents.drq.update import DrQUpdate, PixelMinibatches
from robo_rl.agents.sac.critics import train_state
from robo_rl.agents.sac.update import METRICS, Minibatches, draw_noise

from .test_drq import SMALL, SPEC, VARIANTS, A, V, make, make_batch


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
