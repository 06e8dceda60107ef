"""runtime=ray: Ray places the learner and its simulators and starts them again; all else is as in runtime=async."""

import contextlib
import os
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import ray
import torch
from omegaconf import DictConfig, OmegaConf, open_dict
from ray.exceptions import RayActorError, RayError, RayTaskError, TaskCancelledError

from ..app import (
    ActorConfig,
    RayRuntimeConfig,
    allow_packages,
    build_backend,
    complete_config,
    emergency_stop,
    needed_packages,
    register_all_configs,
)
from ..core import ConfigError, DriverError, Interruption, RoboRLError, override, write_durably
from ..learner import CheckpointFolder
from ..transport import TransportConfig
from .actor_processes import STOP_SECONDS, ActorGroup, free_names
from .asynchronous import AsyncTraining
from .remote_actor import RemoteActor
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
        reason = _first_line(error)
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
        remote = ray.remote(max_calls=1)(task).options(**_demands(resources), max_retries=0)
        with Interruption() as interruption:  # Ray takes SIGTERM for itself when it starts: this comes after
            results, told = [remote.remote(job) for job in jobs], False
            while not _are_done(results, POLL_SECONDS):
                if interruption.signal is not None and not told:
                    for result in results:
                        ray.cancel(result)
                    told = True
            return [_outcome(result) for result in results], interruption.signal
    finally:
        ray.shutdown()


def _outcome(result: Any) -> str:
    try:
        return str(ray.get(result))
    except TaskCancelledError:
        return "interrupted"
    except RayError as error:
        return _first_line(error)


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
    options = _options(settings, settings.learner_resources)
    learner = ray.remote(RayLearner).options(**options).remote(_text(config), str(folder.resolve()))
    placed = learner.__ray_ready__.remote()
    try:
        # Ray takes SIGTERM for itself when it starts: this comes after.
        with Interruption(emergency_stop(config, "Ctrl-\\ in the terminal of the run")) as interruption:
            code, begun = learner.run.remote(), learner.wait_begun.remote()
            told = False
            while not _is_done(code, POLL_SECONDS):
                if begun is not None and _is_done(begun):
                    ray.get(begun)
                    on_begun()
                    begun = None
                if interruption.signal is not None and not told:
                    if not _is_done(placed):  # until there is room for it, it hears nothing
                        raise SystemExit(_not_begun(config, folder, interruption.signal))
                    learner.interrupt.remote(interruption.signal)
                    told = True
            exit_code = int(ray.get(code))
            if begun is not None and not _is_done(begun):  # interrupted before: the claim on the folder is given up
                raise SystemExit(exit_code)
            return exit_code
    except RayTaskError as error:
        if isinstance(error.cause, RoboRLError):
            raise error.cause from error
        raise
    except RayActorError as error:
        raise DriverError(
            f"the learner ended and has no restart left (runtime.restarts={settings.restarts}): {_first_line(error)}. "
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


class RayTraining(AsyncTraining):
    """As :class:`AsyncTraining`, with simulators that Ray places."""

    def _make_actors(self, config: DictConfig, folder: Path, transport: TransportConfig) -> ActorGroup:
        return RayActors(config, folder, transport)


class RayLearner:
    """The learner as a process of Ray. One that was killed goes on from its checkpoint and its store.

    Args:
        config: text of the run's config.yaml.
        folder: run folder, an absolute path; made where this machine has none.
    """

    def __init__(self, config: str, folder: str) -> None:
        self._folder = Path(folder)
        self._config = _parsed(config)
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
                training = RayTraining(self._config, self._folder, self._interruption)
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


class Simulators:
    """Simulators that act in one process of Ray, each in a thread of its own, with its own name and spool.

    Args:
        config: text of the run's config.yaml.
        names: of the simulators.
        spools: folder for theirs, an absolute path.
        transport: the wire, as actors need it.
    """

    def __init__(self, config: str, names: list[str], spools: str, transport: TransportConfig) -> None:
        self._identity = uuid.uuid4().hex
        self._configs = []
        for name in names:
            own = _parsed(config)
            with open_dict(own):
                spool, factor = str(Path(spools) / name / "spool"), own.runtime.real_time_factor
                own.actor = OmegaConf.structured(ActorConfig(name=name, spool=spool, real_time_factor=factor))
                own.transport = OmegaConf.structured(transport)
            self._configs.append(own)
        self._building = threading.Lock()
        self._leaving = False
        self._interruption = Interruption()

    def identity(self) -> str:
        """Return what tells this process from an earlier one of the same name that died."""
        return self._identity

    def run(self) -> None:
        """Act until the run ends, or :meth:`leave`; where one simulator fails the others end, too."""
        torch.set_num_threads(1)
        interruption = self._interruption = Interruption()
        if self._leaving:
            interruption.signal = signal.SIGTERM
        with ThreadPoolExecutor(len(self._configs), "simulator") as pool:
            for acting in as_completed([pool.submit(self._act, config, interruption) for config in self._configs]):
                if acting.exception() is not None:
                    interruption.signal = signal.SIGTERM
                    acting.result()

    def leave(self) -> None:
        """End: hand over what is held, then return from :meth:`run`."""
        self._leaving = True
        self._interruption.signal = signal.SIGTERM

    def _act(self, config: DictConfig, interruption: Interruption) -> None:
        with self._building:  # one after the other: the first may have to compile
            backend = build_backend(config)
        try:
            RemoteActor(config, backend, interruption).run()
        finally:
            backend.close()


@dataclass
class _Process:
    """One :class:`Simulators`: its handle, the result of ``run``, and what it is asked and last said it is."""

    handle: Any
    result: Any
    asked: Any
    identity: str | None = None


class RayActors(ActorGroup):
    """Has Ray place processes of simulators, which it starts again where they die, and ends them.

    Args:
        config: of the run.
        folder: run folder; on each machine the spools are below this path.
        transport: the wire, as actors need it.
    """

    def __init__(self, config: DictConfig, folder: Path, transport: TransportConfig) -> None:
        self._settings = cast(RayRuntimeConfig, OmegaConf.to_object(config.runtime))
        self._config = _text(config)
        self._spools = str(folder.resolve() / "actors")
        self._transport = transport
        self._acting: dict[str, _Process] = {}
        self._leaving: dict[str, _Process] = {}
        self.restarts = 0

    def resize(self, wanted: int) -> None:
        while len(self._acting) > wanted:
            name, process = self._acting.popitem()
            process.handle.leave.remote()
            self._leaving[name] = process
        for name in free_names([*self._acting, *self.running()], wanted - len(self._acting)):
            self._acting[name] = self._start(name)

    def running(self) -> list[str]:
        processes = self._leaving | self._acting
        return [name for name, process in processes.items() if not _is_done(process.result)]

    def watch(self, acted: Collection[str]) -> None:
        """Count restarts, and let go of those that have left.

        Args:
            acted: not looked at; Ray itself starts processes again.

        Raises:
            DriverError: if Ray has given one up.
        """
        self._leaving = {name: process for name, process in self._leaving.items() if not _is_done(process.result)}
        for name, process in self._acting.items():
            try:
                if _is_done(process.asked):
                    identity = str(ray.get(process.asked))
                    self.restarts += process.identity not in (None, identity)
                    process.identity = identity
                    process.asked = process.handle.identity.remote()
                if _is_done(process.result):
                    ray.get(process.result)
            except RayError as error:
                raise DriverError(
                    f"{name} failed and has no restart left (runtime.restarts={self._settings.restarts}): "
                    f"{_first_line(error)}"
                ) from error

    def stop(self) -> None:
        processes = [*self._leaving.values(), *self._acting.values()]
        for process in processes:
            process.handle.leave.remote()
        if processes:
            ray.wait([process.result for process in processes], num_returns=len(processes), timeout=STOP_SECONDS)
        for process in processes:
            ray.kill(process.handle)
        self._acting, self._leaving = {}, {}

    def _start(self, name: str) -> _Process:
        settings = self._settings
        count = settings.environments
        names = [name] if count == 1 else [f"{name}_{number}" for number in range(count)]
        options = _options(settings, settings.actor_resources) | {"scheduling_strategy": "SPREAD"}
        handle = ray.remote(Simulators).options(**options).remote(self._config, names, self._spools, self._transport)
        result = handle.run.options(retry_exceptions=True).remote()
        return _Process(handle, result, handle.identity.remote())


def _options(settings: RayRuntimeConfig, resources: Mapping[str, float]) -> dict[str, Any]:
    """Return what Ray is to know of a process: what it needs, and that it is started again and its work resumed."""
    return _demands(resources) | {
        "max_restarts": settings.restarts,
        "max_task_retries": settings.restarts,
        "max_concurrency": 3,  # ``run``, ``wait_begun``, and what is said to it meanwhile
    }


def _lacking(asked: Mapping[str, float]) -> str:
    """Return what Ray has less of than is asked for, and how much."""
    found = ray.cluster_resources()
    return ", ".join(f"{n:g} {name} of {found.get(name, 0):g}" for name, n in asked.items() if n > found.get(name, 0))


def _demands(resources: Mapping[str, float]) -> dict[str, Any]:
    own = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU", "memory")}
    demands = {"num_cpus": resources.get("CPU", 0), "num_gpus": resources.get("GPU", 0), "resources": own}
    return demands | ({"memory": int(resources["memory"])} if "memory" in resources else {})


def _text(config: DictConfig) -> str:
    """Return a text for other processes, which may make objects of all that ``config`` names."""
    said = config.copy()
    with open_dict(said):
        said.allow = needed_packages(config)
    return OmegaConf.to_yaml(said, resolve=True)


def _parsed(text: str) -> DictConfig:
    """Return the configuration that :func:`_text` made a text of, in a process that knows none yet."""
    register_all_configs()
    config = cast(DictConfig, OmegaConf.create(text))
    allow_packages(config.pop("allow", ()))
    return complete_config(config, Path("the run's config.yaml"))


def _is_done(result: Any, timeout: float = 0.0) -> bool:
    """Return whether a call has ended, well or not, within ``timeout`` [s]."""
    return _are_done([result], timeout)


def _are_done(results: list[Any], timeout: float) -> bool:
    """Return whether all calls have ended, well or not, within ``timeout`` [s]."""
    return not ray.wait(results, num_returns=len(results), timeout=timeout)[1]


def _first_line(error: Exception) -> str:
    cause = error.cause if isinstance(error, RayTaskError) else error
    return str(cause).strip().partition("\n")[0]
