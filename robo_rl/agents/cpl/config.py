"""Configuration of contrastive preference learning."""

from dataclasses import dataclass
from typing import ClassVar

from robo_rl.core import option

from ..parts.offline_config import OfflineConfig


@dataclass(frozen=True)
class CPLConfig(OfflineConfig):
    """Contrastive preference learning (Hejna et al. 2024) from a data set with compared pairs of segments.

    Each of the first ``cloning_steps`` of the ``pretrain_steps`` steps imitates ``batch_size`` rows of the whole data
    set. With more of the remaining steps, wrong answers are memorised.

    Attributes (besides those of :class:`~robo_rl.agents.parts.offline_config.OfflineConfig`):
        gamma: discount of the likelihoods within a segment; 1: none, as in the authors' code.
        temperature: alpha of the paper: advantage of a preferred action over another one, per unit of their squared
            distance.
        conservative_weight: lambda of the paper, in [0, 1]: how strongly the policy is pushed away from the other
            segment, relative to how strongly it is drawn to the preferred one. At 1, both may drift away from the data
            together.
        pairs: number of compared pairs in each step after cloning.
        cloning_steps: number of the first steps, which clone the data set, see above.
    """

    n_step: ClassVar[int] = 1  # no returns are estimated

    pretrain_steps: int = 1500
    gamma: float = option(1.0, low=0, high=1)
    temperature: float = option(1.0, above=0)
    conservative_weight: float = option(0.5, low=0, high=1)
    pairs: int = option(64, low=1)
    cloning_steps: int = option(1000, low=0)
