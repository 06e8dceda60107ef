"""robo-rl eval compare: which of several policies succeeds more often, by blind and interleaved episodes."""

import secrets
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, open_dict
from rich.table import Table

from ..app import PolicySource, acting_config, build_backend, change_task, load_evaluated, robot_note
from ..command_line.destination import new_output
from ..core import ConfigError, EnvBackend, require, typed
from ..evaluation.comparison import ComparedPolicy, Comparison, ComparisonPlan
from ..operators.comparing import ComparisonJournal, compare, kept, watched
from ..operators.marks import SessionEnded
from ..operators.takeover import has_person
from ..safety import NoticingBackend
from ..telemetry import Console


@dataclass(frozen=True)
class CompareConfig:
    """Options of configs/eval_compare.yaml, which documents them and holds their defaults."""

    policies: list[str]
    run: str | None
    on_robot: bool
    pairs: int
    error: float
    difference: float
    seed: int
    success: str | None
    spot_checks: float
    confirm_start: bool | None
    clips: str | None
    output: str
    task: dict[str, Any]

    def __post_init__(self) -> None:
        require(0 < self.difference <= 1, "difference", "in (0, 1]", self.difference)
        expected = "0 with success=person, who judges every episode; otherwise in [0, 1]"
        spot_checks_fit = 0 <= self.spot_checks <= (0 if self.success == "person" else 1)
        require(spot_checks_fit, "spot_checks", expected, self.spot_checks)
        require(self.seed >= 0, "seed", "0 or more", self.seed)
        require(self.success in (None, "task", "person"), "success", "task, person or null", self.success)


def run(config: DictConfig) -> int:
    """Compare as configured in configs/eval_compare.yaml, and print and write the result; return 0."""
    if not isinstance(config.policies, ListConfig):
        config.policies = [config.policies]
    options = {field.name: config[field.name] for field in fields(CompareConfig)}
    settings = typed(CompareConfig, DictConfig(options))
    output = new_output("output", settings.output, "file")
    sources = [PolicySource.of(name) for name in settings.policies]
    folder = Path(settings.run) if settings.run else next((each.run for each in sources if each.run), None)
    if folder is None:
        raise ConfigError("run: none of the policies is a run; name the run whose environment they act in")
    trained = acting_config(folder, settings.on_robot)
    change_task(trained, settings.task)
    with open_dict(trained):
        trained.teleop, trained.steering, trained.web = config.teleop, config.get("steering"), config.web
    console = Console(highlight=False, markup=False)
    if (note := robot_note(trained)) is not None:
        console.print(note, soft_wrap=True)
    backend = NoticingBackend(build_backend(trained), print)
    try:
        policies = [
            load_evaluated(each.run or folder, backend.spec, each.checkpoint, each.file, announces=False)
            for each in sources
        ]
        named = zip(settings.policies, sources, policies, strict=True)
        compared = tuple(ComparedPolicy(name, policy.step, each.fingerprint(policy)) for name, each, policy in named)
        plan = _plan(settings, str(folder), backend, compared, has_person(trained))
        clips = None if settings.clips is None else Path(settings.clips)
        if clips is not None:
            clips.mkdir(parents=True, exist_ok=True)
        with ComparisonJournal(output.with_name(f"{output.name}.part"), plan) as journal, kept(journal):
            console.print(plan.describe(settings.difference), soft_wrap=True)
            with watched(trained, backend, plan.success == "person", settings.confirm_start) as marked:
                acting = [policy.policy for policy in policies]
                result = compare(journal, marked, acting, clips=clips, spot_checks=settings.spot_checks)
            result.write(output)
            journal.remove()
    except SessionEnded:
        return 0
    finally:
        backend.close()
    show(result, console)
    console.print(f"Result {output}", soft_wrap=True)
    return 0


def _plan(
    settings: CompareConfig, folder: str, backend: EnvBackend, policies: tuple[ComparedPolicy, ...], person: bool
) -> ComparisonPlan:
    """Return the plan of a new comparison.

    Raises:
        ConfigError: if neither the task nor a person judges the episodes, or a value is out of range.
    """
    spec = backend.spec
    success = settings.success or ("task" if spec.reports_success else "person")
    if success == "task" and not spec.reports_success:
        raise ConfigError(f"success=task: {spec.task} does not report success here; use success=person")
    if not person and (success == "person" or settings.spot_checks or settings.confirm_start):
        raise ConfigError(
            "a person has to judge or begin the episodes, and none can: name a device with the buttons Success and "
            "Failure, such as teleop.device=browser, keyboard, window or gamepad, or give steering=ros2"
        )
    return ComparisonPlan(
        spec.task,
        folder,
        spec.control_rate,
        policies,
        settings.pairs,
        settings.error,
        settings.seed,
        success,
        settings.task,
        secrets.randbits(63),
    )


def show(comparison: Comparison, console: Console) -> None:
    """Print the results of a comparison, and which policy was which."""
    table = Table(
        "policy", "step", "success", "95 % interval", "time to success", "interventions", "failures", box=None
    )
    for result in comparison.policies:
        rate = result.success
        table.add_row(
            result.policy.name,
            f"{result.policy.step:,}",
            f"{100 * rate.value:.0f} %",
            f"{100 * rate.low:.0f} to {100 * rate.high:.0f} %",
            "-" if result.cycle_time is None else f"{result.cycle_time.median:.1f} s",
            str(result.interventions),
            ", ".join(f"{count} {end}" for end, count in result.failures.items()) or "-",
        )
    console.print(table)
    for line in comparison.describe():
        console.print(line, soft_wrap=True)
