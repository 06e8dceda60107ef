"""robo-rl doctor: checks of this machine, with advice."""

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from robo_rl.drivers.ros2 import choose as choose_ros2
from robo_rl.drivers.ros2 import missing_packages
from robo_rl.drivers.teleop import find_devices

from ..agents.parts import native
from ..agents.sac.precision import TIMER
from ..command_line import machine
from ..command_line.machine import Check, Status
from ..core import typed
from ..safety.native import available as stops_in_cpp
from ..version import __version__

EXIT_FAILED = 1


@dataclass(frozen=True)
class DoctorConfig:
    """The section ``doctor`` of configs/doctor.yaml, which documents the options and holds their defaults."""

    json: bool
    folder: str


def run(config: DictConfig) -> int:
    """Make all checks and print the report; return 1 if one fails, else 0."""
    settings = typed(DoctorConfig, config, "doctor")
    checks = examine(Path(settings.folder))
    if settings.json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        print_report(checks, Console())
    return EXIT_FAILED if any(check.status == Status.FAIL for check in checks) else 0


def examine(folder: Path) -> list[Check]:
    """Return all checks of this machine; ``folder`` is the folder for runs."""
    installed = machine.installed_versions()
    required, extras = machine.requirements()
    return [
        machine.check_python(sys.version_info[:3]),
        machine.check_packages(required, installed),
        *([machine.check_tested(file, installed)] if (file := machine.constraints_file()).is_file() else []),
        machine.check_extras(extras, installed),
        machine.check_cores(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1),
        machine.check_memory(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        machine.check_torch(),
        machine.check_native(*native.available(), native.bfloat16_instructions(), TIMER.bfloat16_share()),
        machine.check_stop_planner(*stops_in_cpp()),
        machine.check_rendering([sys.executable, "-c", machine.RENDERS]),
        machine.check_ros2(choose_ros2, missing_packages),
        machine.check_cameras(Path("/dev"), Path("/sys/class/video4linux")),
        machine.check_teleop(find_devices),
        machine.check_disk(folder),
    ]


def print_report(checks: Iterable[Check], console: Console) -> None:
    """Print ``checks`` as a table."""
    colours = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "red"}
    table = Table(box=None, pad_edge=False, title=f"robo-rl {__version__}", title_justify="left")
    for column in ("", "Status", "Found", "What to do"):
        table.add_column(column, overflow="fold")
    for check in checks:
        colour = colours[check.status]
        table.add_row(check.name, f"[{colour}]{check.status}[/{colour}]", escape(check.found), escape(check.advice))
    console.print(table)
