"""Configuration of Q-chunking."""

from dataclasses import dataclass

from robo_rl.core import option

from ..parts.native_flow_config import NativeFlowConfig


@dataclass(frozen=True)
class QCConfig(NativeFlowConfig):
    """Q-chunking (Li et al. 2025): the best of several samples of a flow, by critics of whole chunks.

    Attributes (besides those of :class:`~robo_rl.agents.parts.native_flow_config.NativeFlowConfig`):
        candidates: number of chunks that are sampled for each decision and each target. The critics choose the one with
            the largest value, by ``target_q`` over the ensemble. 1: no choice, the policy imitates the data. The paper
            has 32.
        selection_starts: steps of learning values, on the demonstrations (``offline_steps``) and in the environment,
            before the critics choose. Until then a single chunk is sampled for each decision and each target: critics
            that have only seen demonstrations choose worse than chance.
    """

    candidates: int = option(8, low=1)
    selection_starts: int = option(3500, low=0)
