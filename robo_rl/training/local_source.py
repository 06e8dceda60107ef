"""The robot or simulator of a run in one process, and its open episode."""

from typing import Any

from ..actor import Actor
from ..app import make_intervention, section
from ..core import DivergenceError, Metrics, SpecError, State, Transition
from ..learner import Checkpoint
from ..operators.takeover import open_takeover
from ..safety import ACTION_NOT_FINITE
from .collector import Collector
from .episodes import Episodes
from .operators import LocalOperators
from .run import Run

ENVIRONMENT_FAILED = "environment_failed"
"""Why an episode ended in whose next step the simulator failed."""


class LocalSource:
    """What takes the steps of a run in one process: an actor, with the agent, people and a simulated expert.

    Attributes:
        actor: steps through episodes.
        collector: chooses what it does.
        people: beside the robot, and at pages.
    """

    def __init__(self, run: Run) -> None:
        config, backend = run.config, run.components.backend
        self._run, self._episodes, self._resets = run, Episodes(run), run.components.resets
        self.actor = Actor(backend, config.seed, resets=self._resets)
        self._intervention = make_intervention(section(config, "intervention"), backend, config.seed)
        takeover = open_takeover(config, backend)
        self.people = LocalOperators(run.live, run.interruption, backend, self.actor, takeover)
        self.collector = Collector(self.actor, backend, run.agent, self.people, self._intervention, config.seed)
        self._earnings = run.experience.new_earnings()

    def watch_resets(self) -> None:
        """Tell people from now on how the robot is brought back, and have it heed them."""
        if self._resets is not None:
            self._resets.watch(self._run.logger.status, self._run.logger.message, self.people.heed)

    def take_step(self) -> Transition:
        """Take one step of the open episode, and count it.

        Raises:
            DivergenceError: if the policy's action was no number.
            SafetyStop: if the robot was stopped and no step came of it.
            EpisodeRefusedError: if the robot is to be brought back before it.
        """
        run = self._run
        self.collector.policy_version = run.policy_version
        transition = self.collector.take_step(run.step, run.step)
        if ACTION_NOT_FINITE in transition.verdict.reasons:  # such a step can neither be stored nor counted
            raise DivergenceError(f"the policy is rejected, the robot held still: {transition.verdict.message}")
        run.step += 1
        self.people.show(transition.next_observation)
        if self._resets is not None:
            self._resets.note(transition)
        return transition

    def insert(self, transition: Transition) -> None:
        """Store the step just taken.

        Raises:
            SpecError: if it is not what the task says. It does not count.
        """
        try:
            self._episodes.insert(transition, self._earnings)
        except SpecError as error:
            self._run.step -= 1
            length = self.actor.episode_length
            self.give_up_episode(ENVIRONMENT_FAILED, length - 1)
            raise SpecError(f"task {self._run.spec.task}, step {length} of the episode: {error}") from error

    def end_episode(self, success: bool | None, stopped: str | None, length: int) -> None:
        """Log the open episode, of ``length`` steps, and begin to count the next."""
        self._episodes.end(self.actor.episode, length, self._earnings, success, stopped, self._practice())
        self._earnings = self._run.experience.new_earnings()

    def cut_episode(self, reason: str, length: int) -> None:
        """Take note that the open episode ends after the step that was stored last, which does not say so.

        One without a step never was: there is nothing to log.
        """
        if length:
            self._episodes.cut(self._earnings)
            self.end_episode(None, reason, length)

    def give_up_episode(self, reason: str, length: int) -> None:
        """End the open episode after the step that was stored last: a resumed run does not repeat what failed."""
        self.actor.abandon_episode()
        self.cut_episode(reason, length)

    def _practice(self) -> Metrics:
        """Return what practice without resets came to; nothing where a seed begins every episode."""
        return {} if self._resets is None else self._resets.metrics()

    def summary(self) -> dict[str, Any]:
        """Return what summary.json says beside the results."""
        practice = {name.removeprefix("practice/"): value for name, value in self._practice().items()}
        return {"practice": practice} if practice else {}

    def save(self, parts: dict[str, State], facts: dict[str, Any]) -> None:
        """Add the steps to a checkpoint, and what they come from."""
        parts["replay"] = self._run.experience.online.state()
        if self._intervention is not None:
            parts["intervention"] = self._intervention.state()
        parts["run"] |= {f"actor/{key}": value for key, value in self.actor.state().items()}
        if self._resets is not None:
            parts["resets"] = self._resets.save()
        facts |= {**self._earnings.facts(), "episodes": self._run.logger.episodes}

    def load(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint."""
        parts, prefix = checkpoint.parts, "actor/"
        self._run.experience.online.load(parts["replay"])
        if self._intervention is not None:
            self._intervention.load(parts.get("intervention", {}))
        if self._resets is not None:
            self._resets.load(parts["resets"])
        saved = parts["run"].items()
        self.actor.load({key.removeprefix(prefix): value for key, value in saved if key.startswith(prefix)})
        self._earnings.load(checkpoint.facts)
        if self.actor.is_between_episodes:
            # Where it was not when this was saved, its world could not be told: that episode ends without its rest.
            self._run.experience.online.end_episodes()
            self._earnings = self._run.experience.new_earnings()
