"""Roll-outs of a policy that only measure: same start states every time, the mode of the policy, no learning."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core import ConfigError, EnvBackend, Policy, SafetyStop, Step, derive_seed, nearest, require
from .cycle_time import CycleTime
from .film import Film
from .statistics import Proportion


@dataclass(frozen=True, slots=True)
class EpisodeOutcome:
    """How one evaluation episode went.

    Attributes:
        index: number of the episode, from 0.
        success: whether the task was solved when the episode ended; None where nobody knows.
        total_reward: undiscounted return, weighted and with the offset of every step.
        length: control steps.
        terminated: whether the task itself ended the episode (otherwise it was cut).
        lap_seconds: how long each lap took that was completed, where the task is to drive laps [s of robot time].
        steps_to_success: control steps after which the task was solved and stayed so; None where it was not.
    """

    index: int
    success: bool | None
    total_reward: float
    length: int
    terminated: bool
    lap_seconds: tuple[float, ...] = ()
    steps_to_success: int | None = None


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Outcome of :func:`evaluate`.

    Attributes:
        task: name of the task.
        seed: the seed from which the start states were derived.
        control_rate: control steps per second [Hz].
        episodes: one outcome per episode, in order.
        video: the file that shows the first episodes, or None.
        video_problem: why there is no such file although one was asked for; empty: there is one, or none was.
    """

    task: str
    seed: int
    control_rate: float
    episodes: tuple[EpisodeOutcome, ...]
    video: Path | None = None
    video_problem: str = ""

    @property
    def success_rate(self) -> Proportion | None:
        """Share of solved episodes with its 95 % Wilson interval; None where success is known of no episode.

        Some environments tell of success alone: where it is known of one episode, others count as not solved.
        """
        if all(episode.success is None for episode in self.episodes):
            return None
        return Proportion.of(sum(bool(episode.success) for episode in self.episodes), len(self.episodes))

    @property
    def return_mean(self) -> float:
        """Mean undiscounted return of an episode."""
        return float(np.mean([episode.total_reward for episode in self.episodes]))

    @property
    def length_median(self) -> float:
        """Median length of an episode [control steps]."""
        return float(np.median([episode.length for episode in self.episodes]))

    @property
    def seconds_median(self) -> float:
        """Median length of an episode [s of robot time]."""
        return self.length_median / self.control_rate

    @property
    def cycle_time(self) -> CycleTime | None:
        """Time to success; None without a success."""
        steps = [
            episode.length if episode.steps_to_success is None else episode.steps_to_success
            for episode in self.episodes
        ]
        return CycleTime.of(steps, [episode.success for episode in self.episodes], self.control_rate)

    @property
    def lap_seconds(self) -> list[float]:
        """How long each lap of all episodes took [s of robot time]; none where the task has no laps."""
        return [seconds for episode in self.episodes for seconds in episode.lap_seconds]

    @property
    def lap_seconds_median(self) -> float | None:
        """Median lap time [s of robot time]; None without a lap."""
        return float(np.median(self.lap_seconds)) if self.lap_seconds else None

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object, the single episodes included."""
        rate, cycle_time = self.success_rate, self.cycle_time
        return {
            "task": self.task,
            "seed": self.seed,
            "success_rate": None if rate is None else dataclasses.asdict(rate),
            "return_mean": self.return_mean,
            "length_median": self.length_median,
            "seconds_median": self.seconds_median,
            "cycle_time": None if cycle_time is None else dataclasses.asdict(cycle_time),
            "lap_seconds_median": self.lap_seconds_median,
            "control_rate": self.control_rate,
            "video": None if self.video is None else str(self.video),
            "episodes": [dataclasses.asdict(episode) for episode in self.episodes],
        }


def evaluate(
    backend: EnvBackend,
    policy: Policy,
    episodes: int,
    seed: int,
    *,
    reward_weights: Mapping[str, float] | None = None,
    reward_offset: float = 0.0,
    max_episode_steps: int | None = None,
    video: Path | None = None,
    video_episodes: int = 5,
    on_episode: Callable[[EpisodeOutcome], None] | None = None,
) -> EvaluationResult:
    """Run ``policy`` without exploration and return what happened. Nothing is trained or stored.

    Episode ``i`` is reset with a seed derived from ``seed`` and ``i`` alone: every evaluation with this seed meets
    the same start states, however many episodes it has and whatever ran before.

    Args:
        backend: robot or simulator. It is neither stopped nor closed here.
        policy: chooses the actions.
        episodes: number of episodes.
        seed: seed of the start states.
        reward_weights: weight of each reward term in the return; all terms count 1 unless given.
        reward_offset: added to the reward of every step.
        max_episode_steps: cut after so many steps where the task has no limit of its own, or a longer one.
        video: MP4 file to write, or None.
        video_episodes: how many episodes, from the first, the video shows.
        on_episode: called after each episode, for a progress line.

    Raises:
        ConfigError: if ``episodes`` is not positive, a weight names no term of the task, or nothing limits an episode.
        RenderingError: if a video was asked for and its first frame cannot be made. What goes wrong with it later is
            ``video_problem`` of the result, which counts more.
        SafetyStop: if a person stopped the robot, or it was stopped before the first step of an episode.
    """
    spec = backend.spec
    require(episodes > 0, "episodes", "positive", episodes)
    weights = dict.fromkeys(spec.reward_terms, 1.0) if reward_weights is None else dict(reward_weights)
    for term in weights:
        require(term in spec.reward_terms, "reward_weights", nearest(term, spec.reward_terms), term)
    limits = [limit for limit in (max_episode_steps, spec.max_episode_steps) if limit is not None]
    if not limits:
        raise no_time_limit(spec.task)

    def reward(step: Step) -> float:
        return reward_offset + sum(weight * step.rewards[term] for term, weight in weights.items())

    outcomes = []
    with Film(video, spec.control_rate) as film:
        for index in range(episodes):
            step = backend.reset(derive_seed(seed, "evaluation", index))
            filming = film if index < video_episodes else None
            outcomes.append(_roll_out(backend, policy, index, step, min(limits), reward, filming))
            if on_episode is not None:
                on_episode(outcomes[-1])
    return EvaluationResult(spec.task, seed, spec.control_rate, tuple(outcomes), film.path, film.problem)


def _roll_out(
    backend: EnvBackend,
    policy: Policy,
    index: int,
    step: Step,
    limit: int,
    reward: Callable[[Step], float],
    film: Film | None,
) -> EpisodeOutcome:
    """Run an episode from its first ``step`` on, for ``limit`` steps at most; film it where there is a ``film``."""
    total, length, laps = 0.0, 0, []
    solved_after: int | None = None
    policy.forget_plan(explore=False)
    while not step.ended and length < limit:
        if film is not None:
            film.add(backend, _caption(index, None))
        try:
            step = backend.step(policy.act(step.observation, explore=False))
        except SafetyStop as stop:
            if stop.waits:  # says nothing about the policy
                raise
            # The episode ends as it stood; what was seen last is still true.
            step = replace(step, truncated=True, success=None if step.success is None else False)
            solved_after = None
            break
        total += reward(step)
        length += 1
        if not step.success:
            solved_after = None
        elif solved_after is None:
            solved_after = length
        if "lap_seconds" in step.info:
            laps.append(float(step.info["lap_seconds"]))
    if film is not None:  # the last frame for half a second, with the outcome: the eye needs that long
        frames = max(1, round(backend.spec.control_rate / 2))
        film.add(backend, _caption(index, step.success), step.success, frames)
    return EpisodeOutcome(index, step.success, total, length, step.terminated, tuple(laps), solved_after)


def no_time_limit(task: str) -> ConfigError:
    """Return the error that an evaluation of a task would never end."""
    return ConfigError(
        f"task {task!r} has no time limit, and without one no evaluation ends: give task.max_episode_steps=NUMBER"
    )


def _caption(index: int, success: bool | None) -> str:
    outcome = {True: "  success", False: "  failure", None: ""}[success]
    return f"episode {index + 1}{outcome}"
