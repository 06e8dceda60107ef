"""End of a run: the final evaluation, the last checkpoint and the summary."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from ..app import needed_packages
from ..core import (
    DivergenceError,
    DriverError,
    RankError,
    RoboRLError,
    SafetyStop,
    SpecError,
    counted,
    override,
    write_durably,
)
from ..evaluation import EvaluationResult
from ..evaluation.run_files import EPISODES
from ..telemetry import SUMMARY, write_summary
from .films import add_poster, film_failures, final_seed
from .results import cycle_time_facts, evaluation_facts, evaluation_lines, file_lines
from .run import Run

EXIT_DIVERGED = 1


class Ending:
    """Final part of a training run: takes the remaining steps and ends the run, whatever the outcome.

    Args:
        run: the run.
        summary: returns the entries of summary.json besides the results.
    """

    def __init__(self, run: Run, summary: Callable[[], dict[str, Any]]) -> None:
        self._run, self._summary = run, summary

    def after(self, loop: Callable[[], str]) -> int:
        """Take the remaining steps, evaluate, and write the results; return the exit code.

        Args:
            loop: takes the steps; returns ``completed``, ``reached``, ``stopped`` or ``interrupted``.

        Raises:
            DriverError: if a device or the environment failed; the run can be resumed.
            SpecError: if an observation or reward does not match the task's spec; the run can be resumed.
            SafetyStop: if the robot can no longer begin an episode; the run can be resumed.
            RankError: if one of several learner processes is gone; the run can be resumed.
            RenderingError: if a video cannot be made.
        """
        for name in (SUMMARY, EPISODES):  # written by an earlier process, and now out of date
            (self._run.folder / name).unlink(missing_ok=True)
        try:
            return self._end(loop)
        except BaseException as error:
            # If the final evaluation fails, all steps are complete and worth a checkpoint.
            if self._run.ends or isinstance(error, DriverError | SpecError | SafetyStop | RankError):
                self._run.attempt(self._run.save)
                self._run.attempt(partial(self._summarise, "interrupted"))
                self._report_how_to_resume("Ended")
            raise

    def _end(self, loop: Callable[[], str]) -> int:
        try:
            status = "reached" if self._run.reached else loop()
            self._run.logger.show_progress()
        except DivergenceError as error:
            return self._diverged(error)
        return self._interrupted() if status == "interrupted" else self._complete(status)

    def _diverged(self, error: DivergenceError) -> int:
        run = self._run
        run.logger.message(f"Diverged at step {run.step}: {error}")
        run.logger.message(f"The last good checkpoint is {run.checkpoints.folders()[-1]}.")
        run.attempt(partial(self._summarise, "diverged"))
        return EXIT_DIVERGED

    def _interrupted(self) -> int:
        number = self._run.interruption.signal
        assert number is not None
        self._run.save()
        self._summarise("interrupted")
        self._report_how_to_resume("Stopped")
        return 128 + number

    def _complete(self, status: str) -> int:
        """Evaluate the policy a last time and write all results."""
        run = self._run
        run.ends = True
        run.report("final evaluation")
        run.logger.message(f"Evaluating: {counted(run.settings.final_evaluation_episodes, 'episode')}")
        episodes = run.settings.final_evaluation_episodes
        result = run.evaluations(run.step, run.learner.updates, final_seed(run), episodes, run.video)
        minutes, seconds = run.step / run.spec.control_rate / 60, run.logger.wall_seconds
        steps = f"{counted(run.step, 'environment step')} ({minutes:.1f} robot-minutes) in {seconds:.0f} s"
        for line in (*evaluation_lines(result, run.demonstrations_cycle_time), steps + self._early_end(status)):
            run.logger.message(line)
        run.reached = False
        run.save()
        self._summarise(status, result)
        self._show(result)
        best, allow = run.checkpoints.best(), needed_packages(run.config)
        for line in file_lines(run.folder, best, result.video, allow):
            run.logger.message(line)
        return 0

    def _show(self, result: EvaluationResult) -> None:
        """Write the episodes of the final evaluation, and their videos; failures to write them are only reported."""
        run = self._run
        try:
            write_durably(run.folder / EPISODES, f"{json.dumps(result.to_json())}\n".encode())
            if result.video is not None:
                add_poster(result.video)
                film_failures(run, result)
        except (OSError, RoboRLError) as error:  # the run is complete, and its results are written
            missing = f"{EPISODES} or videos of failures are missing"
            run.logger.message(f"Warning: {missing}: {type(error).__name__}: {error}")

    def _early_end(self, status: str) -> str:
        """Return the reason why the run ends early, to be appended to the number of steps."""
        if status == "reached":
            return f"; it ended early because an evaluation reached {self._run.evaluations.goal()}"
        return "; it ended early because an operator stopped it" if status == "stopped" else ""

    def _report_how_to_resume(self, ended: str) -> None:
        command = f"robo-rl train {override('resume', self._run.folder)}"
        self._run.logger.message(f"{ended} at step {self._run.step}. Resume with: {command}")

    def _summarise(self, status: str, result: EvaluationResult | None = None) -> None:
        run, updates = self._run, self._run.learner.updates * self._run.agent.config.update_to_data
        write_summary(
            run.folder,
            status=status,
            task=run.spec.task,
            agent=run.config.choices.agent,
            seed=run.config.seed,
            env_steps=run.step,
            robot_minutes=run.step / run.spec.control_rate / 60,
            wall_seconds=run.logger.wall_seconds,
            **evaluation_facts(result),
            demonstrations_cycle_time=cycle_time_facts(run.demonstrations_cycle_time),
            steps_to_95=run.evaluations.steps_to_95,
            updates_per_second=updates / run.update_seconds if run.update_seconds else None,
            learner=run.agent.implementation,
            **({} if run.started_from is None else {"started_from": run.started_from}),
            **self._summary(),
            safety=run.safety.state(),
        )
