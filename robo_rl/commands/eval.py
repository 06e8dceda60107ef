"""robo-rl eval: an evaluation of the policy of a run, or of one that was written to a file."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.table import Table

from ..app import acting_config, change_task, evaluated_policy, robot_note
from ..command_line.destination import output_file
from ..core import RenderingError, counted, require, typed, write_durably
from ..evaluation import (
    CycleTime,
    CycleTimes,
    DecisionPeriods,
    EvaluationResult,
    check_periods,
    cycle_time_lines,
    evaluate_decision_periods,
)
from ..evaluation.runs import load_run
from ..residual import ExecutionChanges
from ..telemetry import Console


@dataclass(frozen=True)
class EvalConfig:
    """Options of configs/eval.yaml, which documents them and holds their defaults; those of execution have a class."""

    run: str
    policy: str | None
    checkpoint: str
    episodes: int
    seed: int
    video: str | None
    video_episodes: int
    output: str | None
    task: dict[str, Any]
    decision_periods: list[int]
    explore: bool
    on_robot: bool
    execution: ExecutionChanges = field(default_factory=ExecutionChanges)

    def __post_init__(self) -> None:
        check_periods(self.decision_periods)
        for name in ("episodes", "video_episodes"):
            require(getattr(self, name) >= 1, name, "1 or more", getattr(self, name))
        require(
            self.policy is None or self.checkpoint == "best",
            "checkpoint",
            "left out where policy names a file, which holds one policy",
            self.checkpoint,
        )
        executed = bool(self.execution.given())
        is_other = bool(self.policy or self.decision_periods or executed)
        expected = "false with policy, decision_periods or execution: the policy of the run explores, as it decides"
        require(not (self.explore and is_other), "explore", expected, self.explore)
        require(self.seed >= 0, "seed", "0 or more", self.seed)
        require(
            not self.decision_periods or self.policy is None or not Path(self.policy).is_dir(),
            "decision_periods",
            "left out where policy names a folder: LeRobot decides itself when it computes new actions",
            list(self.decision_periods),
        )
        require(
            not self.decision_periods or not executed,
            "decision_periods",
            "left out where options of execution are given, which determine when the policy decides",
            list(self.decision_periods),
        )


def run(config: DictConfig) -> int:
    """Evaluate as configured in configs/eval.yaml and print the result; return 0."""
    settings = typed(EvalConfig, config)
    folder = Path(settings.run)
    trained = acting_config(folder, settings.on_robot)
    for name in ("video", "output"):  # checked before any episode is run
        if (file := getattr(settings, name)) is not None:
            output_file(name, file)
    change_task(trained, settings.task)
    console = Console(highlight=False, markup=False)
    if (note := robot_note(trained)) is not None:
        console.print(note, soft_wrap=True)
    with evaluated_policy(
        folder,
        trained,
        checkpoint=settings.checkpoint,
        file=settings.policy,
        episodes=settings.episodes,
        seed=settings.seed,
        execution=settings.execution.given(),
    ) as evaluated:
        policy = evaluated.trained
        video, filmed = Path(settings.video) if settings.video else None, settings.video_episodes
        result = evaluated.measure(policy.policy, explore=settings.explore, video=video, video_episodes=filmed)
        slow = None
        if settings.decision_periods:
            periods = settings.decision_periods
            slow = evaluate_decision_periods(evaluated.measure, policy.policy, policy.action_chunk, periods)
    show(result, policy.step, console, CycleTimes.of_summary(load_run(folder).summary).demonstrations)
    if slow is not None:
        show_periods(slow, console)
    if settings.output:
        facts = result.to_json() | {"decision_periods": None if slow is None else slow.to_json()}
        write_durably(Path(settings.output), f"{json.dumps(facts, indent=2)}\n".encode())
    if result.video_problem:
        raise RenderingError(f"no video: {result.video_problem}")
    return 0


def show(result: EvaluationResult, step: int, console: Console, demonstrated: CycleTime | None = None) -> None:
    """Print the result of the policy of ``step``, with the cycle time of its demonstrations for comparison."""
    rate = result.success_rate
    episodes = counted(len(result.episodes), "episode")
    console.print(f"{result.task}, policy of step {step:,}, {episodes}, seed {result.seed}")
    if rate is not None:
        low, high = 100 * rate.low, 100 * rate.high
        console.print(f"Success {100 * rate.value:.1f} % (95 % interval {low:.1f} to {high:.1f} %)")
    console.print(f"Mean return {result.return_mean:.2f}, median length {result.seconds_median:.1f} s")
    for line in filter(None, (result.stages, *result.limit_lines, result.stops)):
        console.print(line, soft_wrap=True)
    for line in () if result.cycle_time is None else cycle_time_lines(result.cycle_time, demonstrated):
        console.print(line)
    for line in result.execution.lines() if result.execution is not None else ():
        console.print(line)
    if result.lap_seconds:
        fastest, slowest = min(result.lap_seconds), max(result.lap_seconds)
        console.print(
            f"Lap time {result.lap_seconds_median:.2f} s (median of {len(result.lap_seconds)}, "
            f"{fastest:.2f} to {slowest:.2f} s)"
        )
    if result.video is not None:
        console.print(f"Video {result.video}", soft_wrap=True)


def show_periods(slow: DecisionPeriods, console: Console) -> None:
    """Print the performance of the policy for each decision period."""
    table = Table("decides every", "per second", "success", "mean return", box=None, pad_edge=False)
    for period, result in zip(slow.periods, slow.results, strict=True):
        rate = result.success_rate
        success = "-" if rate is None else f"{100 * rate.value:.1f} %"
        steps = "step" if period == 1 else f"{period} steps"
        table.add_row(steps, f"{result.control_rate / period:.2f}", success, f"{result.return_mean:.2f}")
    console.print(table)
    name = slow.score_name.replace("_", " ")
    console.print(f"Frequency-averaged score {slow.frequency_averaged_score:.3f} (of the {name})")
