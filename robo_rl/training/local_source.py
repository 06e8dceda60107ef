"""Robot or simulator of a run in one process, and its open episode."""

from typing import Any

from ..actor import Actor
from ..app import find_stop_button, make_intervention, scene_limits
from ..core import DivergenceError, Metrics, SpecError, State, Transition, section
from ..learner import Checkpoint
from ..operators.takeover import open_takeover
from ..safety import ACTION_NOT_FINITE
from .collector import Collector
from .episodes import Episodes
from .operators import LocalOperators
from .run import Run

ENVIRONMENT_FAILED = "environment_failed"
"""Reason recorded for an episode whose next step failed in the simulator."""


class LocalSource:
    """Source of steps of a run in one process: an actor with the agent, operators and a simulated expert.

    Attributes:
        actor: steps through episodes.
        collector: chooses the actions of the actor.
        people: the operators beside the robot and at web pages.
    """

    def __init__(self, run: Run) -> None:
        config, backend = run.config, run.components.backend
        self._run, self._episodes, self._resets = run, Episodes(run), run.components.resets
        self.actor = Actor(backend, config.seed, resets=self._resets)
        self._intervention = make_intervention(section(config, "intervention"), backend, config.seed)
        takeover = open_takeover(config, backend)
        limits = scene_limits(config.safety, backend.robot)
        self.people = LocalOperators(
            run.live, run.interruption, backend, self.actor, takeover, find_stop_button(config), limits
        )
        self.collector = Collector(self.actor, backend, run.agent, self.people, self._intervention, config.seed)
        self._earnings = run.experience.new_earnings()

    def watch_resets(self) -> None:
        """From now on, report to operators how the robot returns to the start, and let it follow their commands."""
        if self._resets is not None:
            self._resets.watch(self._run.logger.status, self._run.logger.message, self.people.heed)

    def take_step(self) -> Transition:
        """Take one step of the open episode, and count it.

        Raises:
            DivergenceError: if the action of the policy was not finite.
            SafetyStop: if the robot was stopped before it could take a step.
            EpisodeRefusedError: if the robot has to be brought back before it can take a step.
        """
        run = self._run
        self.collector.policy_version = run.policy_version
        transition = self.collector.take_step(run.step, run.step)
        if ACTION_NOT_FINITE in transition.verdict.reasons:  # such a step is neither stored nor counted
            raise DivergenceError(f"the policy was rejected, and the robot held still: {transition.verdict.message}")
        run.step += 1
        self.people.show(transition)
        if self._resets is not None:
            self._resets.note(transition)
        return transition

    def insert(self, transition: Transition) -> None:
        """Store the step that was just taken.

        Raises:
            SpecError: if it does not match the task's spec. The step is not counted.
        """
        try:
            self._episodes.insert(transition, self._earnings)
        except SpecError as error:
            self._run.step -= 1
            length = self.actor.episode_length
            self.give_up_episode(ENVIRONMENT_FAILED, length - 1)
            raise SpecError(f"task {self._run.spec.task}, step {length} of the episode: {error}") from error

    def end_episode(self, success: bool | None, stopped: str | None, length: int) -> None:
        """Log the open episode of ``length`` steps, and start the counts of the next one."""
        self._episodes.end(self.actor.episode, length, self._earnings, success, stopped, self._practice())
        self._earnings = self._run.experience.new_earnings()

    def cut_episode(self, reason: str, length: int) -> None:
        """End the open episode with the last stored step, although that step was not marked as the last.

        An episode without steps is not logged.
        """
        if length:
            self._episodes.cut(self._earnings)
            self.end_episode(None, reason, length)

    def give_up_episode(self, reason: str, length: int) -> None:
        """End the open episode with the last stored step, so that a resumed run does not repeat the failed step."""
        self.actor.abandon_episode()
        self.cut_episode(reason, length)

    def _practice(self) -> Metrics:
        """Return the metrics of practice without resets; empty if every episode starts from a seed."""
        return {} if self._resets is None else self._resets.metrics()

    def summary(self) -> dict[str, Any]:
        """Return the entries of summary.json besides the results."""
        practice = {name.removeprefix("practice/"): value for name, value in self._practice().items()}
        return {"practice": practice} if practice else {}

    def save(self, parts: dict[str, State], facts: dict[str, Any]) -> None:
        """Add the steps and the state of their source to a checkpoint."""
        experience = self._run.experience
        parts["replay"] = experience.online.state()
        if experience.hindsight is not None:
            parts["hindsight"] = experience.hindsight.state()
        if self._intervention is not None:
            parts["intervention"] = self._intervention.state()
        parts["run"] |= {f"actor/{key}": value for key, value in self.actor.state().items()}
        if self._resets is not None:
            parts["resets"] = self._resets.state()
        facts |= {**self._earnings.state(), "episodes": self._run.logger.episodes}

    def load(self, checkpoint: Checkpoint) -> None:
        """Resume from a checkpoint."""
        parts, prefix = checkpoint.parts, "actor/"
        experience = self._run.experience
        experience.online.load(parts["replay"])
        # absent in checkpoints that are older than this option
        if experience.hindsight is not None and "hindsight" in parts:
            experience.hindsight.load(parts["hindsight"])
        if self._intervention is not None:
            self._intervention.load(parts.get("intervention", {}))
        if self._resets is not None:
            self._resets.load(parts["resets"])
        saved = parts["run"].items()
        self.actor.load({key.removeprefix(prefix): value for key, value in saved if key.startswith(prefix)})
        self._earnings.load(checkpoint.facts)
        if self.actor.is_between_episodes:
            # An episode that was open in the checkpoint ends early, because the state of its backend could not be
            # saved.
            experience.online.end_episodes()
            self._earnings = self._run.experience.new_earnings()
