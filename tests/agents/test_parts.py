"""Parts that agents share: the optimiser of several networks, target networks, and the state of offline agents."""

import numpy as np
import pytest
import torch

from robo_rl.agents.parts.adam import Adam
from robo_rl.agents.parts.networks import actor_distribution, actor_mode, initialise_network, track
from robo_rl.agents.parts.offline_agent import OfflineAgent
from robo_rl.agents.parts.offline_config import OfflineConfig
from robo_rl.agents.parts.policy import TanhGaussianPolicy
from robo_rl.core import ArraySpec, CheckpointError

from ..rigs.specs import toy_spec

SPEC = toy_spec({"state": ArraySpec((2,))}, 1)


def network(name, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return initialise_network(name, (3, 8, 2), generator, layer_norm=False, output_gain=1.0)


def distance(parameters):
    return sum((tensor - 0.3).square().sum() for tensor in parameters.values())


def test_each_network_descends_its_loss_as_with_an_optimiser_of_its_own():
    parameters = network("critic", 0) | network("actor", 1)
    expected = {name: tensor.clone().requires_grad_() for name, tensor in parameters.items()}
    theirs = {
        part: torch.optim.Adam([tensor for name, tensor in expected.items() if name.startswith(part)], 0.01)
        for part in ("critic", "actor")
    }
    optimiser = Adam(parameters, 0.01)
    for step in range(1, 5):
        for part, number in (("critic", step), ("actor", step // 2)):
            if part == "actor" and step % 2:
                continue
            theirs[part].zero_grad()
            loss = distance({name: tensor for name, tensor in expected.items() if name.startswith(part)})
            loss.backward()
            theirs[part].step()
            assert float(optimiser.descend(part, distance, number)) == pytest.approx(loss.item())
    for name, tensor in expected.items():
        torch.testing.assert_close(parameters[name], tensor.detach())


def test_an_optimiser_that_restarts_is_a_new_one():
    used, fresh = network("actor"), network("actor")
    optimiser = Adam(used, 0.01)
    optimiser.descend("actor", distance, 1)
    for name, tensor in fresh.items():
        used[name].copy_(tensor)
    optimiser.restart()
    optimiser.descend("actor", distance, 1)
    Adam(fresh, 0.01).descend("actor", distance, 1)
    for name, tensor in fresh.items():
        torch.testing.assert_close(used[name], tensor, rtol=0, atol=0)


def test_a_target_network_moves_a_share_towards_its_network():
    parameters, target = network("critic", 0), network("critic", 1)
    before = {name: tensor.clone() for name, tensor in target.items()}
    track(target, parameters | network("actor"), 0.25)
    for name, tensor in target.items():
        torch.testing.assert_close(tensor, 0.75 * before[name] + 0.25 * parameters[name])


def test_the_mode_is_the_action_without_noise():
    actor, rows = network("actor"), torch.randn(4, 3)
    mean, _ = actor_distribution(actor, rows, "relu")
    torch.testing.assert_close(actor_mode(actor, rows, "relu"), mean.tanh())


class Drawing(OfflineAgent):
    """Learns nothing, but draws a number in each update."""

    def __init__(self, seed):
        class Config(OfflineConfig):
            hidden = (4,)

        super().__init__(TanhGaussianPolicy(Config(), SPEC, seed), 1)
        self._generators["noise"] = torch.Generator().manual_seed(seed)

    def update(self, batch):
        self._updates += 1
        return {"drawn": float(torch.rand((), generator=self._generators["noise"]))}

    def _slots(self):
        return self._policy.slots() | {"updates": self._updates}


def test_random_generators_of_an_offline_agent_are_part_of_its_state():
    first, second = Drawing(0), Drawing(1)
    first.update({})
    second.load(first.state())
    assert first.update({}) == second.update({})
    with pytest.raises(CheckpointError, match="generator/noise"):
        second.load({name: array for name, array in first.state().items() if name != "generator/noise"})


def test_an_offline_agent_that_has_learned_keeps_its_normalisation():
    agent = Drawing(0)
    rows = {"observation/state": np.ones((4, 2), np.float32)}
    agent.fit_normaliser(rows)
    agent.update({})
    with pytest.raises(RuntimeError, match="cannot change"):
        agent.fit_normaliser(rows)
