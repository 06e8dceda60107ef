"""A training run in one process: actor and learner in turn."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..actor import ActionChoice, Actor, InterventionConfig, SimulatedIntervention
from ..app import section
from ..core import (
    DivergenceError,
    Metrics,
    Observation,
    SafetyStop,
    Scorer,
    Source,
    State,
    Transition,
    derive_seed,
    generator,
)
from ..learner import Checkpoint
from ..safety import ACTION_NOT_FINITE
from .evaluations import PERSON_POLL_SECONDS
from .operators import LocalOperators
from .takeover import check_screen, open_takeover
from .training import Training


class EpisodeRefusedError(Exception):
    """The robot is to be brought back rather than take the policy's next action; the message says why."""


class LocalTraining(Training):
    """One run in one process: deterministic, and resumed bit for bit."""

    _operators: LocalOperators
    _episode_return: float
    _episode_terms: dict[str, float]

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
                transition = self._take_step()
            except EpisodeRefusedError as refusal:
                self.logger.message(f"Episode ended at step {self.step}: {refusal}")
                self.actor.abandon_episode()
                self._cut_episode("irreversible")
                continue
            except SafetyStop as stop:
                self._stopped(stop)
                continue
            self._insert(transition)
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
        transition = self._operators.mark(self.actor.take_step(self._choose))
        if ACTION_NOT_FINITE in transition.verdict.reasons:  # such a step can neither be stored nor counted
            raise DivergenceError(f"the policy is rejected, the robot held still: {transition.verdict.message}")
        self.step += 1
        self._operators.show(transition.next_observation)
        if self.parts.resets is not None:
            self.parts.resets.note(transition)
        return transition

    def _choose(self, observation: Observation) -> ActionChoice:
        choice = self._policy_choice(observation)
        if self._intervention is not None:
            choice = self._intervention(observation, choice, self.step)
        choice = self._operators.choose(observation, choice)
        if self.parts.resets is not None and choice.source is not Source.HUMAN:
            refusal = self.parts.resets.refuses(observation, choice.action)
            if refusal:
                raise EpisodeRefusedError(refusal)
        return choice

    def _policy_choice(self, observation: Observation) -> ActionChoice:
        agent = self.parts.agent
        if self.step < agent.config.random_steps:
            rng = generator(self.config.seed, "random action", self.step)
            action = rng.uniform(-1, 1, self.parts.backend.spec.action.shape).astype(np.float32)
            return ActionChoice(action, Source.RANDOM)
        return ActionChoice(agent.act(observation, explore=True), Source.POLICY, self._policy_version)

    def _stopped(self, stop: SafetyStop) -> None:
        """Take note of an episode that was stopped without a step; wait where a person has to let it go on."""
        if self._safety.awaits_person and stop.by_person:
            time.sleep(PERSON_POLL_SECONDS)
        else:
            self.logger.message(f"Stopped at step {self.step}: {stop}")
            if self.actor.episode_length:
                self._cut_episode(stop.reason)
            self._safety.stopped(stop)
        self._operators.tell_stop(stop)

    def _cut_episode(self, reason: str) -> None:
        """Take note that the open episode ends after the step that was stored last, which does not say so."""
        self.online.end_episodes()
        if self._scorer is not None:
            self._earn(self.online.values(self.online.score_held(self._scorer, online=True)))
        self._end_episode(None, reason)

    def _insert(self, transition: Transition) -> None:
        """Store a transition, score what is due, and let learned rewards learn."""
        self.online.append([transition])
        if self._scorer is None:
            self._earn(np.array([[transition.rewards[name] for name in self.online.terms]], dtype=np.float32))
        else:
            self._earn(self.online.values(self.online.score_held(self._scorer, online=True)))
            if metrics := self._scorer.update(self.online):
                self.logger.log("reward", self.step, **metrics)
            self._relabel(self._scorer)
            self._follow_discount()

    def _relabel(self, scorer: Scorer) -> None:
        """Bring some of the stored rewards up to date: as many as one step may cost."""
        left = self.settings.relabel_rows
        for ring in (self.online, self.demonstrations):
            if left and ring is not None:
                left -= ring.relabel(scorer, left)

    def _learn(self) -> Metrics:
        """Do the updates that the step pays for; return nothing where it is too early for any."""
        # The first episode may be held back until its reward is known.
        there = len(self.online) or self.demonstrations is not None
        if self.step < self.parts.agent.config.learning_starts or not there:
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
        if evaluated or self.step % settings.checkpoint_interval == 0:
            self._save()
        return reached

    # --- what episodes come to ---------------------------------------------------------------------------------------

    def _earn(self, values: NDArray[np.float32]) -> None:
        """Count the reward terms (n, terms) of steps of the episode."""
        terms = self.online.terms
        self._episode_return += float(self.parts.reward.combine(terms, values, self.sampler.gamma).sum())
        for name, total in zip(terms, values.sum(0).tolist(), strict=True):
            self._episode_terms[name] += total

    def _log(self, transition: Transition, metrics: Metrics) -> None:
        logger = self.logger
        if metrics and logger.due(self.step):
            logger.log("train", self.step, **metrics)
        self._safety.count(transition.verdict)
        if transition.verdict.stop:
            logger.message(f"Stopped at step {self.step}: {transition.verdict.message}")
        if transition.terminated or transition.truncated:
            self._end_episode(transition.success, transition.verdict.reasons[-1] if transition.verdict.stop else None)
        updates = self.learner.updates * self.parts.agent.config.update_to_data
        logger.progress(self.step, self.settings.env_steps, updates)

    def _end_episode(self, success: bool | None, stopped: str | None) -> None:
        """Log the episode and begin to count the next."""
        length = self.actor.episode_length
        self.logger.log(
            "episode",
            self.step,
            episode_return=self._episode_return,
            length=length,
            success=success,
            **{f"reward/{name}": total for name, total in self._episode_terms.items()},
            stopped=stopped,
            **self._safety.metrics(),
            **self._practice(),
        )
        if self._evaluations.watch is not None:
            self._evaluations.watch.add_episode(self.actor.episode, self._episode_return, length, success)
        self._episode_return = 0.0
        self._episode_terms = dict.fromkeys(self._episode_terms, 0.0)
        if self._intervention is not None:
            self._intervention.end_episode()

    def _practice(self) -> Metrics:
        """Return what practice without resets came to; nothing where a seed begins every episode."""
        return {} if self.parts.resets is None else self.parts.resets.metrics()

    # --- experience --------------------------------------------------------------------------------------------------

    def _open_experience(self) -> None:
        seed, backend = self.config.seed, self.parts.backend
        self.actor = Actor(backend, seed, resets=self.parts.resets)
        intervention: InterventionConfig = section(self.config, "intervention")
        self._intervention: SimulatedIntervention | None = None
        if intervention.criterion != "never":
            expert = backend.expert(derive_seed(seed, "intervention"))
            self._intervention = SimulatedIntervention(intervention, expert, seed)
        check_screen(self.config, "this one shows the run")
        takeover = open_takeover(self.config, backend)
        self._operators = LocalOperators(self.live, self._interruption, backend, self.actor, takeover)
        self._episode_return = 0.0
        self._episode_terms = dict.fromkeys(self.online.terms, 0.0)

    def _save_experience(self, parts: dict[str, State], facts: dict[str, Any]) -> None:
        parts["replay"] = self.online.state()
        if self._intervention is not None:
            parts["intervention"] = self._intervention.state()
        parts["run"] |= {f"actor/{key}": value for key, value in self.actor.state().items()}
        if self.parts.resets is not None:
            parts["resets"] = self.parts.resets.save()
        facts |= {"episode_return": self._episode_return, "episode_terms": self._episode_terms}

    def _load_experience(self, checkpoint: Checkpoint) -> None:
        parts, facts = checkpoint.parts, checkpoint.facts
        self.online.load(parts["replay"])
        if self._intervention is not None:
            self._intervention.load(parts.get("intervention", {}))
        if self.parts.resets is not None:
            self.parts.resets.load(parts["resets"])
        prefix, saved = "actor/", parts["run"]
        self.actor.load({key.removeprefix(prefix): value for key, value in saved.items() if key.startswith(prefix)})
        self._episode_return = facts["episode_return"]
        self._episode_terms = facts.get("episode_terms", self._episode_terms)

    def _experience_summary(self) -> dict[str, Any]:
        practice = {name.removeprefix("practice/"): value for name, value in self._practice().items()}
        return {"practice": practice} if practice else {}
