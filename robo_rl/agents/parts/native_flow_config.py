"""The common configuration of agents with a flow whose updates can be native."""

from dataclasses import dataclass

from robo_rl.core import option, require

from .choices import PRECISIONS
from .flow_actor_critic_config import FlowActorCriticConfig

IMPLEMENTATIONS = ("auto", "native", "torch")


@dataclass(frozen=True)
class NativeFlowConfig(FlowActorCriticConfig):
    """Options of the computation of updates.

    Attributes (besides those of :class:`~robo_rl.agents.parts.flow_actor_critic_config.FlowActorCriticConfig`):
        implementation: implementation of updates and of cloning: ``native`` (C++), ``torch``, or ``auto``: native if it
            is available, else torch.
        precision: precision of the factors of matrix products in native updates: ``float32``, ``bfloat16`` or
            ``auto``. With ``bfloat16``, parameters and sums stay in float32; on a processor without such products,
            ``implementation=auto`` uses float32. ``auto``: the faster of both, measured once on each machine. Updates
            in PyTorch, and decisions, are in float32.
    """

    # Options of one subclass each, without annotations. No candidates: the policy is a network of its own.
    candidates = 0
    distillation_weight = 0.0
    normalise_q = False

    implementation: str = option("auto", choices=IMPLEMENTATIONS)
    precision: str = option("float32", choices=PRECISIONS)

    def __post_init__(self) -> None:
        super().__post_init__()
        computable = self.implementation != "torch" or self.precision != "bfloat16"
        expected = "auto or float32 for agent.implementation=torch"
        require(computable, "agent.precision", expected, self.precision)
