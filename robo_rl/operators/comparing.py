"""Episodes of a comparison of policies, each of which is written to disk when it ends."""

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from omegaconf import DictConfig

from ..app import has_robot
from ..core import (
    DEADMAN,
    EMERGENCY_STOP,
    Closing,
    ConfigError,
    DataError,
    EnvBackend,
    Policy,
    SafetyStop,
    counted,
    generator,
    parse_json,
    reading,
)
from ..evaluation import EpisodeOutcome, evaluate
from ..evaluation.comparison import ComparedEpisode, Comparison, ComparisonPlan
from ..replay.disk import CommitLog
from .marks import EpisodeDiscarded, EpisodeMarks, MarkedBackend, StartView
from .panel import open_panel
from .takeover import has_person


class ComparisonJournal(Closing):
    """File of an unfinished comparison: a line with the plan, and a line for each finished episode.

    Args:
        path: the file, which is continued if it exists.
        plan: the plan, which must match that of an existing file; the secret in that file applies.

    Attributes:
        comparison: plan and episodes.

    Raises:
        ConfigError: if the file belongs to another plan.
        DataError: if it is damaged, or in use by another process.
    """

    def __init__(self, path: Path, plan: ComparisonPlan) -> None:
        self.path = path
        path.touch()
        self._log = CommitLog(path, writable=True)
        try:
            self.comparison = self._begun(plan)
        except BaseException:
            self._log.close()
            raise

    def _begun(self, plan: ComparisonPlan) -> Comparison:
        if len(self._log.lines) == 1:  # no episode has ended yet: the plan is written again
            self._log.drop_last()
        if not self._log.lines:
            self._log.append(json.dumps(dataclasses.asdict(plan)).encode())
            return Comparison(plan)
        with reading(self.path, DataError, "remove it to start the comparison again"):
            first, *rest = [parse_json(line, str(self.path)) for line in self._log.lines]
            comparison = Comparison.of_json(first, rest)
        if differing := comparison.plan.differences(plan):
            raise ConfigError(
                f"{self.path} is an unfinished comparison with other values of {', '.join(differing)}: give the same "
                "options to continue it (a checkpoint by its number, if there is a newer one), or another output"
            )
        return comparison

    def append(self, episode: ComparedEpisode) -> None:
        """Add an episode; on return it is on disk."""
        self._log.append(json.dumps(dataclasses.asdict(episode)).encode())
        self.comparison = Comparison(self.comparison.plan, (*self.comparison.episodes, episode))

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._log.close()

    def remove(self) -> None:
        """Remove the file of a comparison that has been stored elsewhere."""
        self.close()
        self.path.unlink()


@contextmanager
def kept(journal: ComparisonJournal, report: Callable[[str], None] = print) -> Iterator[None]:
    """Report at the beginning of the block, and if it ends early, which episodes the journal holds."""
    if done := len(journal.comparison.episodes):
        report(f"Continued after {counted(done, 'episode')}")
    try:
        yield
    except BaseException:
        if done := len(journal.comparison.episodes):
            report(f"Stopped after {counted(done, 'episode')} ({journal.path}); the same command continues")
        raise


@contextmanager
def watched(config: DictConfig, backend: EnvBackend, by_person: bool, confirms: bool | None) -> Iterator[MarkedBackend]:
    """Open the panel of the person whom ``config`` names, if any, for the block.

    Args:
        config: configuration with the sections ``teleop``, ``steering``, ``web`` and ``safety``.
        backend: robot or simulator.
        by_person: whether the person's judgement counts instead of the task's.
        confirms: whether each episode waits until the person has restored the start; None: on a robot.

    Raises:
        ConfigError, DriverError: see :func:`open_panel`.
    """
    view, panel = StartView(backend), None
    if person := has_person(config):
        device = config.teleop.device
        panel = open_panel(config, view, device, f"{device or 'steering'} of the comparison")
    try:
        yield MarkedBackend(view, panel, by_person, person and has_robot(config) if confirms is None else confirms)
    finally:
        if panel is not None:
            panel.close()


def compare(
    journal: ComparisonJournal,
    backend: MarkedBackend,
    policies: Sequence[Policy],
    *,
    clips: Path | None = None,
    spot_checks: float = 0.0,
    report: Callable[[str], None] = print,
) -> Comparison:
    """Run the remaining episodes of a comparison until it is decided.

    All policies act from a start state before any acts from the next one, in random order. No displayed or reported
    text names a policy.

    Args:
        journal: plan and episodes so far.
        backend: robot or simulator.
        policies: policies in the order of the plan.
        clips: folder for videos of failures; None: no videos.
        spot_checks: share of the episodes that a person judges in addition to the task.
        report: receives a line for each episode.

    Raises:
        SafetyStop, RenderingError: see :func:`evaluate`.
        SessionEnded: if the person ended the session.
    """
    plan = journal.comparison.plan
    most = plan.pairs * len(policies)
    while not journal.comparison.finished:
        number = len(journal.comparison.episodes)
        start, place = divmod(number, len(policies))
        asks = bool(generator(plan.secret, "spot check", number).random() < spot_checks)
        backend.announce(f"episode {number + 1} of at most {most}", repeats_start=place > 0, asks=asks)
        acting = plan.order(start)[place]
        clip = None if clips is None else clips / f"episode_{number + 1:04}.mp4"
        try:
            result = evaluate(backend, policies[acting], 1, plan.start_seed(start), video=clip)
        except EpisodeDiscarded:
            report(f"Episode {number + 1} was discarded and is repeated")
            continue
        except SafetyStop as stop:
            # A stopped episode counts. Otherwise only episodes would count in which no person had to stop the robot.
            if backend.marks.steps and stop.reason in (EMERGENCY_STOP, DEADMAN):
                # true if the person stopped the robot only after the success
                solved = plan.success == "task" and bool(backend.marks.task)
                journal.append(_stopped(start, acting, solved, backend.marks, stop))
            raise
        episode = _compared(start, acting, result.episodes[0], backend.marks)
        if result.video is not None and episode.success:
            result.video.unlink()
        elif result.video is not None:
            episode = dataclasses.replace(episode, clip=os.path.relpath(result.video, journal.path.parent))
        journal.append(episode)
        seconds = f"{episode.steps / plan.control_rate:.1f} s"
        report(f"Episode {number + 1} of at most {most}: {episode.end} after {seconds}")
    report(f"The comparison ended after {counted(len(journal.comparison.episodes), 'episode')}")
    return journal.comparison


def _stopped(start: int, policy: int, solved: bool, marks: EpisodeMarks, stop: SafetyStop) -> ComparedEpisode:
    """Return an episode in which a person stopped the robot, which counts as failed unless the task was ``solved``."""
    success = solved and not marks.interventions
    end, note = ("success", "") if success else ("robot stopped", str(stop))
    return ComparedEpisode(start, policy, success, marks.steps, end, note, marks.interventions, task=marks.task)


def _compared(start: int, policy: int, outcome: EpisodeOutcome, marks: EpisodeMarks) -> ComparedEpisode:
    """Return the episode of a policy; one with an intervention counts as failed."""
    success = bool(outcome.success) and not marks.interventions
    if success:
        end = "success"
    elif marks.interventions:
        end = "intervention"
    elif outcome.stopped:
        end = "robot stopped"
    elif marks.pressed:
        end = "marked as failed"
    else:
        end = "task ended" if outcome.terminated else "time limit"
    solved = outcome.steps_to_success if success else None
    return ComparedEpisode(
        start,
        policy,
        success,
        outcome.length if solved is None else solved,
        end,
        outcome.stopped,
        marks.interventions,
        marks.person,
        marks.task,
    )
