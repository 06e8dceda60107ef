"""Recording of one backend's episodes into a data set, for the commands record and collect."""

import shutil
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from ..actor import ActionChoice, Actor, marked
from ..core import (
    EMERGENCY_STOP,
    GUARD_SILENT,
    DataError,
    EnvBackend,
    EnvSpec,
    Observation,
    Policy,
    SafetyStop,
    Source,
    Transition,
    counted,
    derive_seed,
    generator,
    machine_states,
)
from ..replay import EpisodeStore
from ..telemetry import versions
from .disk_space import check_space

IF_EXISTS = ("fail", "append", "overwrite")

ATTEMPTS_PER_EPISODE = 5

AWAITED = (EMERGENCY_STOP, GUARD_SILENT)
"""Reasons of stops that a person has to end. Stops for other reasons end the recording."""

Config = TypeVar("Config")


class RecordingStopped(Exception):  # noqa: N818 - an outcome, not a mistake
    """Raised when the operator stops the recording; the open episode is discarded."""


class Chooser(Protocol):
    """Chooses the actions of one episode, and may end it.

    Raises :class:`RecordingStopped` if the operator stops the recording.
    """

    def begin(self, actor: Actor) -> None:
        """Begin the episode with ``actor``, when the chooser is ready."""
        ...

    def __call__(self, observation: Observation) -> ActionChoice: ...

    def button(self) -> str | None:
        """Return ``success``, ``failure`` or ``discard`` to end the episode after the last step, or None."""
        ...


class Outcome(NamedTuple):
    """Outcome of an episode.

    Attributes:
        steps: number of steps.
        success: whether the task was solved; None if this is unknown.
        kept: whether the episode was stored.
        stopped: reason why the robot was stopped; empty if it was not.
    """

    steps: int
    success: bool | None
    kept: bool
    stopped: str = ""

    def describe(self) -> str:
        """Return the outcome in words."""
        if self.stopped:
            stored = "" if self.kept else ", not stored"
            return f"stopped after {counted(self.steps, 'step')}{stored}: {self.stopped}"
        result = {True: "success", False: "no success", None: "ended"}[self.success]
        return f"{result} after {counted(self.steps, 'step')}{'' if self.kept else ', not stored'}"


class EpisodePrinter:
    """Prints a line for each episode.

    Args:
        console: where to print.
        episodes: requested number of episodes.
        space: returns a description of the free disk space.
    """

    def __init__(self, console: Console, episodes: int, space: Callable[[], str]) -> None:
        self._console = console
        self._episodes = episodes
        self._space = space

    def __call__(self, stored: int, outcome: Outcome) -> None:
        self._console.print(f"{stored}/{self._episodes} stored: {outcome.describe()}; {self._space()}", soft_wrap=True)


def default_path(spec: EnvSpec, source: str) -> Path:
    """Return the default path of a data set."""
    return Path("datasets") / f"{spec.task.replace('/', '_')}_{source}"


def print_summary(path: Path, console: Console) -> None:
    """Print the number of episodes and steps in the data set at ``path``."""
    if not path.exists():
        console.print("Nothing was recorded")
        return
    store = EpisodeStore.open(path)
    summary = store.summary()
    seconds = summary.steps / store.spec.control_rate
    successes = f", {summary.successes} successful" if store.spec.reports_success else ""
    episodes, steps = counted(summary.episodes, "episode"), counted(summary.steps, "step")
    console.print(f"{path} holds {episodes}{successes}: {steps}, {seconds / 60:.1f} minutes", soft_wrap=True)


@contextmanager
def summary_if_ended(path: Path, console: Console) -> Iterator[None]:
    """Print a summary of the data set at ``path`` if Ctrl-C or SIGTERM ends the block."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        console.print("Interrupted; the open episode was not stored")
        if path.exists():  # otherwise no episode was stored
            print_summary(path, console)
        raise


def explored(action: NDArray[np.float32], deviation: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return ``action`` (A,) with Gaussian noise of ``deviation``, within [-1, 1]."""
    if deviation == 0:
        return action
    return np.clip(action + deviation * rng.standard_normal(action.shape), -1, 1).astype(np.float32)


class PolicyChooser:
    """Chooser of a trained policy's actions.

    Args:
        policy: policy that chooses the actions.
        version: policy version, stored with each step.
        explore: whether actions are sampled as in training; otherwise they are the mode.
        noise: standard deviation of additional Gaussian noise, in units of the action.
        rng: random generator of the noise.
    """

    def __init__(self, policy: Policy, version: int, explore: bool, noise: float, rng: np.random.Generator) -> None:
        self._policy = policy
        self._version = version
        self._explore = explore
        self._noise = noise
        self._rng = rng

    def begin(self, actor: Actor) -> None:
        actor.begin_episode()
        self._policy.forget_plan(explore=self._explore)

    def __call__(self, observation: Observation) -> ActionChoice:
        action = self._policy.act(observation, explore=self._explore)
        noisy = explored(action, self._noise, self._rng)
        return ActionChoice(noisy, Source.POLICY, self._version, proposed=action)

    def button(self) -> str | None:
        return None


@contextmanager
def open_data_set(
    path: Path, spec: EnvSpec, if_exists: str, metadata: Mapping[str, Any], section: str = ""
) -> Iterator[EpisodeStore]:
    """Open the data set at ``path`` to add episodes; make it if it does not exist, and remove it if it stays empty.

    A data set that is overwritten is kept beside the new one, as ``NAME.replaced``, until the new one has episodes. The
    old demonstrations are therefore not lost if a device is missing or the operator changes their mind.

    Args:
        path: folder of the data set.
        spec: spec of the environment to record.
        if_exists: treatment of an existing data set: ``fail``, ``append`` to it or ``overwrite`` it.
        metadata: how a new data set is made, as JSON values.
        section: configuration section of the command's option ``if_exists``, with a dot, for messages.

    Raises:
        DataError: if a data set exists and ``if_exists`` is ``fail``; if it was recorded for another spec, or collected
            from another policy (``append``); if ``path`` exists but is not a data set; or if a recording that was
            killed left a replaced data set.
    """
    replaced: Path | None = None
    if path.exists() and if_exists == "append":
        store = EpisodeStore.open(path, "a")
        try:
            store.check_against(spec)
            _check_origin(store, metadata)
        except BaseException:
            store.close()
            raise
    else:
        replaced = _set_aside(path, if_exists, section)
        try:
            store = EpisodeStore.create(path, spec, {"versions": versions(), **metadata})
        except BaseException:
            if replaced is not None:
                shutil.rmtree(path, ignore_errors=True)
                replaced.rename(path)
            raise
    try:
        with store:
            yield store
    finally:
        if len(store) == 0:
            shutil.rmtree(path)
            if replaced is not None:
                replaced.rename(path)
        elif replaced is not None:
            shutil.rmtree(replaced)


def _set_aside(path: Path, if_exists: str, section: str) -> Path | None:
    """Rename the data set at ``path`` that is to be replaced, and return its new path; None if there is none.

    For the arguments and errors see :func:`open_data_set`.
    """
    is_taken = path.exists() and (path.is_file() or any(path.iterdir()))
    if is_taken and if_exists == "fail":
        raise DataError(
            f"{path} exists already: choose another {section}output, or {section}if_exists=append to add episodes or "
            f"{section}if_exists=overwrite to replace it"
        )
    replaced = path.with_name(f"{path.name}.replaced")
    if replaced.exists():
        first = f"if {path} is not what you want to keep, remove that and " if is_taken else ""
        raise DataError(
            f"{replaced} was left by a recording that was killed while it replaced the data set: remove it, or "
            f"{first}move it to {path}"
        )
    if not is_taken:
        return None
    EpisodeStore.open(path, "a").close()  # fails unless this is a data set that no process is writing
    path.rename(replaced)
    return replaced


def _check_origin(store: EpisodeStore, metadata: Mapping[str, Any]) -> None:
    """Check that the origin of new episodes is the origin that the data set states for all its episodes.

    Raises:
        DataError: if it is another policy.
    """
    origin = store.metadata.get("collected_from")
    if origin is not None and origin != metadata.get("collected_from"):
        raise DataError(
            f"{store.path} was collected from another policy: record a separate data set, and merge both with "
            "robo-rl data edit, which keeps the origin of each episode"
        )


def record_episodes(
    backend: EnvBackend,
    store: EpisodeStore,
    episodes: int,
    make_chooser: Callable[[np.random.Generator], Chooser],
    *,
    actor: str,
    seed: int,
    only_successful: bool,
    report: Callable[[int, Outcome], None] | None = None,
    attempts_per_episode: int | None = ATTEMPTS_PER_EPISODE,
    section: str | None = "",
    keeps_stopped: bool = False,
) -> int:
    """Record until ``episodes`` are stored; return the number of stored episodes.

    Each episode is a session, numbered on from those in the data set. Its random values depend only on ``seed`` and
    this number. Episodes that are appended with the same seed are therefore new ones.

    Args:
        backend: robot or simulator.
        store: data set that episodes are added to, open for writing. Observations that it does not hold are left out.
        episodes: number of episodes to store.
        make_chooser: called with a random generator for each episode.
        actor: name of the actor, part of every transition.
        seed: seed of start states and noise.
        only_successful: discard episodes that end without success, except those that the chooser ends as failures.
        report: called after each episode with the number of episodes stored so far and the outcome.
        attempts_per_episode: largest number of attempts per requested episode; None (for a person): no limit, but
            several attempts in a row without a step are an error.
        section: section of the command's options, with a dot, for messages; None: a training run, which has none.
        keeps_stopped: store the steps of an episode until the robot was stopped, too.

    Raises:
        DataError: if far fewer episodes can be stored than requested, or the disk has no room for another one.
    """
    session = 1 + max((record.session for record in store.records if record.actor == actor), default=-1)
    limit, awaited = (None, AWAITED) if attempts_per_episode is None else (episodes * attempts_per_episode, ())
    stored = attempts = without_step = 0
    while stored < episodes:
        check_space(store, "the same command" if section is None else f"{section}if_exists=append")
        episode_seed = derive_seed(seed, "record", actor, number := session + attempts)
        try:
            chooser, new = make_chooser(generator(episode_seed, "noise")), Actor(backend, episode_seed, actor, number)
            outcome = _record_episode(new, store, chooser, only_successful, awaited, keeps_stopped)
        except RecordingStopped:
            break
        attempts += 1
        stored += outcome.kept
        without_step = 0 if outcome.steps else without_step + 1
        if report is not None:
            report(stored, outcome)
        is_exhausted = without_step == ATTEMPTS_PER_EPISODE if limit is None else attempts == limit
        if is_exhausted and stored < episodes:
            result = "ended in success" if only_successful else "could be stored"
            advice = f"The last: {outcome.describe()}" if outcome.stopped else _advice(actor, section, store.spec)
            kept = " (they are stored)" if stored and section is not None else ""  # a training run discards them
            count = f"only {stored} of {attempts} episodes {result}{kept}, but {episodes} were requested"
            raise DataError(f"{store.path}: {count}. {advice}")
    return stored


def _advice(actor: str, section: str | None, spec: EnvSpec) -> str:
    """Return advice for the error that too few episodes succeeded; for the arguments see :func:`record_episodes`."""
    if machine_states(spec):
        without = "demonstrations.episodes=0 and an agent that needs none, or " if section is None else ""
        return f"A script does not know the stages of task.machine. Use {without}recordings by a person"
    remedy = "more time (task.max_episode_steps)" if actor == "human_like" else "less noise"
    return f"Use {remedy}" if section is None else f"Use {section}only_successful=false, or {remedy}"


def _record_episode(
    actor: Actor,
    store: EpisodeStore,
    chooser: Chooser,
    only_successful: bool,
    awaited: Container[str],
    keeps_stopped: bool,
) -> Outcome:
    """Record an episode; ``awaited`` are the reasons of stops whose end the chooser awaits before the next episode."""
    with store.writer() as writer:
        while True:
            try:
                if actor.is_between_episodes:
                    chooser.begin(actor)
                transition = actor.take_step(chooser)
            except SafetyStop as stop:
                is_kept = keeps_stopped and len(writer) > 0
                if is_kept:
                    writer.commit()
                else:
                    writer.discard()
                if stop.waits and stop.reason not in awaited:
                    raise
                return Outcome(actor.episode_length, False, is_kept, stopped=str(stop))
            button = chooser.button()
            if button is not None:
                transition = marked(transition, button)
            ended = transition.terminated or transition.truncated
            if button != "discard":
                writer.append(_selected(transition, store.spec))
            if ended:
                break
        is_failed_attempt = only_successful and transition.success is False and button != "failure"
        is_kept = button != "discard" and not is_failed_attempt
        if is_kept:
            writer.commit()
        else:
            writer.discard()
        return Outcome(actor.episode_length, transition.success, is_kept)


def _selected(step: Transition, spec: EnvSpec) -> Transition:
    """Return a step with the observations of ``spec`` alone."""
    if step.observation.keys() == spec.observation.keys():
        return step
    before, after = ({key: each[key] for key in spec.observation} for each in (step.observation, step.next_observation))
    return replace(step, observation=before, next_observation=after)
