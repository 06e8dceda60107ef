"""runtime=ray: Ray places the learner and its simulators and starts them again; all else is as in runtime=async."""

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
"""Steps and policies do not travel through Ray, so its least will do."""


def connect(settings: RayRuntimeConfig) -> None:
    """Join the Ray that ``settings`` name, or start one on this machine that ends with this process.

    Raises:
        ConfigError: if there is none, or this machine has not what ``settings`` ask for.
        DriverError: if it does not start.
    """
    _join("runtime.cluster", settings.cluster)
    if settings.cluster is not None:
        return
    asked = Counter(settings.learner_resources)
    for _ in range(settings.actors):
        asked.update(settings.actor_resources)
    if lacking := _lacking(asked):
        ray.shutdown()
        raise ConfigError(
            f"runtime=ray asks for {lacking} that this machine has: lower runtime.actors, or "
            "runtime.actor_resources and runtime.learner_resources"
        )


def _join(option: str, cluster: str | None) -> None:
    """Join the Ray that ``option`` names, or start one."""
    if ray.is_initialized():
        raise ConfigError(f"{option}: this is a process of Ray already; choose runtime=local or runtime=async")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        if cluster is not None:
            ray.init(cluster)
        else:
            ray.init("local", include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES)
    except Exception as error:  # of many kinds, bare ones among them
        reason = first_line(error)
        if cluster is not None:
            raise ConfigError(
                f"{option}={cluster}: no Ray answers there ({reason}); start one with ray start --head"
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

    Ctrl-C or SIGTERM interrupts those that go on, as Ctrl-C in a terminal of their own would, and waits for them; those
    that wait for room do not begin. A second one ends all at once.

    Args:
        task: called in a process of its own.
        jobs: its arguments.
        cluster: address of the Ray; None: one on this machine, for these tasks.
        resources: what each needs.

    Returns:
        What each returned, or how its process failed; the signal that interrupted them, None where none did.

    Raises:
        ConfigError: if there is no such Ray, or it has not what one needs.
        DriverError: if none starts.
    """
    _join("hydra.launcher.cluster", cluster)
    try:
        if lacking := _lacking(resources):
            raise ConfigError(f"hydra.launcher.resources: a run asks for {lacking} that there are")
        # A process for each: what one leaves behind, threads and settings of libraries, the next does not meet.
        remote = ray.remote(max_calls=1)(task).options(**demands(resources), max_retries=0)
        with Interruption() as interruption:  # Ray takes SIGTERM for itself when it starts: this comes after
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
    """Have Ray run the learner in ``folder``, on whatever machine it chooses; return the exit code.

    Args:
        config: of the run.
        folder: of the run.
        on_begun: called once the learner has begun. Until then it may wait for room or refuse its configuration, and a
            run that it is to replace must not be gone.

    Raises:
        RoboRLError: what the learner raised, or that it failed more often than ``runtime.restarts``.
        SystemExit: if a signal came while it waited for room.
    """
    settings = cast(RayRuntimeConfig, OmegaConf.to_object(config.runtime))
    options = process_options(settings, settings.learner_resources)
    learner = ray.remote(RayLearner).options(**options).remote(config_text(config), str(folder.resolve()))
    placed = learner.__ray_ready__.remote()
    try:
        # Ray takes SIGTERM for itself when it starts: this comes after.
        with Interruption(emergency_stop(config, "Ctrl-\\ in the terminal of the run")) as interruption:
            code, begun = learner.run.remote(), learner.wait_begun.remote()
            interrupted = False
            while not is_done(code, POLL_SECONDS):
                if begun is not None and is_done(begun):
                    ray.get(begun)
                    on_begun()
                    begun = None
                if interruption.signal is not None and not interrupted:
                    if not is_done(placed):  # until there is room for it, it hears nothing
                        raise SystemExit(_not_begun(config, folder, interruption.signal))
                    learner.interrupt.remote(interruption.signal)
                    interrupted = True
            exit_code = int(ray.get(code))
            if begun is not None and not is_done(begun):  # interrupted before: the claim on the folder is given up
                raise SystemExit(exit_code)
            return exit_code
    except RayTaskError as error:
        if isinstance(error.cause, RoboRLError):
            raise error.cause from error
        raise
    except RayActorError as error:
        raise DriverError(
            f"the learner ended and has no restart left (runtime.restarts={settings.restarts}): {first_line(error)}. "
            f"Go on: robo-rl train {override('resume', folder)}"
        ) from error
    finally:
        ray.shutdown()


def _not_begun(config: DictConfig, folder: Path, number: int) -> int:
    """Give up a run that the signal ``number`` ended while its learner waited for room; return the exit code."""
    if config.resume is None:
        (folder / "config.yaml").unlink(missing_ok=True)
    print(
        "Ended before the learner began: Ray had not given it its place yet. "
        f"Does the cluster have runtime.learner_resources={config.runtime.learner_resources}?",
        flush=True,
    )
    return 128 + number


class RayLearner:
    """The learner as a process of Ray. One that was killed goes on from its checkpoint and its store.

    Args:
        config: text of the run's config.yaml.
        folder: run folder, an absolute path; made where this machine has none.
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
                require_own_files(self._folder)  # it may be another one than that of the machine that asks
                if self._config.resume is None:
                    claim.enter_context(given_up(self._folder))
                training = AsyncTraining(self._config, self._folder, self._interruption, ray_actors)
        except SystemExit as ended:  # Ray would take it for a failure of this process
            return int(ended.code or 0)
        self._begun.set()
        try:
            return training.run()
        finally:
            training.close()

    def wait_begun(self) -> None:
        """Return when the run has begun: its configuration is good, and all that it needs is there."""
        self._begun.wait()

    def interrupt(self, number: int) -> None:
        """End the run as the signal ``number`` does in other runtimes."""
        self._interruption.signal = number


def _lacking(asked: Mapping[str, float]) -> str:
    """Return what Ray has less of than is asked for, and how much."""
    found = ray.cluster_resources()
    return ", ".join(f"{n:g} {name} of {found.get(name, 0):g}" for name, n in asked.items() if n > found.get(name, 0))
