"""The launcher hydra/launcher=ray: runs of a sweep (-m) as tasks of Ray, as many at a time as resources allow."""

import datetime
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus, filter_overrides
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from ..app import check_resources
from ..core import ConfigError, RoboRLError, config_node, importing_extra
from .sweep_table import SweptRun, print_sweep, progress_line

COMMAND = "train"
# Hydra accepts plugins only from this package, which many projects share and none of them creates.
_PACKAGE = "hydra_plugins"
_MODULE = f"{_PACKAGE}.robo_rl"


@dataclass(frozen=True)
class RayLauncherConfig:
    """Ray cluster that the runs of a sweep share.

    Attributes:
        cluster: address of a running Ray cluster, ``auto`` for the cluster of this machine; null: start one here for
            the sweep.
        resources: resources that each run needs, by Ray's names: ``CPU``, ``GPU``, ``memory`` [bytes].
    """

    cluster: str | None = None
    resources: dict[str, float] = field(default_factory=lambda: {"CPU": 1.0})


class RayLauncher(Launcher):
    """A launcher of ``robo-rl train`` on Ray, once for each choice of values. A failed run does not stop the others.

    Each run begins in a separate process, as from the command line, without any state of the sweep's process. The
    folders of the runs are numbered, in one common folder.

    Args:
        cluster: see :class:`RayLauncherConfig`.
        resources: see :class:`RayLauncherConfig`.
    """

    command: ClassVar[Callable[[str, list[str]], int]]
    """Runs a command with overrides; returns its exit code."""

    def __init__(self, cluster: str | None, resources: Mapping[str, float]) -> None:
        self._cluster = cluster
        self._resources = dict(resources)
        self._config: DictConfig | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Store the sweep's configuration; Hydra calls this first."""
        self._config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run a batch, and print the outcome of each run.

        Raises:
            ConfigError: if this is not a sweep of ``train``, ``run.dir`` is given, Ray cannot reserve the resources of
                a run, or Ray is not installed.
            RoboRLError: after all runs have ended, if some failed.
            SystemExit: after all runs have ended, if Ctrl-C or SIGTERM interrupted them.
        """
        assert self._config is not None
        if self._config.hydra.job.config_name != COMMAND:
            raise ConfigError(f"hydra/launcher=ray sweeps only robo-rl {COMMAND}")
        check_resources("hydra.launcher.resources", self._resources)
        with importing_extra("ray", "hydra/launcher=ray needs Ray"):
            from ..training.with_ray import run_tasks
        sweep = Path(self._config.hydra.sweep.dir).resolve() / f"{datetime.datetime.now():%Y-%m-%d_%H-%M-%S}_sweep"
        jobs = [_with_folder(overrides, sweep / str(initial_job_idx + n)) for n, overrides in enumerate(job_overrides)]
        command = type(self).command

        def train(overrides: list[str]) -> str:  # Ray accepts only functions, no other callables
            print(progress_line(jobs.index(overrides), jobs), flush=True)  # Ray passes it to the terminal
            return _train(command, overrides)

        outcomes, signal = run_tasks(train, jobs, self._cluster, self._resources)
        runs = [SweptRun(_folder(job), job, outcome) for job, outcome in zip(jobs, outcomes, strict=True)]
        print_sweep(runs)
        if signal is not None:
            raise SystemExit(128 + signal)
        if failed := sum(outcome != "" for outcome in outcomes):
            raise RoboRLError(f"{failed} of {len(jobs)} runs failed; the table gives the reasons")
        return [JobReturn(overrides=job, status=JobStatus.COMPLETED) for job in jobs]


RayLauncher.__module__ = _MODULE


def register(command: Callable[[str, list[str]], int]) -> None:
    """Register ``hydra/launcher=ray`` in Hydra; ``command`` runs a command with overrides and returns its exit code."""
    RayLauncher.command = staticmethod(command)
    Plugins.instance().register(RayLauncher)
    sys.modules.setdefault(_PACKAGE, ModuleType(_PACKAGE))
    sys.modules[_MODULE] = sys.modules[__name__]
    node = config_node(RayLauncher, RayLauncherConfig)
    ConfigStore.instance().store("ray", node, group="hydra/launcher", provider="robo_rl")


def _with_folder(overrides: Sequence[str], folder: Path) -> list[str]:
    """Return the overrides of a run, with a separate folder."""
    words = list(filter_overrides(overrides))
    if any(word.startswith("run.dir=") for word in words):
        raise ConfigError("a sweep on Ray gives each run a separate folder: set hydra.sweep.dir instead of run.dir")
    return words if any(word.startswith("resume=") for word in words) else [*words, f"run.dir={folder}"]


def _train(command: Callable[[str, list[str]], int], overrides: list[str]) -> str:
    """Train in this process; return the reason for a failure, or an empty text."""
    try:
        code = command(COMMAND, overrides)
    except RoboRLError as error:
        return str(error)
    if code > 128:
        return "interrupted"
    return f"exit code {code}" if code else ""


def _folder(overrides: Sequence[str]) -> Path:
    """Return the folder of a run."""
    (folder,) = (Path(word.partition("=")[2]) for word in overrides if word.startswith(("run.dir=", "resume=")))
    return folder
