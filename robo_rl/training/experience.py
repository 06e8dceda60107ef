"""The steps that a run learns from, and the rewards that are computed for them."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..app import Components
from ..core import Metrics, State, Transition
from ..replay import MixedSampler, ReplayRing
from .earnings import Earnings


class Experience:
    """What was demonstrated and what came since, with the rewards of both.

    Args:
        components: of the run.
        online: takes the steps of the run.
        demonstrations: None where the agent learns from none.
        sampler: draws from both.
        relabel_rows: stored rewards that one step may bring up to date.

    Attributes:
        scorer: computes rewards; None where the task's own are used.
    """

    def __init__(
        self,
        components: Components,
        online: ReplayRing,
        demonstrations: ReplayRing | None,
        sampler: MixedSampler,
        relabel_rows: int,
    ) -> None:
        self.online, self.demonstrations, self.sampler = online, demonstrations, sampler
        self.scorer = components.reward.scorer
        self._reward, self._gamma = components.reward, components.agent.config.gamma
        self._relabel_rows = relabel_rows

    @property
    def is_ready(self) -> bool:
        """Whether there is something to sample: the first episode may be held back until its reward is known."""
        return bool(len(self.online)) or self.demonstrations is not None

    def new_earnings(self) -> Earnings:
        """Return what an episode has earned that begins."""
        return Earnings(self._reward, self.online.terms)

    def insert(self, transition: Transition) -> NDArray[np.float32]:
        """Store a step; return the reward terms (n, terms) of steps that are known now."""
        self.online.append([transition])
        if self.scorer is None:
            return np.array([[transition.rewards[name] for name in self.online.terms]], dtype=np.float32)
        return self.score()

    def score(self) -> NDArray[np.float32]:
        """Compute the rewards that are due; return the terms (n, terms)."""
        if self.scorer is None:
            return self.online.rows.values(np.zeros(0, np.intp))
        return self.online.rows.values(self.online.score_held(self.scorer, online=True))

    def cut_episode(self, actor: str | None = None) -> NDArray[np.float32]:
        """End an episode after the step that was stored last; return the terms (n, terms) that are known by that."""
        self.online.end_episodes(actor)
        return self.score()

    def update_rewards(self) -> Metrics:
        """Let rewards learn, and bring some of the stored ones up to date: as many as one step may cost."""
        if self.scorer is None:
            return {}
        metrics = self.scorer.update(self.online.rows)
        left = self._relabel_rows
        for ring in (self.online, self.demonstrations):
            if left and ring is not None:
                left -= ring.computed.relabel(self.scorer, left)
        self.follow_discount()
        return metrics

    def follow_discount(self) -> None:
        """Discount as the reward asks for, where it does."""
        wanted = self.scorer.discount if self.scorer else None
        self.sampler.gamma = self._gamma if wanted is None else wanted

    def save(self, parts: dict[str, State]) -> None:
        """Add to a checkpoint what computes rewards, and those of the demonstrations."""
        if self.scorer is not None:
            parts["reward"] = self.scorer.state()
            if self.demonstrations is not None:
                parts["demonstrations"] = self.demonstrations.computed.state()

    def load(self, parts: Mapping[str, State]) -> None:
        """Go on from the parts of a checkpoint; the steps of the run come from elsewhere."""
        if self.scorer is not None:
            self.scorer.load(parts["reward"])
            if self.demonstrations is not None:
                self.demonstrations.computed.load(parts["demonstrations"])
        self.sampler.load({"generator": parts["run"]["sampler"]})
        self.follow_discount()
