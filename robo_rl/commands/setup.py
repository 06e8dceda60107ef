"""robo-rl setup: check a robot before its first training, and write a report."""

import html
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import fields
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from ..app import build_safe_backend, emergency_stop, has_robot, robot_name
from ..command_line.destination import new_output
from ..core import ConfigError, importing_extra, typed, write_durably
from ..evaluation.page import data_url, section, table, write_page
from ..operators.bring_up import BringUp
from ..operators.checks import FAIL, PASS, SKIP, WARN, BringUpConfig, Check
from ..operators.dialog import Dialog, TerminalDialog
from ..operators.page_address import page_settings
from ..operators.rearming import find_stops_of
from ..operators.views import CHECKS, OVERLAY, PICTURES, Views, earlier_report
from ..telemetry import Console, versions

Figure = tuple[str, NDArray[np.uint8]]
"""Caption of a picture, and the picture (height, width, 3)."""
BEFORE_AND_NOW = "before in red, now in cyan"
NOTES = """The axes were moved with the actions of the task, through the safety filters. An axis passes if it moved as
commanded, by its own measurement. Only a person can see whether the directions were those of the announcement."""


def run(config: DictConfig) -> int:
    """Check as configured in configs/setup.yaml, print and write the result; return 1 if a check failed, otherwise 0.

    Raises:
        ConfigError: if there is no robot, or no operator to confirm the start.
    """
    settings = typed(BringUpConfig, OmegaConf.masked_copy(config, [field.name for field in fields(BringUpConfig)]))
    if not has_robot(config):
        raise ConfigError("robo-rl setup checks a robot: choose one, such as robot=virtual or robot=so101")
    output, console = new_output("output", settings.output, "folder"), Console(highlight=False, markup=False)
    config.task.terminate_on_success, config.task.max_episode_steps = False, 1_000_000
    earlier = earlier_report(settings, str(robot_name(config)), str(config.task.name))
    with closing(_open_dialog(config, settings, console)) as dialog:
        if settings.ask and not dialog.confirm_start():
            raise ConfigError("ask: nobody confirms that the robot may move; without a terminal, ask=false lets it")
        checks = _check(config, settings, dialog, Views(earlier, settings))
        failed, warned = (sum(check.outcome == outcome for check in checks) for outcome in (FAIL, WARN))
        summary = f"{len(checks)} checks, {failed} failed, {warned} with a warning"
        dialog.end(f"{summary}\nReport {output / 'report.html'}", settings.ask)
    return int(failed > 0)


def _open_dialog(config: DictConfig, settings: BringUpConfig, console: Console) -> Dialog:
    """Return the dialog with the operator, in the terminal or on a page."""
    if settings.device == "terminal":
        return TerminalDialog(console)
    with importing_extra("web", "pages need the packages websockets and segno"):
        from ..operators.setup_page import SetupPage
        from ..operators.stop_button import StopButton
    about = {"robot": str(robot_name(config)), "task": str(config.task.name)}
    press = emergency_stop(config, "the page of robo-rl setup")
    return SetupPage(console, page_settings(config), about, press, StopButton(partial(find_stops_of, config)))


def _check(config: DictConfig, settings: BringUpConfig, dialog: Dialog, views: Views) -> list[Check]:
    """Make the checks and write the report, also if they are interrupted; return the checks."""
    checks: list[Check] = []

    def add(check: Check) -> None:
        checks.append(check)
        dialog.add(check)

    backend = build_safe_backend(config)
    speed = float(config.robot.get("real_time_factor", 1.0))
    bring_up = BringUp(backend, settings, dialog, speed)
    ended = False
    try:
        for check in bring_up.checks():
            add(check)
        for check in views.checks(bring_up.pictures):
            add(check)
        dialog.show({f"{name}, {BEFORE_AND_NOW}": picture for name, picture in views.overlays.items()})
        if axes := [check.name.removeprefix("axis ") for check in checks if check.name.startswith("axis ")]:
            add(judge_directions(dialog.differing_axes(axes) if settings.ask else None))
        ended = True
    finally:
        backend.close()
        if not ended:
            add(Check("interrupted", FAIL, "not all checks were made"))
        pictures = {name: (name, picture) for name, picture in bring_up.pictures.items()}
        for name, picture in views.overlays.items():
            pictures[f"{name}{OVERLAY}"] = f"{name}, {BEFORE_AND_NOW}", picture
        _write(Path(settings.output), str(robot_name(config)), backend.spec.task, checks, pictures)
    return checks


def judge_directions(answer: str | None) -> Check:
    """Return the check of the directions by the operator, from the axes that moved differently; None: no answer."""
    if answer is None:
        return Check("directions", SKIP, "nobody has compared them with the announcements")
    wrong = answer.strip()
    if wrong.lower() in ("", "n", "no", "none"):
        return Check("directions", PASS, "as announced")
    return Check("directions", FAIL, f"moved differently: {wrong}")


def _write(output: Path, robot: str, task: str, checks: list[Check], pictures: Mapping[str, Figure]) -> None:
    """Write the results to checks.json and report.html in the folder ``output``, and the pictures beside them."""
    results = {"robot": robot, "task": task, "checks": [check.to_json() for check in checks], "versions": versions()}
    figures = []
    for name, (caption, picture) in pictures.items():
        data = cv2.imencode(".png", picture[..., ::-1])[1].tobytes()
        (output / PICTURES).mkdir(parents=True, exist_ok=True)
        write_durably(output / PICTURES / f"{name}.png", data)
        image = f'<img src="{data_url(data, "image/png")}" alt="{html.escape(caption)}">'
        figures.append(f"<figure>{image}<figcaption>{html.escape(caption)}</figcaption></figure>")
    output.mkdir(parents=True, exist_ok=True)
    write_durably(output / CHECKS, (json.dumps(results, indent=1) + "\n").encode())
    rows = [[check.outcome, check.name, check.text] for check in checks]
    sections = [section("Checks", table(("outcome", "check", "result"), rows))]
    sections += [section("Cameras", "".join(figures))] if figures else []
    lead = f"{sum(check.outcome == FAIL for check in checks)} of {len(checks)} checks failed"
    write_page(output / "report.html", f"{robot} · {task}", lead, sections, NOTES)
