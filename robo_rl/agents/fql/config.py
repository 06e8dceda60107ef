"""Configuration of flow Q-learning."""

from dataclasses import dataclass

from robo_rl.core import option

from ..parts.native_flow_config import NativeFlowConfig


@dataclass(frozen=True)
class FQLConfig(NativeFlowConfig):
    """Flow Q-learning (Park et al. 2025), with action chunks as in QC-FQL (Li et al. 2025).

    Attributes (besides those of :class:`~robo_rl.agents.parts.native_flow_config.NativeFlowConfig`):
        distillation_weight: alpha of the paper: weight, in the actor's loss, of the mean squared distance between its
            chunk and the chunk of the flow from the same noise. The larger, the closer to the data. The authors suggest
            0.03 to 10 with ``normalise_q``; their values without it are 3 to 10000, depending on the task.
        normalise_q: whether the value in the actor's loss is divided by the mean magnitude of the minibatch's values,
            so that ``distillation_weight`` is independent of the scale of rewards. The paper's default is false.
    """

    distillation_weight: float = option(1.0, above=0)
    normalise_q: bool = True
