"""hydra/launcher=ray: the runs of a sweep (-m) as tasks of Ray, as many at a time as there is room for."""

import datetime
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus, filter_overrides
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig
from rich.table import Table

from ..app import check_resources
from ..core import ConfigError, RoboRLError, config_node
from ..telemetry import Console

COMMAND = "train"
# Hydra takes plugins of this package alone, which many projects share and none of them makes.
_PACKAGE = "hydra_plugins"
_MODULE = f"{_PACKAGE}.robo_rl"


@dataclass(frozen=True)
class RayLauncherConfig:
    """How the runs of a sweep share a Ray.

    Attributes:
        cluster: address of a running Ray, ``auto`` for that of this machine; null: start one here for the sweep.
        resources: what each run needs, by the names that Ray has for it: ``CPU``, ``GPU``, ``memory`` [bytes].
    """

    cluster: str | None = None
    resources: dict[str, float] = field(default_factory=lambda: {"CPU": 1.0})


class RayLauncher(Launcher):
    """Has Ray start ``robo-rl train`` once for each choice of values. A run that fails stops no other.

    Each run begins in a process of its own as from the command line: nothing of the sweep's process goes along. The
    runs are in folders of one folder, numbered.

    Args:
        cluster: see :class:`RayLauncherConfig`.
        resources: see there.
    """

    command: ClassVar[Callable[[str, list[str]], int]]
    """Runs a command with overrides; returns its exit code."""

    def __init__(self, cluster: str | None, resources: Mapping[str, float]) -> None:
        self._cluster = cluster
        self._resources = dict(resources)
        self._config: DictConfig | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Remember the sweep's configuration; Hydra calls this first."""
        self._config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run a batch, and print what each run came to.

        Raises:
            ConfigError: if this is no sweep of ``train``, ``run.dir`` is given, Ray cannot reserve what a run needs, or
                there is no Ray.
            RoboRLError: once all have ended, if some failed.
            SystemExit: once all have ended, if Ctrl-C or SIGTERM interrupted them.
        """
        assert self._config is not None
        if self._config.hydra.job.config_name != COMMAND:
            raise ConfigError(f"hydra/launcher=ray sweeps robo-rl {COMMAND} alone")
        check_resources("hydra.launcher.resources", self._resources)
        try:
            from ..training.with_ray import run_tasks
        except ModuleNotFoundError as error:
            raise ConfigError("hydra/launcher=ray needs Ray: pip install 'robo-rl[ray]'") from error
        sweep = Path(self._config.hydra.sweep.dir).resolve() / f"{datetime.datetime.now():%Y-%m-%d_%H-%M-%S}_sweep"
        jobs = [_with_folder(overrides, sweep / str(initial_job_idx + n)) for n, overrides in enumerate(job_overrides)]
        command = type(self).command

        def train(overrides: list[str]) -> str:  # Ray takes functions alone, no other callables
            return _train(command, overrides)

        ends, signal = run_tasks(train, jobs, self._cluster, self._resources)
        table = Table("run", "values", "ended", "steps", "success", "return", title=f"{len(jobs)} runs", expand=True)
        same = set(jobs[0]).intersection(*jobs[1:]) if len(jobs) > 1 else set()
        for job, end in zip(jobs, ends, strict=True):
            table.add_row(*_row(job, same, end))
        Console().print(table)
        if signal is not None:
            raise SystemExit(128 + signal)
        if failed := sum(end != "" for end in ends):
            raise RoboRLError(f"{failed} of {len(jobs)} runs failed; the table says why")
        return [JobReturn(overrides=job, status=JobStatus.COMPLETED) for job in jobs]


RayLauncher.__module__ = _MODULE


def register(command: Callable[[str, list[str]], int]) -> None:
    """Offer ``hydra/launcher=ray`` to Hydra; ``command`` runs a command with overrides and returns its exit code."""
    RayLauncher.command = staticmethod(command)
    Plugins.instance().register(RayLauncher)
    sys.modules.setdefault(_PACKAGE, ModuleType(_PACKAGE))
    sys.modules[_MODULE] = sys.modules[__name__]
    node = config_node(RayLauncher, RayLauncherConfig)
    ConfigStore.instance().store("ray", node, group="hydra/launcher", provider="robo_rl")


def _with_folder(overrides: Sequence[str], folder: Path) -> list[str]:
    """Return what to give the run, with a folder of its own."""
    own = list(filter_overrides(overrides))
    if any(word.startswith("run.dir=") for word in own):
        raise ConfigError("a sweep on Ray gives each run a folder of its own: give hydra.sweep.dir instead of run.dir")
    return own if any(word.startswith("resume=") for word in own) else [*own, f"run.dir={folder}"]


def _train(command: Callable[[str, list[str]], int], overrides: list[str]) -> str:
    """Train in this process; return why that failed, or an empty text."""
    try:
        code = command(COMMAND, overrides)
    except RoboRLError as error:
        return str(error)
    if code > 128:
        return "interrupted"
    return f"exit code {code}" if code else ""


def _row(overrides: Sequence[str], same: Set[str], end: str) -> list[str]:
    """Return what the table says of a run; of what it was given without the ``same`` that all were."""
    from ..evaluation.runs import is_run, load_run

    (folder,) = (Path(word.partition("=")[2]) for word in overrides if word.startswith(("run.dir=", "resume=")))
    values = " ".join(word for word in overrides if word not in same and not word.startswith("run.dir="))
    summary: Mapping[str, Any] = (load_run(folder).summary if is_run(folder) else None) or {}
    success, mean = summary.get("success_rate"), summary.get("return_mean")
    return [
        str(folder),
        values,
        end or str(summary.get("status", "")),
        f"{summary.get('env_steps', 0):,}",
        "" if success is None else f"{100 * success['value']:.0f} %",
        "" if mean is None else f"{mean:.2f}",
    ]
