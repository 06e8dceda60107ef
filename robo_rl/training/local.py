"""A training run in one process: actor and learner in turn."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig

from ..actor import Actor, EpisodeRefusedError
from ..app import make_intervention, section
from ..core import (
    DivergenceError,
    DriverError,
    Interruption,
    Metrics,
    SafetyStop,
    SpecError,
    State,
    Transition,
)
from ..learner import Checkpoint
from ..operators.takeover import check_device, open_takeover
from ..safety import ACTION_NOT_FINITE
from .base import Training
from .collector import Collector
from .earnings import Earnings
from .evaluations import PERSON_POLL_SECONDS
from .operators import LocalOperators

ENVIRONMENT_FAILED = "environment_failed"
"""Why an episode ended in whose next step the simulator failed."""


class LocalTraining(Training):
    """One run in one process: deterministic, and resumed bit for bit."""

    _operators: LocalOperators
    _earnings: Earnings

    def __init__(self, config: DictConfig, folder: Path, interruption: Interruption) -> None:
        check_device(config, "this one shows the run")
        super().__init__(config, folder, interruption)
        if self.parts.resets is not None:
            self.parts.resets.watch(self.logger.status, self.logger.message, self._operators.heed)

    # --- the loop ----------------------------------------------------------------------------------------------------

    def _loop(self) -> str:
        while self.step < self.settings.env_steps and self.parts.agent.config.learns_online:
            if (status := self._asked_status()) is not None:
                return status
            if self._operators.paused:
                self._tell("paused")
                self._operators.wait()
                continue
            self._tell("training")
            try:
                if self.actor.is_between_episodes:
                    self._collector.begin_episode()
                    continue
                transition = self._take_step()
            except EpisodeRefusedError as refusal:
                self.logger.message(f"Episode ended at step {self.step}: {refusal}")
                self._cut_episode("irreversible", self.actor.episode_length)
                continue
            except SafetyStop as stop:
                self._stopped(stop)
                continue
            except DivergenceError as error:
                self._reject_step(error)
                continue
            except DriverError:
                self._give_up_episode(self.actor.episode_length)
                raise
            self._earnings.add(self._insert(transition), self.sampler.gamma)
            self._log(transition, self._learn())
            if self._evaluate_or_save():
                return "reached"
        return "completed"

    def _take_step(self) -> Transition:
        """Take one step, as people have it.

        Raises:
            DivergenceError: if the policy's action was no number.
            SafetyStop: if the robot was stopped and no step came of it.
            EpisodeRefusedError: if the robot is to be brought back before it.
        """
        self._collector.policy_version = self._policy_version
        transition = self._collector.take_step(self.step, self.step)
        if ACTION_NOT_FINITE in transition.verdict.reasons:  # such a step can neither be stored nor counted
            raise DivergenceError(f"the policy is rejected, the robot held still: {transition.verdict.message}")
        self.step += 1
        self._operators.show(transition.next_observation)
        if self.parts.resets is not None:
            self.parts.resets.note(transition)
        return transition

    def _stopped(self, stop: SafetyStop) -> None:
        """Take note of an episode that was stopped without a step; wait where a person has to let it go on."""
        if self._safety.awaits_release and stop.waits:
            time.sleep(PERSON_POLL_SECONDS)
        else:
            self.logger.message(f"Stopped at step {self.step}: {stop}")
            self._cut_episode(stop.reason, self.actor.episode_length)
            self._safety.stopped(stop)
        self._operators.tell_stop(stop)

    def _reject_step(self, error: DivergenceError) -> None:
        """Have the agent go back, and end the episode before the step just taken, which cannot be stored.

        Raises:
            DivergenceError: as :meth:`_roll_back`.
        """
        self._roll_back(error)
        self._policy_version += 1
        self.actor.abandon_episode()
        self._cut_episode(ACTION_NOT_FINITE, self.actor.episode_length - 1)

    def _insert(self, transition: Transition) -> NDArray[np.float32]:
        """As :meth:`Training._insert`.

        Raises:
            SpecError: if the step is not what the task says. It does not count.
        """
        try:
            return super()._insert(transition)
        except SpecError as error:
            self.step -= 1
            length = self.actor.episode_length
            self._give_up_episode(length - 1)
            task = self.parts.backend.spec.task
            raise SpecError(f"task {task}, step {length} of the episode: {error}") from error

    def _give_up_episode(self, length: int) -> None:
        """End the open episode after the step that was stored last: a resumed run does not repeat what failed."""
        self.actor.abandon_episode()
        self._cut_episode(ENVIRONMENT_FAILED, length)

    def _cut_episode(self, reason: str, length: int) -> None:
        """Take note that the open episode ends after the step that was stored last, which does not say so.

        One without a step never was: there is nothing to log.
        """
        if not length:
            return
        self.online.end_episodes()
        if self._scorer is not None:
            self._earnings.add(self._score(self._scorer), self.sampler.gamma)
        self._end_episode(None, reason, length)

    def _learn(self) -> Metrics:
        """Do the updates that the step pays for; return nothing where it is too early for any."""
        if self.step < self.parts.agent.config.learning_starts or not self._can_learn():
            return {}
        metrics = self._learner_step()
        self._policy_version += 1
        return metrics

    def _evaluate_or_save(self) -> bool:
        """Evaluate and write checkpoints when they are due; return whether that is good enough to end the run."""
        settings = self.settings
        evaluated, reached = bool(settings.evaluation_interval) and self.step % settings.evaluation_interval == 0, False
        if evaluated:
            self._tell("evaluating")
            reached = self._evaluations.good_enough(self.step, self.learner.updates, self.config.seed)
        self._reached = reached
        if evaluated or self.step % settings.checkpoint_interval == 0:
            self._if_possible(self._save)
        return reached

    # --- what episodes come to ---------------------------------------------------------------------------------------

    def _log(self, transition: Transition, metrics: Metrics) -> None:
        logger = self.logger
        if metrics and logger.due(self.step):
            logger.log("train", self.step, **metrics)
        notice = self._safety.count(transition.verdict)
        if notice is not None:
            logger.message(f"At step {self.step}: {notice}")
        if transition.verdict.stop:
            logger.message(f"Stopped at step {self.step}: {transition.verdict.message}")
        if transition.terminated or transition.truncated:
            self._end_episode(transition.success, transition.verdict.stop_reason, self.actor.episode_length)
        updates = self.learner.updates * self.parts.agent.config.update_to_data
        logger.progress(self.step, self.settings.env_steps, updates)

    def _end_episode(self, success: bool | None, stopped: str | None, length: int) -> None:
        """Log the episode, of ``length`` steps, and begin to count the next."""
        self.logger.log(
            "episode",
            self.step,
            **self._earnings.metrics(),
            length=length,
            success=success,
            stopped=stopped,
            **self._safety.metrics(),
            **self._practice(),
        )
        self._watch(self.actor.episode, self._earnings, length, success)
        self._earnings = self._no_earnings()

    def _practice(self) -> Metrics:
        """Return what practice without resets came to; nothing where a seed begins every episode."""
        return {} if self.parts.resets is None else self.parts.resets.metrics()

    # --- experience --------------------------------------------------------------------------------------------------

    def _open_experience(self) -> None:
        seed, backend = self.config.seed, self.parts.backend
        self.actor = Actor(backend, seed, resets=self.parts.resets)
        self._intervention = make_intervention(section(self.config, "intervention"), backend, seed)
        takeover = open_takeover(self.config, backend)
        self._operators = LocalOperators(self.live, self._interruption, backend, self.actor, takeover)
        self._collector = Collector(
            self.actor, backend, self.parts.agent, self._operators, self._intervention, self.config.seed
        )
        self._earnings = self._no_earnings()

    def _save_experience(self, parts: dict[str, State], facts: dict[str, Any]) -> None:
        parts["replay"] = self.online.state()
        if self._intervention is not None:
            parts["intervention"] = self._intervention.state()
        parts["run"] |= {f"actor/{key}": value for key, value in self.actor.state().items()}
        if self.parts.resets is not None:
            parts["resets"] = self.parts.resets.save()
        facts |= {**self._earnings.facts(), "episodes": self.logger.episodes}

    def _load_experience(self, checkpoint: Checkpoint) -> None:
        parts, facts = checkpoint.parts, checkpoint.facts
        self.online.load(parts["replay"])
        if self._intervention is not None:
            self._intervention.load(parts.get("intervention", {}))
        if self.parts.resets is not None:
            self.parts.resets.load(parts["resets"])
        prefix, saved = "actor/", parts["run"]
        self.actor.load({key.removeprefix(prefix): value for key, value in saved.items() if key.startswith(prefix)})
        self._earnings.load(facts)
        if self.actor.is_between_episodes:
            # Where it was not when this was saved, its world could not be told: that episode ends without its rest.
            self.online.end_episodes()
            self._earnings = self._no_earnings()

    def _experience_summary(self) -> dict[str, Any]:
        practice = {name.removeprefix("practice/"): value for name, value in self._practice().items()}
        return {"practice": practice} if practice else {}
