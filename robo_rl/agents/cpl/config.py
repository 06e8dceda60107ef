"""Configuration of contrastive preference learning."""

from dataclasses import dataclass
from typing import ClassVar

from robo_rl.core import option

from ..parts.offline_config import OfflineConfig


@dataclass(frozen=True)
class CPLConfig(OfflineConfig):
    """Contrastive preference learning (Hejna et al. 2024) from a data set of which pairs of segments were compared.

    The first ``cloning_steps`` of ``pretrain_steps`` imitate ``batch_size`` rows of the whole data set each. With more
    of the others wrong answers are learned by heart.

    Attributes (besides those of :class:`~robo_rl.agents.parts.offline_config.OfflineConfig`):
        gamma: discount of the likelihoods within a segment; the authors' code has none, which is 1.
        temperature: alpha of the paper: by how much a preferred action is taken to be better, for each unit of the
            squared distance of another to it.
        conservative_weight: lambda of the paper, in [0, 1]: how much what was not preferred is pushed away, in
            relation to how much what was preferred is drawn near. At 1 both may drift away from the data together.
        pairs: compared pairs of each step after those of imitation.
        cloning_steps: see above.
    """

    n_step: ClassVar[int] = 1  # no returns are estimated

    pretrain_steps: int = 1500
    gamma: float = option(1.0, low=0, high=1)
    temperature: float = option(1.0, above=0)
    conservative_weight: float = option(0.5, low=0, high=1)
    pairs: int = option(64, low=1)
    cloning_steps: int = option(1000, low=0)
