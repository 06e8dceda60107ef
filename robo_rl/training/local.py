"""Training run in one process: actor and learner take turns."""

import time
from pathlib import Path

from omegaconf import DictConfig

from ..actor import EpisodeRefusedError
from ..core import DivergenceError, DriverError, Interruption, Metrics, SafetyStop, Transition
from ..operators.takeover import check_device
from ..safety import ACTION_NOT_FINITE
from ..telemetry import Command
from .ending import Ending
from .evaluations import PERSON_POLL_SECONDS
from .local_source import ENVIRONMENT_FAILED, LocalSource
from .preparation import Preparation
from .run import Run
from .updates import Updates


class LocalTraining:
    """Run in one process: deterministic, and resumed bit for bit. The arguments are those of :class:`Run`."""

    def __init__(self, config: DictConfig, folder: Path, interruption: Interruption) -> None:
        check_device(config, "this one shows the run")
        self.state = run = Run(config, folder, interruption)
        self._source = source = LocalSource(run)
        self._updates = Updates(run)
        run.open(source, source.people)
        if not run.goes_on:
            Preparation(run).run()
        source.watch_resets()

    def run(self) -> int:
        """Take the remaining steps, evaluate, and write the results; return the exit code."""
        return Ending(self.state, self._source.summary).after(self._loop)

    def close(self) -> None:
        """Disconnect the operators, and close the log and the backends."""
        self.state.close()

    def _loop(self) -> str:
        settings, agent, people = self.state.settings, self.state.agent, self._source.people
        while self.state.step < settings.env_steps and agent.config.learns_online:
            if (status := self.state.attend(self._obey)) is not None:
                return status
            if people.paused:
                self.state.report("paused")
                people.wait()
                continue
            self.state.report("training")
            transition = self._take_step()
            if transition is None:
                continue
            self._source.insert(transition)
            self._log(transition, self._learn())
            if self._evaluate_or_save():
                return "reached"
        return "completed"

    def _obey(self, command: Command) -> None:
        if command.name == "checkpoint":
            self.state.attempt(self.state.save)

    def _take_step(self) -> Transition | None:
        """Take one step; return None if an episode was begun, or ended before its next step."""
        source, actor, step = self._source, self._source.actor, self.state.step
        try:
            if actor.is_between_episodes:
                source.collector.begin_episode()
                return None
            return source.take_step()
        except EpisodeRefusedError as refusal:
            self.state.logger.message(f"Episode ended at step {step}: {refusal}")
            self._source.cut_episode("irreversible", actor.episode_length)
        except SafetyStop as stop:
            self._stopped(stop)
        except DivergenceError as error:  # the step that was just taken cannot be stored
            self._updates.roll_back(error)
            self.state.policy_version += 1
            self._source.give_up_episode(ACTION_NOT_FINITE, actor.episode_length - 1)
        except DriverError:
            self._source.give_up_episode(ENVIRONMENT_FAILED, actor.episode_length)
            raise
        return None

    def _stopped(self, stop: SafetyStop) -> None:
        """Record an episode that was stopped without a step; wait if a person has to release the robot."""
        if self.state.safety.awaits_release and stop.waits:
            time.sleep(PERSON_POLL_SECONDS)
        else:
            self.state.logger.message(f"Stopped at step {self.state.step}: {stop}")
            self._source.cut_episode(stop.reason, self._source.actor.episode_length)
            self.state.safety.stopped(stop)
        self._source.people.report_stop(stop)

    def _learn(self) -> Metrics:
        """Perform the updates for one environment step; return no metrics if learning has not started."""
        starts = self.state.agent.config.learning_starts
        if self.state.step < starts or not self.state.experience.is_ready:
            return {}
        metrics = self._updates.step()
        self.state.policy_version += 1
        return metrics or {}

    def _log(self, transition: Transition, metrics: Metrics) -> None:
        logger, step, verdict = self.state.logger, self.state.step, transition.verdict
        if metrics and logger.due(step):
            logger.log("train", step, **metrics)
        if notice := self.state.safety.count(verdict):
            logger.message(f"At step {step}: {notice}")
        if verdict.stop:
            logger.message(f"Stopped at step {step}: {verdict.message}")
        if transition.terminated or transition.truncated:
            self._source.end_episode(transition.success, verdict.stop_reason, self._source.actor.episode_length)
        self.state.show_progress()

    def _evaluate_or_save(self) -> bool:
        """Evaluate and write checkpoints when they are due; return whether the result is good enough to end the run."""
        settings, step = self.state.settings, self.state.step
        evaluated, reached = bool(settings.evaluation_interval) and step % settings.evaluation_interval == 0, False
        if evaluated:
            self.state.report("evaluating")
            reached = self.state.evaluations.good_enough(step, self.state.learner.updates, self.state.config.seed)
        self.state.reached = reached
        if evaluated or step % settings.checkpoint_interval == 0:
            self.state.attempt(self.state.save)
        return reached
