"""Evaluation of a policy: episodes from reproducible start states, without exploration and without learning."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import (
    HISTORY,
    MACHINE,
    ConfigError,
    Constraints,
    EnvBackend,
    EnvSpec,
    ExecutionReport,
    Limit,
    Observation,
    Policy,
    SafetyStop,
    Step,
    counted,
    derive_seed,
    machine_states,
    nearest,
    require,
)
from .cycle_time import CycleTime
from .film import Film
from .limits import LimitOutcome, limit_line, row
from .statistics import Proportion


@dataclass(frozen=True, slots=True)
class EpisodeOutcome:
    """Outcome of one evaluation episode.

    Attributes:
        index: number of the episode, from 0.
        success: whether the task was solved when the episode ended; None if this is unknown.
        total_reward: undiscounted return of the weighted rewards, including the offset of every step.
        length: number of control steps.
        terminated: whether the task itself ended the episode (otherwise it was truncated).
        lap_seconds: duration of each completed lap, if the task is to drive laps [s of robot time].
        steps_to_success: number of control steps after which the task was solved and remained solved until the end of
            the episode; None if it was not.
        stopped: why the robot was stopped before the end of the episode; empty if it was not.
        start: values of the named elements of the first observation.
        reached: whether the task's machine was in each of its states after a step, by name; empty without a machine.
        costs: sum of the costs of the steps, by the name of the constraint; empty without constraints.
    """

    index: int
    success: bool | None
    total_reward: float
    length: int
    terminated: bool
    lap_seconds: tuple[float, ...] = ()
    steps_to_success: int | None = None
    stopped: str = ""
    start: Mapping[str, float] = field(default_factory=dict)
    reached: Mapping[str, bool] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Outcome of :func:`evaluate`.

    Attributes:
        task: name of the task.
        seed: the seed from which the start states were derived.
        control_rate: control steps per second [Hz].
        episodes: one outcome per episode, in order.
        video: video file of the first episodes, or None.
        video_problem: reason why a requested video is missing; empty if the video exists or none was requested.
        execution: report on the execution of chunks, if options of it were given; otherwise None.
        limits: limits of the reward's constraints.
    """

    task: str
    seed: int
    control_rate: float
    episodes: tuple[EpisodeOutcome, ...]
    video: Path | None = None
    video_problem: str = ""
    execution: ExecutionReport | None = None
    limits: tuple[Limit, ...] = ()

    @property
    def success_rate(self) -> Proportion | None:
        """Fraction of solved episodes with its 95 % Wilson interval; None if success is unknown for all episodes.

        Some environments report only successes. If success is known for one episode, episodes for which it is unknown
        therefore count as not solved.
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
        """Time to success; None if no episode succeeded."""
        steps = [
            episode.length if episode.steps_to_success is None else episode.steps_to_success
            for episode in self.episodes
        ]
        return CycleTime.of(steps, [episode.success for episode in self.episodes], self.control_rate)

    @property
    def lap_seconds(self) -> list[float]:
        """Durations of the laps of all episodes [s of robot time]; empty if the task has no laps."""
        return [seconds for episode in self.episodes for seconds in episode.lap_seconds]

    @property
    def lap_seconds_median(self) -> float | None:
        """Median lap time [s of robot time]; None if no lap was completed."""
        return float(np.median(self.lap_seconds)) if self.lap_seconds else None

    @property
    def reached(self) -> dict[str, float]:
        """Share of the episodes in which the task's machine reached each of its states; empty without a machine."""
        names = self.episodes[0].reached
        return {name: float(np.mean([episode.reached[name] for episode in self.episodes])) for name in names}

    @property
    def stages(self) -> str:
        """The same in words; empty without a machine."""
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in self.reached.items())
        return f"Reached {shares}" if shares else ""

    @property
    def constraints(self) -> list[LimitOutcome]:
        """The outcome of each limit."""
        lengths, solved = [episode.length for episode in self.episodes], self.success_rate
        return [
            LimitOutcome.of(limit, [episode.costs.get(limit.name, 0.0) for episode in self.episodes], lengths, solved)
            for limit in self.limits
        ]

    @property
    def limit_lines(self) -> list[str]:
        """The same in words."""
        return [limit_line(outcome.limit.name, outcome.to_json()) for outcome in self.constraints]

    @property
    def stops(self) -> str:
        """The number of episodes that ended with a stop of the robot, and the last reason; empty if there were none."""
        stops = [episode.stopped for episode in self.episodes if episode.stopped]
        count = f"The robot was stopped in {len(stops)} of {counted(len(self.episodes), 'episode')}"
        return f"{count}; the last time: {stops[-1]}" if stops else ""

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object, including the individual episodes."""
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
            "reached": self.reached,
            "constraints": {outcome.limit.name: outcome.to_json() for outcome in self.constraints},
            "control_rate": self.control_rate,
            "video": None if self.video is None else str(self.video),
            "execution": None if self.execution is None else self.execution.to_json(),
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
    constraints: Constraints | None = None,
    max_episode_steps: int | None = None,
    explore: bool = False,
    first: int = 0,
    video: Path | None = None,
    video_episodes: int = 5,
    on_episode: Callable[[EpisodeOutcome], None] | None = None,
) -> EvaluationResult:
    """Run ``policy`` and return the outcomes. Nothing is trained or stored.

    The reset seed of episode ``i`` depends only on ``seed`` and ``i``. All evaluations with the same seed therefore use
    the same start states, regardless of the number of episodes and of earlier episodes.

    Args:
        backend: robot or simulator; it is neither stopped nor closed.
        policy: policy to evaluate.
        episodes: number of episodes.
        seed: seed of the start states.
        reward_weights: weight of each reward term in the return; None: 1 for all terms.
        reward_offset: added to the reward of every step.
        constraints: limits whose costs are measured, or None.
        max_episode_steps: limit on the length of episodes, for tasks that have no limit or a longer one.
        explore: whether the policy explores, as in training.
        first: number of the first episode; others than 0 repeat episodes of an evaluation with the same seed.
        video: MP4 file to write, or None.
        video_episodes: number of episodes that the video shows, from the first.
        on_episode: called after each episode, for a progress line.

    Raises:
        ConfigError: if ``episodes`` is not positive, a weight does not name a term of the task, or the length of
            episodes is not limited.
        RenderingError: if a video was requested and its first frame cannot be rendered. A later problem with the video
            does not end the evaluation; it is reported as ``video_problem`` of the result.
        SafetyStop: if a person stopped the robot, or it was stopped before the first step of an episode.
    """
    spec = backend.spec
    require(episodes > 0, "episodes", "positive", episodes)
    reward = _reward(spec, reward_weights, reward_offset)
    limit = _time_limit(spec, max_episode_steps)
    outcomes = []
    with Film(video, spec.control_rate) as film:
        for index in range(first, first + episodes):
            step = backend.reset(derive_seed(seed, "evaluation", index))
            start = _named_elements(spec, step)
            filming = film if index - first < video_episodes else None
            outcome = _roll_out(backend, policy, index, step, limit, reward, explore, filming, constraints)
            outcomes.append(replace(outcome, start=start))
            if on_episode is not None:
                on_episode(outcomes[-1])
    bounds = () if constraints is None else constraints.limits
    return EvaluationResult(spec.task, seed, spec.control_rate, tuple(outcomes), film.path, film.problem, limits=bounds)


def _time_limit(spec: EnvSpec, given: int | None) -> int:
    """Return the number of steps after which an episode ends at the latest."""
    limits = [limit for limit in (given, spec.max_episode_steps) if limit is not None]
    if not limits:
        raise no_time_limit(spec.task)
    return min(limits)


def _reward(spec: EnvSpec, given: Mapping[str, float] | None, offset: float) -> Callable[[Step], float]:
    """Return the function that computes the reward of a step; without weights, each term counts as it is."""
    weights = dict.fromkeys(spec.reward_terms, 1.0) if given is None else dict(given)
    for term in weights:
        require(term in spec.reward_terms, "reward_weights", nearest(term, spec.reward_terms), term)
    return lambda step: offset + sum(weight * step.rewards[term] for term, weight in weights.items())


class _Charge:
    """Sums of the costs of an episode's steps."""

    def __init__(self, constraints: Constraints | None) -> None:
        self._constraints = constraints
        self._before: Observation = {}
        self.costs: dict[str, float] = {}

    def begin(self, observation: Observation) -> None:
        """Note the observation before a step."""
        if self._constraints is not None:
            self._before = {key: value.copy() for key, value in observation.items()}  # backends may reuse arrays

    def add(self, action: NDArray[np.float32], after: Step) -> None:
        """Add the costs of the step."""
        if self._constraints is not None:
            for name, costs in self._constraints.costs(row(self._before, action, after)).items():
                self.costs[name] = self.costs.get(name, 0.0) + float(costs[0])


def _roll_out(
    backend: EnvBackend,
    policy: Policy,
    index: int,
    step: Step,
    limit: int,
    reward: Callable[[Step], float],
    explore: bool,
    film: Film | None,
    constraints: Constraints | None,
) -> EpisodeOutcome:
    """Run an episode from its first ``step`` on, for at most ``limit`` steps; add its frames to ``film`` if given."""
    total, length, laps, stopped = 0.0, 0, [], ""
    states, reached, charge = machine_states(backend.spec), set[int](), _Charge(constraints)
    solved_after: int | None = None
    policy.forget_plan(explore=explore)
    while not step.ended and length < limit:
        if film is not None:
            film.add(backend, _caption(index, None))
        charge.begin(step.observation)
        action = policy.act(step.observation, explore=explore)
        try:
            step = backend.step(action)
        except SafetyStop as stop:
            if stop.waits:  # not caused by the policy
                raise
            # The episode ends with the last observation, which is still valid.
            step = replace(step, truncated=True, success=None if step.success is None else False)
            solved_after, stopped = None, str(stop)
            break
        if step.verdict is not None and step.verdict.stop:
            stopped = step.verdict.message
        charge.add(action, step)
        total += reward(step)
        length += 1
        if states:
            reached.add(int(step.observation[MACHINE].argmax()))
        if not step.success:
            solved_after = None
        elif solved_after is None:
            solved_after = length
        if "lap_seconds" in step.info:
            laps.append(float(step.info["lap_seconds"]))
    if film is not None:  # show the last frame and the outcome for half a second, so that viewers can read it
        frames = max(1, round(backend.spec.control_rate / 2))
        film.add(backend, _caption(index, step.success), step.success, frames)
    return EpisodeOutcome(
        index,
        step.success,
        total,
        length,
        step.terminated,
        tuple(laps),
        solved_after,
        stopped,
        reached={name: state in reached for state, name in enumerate(states)},
        costs=charge.costs,
    )


def _named_elements(spec: EnvSpec, step: Step) -> dict[str, float]:
    """Return the values of the named elements of an observation, with six digits; not of history and machine."""
    return {
        name: float(f"{value:.6g}")
        for key, array in spec.observation.items()
        if array.names and key not in (HISTORY, MACHINE)
        for name, value in zip(array.names, step.observation[key].tolist(), strict=True)
    }


def no_time_limit(task: str) -> ConfigError:
    """Return the error for the evaluation of a task without a time limit, which might never end."""
    return ConfigError(
        f"task {task!r} has no time limit, so evaluations would not end: set task.max_episode_steps=NUMBER"
    )


def _caption(index: int, success: bool | None) -> str:
    outcome = {True: "  success", False: "  failure", None: ""}[success]
    return f"episode {index + 1}{outcome}"
