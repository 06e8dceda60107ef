"""Actors of a run that Ray places, and helpers that all Ray processes of a run share."""

import signal
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import ray
import torch
from omegaconf import DictConfig, OmegaConf, open_dict
from ray.exceptions import RayError, RayTaskError

from ..app import (
    ActorConfig,
    RayRuntimeConfig,
    allow_packages,
    build_backend,
    complete_config,
    needed_packages,
    register_all_configs,
)
from ..core import DriverError, Interruption
from ..transport import TransportConfig
from .actor_processes import STOP_SECONDS, ActorGroup, free_names
from .remote_actor import RemoteActor


class Simulators:
    """Simulators that act in one Ray process, each in its own thread, with its own name and spool.

    Args:
        config: text of the run's config.yaml.
        names: names of the simulators.
        spools: absolute path of the folder for their spools.
        transport: transport settings that the actors use.
    """

    def __init__(self, config: str, names: list[str], spools: str, transport: TransportConfig) -> None:
        self._identity = uuid.uuid4().hex
        self._configs = []
        for name in names:
            own = parsed_config(config)
            with open_dict(own):
                spool, factor = str(Path(spools) / name / "spool"), own.runtime.real_time_factor
                own.actor = OmegaConf.structured(ActorConfig(name=name, spool=spool, real_time_factor=factor))
                own.transport = OmegaConf.structured(transport)
            self._configs.append(own)
        self._building = threading.Lock()
        self._leaving = False
        self._interruption = Interruption()

    def identity(self) -> str:
        """Return an identity that distinguishes this process from an earlier one of the same name that died."""
        return self._identity

    def run(self) -> None:
        """Act until the run ends or :meth:`leave` is called; if one simulator fails, the others end too."""
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
        """Hand over the remaining steps, then let :meth:`run` return."""
        self._leaving = True
        self._interruption.signal = signal.SIGTERM

    def _act(self, config: DictConfig, interruption: Interruption) -> None:
        with self._building:  # one at a time, because the first one may have to compile
            backend = build_backend(config)
        try:
            RemoteActor(config, backend, interruption).run()
        finally:
            backend.close()


@dataclass
class _Process:
    """One :class:`Simulators`: its handle, the result of ``run``, the pending identity request, the last identity."""

    handle: Any
    result: Any
    identity_request: Any
    identity: str | None = None


class RayActors(ActorGroup):
    """Group of actors in Ray processes of simulators, which Ray places and restarts.

    Args:
        config: configuration of the run.
        folder: run folder; on each machine, the spools are below this path.
        transport: transport settings that the actors use.
        notify: reports messages about actors to operators.
    """

    def __init__(
        self,
        config: DictConfig,
        folder: Path,
        transport: TransportConfig,
        notify: Callable[[str], None] = print,
    ) -> None:
        self._notify = notify
        self._settings = cast(RayRuntimeConfig, OmegaConf.to_object(config.runtime))
        self._config = config_text(config)
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
        return [name for name, process in processes.items() if not is_done(process.result)]

    def watch(self, acted: Collection[str]) -> None:
        """Count restarts, and forget the processes that have left.

        Args:
            acted: not used, because Ray itself restarts processes.

        Raises:
            DriverError: if Ray no longer restarts a process.
        """
        self._leaving = {name: process for name, process in self._leaving.items() if not is_done(process.result)}
        for name, process in self._acting.items():
            try:
                if is_done(process.identity_request):
                    identity = str(ray.get(process.identity_request))
                    if process.identity not in (None, identity):
                        self.restarts += 1
                        self._notify(f"{name} ended and was restarted by Ray (restart {self.restarts})")
                    process.identity = identity
                    process.identity_request = process.handle.identity.remote()
                if is_done(process.result):
                    ray.get(process.result)
            except RayError as error:
                raise DriverError(
                    f"{name} failed and has no restart left (runtime.restarts={self._settings.restarts}): "
                    f"{first_line(error)}"
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
        options = process_options(settings, settings.actor_resources) | {"scheduling_strategy": "SPREAD"}
        handle = ray.remote(Simulators).options(**options).remote(self._config, names, self._spools, self._transport)
        result = handle.run.options(retry_exceptions=True).remote()
        return _Process(handle, result, handle.identity.remote())


def ray_actors(
    config: DictConfig, folder: Path, transport: TransportConfig, notify: Callable[[str], None]
) -> ActorGroup:
    """Return an object that has Ray start actors; no actor is started yet."""
    return RayActors(config, folder, transport, notify)


def process_options(settings: RayRuntimeConfig, resources: Mapping[str, float]) -> dict[str, Any]:
    """Return Ray's options for a process: its resources, its restart, and the repetition of its calls."""
    return demands(resources) | {
        "max_restarts": settings.restarts,
        "max_task_retries": settings.restarts,
        "max_concurrency": 3,  # ``run``, ``wait_begun``, and further calls in the meantime
    }


def demands(resources: Mapping[str, float]) -> dict[str, Any]:
    """Return the resources that Ray is to reserve for a process, as options of Ray."""
    custom = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU", "memory")}
    needed = {"num_cpus": resources.get("CPU", 0), "num_gpus": resources.get("GPU", 0), "resources": custom}
    return needed | ({"memory": int(resources["memory"])} if "memory" in resources else {})


def config_text(config: DictConfig) -> str:
    """Return ``config`` as text for other processes, which may build every object that it names."""
    copy = config.copy()
    with open_dict(copy):
        copy.allow = needed_packages(config)
    return OmegaConf.to_yaml(copy, resolve=True)


def parsed_config(text: str) -> DictConfig:
    """Return the configuration from a text of :func:`config_text`, in a process without registered configurations."""
    register_all_configs()
    config = cast(DictConfig, OmegaConf.create(text))
    allow_packages(config.pop("allow", ()))
    return complete_config(config, Path("the run's config.yaml"))


def is_done(result: Any, timeout: float = 0.0) -> bool:
    """Return whether a call has ended, successfully or not, within ``timeout`` [s]."""
    return are_done([result], timeout)


def are_done(results: list[Any], timeout: float) -> bool:
    """Return whether all calls have ended, successfully or not, within ``timeout`` [s]."""
    return not ray.wait(results, num_returns=len(results), timeout=timeout)[1]


def first_line(error: Exception) -> str:
    """Return the first line of an error, or of its cause in another process."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    return str(cause).strip().partition("\n")[0]
