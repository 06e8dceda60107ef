"""The update of soft actor-critic against a second, plain implementation in float64.

The reference has one module and one optimiser a critic, torch.distributions for the policy and autograd for all
gradients; it shares no code with what it tests.
"""

import dataclasses
import functools

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from robo_rl.agents.parts.networks import initialise_network
from robo_rl.agents.sac.config import SACConfig
from robo_rl.agents.sac.critics import train_state
from robo_rl.agents.sac.update import METRICS, Minibatches, Noise, TorchUpdate, draw_noise

O, A = 4, 2  # noqa: E741
SMALL = SACConfig(
    ensemble_size=3,
    target_subset=2,
    hidden=(16, 8),
    update_to_data=4,
    batch_size=6,
    actor_learning_rate=1e-3,
    critic_learning_rate=2e-3,
    temperature_learning_rate=3e-3,
    tau=0.1,
    initial_temperature=0.3,
)
VARIANTS = {
    "rlpd": {},
    "entropy_backup": {"entropy_backup": True},
    "actor_min": {"actor_q": "min"},
    "cloning_filter": {"cloning_filter": True},
    "no_layer_norm": {"layer_norm": False},
    "actor_layer_norm": {"actor_layer_norm": True},
    "silu": {"activation": "silu", "hidden": (16,)},
    "tanh": {"activation": "tanh", "target_subset": 3},
    "target_entropy": {"target_entropy": 5.0, "target_subset": 1},
    "one_of_each": {"ensemble_size": 1, "target_subset": 1, "update_to_data": 1, "hidden": (8, 8, 8)},
}


def initial(config, dtype, seed=0):
    source = torch.Generator().manual_seed(seed)
    critic = initialise_network(
        "critic",
        (O + A, *config.hidden, 1),
        source,
        layer_norm=config.layer_norm,
        output_gain=1.0,
        ensemble=config.ensemble_size,
    )
    actor = initialise_network(
        "actor",
        (O, *config.hidden, 2 * A),
        source,
        layer_norm=config.actor_layer_norm,
        output_gain=0.5,
    )
    # Away from the special values (zero biases, targets equal to critics) that would hide mistakes.
    critic = {k: v + 0.1 * torch.randn(v.shape, generator=source) for k, v in critic.items()}
    target = {f"target_{k}": v + 0.1 * torch.randn(v.shape, generator=source) for k, v in critic.items()}
    temperature = {"temperature/log_alpha": torch.tensor(np.log(config.initial_temperature))}
    return {k: v.to(dtype) for k, v in (critic | target | actor | temperature).items()}


def experience(config, dtype, seed=1):
    source = torch.Generator().manual_seed(seed)
    lead = (config.update_to_data, config.batch_size)
    batch = Minibatches(
        observation=torch.randn(*lead, O, generator=source),
        action=torch.randn(*lead, A, generator=source).tanh(),
        reward=torch.randn(*lead, generator=source),
        discount=0.99 * (torch.rand(*lead, generator=source) > 0.3).float(),
        next_observation=torch.randn(*lead, O, generator=source),
        cloning=0.7 * (torch.rand(*lead, generator=source) > 0.5).float(),
        proposed_action=torch.randn(*lead, A, generator=source).tanh(),
    )
    noise = draw_noise(config, A, source)
    return (
        Minibatches(*(field.to(dtype) for field in batch)),
        Noise(noise.next_action.to(dtype), noise.subset, noise.action.to(dtype)),
    )


class Reference:
    """One module a network, one optimiser each."""

    def __init__(self, config, parameters):
        self.config = config
        self.critics = [self.module("critic", parameters, e) for e in range(config.ensemble_size)]
        self.targets = [self.module("target_critic", parameters, e) for e in range(config.ensemble_size)]
        self.actor = self.module("actor", parameters, None)
        self.log_alpha = parameters["temperature/log_alpha"].double().clone().requires_grad_()
        # Adam is element by element, so one optimiser for all critics is the same as one for each.
        self.critic_adam = torch.optim.Adam(
            [p for critic in self.critics for p in critic.parameters()], config.critic_learning_rate
        )
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), config.actor_learning_rate)
        self.temperature_adam = torch.optim.Adam([self.log_alpha], config.temperature_learning_rate)

    def module(self, name, parameters, member):
        own = {k: v if member is None else v[member] for k, v in parameters.items() if k.startswith(f"{name}/")}
        activation = {"relu": nn.ReLU, "silu": nn.SiLU, "tanh": nn.Tanh}[self.config.activation]
        layers = []
        for layer in [*map(str, range(len(self.config.hidden))), "output"]:
            weight = own[f"{name}/{layer}/weight"]
            dense = nn.Linear(*weight.shape, dtype=torch.float64)
            dense.weight.data = weight.double().T.clone()
            dense.bias.data = own[f"{name}/{layer}/bias"].double().clone()
            layers.append(dense)
            if f"{name}/{layer}/scale" in own:
                norm = nn.LayerNorm(weight.shape[1], eps=1e-6, dtype=torch.float64)
                norm.weight.data = own[f"{name}/{layer}/scale"].double().clone()
                norm.bias.data = own[f"{name}/{layer}/shift"].double().clone()
                layers.append(norm)
            if layer != "output":
                layers.append(activation())
        return nn.Sequential(*layers)

    def policy(self, observation, noise):
        mean, log_std = self.actor(observation).split(A, dim=1)
        std = log_std.clamp(-20, 2).exp()
        distribution = Independent(TransformedDistribution(Normal(mean, std), [TanhTransform(cache_size=1)]), 1)
        transform = distribution.base_dist.transforms[0]
        action = transform(mean + std * noise)
        return action, distribution.log_prob(action)

    def update(self, batch, noise):
        config = self.config
        losses, values_seen, targets_seen = [], [], []
        for u in range(config.update_to_data):
            with torch.no_grad():
                action, log_prob = self.policy(batch.next_observation[u], noise.next_action[u])
                rows = torch.cat([batch.next_observation[u], action], 1)
                smallest = torch.stack([self.targets[e](rows)[:, 0] for e in noise.subset[u].tolist()])
                smallest = smallest.min(0).values
                if config.entropy_backup:
                    smallest = smallest - self.log_alpha.exp() * log_prob
                y = batch.reward[u] + batch.discount[u] * smallest
            rows = torch.cat([batch.observation[u], batch.action[u]], 1)
            values = [critic(rows)[:, 0] for critic in self.critics]
            loss = sum(((value - y) ** 2).mean() for value in values)
            self.critic_adam.zero_grad()
            loss.backward()
            self.critic_adam.step()
            with torch.no_grad():
                for critic, target in zip(self.critics, self.targets, strict=True):
                    for source, copy in zip(critic.parameters(), target.parameters(), strict=True):
                        copy.copy_((1 - config.tau) * copy + config.tau * source)
            losses.append(loss.item() / config.ensemble_size)
            values_seen.append(torch.stack(values).detach())
            targets_seen.append(y)

        alpha = self.log_alpha.exp().item()
        action, log_prob = self.policy(batch.observation[-1], noise.action)
        rows = torch.cat([batch.observation[-1], action], 1)
        values = torch.stack([critic(rows)[:, 0] for critic in self.critics])
        value = values.mean(0) if config.actor_q == "mean" else values.min(0).values
        actor_loss = (alpha * log_prob - value).mean()
        mode = self.actor(batch.observation[-1])[:, :A].tanh()
        distance = ((mode - batch.proposed_action[-1]) ** 2).sum(1)
        weights = batch.cloning[-1]
        if config.cloning_filter:
            with torch.no_grad():
                rows = [torch.cat([batch.observation[-1], each], 1) for each in (batch.proposed_action[-1], mode)]
                shown, own = (sum(critic(each)[:, 0] for critic in self.critics) for each in rows)
            assert 0 < (shown < own).sum() < len(weights), "some rows are filtered, and some are not"
            weights = torch.where(shown < own, 0.0, weights)
        self.actor_adam.zero_grad()
        (actor_loss + (weights * distance).mean()).backward()
        self.actor_adam.step()

        entropy = -log_prob.detach().mean()
        target = -A / 2 if config.target_entropy is None else config.target_entropy
        self.temperature_adam.zero_grad()
        (self.log_alpha.exp() * (entropy - target)).backward()
        self.temperature_adam.step()
        seen = torch.stack(values_seen)
        metrics = (np.mean(losses), seen.mean(), seen.abs().max(), torch.stack(targets_seen).mean())
        return [float(x) for x in (*metrics, actor_loss.detach(), entropy, alpha)]

    def parameters(self):
        """Return the parameters in the layout of the thing that is tested."""
        found = {"temperature/log_alpha": self.log_alpha.detach()}
        for name, modules in (("critic", self.critics), ("target_critic", self.targets), ("actor", [self.actor])):
            stacked = [self.named(module) for module in modules]
            for key in stacked[0]:
                tensors = [named[key] for named in stacked]
                found[f"{name}/{key}"] = tensors[0] if name == "actor" else torch.stack(tensors)
        return found

    def named(self, module):
        named, layer = {}, -1
        for part in module:
            if isinstance(part, nn.Linear):
                layer += 1
                name = "output" if layer == len(self.config.hidden) else str(layer)
                named |= {f"{name}/weight": part.weight.detach().T, f"{name}/bias": part.bias.detach()}
            elif isinstance(part, nn.LayerNorm):
                named |= {f"{layer}/scale": part.weight.detach(), f"{layer}/shift": part.bias.detach()}
        return named


@pytest.mark.parametrize("variant", VARIANTS)
def test_update_is_the_reference_in_float64(variant):
    config = dataclasses.replace(SMALL, **VARIANTS[variant])
    parameters = initial(config, torch.float64)
    reference = Reference(config, parameters)
    update = TorchUpdate(config, train_state(parameters))
    for k in range(5):
        batch, noise = experience(config, torch.float64, seed=10 + k)
        found = update(batch, noise, k)
        expected = reference.update(batch, noise)
        assert dict(zip(METRICS, found.tolist(), strict=True)) == pytest.approx(
            dict(zip(METRICS, expected, strict=True)), rel=1e-8, abs=1e-10
        )
    expected_parameters = reference.parameters()
    assert parameters.keys() == expected_parameters.keys()
    for name, expected_tensor in expected_parameters.items():
        torch.testing.assert_close(parameters[name], expected_tensor, rtol=1e-8, atol=1e-10)


def test_update_in_float32_stays_near_the_reference():
    parameters = initial(SMALL, torch.float32)
    reference = Reference(SMALL, parameters)
    update = TorchUpdate(SMALL, train_state(parameters))
    for k in range(5):
        batch, noise = experience(SMALL, torch.float64, seed=10 + k)
        narrow = Minibatches(*(field.float() for field in batch))
        update(narrow, Noise(noise.next_action.float(), noise.subset, noise.action.float()), k)
        reference.update(batch, noise)
    for name, expected in reference.parameters().items():
        torch.testing.assert_close(parameters[name].double(), expected, rtol=1e-3, atol=1e-4)


def test_tensors_stay_where_they_are():
    parameters = initial(SMALL, torch.float32)
    state = train_state(parameters)
    before = {id(t): t.data_ptr() for tensors in state for t in tensors.values()}
    update = TorchUpdate(SMALL, state)
    update(*experience(SMALL, torch.float32), 0)
    after = {id(t): t.data_ptr() for tensors in state for t in tensors.values()}
    assert before == after
    assert all(not tensor.requires_grad for tensor in parameters.values())


def test_target_critics_that_are_not_in_the_subset_do_not_count():
    results = []
    for spoiled in (0.0, 1e3):
        parameters = initial(SMALL, torch.float32)
        parameters["target_critic/output/bias"][2] -= spoiled
        batch, noise = experience(SMALL, torch.float32)
        fixed = noise._replace(subset=torch.tensor([[0, 1]] * SMALL.update_to_data))
        metrics = TorchUpdate(SMALL, train_state(parameters))(batch, fixed, 0)
        results.append(metrics[METRICS.index("target_mean")].item())
    assert results[0] == results[1]


def test_subsets_are_drawn_without_replacement_and_uniformly():
    config = dataclasses.replace(SMALL, ensemble_size=5, target_subset=2, update_to_data=20_000, batch_size=1)
    subset = draw_noise(config, A, torch.Generator().manual_seed(0)).subset.numpy()
    assert (subset[:, 0] != subset[:, 1]).all()
    pairs, counts = np.unique(subset[:, 0] * 5 + subset[:, 1], return_counts=True)
    assert len(pairs) == 20
    # Chi-square with 19 degrees of freedom: above 43.8 with probability 0.001.
    expected = len(subset) / 20
    assert ((counts - expected) ** 2 / expected).sum() < 43.8


@pytest.mark.parametrize(("target_entropy", "direction"), [(50.0, 1), (-50.0, -1)])
def test_temperature_rises_when_there_is_too_little_entropy(target_entropy, direction):
    config = dataclasses.replace(SMALL, target_entropy=target_entropy)
    parameters = initial(config, torch.float32)
    before = parameters["temperature/log_alpha"].item()
    TorchUpdate(config, train_state(parameters))(*experience(config, torch.float32), 0)
    change = parameters["temperature/log_alpha"].item() - before
    assert change == pytest.approx(direction * config.temperature_learning_rate, rel=1e-4)


def test_bfloat16_learns_nearly_the_same():
    results = {}
    for precision in ("float32", "bfloat16"):
        config = dataclasses.replace(SMALL, precision=precision)
        parameters = initial(config, torch.float32)
        update = TorchUpdate(config, train_state(parameters))
        results[precision] = update(*experience(config, torch.float32), 0)
        assert all(tensor.dtype == torch.float32 for tensor in parameters.values())
    assert not torch.equal(results["float32"], results["bfloat16"])
    torch.testing.assert_close(results["float32"], results["bfloat16"], rtol=0.1, atol=0.05)


@pytest.mark.parametrize("variant", ["rlpd", "silu"])
def test_compiled_update_is_one_graph_and_the_same(variant, monkeypatch):
    # Traced as torch.compile does, but run without the minutes that code generation takes on a busy machine.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager", fullgraph=True))
    config = dataclasses.replace(SMALL, **VARIANTS[variant] | {"hidden": (8,)})
    results = []
    for compiled in (False, True):
        parameters = initial(config, torch.float32)
        update = TorchUpdate(config, train_state(parameters), compiled=compiled)
        metrics = [update(*experience(config, torch.float32, seed=k), k) for k in range(2)]
        results.append((torch.stack(metrics), parameters))
    torch.testing.assert_close(results[1][0], results[0][0], rtol=1e-4, atol=1e-5)
    for name, tensor in results[0][1].items():
        torch.testing.assert_close(results[1][1][name], tensor, rtol=1e-3, atol=1e-4)
