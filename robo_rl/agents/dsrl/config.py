"""Configuration of diffusion steering."""

from dataclasses import dataclass
from typing import ClassVar

from robo_rl.core import option

from ..parts.flow_actor_critic_config import FlowActorCriticConfig


@dataclass(frozen=True)
class DSRLConfig(FlowActorCriticConfig):
    """Diffusion steering by noise aliasing (DSRL-NA, Wagenmaker et al. 2025) of a flow of action chunks.

    The defaults are for two processor cores. The paper has hidden=[2048,2048,2048], activation=tanh, update_to_data=20,
    batch_size=256, gamma=0.99, demonstration_ratio=0 and an initial temperature of 1. For further differences see
    :class:`.DSRL`.

    Attributes (besides those of :class:`~robo_rl.agents.parts.flow_actor_critic_config.FlowActorCriticConfig`):
        noise_bound: largest magnitude of each element of the noise that the actor chooses. The flow was trained with
            standard normal noise, so a larger bound permits less likely chunks.
        initial_temperature: initial temperature, the weight of the actor's entropy.
        target_entropy: entropy of the actor, of noise divided by ``noise_bound``, to which the temperature is tuned
            [nat].
        actor_delay: number of steps at the start in which only the critics learn. Until then the flow acts with
            standard normal noise.
    """

    needs_demonstrations: ClassVar[bool] = True

    pretrain_steps: int = option(10_000, low=1)
    offline_steps: int = option(0, low=0)
    update_to_data: int = option(4, low=1)
    learning_starts: int = option(500, low=0)
    target_q: str = "min"
    noise_bound: float = option(1.5, above=0, high=10)
    initial_temperature: float = option(0.001, above=0)
    target_entropy: float = 0.0
    actor_delay: int = option(1000, low=0)
