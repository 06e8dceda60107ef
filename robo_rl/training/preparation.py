"""Preparation before the first step: rewards, normalisation, and learning from the demonstrations."""

from collections.abc import Callable, Iterator

import numpy as np

from ..core import ComparisonLearner, ConfigError, Interruption, MonotonicClock, OfflineLearner
from ..evaluation.run_start import start_text
from .films import film_first_policy
from .results import first_evaluation_text
from .run import Run

COUNT_SECONDS = 5.0
LOG_INTERVAL = 100


class Preparation:
    """Prepares rewards, resets and agent for the first step."""

    def __init__(self, run: Run) -> None:
        self._run, self._agent, self._experience = run, run.agent, run.experience

    def run(self) -> None:
        """Learn from the demonstrations, evaluate the result, and save the first checkpoint.

        Raises:
            SystemExit: if an operator ends the run.
        """
        if self._run.started_from is not None:
            self._run.logger.message(f"Started from {start_text(self._run.started_from)}")
        self._run.report("learning from demonstrations")
        self._fit_rewards()
        if self._run.components.resets is not None:
            self._run.components.resets.fit(self._run.demonstration_episodes)
        self._run.demonstration_episodes.clear()
        if self._experience.demonstrations is not None and self._run.started_from is None:
            self._clone()
            self._pretrain_critics()
        elif self._run.started_from is None:
            self._require_no_demonstrations()
        self._run.save()
        if self._evaluate():
            self._run.save()  # again, now with the score
            film_first_policy(self._run)

    def _require_no_demonstrations(self) -> None:
        """Check that the agent can learn without demonstrations, and without the policy of another run."""
        config = self._agent.config
        if getattr(config, "exploration", "fixed") == "demonstrations":
            raise ConfigError("agent.exploration=demonstrations measures a clone: set demonstrations.episodes above 0")
        if getattr(config, "needs_demonstrations", False):
            raise ConfigError(
                "this agent improves a policy that it clones first: set demonstrations.episodes above 0, or give "
                "start.run=RUN"
            )

    def _fit_rewards(self) -> None:
        experience, scorer, episodes = self._experience, self._experience.scorer, self._run.demonstration_episodes
        if scorer is None:
            return
        with self._run.interruption.at_once("preparing rewards"):
            metrics = scorer.fit(episodes)
            experience.score_fixed()
        if metrics:
            self._run.logger.log("reward", 0, **metrics)
        if experience.demonstrations is None and episodes and self._run.started_from is None:
            # The agent uses these observations for normalisation alone, because they have neither actions nor rewards.
            observations = {key: np.concatenate([each[key] for each in episodes]) for key in episodes[0]}
            self._agent.fit_normaliser(observations)
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
        """Pretrain the critics on the demonstrations after cloning, if the agent does that."""
        agent = self._agent
        if not isinstance(agent, OfflineLearner):
            return
        for update in self._counted(agent.offline_steps, "learning values"):
            metrics = agent.pretrain_critics(self._experience.sampler.sample_demonstrations(agent.config.batch_size))
            if update % LOG_INTERVAL == 0:
                self._run.logger.log("train", 0, offline_update=update, **metrics)

    def _evaluate(self) -> bool:
        """Evaluate the policy before the first step, so that the curve shows what reinforcement learning adds.

        Return whether it was evaluated. The result never ends the run, whose goals concern reinforcement learning.
        """
        run, settings = self._run, self._run.settings
        if not (settings.evaluation_interval and settings.env_steps and self._agent.config.learns_online):
            return False  # there is no curve, or the final evaluation is its only point
        run.report("evaluating")
        result = run.evaluations(0, run.learner.updates, run.config.seed, settings.evaluation_episodes)
        run.logger.message(f"Before the first step: {first_evaluation_text(result)}")
        return True

    def _counted(self, updates: int, doing: str) -> Iterator[int]:
        """Yield the numbers of updates, and report progress to operators, who may end the run."""

        def report(text: str) -> None:
            self._run.report(text)
            self._run.logger.message(text.capitalize())

        return counted_updates(updates, doing, self._run.interruption, report)


def counted_updates(total: int, doing: str, interruption: Interruption, report: Callable[[str], None]) -> Iterator[int]:
    """Yield the numbers from 1 to ``total``; report at the first, and then every few seconds, how many are done.

    Args:
        total: number of updates.
        doing: name of the activity, such as ``cloning``.
        interruption: checked before each update.
        report: receives the reports.

    Raises:
        SystemExit: if an operator ends the run.
    """
    clock = MonotonicClock()
    counted_ns: int | None = None
    for update in range(1, total + 1):
        interruption.check(doing)
        now = clock.now_ns()
        if counted_ns is None or now - counted_ns >= COUNT_SECONDS * 1e9:
            report(f"{doing} {update - 1:,}/{total:,} updates")
            counted_ns = now
        yield update
