"""Learner process of a run whose actors are separate processes."""

from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from ..app import AsyncRuntimeConfig, build_acting_agent, has_robot
from ..core import ConfigError, Interruption, section
from ..telemetry import Command
from ..transport import wanted_actors
from .arrivals import Arrivals, StoredSteps
from .async_operators import AsyncOperators
from .ending import Ending
from .evaluations import BackgroundEvaluations
from .pace import Pace, Ratios
from .preparation import Preparation
from .report import RuntimeReport
from .run import Run
from .schedule import BackgroundSchedule
from .updates import Updates
from .wire import IDLE_SECONDS, StartActors, Wire, actor_processes, check_actors


class AsyncTraining:
    """Training loop that learns from the steps of actors, and bounds the ratio of learner steps to environment steps.

    It differs from a run in one process as follows. Steps come through an :class:`Intake`, which stores them durably
    before actors delete them. Checkpoints therefore contain no replay buffer: a resumed run finds every acknowledged
    step in its store, and catches up on updates that the checkpoint lacks. Steps of open episodes stay with their
    actors until they are sent again, so the run may resume from an earlier step than the checkpoint's. Such a run is
    not deterministic. ``start_actors`` makes the object that starts actors; the other arguments are those of
    :class:`Run`.
    """

    def __init__(
        self, config: DictConfig, folder: Path, interruption: Interruption, start_actors: StartActors = actor_processes
    ) -> None:
        self._runtime: AsyncRuntimeConfig = section(config, "runtime")
        check_actors(config, self._runtime.actors)
        self._wire = Wire(config, folder, self._runtime, start_actors)
        try:
            self._wire.start()
            self.state = Run(config, folder, interruption)
            self._make_parts()
        except BaseException:
            self._wire.close()
            raise

    def _make_parts(self) -> None:
        run, wire, runtime = self.state, self._wire, self._runtime
        if run.components.resets is not None and run.components.resets.learns:
            raise ConfigError("reset=learned needs runtime=local: its agent learns beside the task's")
        operators = AsyncOperators(run.live, run.learner, run.folder)
        wire.open_store(run.spec)
        wire.intake.recover(run.experience.online, run.experience.recover)
        # only complete episodes are stored, so new steps belong to another segment
        run.experience.online.end_episodes()
        self._pace = pace = Pace(run, Ratios(runtime.min_ratio, runtime.max_ratio))
        stored = StoredSteps(run, wire.intake, pace)
        run.open(stored, operators)
        wire.open(run.spec, operators, run.logger.message)
        if not run.goes_on:
            Preparation(run).run()
        self._updates, self._arrivals = Updates(run), Arrivals(run, wire, operators)
        self._report = RuntimeReport(run, wire, self._arrivals, pace)
        make_copy = partial(build_acting_agent, run.config.agent, run.spec, run.config.seed)
        self._background = BackgroundEvaluations(run.evaluations, run.settings, run.logger, make_copy)
        self._schedule = BackgroundSchedule(run, self._background, pace, stored.evaluated, wire)
        self._actors_ended = False

    def run(self) -> int:
        """Run as in one process. Actors have ended on return; if this fails, actors on other machines keep waiting."""
        self._report.publish()
        self._guide()
        code = Ending(self.state, self._report.summary).after(self._loop)
        self._end_actors()
        return code

    def close(self) -> None:
        """End a running evaluation, the transport and the actors that were started; close the log and the backends."""
        self._background.close()
        self._wire.close()
        self.state.close()

    def _loop(self) -> str:
        status = self._schedule.finish(self._learn_until_done())
        self._end_actors()
        return status

    def _learn_until_done(self) -> str:
        run, wire = self.state, self._wire
        if not run.agent.config.learns_online:
            return "completed"
        while True:
            if (status := run.attend(self._obey)) is not None:
                return status
            doing = "training and evaluating" if self._schedule.is_evaluating else "training"
            run.report("paused" if wire.server.paused else doing)
            self._guide()  # before an update, because an update may be slow, in particular the first one
            if self._pace.may_update:
                self._update()
            elif run.step >= run.settings.env_steps:
                return "completed"
            else:
                with self._pace.waiting():
                    wire.intake.wait(IDLE_SECONDS)
                run.experience.score()  # an answer may have arrived after the episode was logged
            if self._report.is_due:
                self._report.write()
                wire.actors.watch(self._arrivals.actors)
            if self._schedule.evaluate_or_save():
                return "reached"

    def _update(self) -> None:
        run, metrics = self.state, self._updates.step()
        updates = run.policy_version = run.learner.updates
        if metrics is None or updates % self._runtime.publish_interval == 0:
            self._report.publish()
        if metrics and run.logger.due(updates):
            run.logger.log("train", run.step, **metrics)
        run.show_progress()

    def _guide(self) -> None:
        """Process the steps that arrived, and notify actors how many steps they may take."""
        self._arrivals.take()
        room = self._pace.room(len(self._wire.present()))
        self._wire.server.guide(room=room, stop=False, env_steps=self.state.step)

    def _obey(self, command: Command) -> None:
        wanted = wanted_actors(command.name)
        if command.name == "checkpoint":
            self._schedule.save()
        elif wanted is not None and wanted > 1 and has_robot(self.state.config):
            self.state.logger.message("There is one robot: it can have at most one actor")
        elif wanted is not None:
            self._wire.actors.resize(wanted)

    def _end_actors(self) -> None:
        """Notify actors that the run is over, and receive the steps that they still hold."""
        if not self._actors_ended:
            self._actors_ended = True
            self._wire.end(self.state.step, self._arrivals.take)
            self.state.show_progress()
            self._report.write()
