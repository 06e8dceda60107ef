"""What comes before the first step: rewards, normalisation, and learning from the demonstrations."""

from collections.abc import Callable, Iterator

import numpy as np

from ..core import Clock, ComparisonLearner, Interruption, MonotonicClock, OfflineLearner
from .run import Run

COUNT_SECONDS = 5.0
LOG_INTERVAL = 100


class Preparation:
    """Makes rewards, resets and agent ready for the first step."""

    def __init__(self, run: Run) -> None:
        self._run, self._agent, self._experience = run, run.agent, run.experience

    def run(self) -> None:
        """Learn all that the demonstrations tell, and save the first checkpoint.

        Raises:
            SystemExit: if somebody ends the run.
        """
        self._run.tell("learning from demonstrations")
        self._fit_rewards()
        if self._run.components.resets is not None:
            self._run.components.resets.fit(self._run.demonstration_episodes)
        self._run.demonstration_episodes.clear()
        if self._experience.demonstrations is not None:
            self._clone()
            self._pretrain_critics()
        self._run.save()

    def _fit_rewards(self) -> None:
        experience, scorer, episodes = self._experience, self._experience.scorer, self._run.demonstration_episodes
        if scorer is None:
            return
        with self._run.interruption.at_once("preparing rewards"):
            metrics = scorer.fit(episodes)
            if experience.demonstrations is not None:
                experience.demonstrations.score_held(scorer, online=False)
        if metrics:
            self._run.logger.log("reward", 0, **metrics)
        if experience.demonstrations is None and episodes:
            # The agent learns nothing else from them: what is normal to see is no action and no reward.
            normal = {key: np.concatenate([each[key] for each in episodes]) for key in episodes[0]}
            self._agent.fit_normaliser(normal)
        experience.follow_discount()

    def _clone(self) -> None:
        agent, experience = self._agent, self._experience
        assert experience.demonstrations is not None
        agent.fit_normaliser(experience.demonstrations.rows.everything(self._run.components.reward, agent.observed))
        if isinstance(agent, ComparisonLearner):
            agent.fit_comparisons(experience.scorer.comparisons if experience.scorer else None)
        sampler, size = experience.sampler, agent.config.batch_size
        for update in self._counted(agent.config.pretrain_steps, "cloning"):
            rows = sampler.sample_models(size) if agent.config.imitates else sampler.sample(size, size)
            metrics = agent.pretrain(rows)
            if update % LOG_INTERVAL == 0:
                self._run.logger.log("train", 0, pretrain_update=update, **metrics)

    def _pretrain_critics(self) -> None:
        """Let an agent whose values are to know the demonstrations learn them, after its cloning."""
        agent = self._agent
        if not isinstance(agent, OfflineLearner):
            return
        for update in self._counted(agent.offline_steps, "learning values"):
            metrics = agent.pretrain_critics(self._experience.sampler.sample_with_returns(agent.config.batch_size))
            if update % LOG_INTERVAL == 0:
                self._run.logger.log("train", 0, offline_update=update, **metrics)

    def _counted(self, updates: int, doing: str) -> Iterator[int]:
        """Count updates, for people, who may end the run."""

        def tell(text: str) -> None:
            self._run.tell(text)
            self._run.logger.message(text.capitalize())

        return counted_updates(updates, doing, self._run.interruption, tell)


def counted_updates(
    total: int, doing: str, interruption: Interruption, tell: Callable[[str], None], clock: Clock | None = None
) -> Iterator[int]:
    """Count updates from 1 to ``total``; say at the first, and then now and then, how many are done.

    Args:
        total: how many there are.
        doing: what they are, for people: ``cloning``.
        interruption: asked before each.
        tell: takes what is said.
        clock: monotonic time.

    Raises:
        SystemExit: if somebody ends the run.
    """
    clock = clock or MonotonicClock()
    counted_ns: int | None = None
    for update in range(1, total + 1):
        interruption.check(doing)
        now = clock.now_ns()
        if counted_ns is None or now - counted_ns >= COUNT_SECONDS * 1e9:
            tell(f"{doing} {update - 1:,}/{total:,} updates")
            counted_ns = now
        yield update
