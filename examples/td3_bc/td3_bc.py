"""TD3+BC (Fujimoto and Gu 2021): TD3 on a data set, with an actor that also imitates the data set."""

from dataclasses import dataclass
from typing import Any

import torch
from hydra.core.config_store import ConfigStore
from torch import Tensor

from robo_rl.agents.parts.adam import Adam
from robo_rl.agents.parts.networks import Parameters, actor_mode, critic_values, initialise_network, track
from robo_rl.agents.parts.offline_agent import OfflineAgent
from robo_rl.agents.parts.offline_config import OfflineConfig
from robo_rl.agents.parts.policy import TanhGaussianPolicy
from robo_rl.core import Batch, EnvSpec, Metrics, config_node, derive_seed, option


@dataclass(frozen=True)
class TD3BCConfig(OfflineConfig):
    """Options of the agent; networks, learning rate and normalisation are those of :class:`OfflineConfig`."""

    gamma: float = option(0.99, low=0, high=1)  # discount per environment step
    tau: float = option(0.005, above=0, high=1)  # share of the networks that goes into the target networks
    alpha: float = option(2.5, low=0)  # weight of the value in the actor's loss; 0: behaviour cloning
    target_noise: float = 0.2  # standard deviation of the noise on the target actor's actions
    noise_clip: float = 0.5  # largest magnitude of that noise
    actor_interval: int = option(2, low=1)  # critic updates for each update of the actor
    n_step: int = 1  # environment steps whose rewards are summed in a target


class TD3BC(OfflineAgent):
    """Two critics and a deterministic actor with target networks, trained on a data set."""

    def __init__(self, config: TD3BCConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(TanhGaussianPolicy(config, spec, seed), config.batch_size)
        self.config = config
        init = torch.Generator().manual_seed(derive_seed(seed, "agent", "critic"))
        sizes = (self._policy.input_size + self._policy.action_size, *config.hidden, 1)
        critic = initialise_network("critic", sizes, init, layer_norm=False, output_gain=1.0, ensemble=2)
        self._networks = critic | self._policy.parameters
        self._target = {name: tensor.clone() for name, tensor in self._networks.items()}
        self._optimiser = Adam(self._networks, config.learning_rate)
        self._generators["noise"] = torch.Generator().manual_seed(derive_seed(seed, "agent", "noise"))

    @torch.no_grad()
    def update(self, batch: Batch) -> Metrics:
        config, act = self.config, self.config.activation
        observation, action, reward, discount, following = self._rows(batch)
        noise = config.target_noise * torch.randn(action.shape, generator=self._generators["noise"])
        next_action = actor_mode(self._target, following, act) + noise.clamp(-config.noise_clip, config.noise_clip)
        next_value = critic_values(self._target, "critic", following, next_action.clamp(-1, 1), act).amin(0)
        target = reward + discount * next_value

        def critic_loss(critic: Parameters) -> Tensor:
            return (critic_values(critic, "critic", observation, action, act) - target).square().mean(1).sum()

        def actor_loss(actor: Parameters) -> Tensor:
            chosen = actor_mode(actor, observation, act)
            value = critic_values(self._networks, "critic", observation, chosen, act)[0]
            weight = config.alpha / value.abs().mean().detach()
            return (chosen - action).square().mean() - weight * value.mean()

        self._updates += 1
        update, interval = int(self._updates), config.actor_interval
        metrics = {"critic_loss": float(self._optimiser.descend("critic", critic_loss, update))}
        if update % interval == 0:
            metrics["actor_loss"] = float(self._optimiser.descend("actor", actor_loss, update // interval))
            track(self._target, self._networks, config.tau)
            self._policy.average(1.0)  # the policy acts with its newest parameters
        self._require_finite(metrics, update)
        return metrics

    def _slots(self) -> dict[str, Tensor]:
        target = {f"target_{name}": tensor for name, tensor in self._target.items()}
        return self._networks | target | self._policy.slots() | self._optimiser.slots() | {"updates": self._updates}


def make_td3_bc(*, spec: EnvSpec, seed: int, **fields: Any) -> TD3BC:
    return TD3BC(TD3BCConfig(**fields), spec, seed)


def register_configs() -> None:
    ConfigStore.instance().store(group="agent", name="td3_bc", node=config_node(make_td3_bc, TD3BCConfig))
