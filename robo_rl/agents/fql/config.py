"""Configuration of flow Q-learning."""

from dataclasses import dataclass

from robo_rl.core import option

from ..parts.flow_actor_critic_config import FlowActorCriticConfig


@dataclass(frozen=True)
class FQLConfig(FlowActorCriticConfig):
    """Flow Q-learning (Park et al. 2025), with action chunks as in QC-FQL (Li et al. 2025).

    Attributes (besides those of :class:`~robo_rl.agents.parts.flow_actor_critic_config.FlowActorCriticConfig`):
        distillation_weight: alpha of the paper: weight in the actor's loss of the squared distance between its chunk
            and that of the flow from the same noise, mean over elements. The larger, the closer to the data. With
            normalise_q=true try 0.03 to 10; the paper's values without it depend on the task and are 3 to 10000.
        normalise_q: whether the value in the actor's loss is divided by the mean magnitude of values in the minibatch,
            so that ``distillation_weight`` fits rewards of any scale.
    """

    distillation_weight: float = option(1.0, above=0)
    normalise_q: bool = True
