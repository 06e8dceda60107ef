"""Training with runtime=ray: Ray places and restarts learner and simulators; the rest is as in runtime=async."""

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import ray
from omegaconf import DictConfig, OmegaConf
from ray.exceptions import RayActorError, RayError, RayTaskError, TaskCancelledError

from ..app import RayRuntimeConfig, emergency_stop
from ..core import ConfigError, DriverError, Interruption, RoboRLError, override, write_durably
from ..learner import CheckpointFolder
from .asynchronous import AsyncTraining
from .ray_actors import are_done, config_text, demands, first_line, is_done, parsed_config, process_options, ray_actors
from .run_folder import given_up, require_own_files

POLL_SECONDS = 0.5
OBJECT_STORE_BYTES = 80_000_000
"""Ray's minimum, which suffices because steps and policies do not travel through Ray [bytes]."""


def connect(settings: RayRuntimeConfig) -> None:
    """Join the Ray cluster that ``settings`` name, or start one on this machine that ends with this process.

    Raises:
        ConfigError: if there is no such cluster, or this machine lacks the resources in ``settings``.
        DriverError: if Ray does not start.
    """
    _join("runtime.cluster", settings.cluster)
    if settings.cluster is not None:
        return
    requested = Counter(settings.learner_resources)
    for _ in range(settings.actors):
        requested.update(settings.actor_resources)
    if lacking := _lacking(requested):
        ray.shutdown()
        raise ConfigError(
            f"runtime=ray needs {lacking} that this machine has: lower runtime.actors, or "
            "runtime.actor_resources and runtime.learner_resources"
        )


def _join(option: str, cluster: str | None) -> None:
    """Join the Ray cluster that ``option`` names, or start one."""
    if ray.is_initialized():
        raise ConfigError(f"{option}: this is already a Ray process; choose runtime=local or runtime=async")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        if cluster is not None:
            ray.init(cluster)
        else:
            ray.init("local", include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES)
    except Exception as error:  # Ray raises many types of exceptions, including bare Exception
        reason = first_line(error)
        if cluster is not None:
            raise ConfigError(
                f"{option}={cluster}: no Ray cluster answers there ({reason}); start one with ray start --head"
            ) from error
        raise DriverError(
            f"Ray did not start on this machine: {reason} Is it very busy? Logs: /tmp/ray/session_latest/logs"
        ) from error


def run_tasks(
    task: Callable[[list[str]], str],
    jobs: Sequence[list[str]],
    cluster: str | None,
    resources: Mapping[str, float],
) -> tuple[list[str], int | None]:
    """Call ``task`` once for each of ``jobs``, in processes of Ray.

    Ctrl-C or SIGTERM interrupts the running tasks, as Ctrl-C in a terminal would, and waits for them; tasks that wait
    for resources do not begin. A second signal ends all tasks at once.

    Args:
        task: called in a separate process.
        jobs: arguments of each call.
        cluster: address of the Ray cluster; None to start one on this machine for these tasks.
        resources: resources of each task.

    Returns:
        The result of each task, or how its process failed; and the signal that interrupted the tasks, or None.

    Raises:
        ConfigError: if there is no such cluster, or it lacks the resources of one task.
        DriverError: if Ray does not start.
    """
    _join("hydra.launcher.cluster", cluster)
    try:
        if lacking := _lacking(resources):
            raise ConfigError(f"hydra.launcher.resources: a run needs {lacking} that the cluster has")
        # Each task gets a new process, free of threads and library settings that an earlier task left behind.
        remote = ray.remote(max_calls=1)(task).options(**demands(resources), max_retries=0)
        with Interruption() as interruption:  # after Ray has started, because Ray installs a SIGTERM handler
            results, cancelled = [remote.remote(job) for job in jobs], False
            while not are_done(results, POLL_SECONDS):
                if interruption.signal is not None and not cancelled:
                    for result in results:
                        ray.cancel(result)
                    cancelled = True
            return [_outcome(result) for result in results], interruption.signal
    finally:
        ray.shutdown()


def _outcome(result: Any) -> str:
    try:
        return str(ray.get(result))
    except TaskCancelledError:
        return "interrupted"
    except RayError as error:
        return first_line(error)


def learn(config: DictConfig, folder: Path, on_begun: Callable[[], None]) -> int:
    """Have Ray run the learner in ``folder``, on a machine that it chooses; return the exit code.

    Args:
        config: configuration of the run.
        folder: folder of the run.
        on_begun: called once the learner has begun. Until then the learner may wait for resources or reject its
            configuration, so a run that it replaces must still exist.

    Raises:
        RoboRLError: an error of the learner, or if it failed more often than ``runtime.restarts``.
        SystemExit: if a signal came while the learner waited for resources.
    """
    settings = cast(RayRuntimeConfig, OmegaConf.to_object(config.runtime))
    options = process_options(settings, settings.learner_resources)
    learner = ray.remote(RayLearner).options(**options).remote(config_text(config), str(folder.resolve()))
    placed = learner.__ray_ready__.remote()
    try:
        # After Ray has started, because Ray installs a SIGTERM handler.
        with Interruption(emergency_stop(config, "Ctrl-\\ in the terminal of the run")) as interruption:
            code, begun = learner.run.remote(), learner.wait_begun.remote()
            interrupted = False
            while not is_done(code, POLL_SECONDS):
                if begun is not None and is_done(begun):
                    ray.get(begun)
                    on_begun()
                    begun = None
                if interruption.signal is not None and not interrupted:
                    if not is_done(placed):  # a learner that waits for resources cannot be called
                        raise SystemExit(_not_begun(config, folder, interruption.signal))
                    learner.interrupt.remote(interruption.signal)
                    interrupted = True
            exit_code = int(ray.get(code))
            # interrupted before it began, so the claim on the folder is released
            if begun is not None and not is_done(begun):
                raise SystemExit(exit_code)
            return exit_code
    except RayTaskError as error:
        if isinstance(error.cause, RoboRLError):
            raise error.cause from error
        raise
    except RayActorError as error:
        raise DriverError(
            f"the learner ended and has no restart left (runtime.restarts={settings.restarts}): {first_line(error)}. "
            f"Resume with: robo-rl train {override('resume', folder)}"
        ) from error
    finally:
        ray.shutdown()


def _not_begun(config: DictConfig, folder: Path, number: int) -> int:
    """Give up a run that the signal ``number`` ended while its learner waited for resources; return the exit code."""
    if config.resume is None:
        (folder / "config.yaml").unlink(missing_ok=True)
    print(
        "Ended before the learner began: Ray was still waiting for resources. "
        f"Does the cluster have runtime.learner_resources={config.runtime.learner_resources}?",
        flush=True,
    )
    return 128 + number


class RayLearner:
    """Learner as a Ray process. If it is killed, it resumes from its checkpoint and its store.

    Args:
        config: text of the run's config.yaml.
        folder: absolute path of the run folder, which is created if this machine has none.
    """

    def __init__(self, config: str, folder: str) -> None:
        self._folder = Path(folder)
        self._config = parsed_config(config)
        self._interruption = Interruption()
        self._folder.mkdir(parents=True, exist_ok=True)
        if not (self._folder / "config.yaml").exists():
            write_durably(self._folder / "config.yaml", config.encode())
        self._begun = threading.Event()

    def run(self) -> int:
        """Learn until the run is over; return its exit code."""
        if CheckpointFolder(self._folder / "checkpoints").folders():
            self._config.resume = str(self._folder)
        try:
            with contextlib.ExitStack() as claim:
                require_own_files(self._folder)  # this folder may be on another machine than that of the command
                if self._config.resume is None:
                    claim.enter_context(given_up(self._folder))
                training = AsyncTraining(self._config, self._folder, self._interruption, ray_actors)
        except SystemExit as ended:  # Ray would regard it as a failure of this process
            return int(ended.code or 0)
        self._begun.set()
        try:
            return training.run()
        finally:
            training.close()

    def wait_begun(self) -> None:
        """Return when the run has begun: its configuration is valid, and everything that it needs is available."""
        self._begun.wait()

    def interrupt(self, number: int) -> None:
        """End the run as the signal ``number`` does in other runtimes."""
        self._interruption.signal = number


def _lacking(requested: Mapping[str, float]) -> str:
    """Return the requested resources that Ray lacks, with the requested and the available amounts."""
    total = ray.cluster_resources()
    return ", ".join(
        f"{amount:g} {name} of {total.get(name, 0):g}"
        for name, amount in requested.items()
        if amount > total.get(name, 0)
    )
