"""robo-rl train: make or take up a run folder, and train."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict

from ..agents.sac.ranks import several_ranks
from ..app import RayRuntimeConfig, emergency_stop, has_robot, run_config, section
from ..core import ConfigError, RoboRLError
from ..telemetry import LiveWatch
from .async_training import AsyncTraining
from .interruption import Interruption
from .local_training import LocalTraining
from .ranks import follow, joined_ranks
from .takeover import has_person

RESUMABLE = ("run.", "logging.", "resume")


def run(config: DictConfig) -> int:
    """Train as ``config`` says; return the exit code (0, 1: diverged, 130: interrupted, 143: terminated)."""
    with joined_ranks() as rank:
        if rank == 0:
            return _train(config)
        return follow(config if config.resume is None else _resumed(config, Path(config.resume)))


def _train(config: DictConfig) -> int:
    earlier = None
    if config.resume is None:
        if has_robot(config) and config.runtime.name != "async":
            raise ConfigError("a robot does not wait while something learns: choose runtime=async")
        folder = Path(config.run.dir)
        choices = HydraConfig.get().runtime.choices
        with open_dict(config):
            config.choices = {group: choice for group, choice in choices.items() if group in config}
        earlier = _claim(config, folder)
    else:
        folder = Path(config.resume)
        config = _resumed(config, folder)
    if config.runtime.name == "ray":
        return _with_ray(config, folder, earlier)
    training_class = AsyncTraining if config.runtime.name == "async" else LocalTraining
    with contextlib.ExitStack() as stack:
        with claimed(config, folder, earlier):
            stop = emergency_stop(config, "Ctrl-\\ in the terminal of the run")
            interruption = stack.enter_context(Interruption(stop))
            training = training_class(config, folder, interruption)
        try:
            return training.run()
        finally:
            training.close()


@contextlib.contextmanager
def claimed(config: DictConfig, folder: Path, earlier: Path | None = None) -> Iterator[None]:
    """Give the run folder up where the block fails: nothing was begun, the command, corrected, may be given again.

    Args:
        config: of the run.
        folder: of the run.
        earlier: where the run is that this one replaces: it goes when the block succeeds, and comes back otherwise.
    """
    try:
        yield
    except BaseException as error:
        if earlier is not None:
            shutil.rmtree(folder)
            earlier.rename(folder)
        elif config.resume is None and isinstance(error, RoboRLError):
            (folder / "config.yaml").unlink(missing_ok=True)
        raise
    if earlier is not None:
        shutil.rmtree(earlier)


def _with_ray(config: DictConfig, folder: Path, earlier: Path | None) -> int:
    with contextlib.ExitStack() as claim:
        claim.enter_context(claimed(config, folder, earlier))
        if several_ranks():
            raise ConfigError("runtime=ray starts its learner itself: under torchrun choose runtime=local or async")
        settings: RayRuntimeConfig = section(config, "runtime")
        if has_person(config):
            raise ConfigError(
                "nobody takes over from simulators that Ray places: teleop.device and steering must be null"
            )
        try:
            from .ray_training import connect, learn
        except ModuleNotFoundError as error:
            raise ConfigError("runtime=ray needs Ray: pip install 'robo-rl[ray]'") from error
        connect(settings)
        return learn(config, folder, claim.close)


def _claim(config: DictConfig, folder: Path) -> Path | None:
    """Make the run folder, with the configuration; return where the run was put that is replaced, if one is.

    Raises:
        ConfigError: if the folder cannot be made, holds a run that is not to be replaced, or goes on, or holds what the
            new run is to read.
    """
    text, earlier = OmegaConf.to_yaml(config, resolve=True), None
    if (folder / "config.yaml").exists():
        if not section(config, "run").overwrite:
            raise ConfigError(
                f"{folder} holds a run already: go on with it by resume={folder}, choose another run.dir, or replace "
                "it by run.overwrite=true"
            )
        if LiveWatch(folder).is_going_on():
            raise ConfigError(f"another process is busy with the run in {folder}: end it before it is replaced")
        for key, value in _texts("", OmegaConf.to_container(config, resolve=True)):
            if key != "run.dir" and Path(value).resolve().is_relative_to(folder.resolve()):
                raise ConfigError(
                    f"{key}={value} lies in the run that run.overwrite=true replaces: choose another run.dir"
                )
        earlier = folder.with_name(f".{folder.name}.replaced-{os.getpid()}")
    try:
        if earlier is not None:
            folder.rename(earlier)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(text)
    except OSError as error:
        if earlier is not None and earlier.exists():
            shutil.rmtree(folder, ignore_errors=True)
            earlier.rename(folder)
        raise ConfigError(f"run.dir={folder} cannot be made: {error.strerror} ({error.filename})") from error
    return earlier


def _texts(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Return each text of a configuration, and its key."""
    if isinstance(value, str):
        yield key, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in items:
        yield from _texts(f"{key}.{name}" if key else str(name), each)


def _resumed(config: DictConfig, folder: Path) -> DictConfig:
    """Return the configuration of the run in ``folder``, with the ``run`` and ``logging`` overrides given now."""
    saved = run_config(folder)
    given = [word.partition("=")[0].lstrip("+~") for word in HydraConfig.get().overrides.task]
    refused = [key for key in given if not key.startswith(RESUMABLE)]
    if refused:
        raise ConfigError(
            f"a resumed run keeps its configuration: {', '.join(refused)} cannot be changed; only run.* and logging.* "
            "may be given beside resume"
        )
    for key in given:
        if key != "resume":
            OmegaConf.update(saved, key, OmegaConf.select(config, key))
    saved.resume = str(folder)
    return saved
