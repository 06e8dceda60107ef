"""Commands with a configuration, as Hydra applications."""

import contextlib
import gc
import importlib
import keyword
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.hydra import Hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, open_dict
from omegaconf.errors import OmegaConfBaseException

from ..core import ConfigError, RoboRLError, is_too_large
from ..core.search_path import CONFIG_PATH_VARIABLE, config_folders, register_search_path
from .light_commands import light_schemas
from .renamed_options import with_new_names
from .sweep_table import SweptRun, print_sweep, progress_line, swept_overrides
from .usage import (
    explain,
    help_text,
    require_flags,
    require_known,
    require_known_additions,
    require_options,
    require_read,
    require_valid,
)
from .whole_numbers import with_whole_numbers

EXIT_SIGNAL = 128
"""Exit code of a command that a signal interrupted, before the signal's number is added."""

ROS_NAMES = ("robot", "success", "topic")
"""Sections and options that contain names of ROS 2, in which ~/ stands for the node."""


def run_command(command: str, overrides: list[str], run: Callable[[DictConfig], int] | None = None) -> int:
    """Compose the command's configuration and call its ``run``; convert Hydra's errors to those of robo-rl.

    Args:
        command: words of the command.
        overrides: its options and flags.
        run: called instead of the ``run`` of the command's module.

    Returns:
        The exit code.
    """
    register_configs(command)
    folders, overrides = _config_folders(with_new_names(command, overrides))
    with config_folders(folders):
        return _run(command, overrides, run or _module_run(command))


def register_configs(command: str) -> None:
    """Register what the configuration of a command is composed of.

    A command that chooses no task, agent or other group needs none of their packages, which take seconds to import.
    """
    if (schemas := light_schemas(command)) is not None:
        register_search_path()
        for schema in schemas:
            importlib.import_module(schema.package).register_configs()
        return
    from ..app import register_all_configs
    from . import ray_launcher

    register_all_configs()
    ray_launcher.register(run_command)


def _run(command: str, overrides: list[str], run: Callable[[DictConfig], int]) -> int:
    name = command.replace(" ", "_")
    overrides = with_whole_numbers(name, [_quote_home(word) for word in overrides])
    if {"-h", "--help", "--help-all"} & set(overrides):
        return _help(command, name, overrides)
    require_flags(command, overrides)
    require_read(command, overrides)
    require_known_additions(name, overrides)
    require_options(name, overrides)
    status = 0
    failure: Exception | None = None
    composed = False
    swept: list[SweptRun] = []
    process = os.getpid()

    def job(config: DictConfig) -> None:
        nonlocal status, failure, composed
        composed = True
        try:
            require_known(config)
            _expand_home(config)
            if sweeping := _swept_runs(config):
                swept.extend(sweeping)  # a value may be out of range in this run alone
                print(progress_line(HydraConfig.get().job.num, swept_overrides(overrides)), flush=True)
            require_valid(config)
            status = max(status, _call(run, config))
        except Exception as error:
            failure = _failure(error, name, overrides)
            swept[-1:] = [run._replace(failure=str(failure or type(error).__name__)) for run in swept[-1:]]
            if failure is None:
                raise
            if os.getpid() != process:
                raise failure from error  # A launcher of Hydra started this process: nothing else is returned from it.
            # Hydra prints additional lines about other exceptions.
            raise SystemExit from error
        if status and os.getpid() != process:
            raise RoboRLError(f"robo-rl {command} ended with exit code {status}")
        if status > EXIT_SIGNAL:
            raise SystemExit  # After an interrupted run of a sweep no other run should begin.

    application = hydra.main(config_path="pkg://robo_rl.configs", config_name=name, version_base="1.3")(job)
    try:
        with _command_line(command, overrides):
            application()
    except SystemExit as stop:
        if failure is not None:
            raise failure from stop.__cause__
        if status > EXIT_SIGNAL:
            return status
        raise
    except Exception as error:
        # Hydra raises others too, for flags that contradict each other or a dictionary where there is none yet.
        if composed and not isinstance(error, (HydraException, OmegaConfBaseException)):
            raise
        raise ConfigError(explain(error, name, overrides)) from error
    finally:
        if swept:
            print_sweep(swept)
    return status


def _module_run(command: str) -> Callable[[DictConfig], int]:
    """Return a function that calls the ``run`` of the command's module, which is imported by then."""

    def run(config: DictConfig) -> int:
        name = command.replace(" ", "_")
        module = f"{name}_" if keyword.iskeyword(name) else name
        module_run: Callable[[DictConfig], int] = importlib.import_module(f"robo_rl.commands.{module}").run
        if not gc.get_freeze_count():  # before the first run of a sweep: its remains are garbage to the next one
            gc.freeze()  # later collections, which stop control loops meanwhile, need not look at it either
        gc.enable()
        return module_run(config)

    return run


def _call(run: Callable[[DictConfig], int], config: DictConfig) -> int:
    """Run the command with its composed configuration; return the exit code."""
    if "allow" in config:
        from ..app import allow_packages  # slow to import

        with open_dict(config):
            allow_packages(config.pop("allow"))
    return run(config)


def _swept_runs(config: DictConfig) -> list[SweptRun]:
    """Return the training run that begins now, if it belongs to a sweep."""
    if not isinstance(config.get("run"), DictConfig) or HydraConfig.get().mode != RunMode.MULTIRUN:
        return []
    return [SweptRun(Path(str(config.get("resume") or config.run.dir)), list(HydraConfig.get().overrides.task))]


def _failure(error: Exception, name: str, overrides: Sequence[str]) -> Exception | None:
    """Return the error to show to the user; None if ``error`` is a defect of robo-rl."""
    if isinstance(error, OmegaConfBaseException):
        return ConfigError(explain(error, name, overrides))
    if isinstance(error, OSError | RoboRLError):
        return error
    return ConfigError(_too_large(error)) if is_too_large(error) else None


def _too_large(error: Exception) -> str:
    reason = str(error).partition("\n")[0][:200] or type(error).__name__
    return (
        f"this needs more memory than there is ({reason}): lower the sizes that are given, such as agent.batch_size or "
        "run.replay_capacity (--debug shows where)"
    )


def _config_folders(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the folders that ``--config-dir`` names, and the other words.

    Raises:
        ConfigError: if the flag has no folder.
    """
    folders, remaining = [], []
    iterator = iter(words)
    for word in iterator:
        flag, is_given, folder = word.partition("=")
        if flag not in ("--config-dir", "-cd"):
            remaining.append(word)
            continue
        folder = folder if is_given else next(iterator, "")
        if not folder:
            raise ConfigError("--config-dir: name a folder with configuration files, as --config-dir=my_lab")
        folders.append(folder)
    return folders, remaining


def _quote_home(word: str) -> str:
    """Return ``word`` with quotes around paths that begin with ~, as Hydra requires."""
    return word if re.search("[\"']", word) else re.sub(r"(?<=[=\[,])~[^,\[\]]*", r'"\g<0>"', word)


def _expand_home(config: Any) -> None:
    """Replace the ~ at the beginning of paths by the home folder: shells do so only at the start of a word.

    Raises:
        ConfigError: if this user has no home folder.
    """
    if config._is_none() or config._is_missing() or config._is_interpolation():
        return
    for key in range(len(config)) if isinstance(config, ListConfig) else config.keys():
        if key in ROS_NAMES:
            continue
        node = config._get_node(key)
        value = node._value()  # as written: an interpolation is resolved later
        if isinstance(node, DictConfig | ListConfig):
            _expand_home(node)
        elif isinstance(value, str) and value.partition("/")[0] == "~":
            try:
                config[key] = str(Path(value).expanduser())
            except RuntimeError as error:  # in some containers
                raise ConfigError(f"{config._get_full_key(key)}={value}: there is no home folder ({error})") from error


def _help(command: str, name: str, words: list[str]) -> int:
    overrides = [word for word in words if not word.startswith("-") and "=" in word]
    sections = [word for word in words if not word.startswith("-") and "=" not in word]
    try:
        print(help_text(command, name, overrides, sections, "--help-all" in words))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(explain(error, name, overrides)) from error
    return 0


@contextlib.contextmanager
def _command_line(command: str, overrides: list[str]) -> Iterator[None]:
    """Pass the command's words to Hydra, and make it raise its errors."""
    hydra_class: Any = Hydra
    saved = sys.argv, os.environ.get("HYDRA_FULL_ERROR"), Hydra.get_mode
    # Between overrides argparse does not accept the flag, but people put it anywhere.
    sweep = [word for word in overrides if word in ("-m", "--multirun")]
    sys.argv = [f"robo-rl {command}", *sweep, *(word for word in overrides if word not in sweep)]
    # Otherwise Hydra prints its errors itself and exits with 1.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    if CONFIG_PATH_VARIABLE not in os.environ and not any("hydra" in word for word in overrides):
        # Hydra composes all the configuration to read hydra.mode, which no file of robo-rl sets, and then once more.
        hydra_class.get_mode = lambda *_, **__: None
    try:
        yield
    finally:
        hydra_class.get_mode = saved[2]
        sys.argv = saved[0]
        if saved[1] is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = saved[1]
