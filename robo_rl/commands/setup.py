"""robo-rl setup: check a robot before its first training, and write a report."""

import html
import json
import sys
from dataclasses import fields
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from ..app import build_backend, has_robot, robot_name
from ..command_line.destination import new_output
from ..core import ConfigError, typed, write_durably
from ..evaluation.page import data_url, section, table, write_page
from ..operators.bring_up import BringUp
from ..operators.checks import FAIL, PASS, WARN, BringUpConfig, Check
from ..telemetry import Console, versions

PICTURES = "pictures"
NOTES = """The axes were moved with the actions of the task, through the safety filters. An axis passes if it moved as
commanded, by its own measurement. Only a person can see whether the directions were those of the announcement."""


def run(config: DictConfig) -> int:
    """Check as configured in configs/setup.yaml, print and write the result; return 1 if a check failed, otherwise 0.

    Raises:
        ConfigError: if there is no robot.
    """
    settings = typed(BringUpConfig, OmegaConf.masked_copy(config, [field.name for field in fields(BringUpConfig)]))
    if not has_robot(config):
        raise ConfigError("robo-rl setup checks a robot: choose one, such as robot=virtual or robot=so101")
    output, console = new_output("output", settings.output, "folder"), Console(highlight=False, markup=False)
    config.task.terminate_on_success, config.task.max_episode_steps = False, 1_000_000
    config.task.observation.relative = False  # safety filters need the pose of the arm, too
    asks = sys.stdin.isatty() if settings.ask is None else settings.ask
    checks: list[Check] = []

    def add(check: Check) -> None:
        checks.append(check)
        console.print(f"{check.outcome:4}  {check.name}: {check.text}", soft_wrap=True)

    backend = build_backend(config)
    try:
        bring_up = BringUp(backend, settings, output / PICTURES, lambda text: console.print(f"      {text}"))
        if asks:
            console.input("The robot will move. Keep its emergency stop within reach, and press Enter to begin: ")
        for check in bring_up.checks():
            add(check)
        if asks and any(check.name.startswith("axis") for check in checks):
            add(_judged(console.input("Which axes moved differently from what was announced (Enter: none)? ")))
    finally:
        backend.close()
        if checks:
            _write(output, str(robot_name(config) or config.robot.name), backend.spec.task, checks)
    failed, warned = (sum(check.outcome == outcome for check in checks) for outcome in (FAIL, WARN))
    console.print(f"{len(checks)} checks, {failed} failed, {warned} with a warning\nReport {output / 'report.html'}")
    return int(failed > 0)


def _judged(answer: str) -> Check:
    """Return the check of the directions by a person, from the axes that moved differently."""
    wrong = answer.strip()
    return Check("directions", FAIL if wrong else PASS, f"moved differently: {wrong}" if wrong else "as announced")


def _write(output: Path, robot: str, task: str, checks: list[Check]) -> None:
    """Write the results to checks.json and report.html in the folder ``output``."""
    output.mkdir(parents=True, exist_ok=True)
    results = {"robot": robot, "task": task, "checks": [check.to_json() for check in checks], "versions": versions()}
    write_durably(output / "checks.json", (json.dumps(results, indent=1) + "\n").encode())
    rows = [[check.outcome, check.name, check.text] for check in checks]
    pictures = "".join(
        f'<figure><img src="{data_url(file.read_bytes(), "image/png")}" alt="{html.escape(file.stem)}">'
        f"<figcaption>{html.escape(file.stem)}</figcaption></figure>"
        for file in sorted((output / PICTURES).glob("*.png"))
    )
    sections = [section("Checks", table(("outcome", "check", "result"), rows))]
    sections += [section("Cameras", pictures)] if pictures else []
    lead = f"{sum(check.outcome == FAIL for check in checks)} of {len(checks)} checks failed"
    write_page(output / "report.html", f"{robot} · {task}", lead, sections, NOTES)
