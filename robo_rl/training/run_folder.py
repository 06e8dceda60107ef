"""Folder of a run: created or replaced when the run begins, and cleaned up if the run fails to begin."""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..app import saved_config
from ..core import ConfigError, DataError, load_config, override, section, write_durably
from ..evaluation.runs import is_run, load_run
from ..learner import CheckpointFolder
from ..telemetry import LiveWatch
from .demonstrations import check_demonstrations

ENTRIES = (
    "config.yaml",
    "metrics.jsonl",
    "summary.json",
    "evaluation.json",
    "checkpoints",
    "demonstrations",
    "prior",
    "base",
    "machine.yaml",
    "divergence_batch.safetensors",
    "live",
    "tensorboard",
    "videos",
    "curve.png",
    "report.html",
    "replay",
    "actors",
    "run_id",
    "paused",
    "wandb",
    "wandb_id",
)
"""All files and folders that runs write into their folders. All other entries belong to the user."""

BEGINNING = ("demonstrations", "prior", "metrics.jsonl", "tensorboard")
"""Entries that a run writes before its first checkpoint, and writes again when it restarts without one."""

PATHS = (
    "path",
    "file",
    "reference",
    "checkpoint",
    "certificates",
    "start.run",
    "base.run",
    "base.policy",
    "base.lerobot",
    "task.machine",
)
"""Suffixes of the names of options whose values are files or folders that a run reads."""


@contextlib.contextmanager
def claimed(config: DictConfig, folder: Path) -> Iterator[None]:
    """Create the folder of a new run, with its configuration, for a block in which the run begins.

    If the block fails, the folder is restored, so that the command can be repeated. A run that the new one replaces is
    deleted when the block succeeds. The folder of a resumed run stays as it is, except that its configuration records
    the options of this resumption when the block succeeds.

    Raises:
        ConfigError: if the folder cannot be created, if it holds files other than a run, a run that may not be replaced
            or that is still running, or files that the new run reads; for a resumed run, as :func:`require_own_files`.
        DataError: as :func:`check_demonstrations`, for a new run.
    """
    if config.resume is not None:
        require_own_files(folder)
        print(f"Run folder {folder}", flush=True)
        yield
        _keep_resumed(config, folder / "config.yaml")
        return
    text = OmegaConf.to_yaml(config, resolve=True)
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    earlier = folder / f".replaced-{os.getpid()}"
    replaces = _holds_run(config, folder)
    check_demonstrations(config)
    with _making(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if replaces:
            _set_aside(folder, earlier)
    begun = False
    try:
        with given_up(folder):
            with _making(folder):
                write_durably(folder / "config.yaml", text.encode())
            print(f"Run folder {folder}", flush=True)
            yield
        begun = True
    finally:
        begun = begun or _has_begun(folder)
        if replaces and begun:
            shutil.rmtree(earlier)
        elif replaces:
            _move(earlier, folder)
        elif not begun:
            _remove(made)


def require_own_files(folder: Path) -> None:
    """Reject the folder of a run if the run's entries are not all regular files and folders.

    A link may lead to any file of the user, and opening a named pipe blocks forever.

    Raises:
        ConfigError: names the first offending entry.
    """
    waiting = [path for name in reversed(ENTRIES) if os.path.lexists(path := folder / name)]
    while waiting:
        path = waiting.pop()
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise ConfigError(
                f"{path} is a link to {path.readlink()}, and a run writes only to its own files: replace the link by "
                "what it points to, or remove it"
            )
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise ConfigError(f"{path} is neither a file nor a folder, and a run writes to nothing else: remove it")
        if stat.S_ISDIR(mode) and path != folder / "wandb":  # wandb makes links itself, and writes only to new files
            try:
                waiting += path.iterdir()
            except OSError as error:
                raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _keep_resumed(config: DictConfig, file: Path) -> None:
    """Save the options of this resumption for later ones, besides the options that the run began with."""
    saved = saved_config(file)
    if config.resumed != (saved.get("resumed") or {}):
        saved.resumed = config.resumed
        write_durably(file, OmegaConf.to_yaml(saved).encode())


@contextlib.contextmanager
def given_up(folder: Path) -> Iterator[None]:
    """Remove the files of the run in ``folder`` if the block fails before the first checkpoint."""
    try:
        yield
    except BaseException:
        if not _has_begun(folder):
            for name in ENTRIES:
                _discard(folder / name)
        raise


def clear_beginning(folder: Path) -> None:
    """Remove the files of a run in ``folder`` whose process was killed before its first checkpoint.

    Such a run restarts, because its recordings and logs may be incomplete.

    Raises:
        ConfigError: if the run has taken steps, so that its checkpoints must have been removed.
    """
    if is_run(folder) and (steps := load_run(folder).env_steps):
        raise ConfigError(
            f"{folder} has no checkpoint to resume from, but took {steps:,} steps: restore its checkpoints from a "
            "copy, or begin a run in another folder"
        )
    for name in BEGINNING:
        _discard(folder / name)


@contextlib.contextmanager
def _making(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"run.dir={folder} cannot be made: {error.strerror} ({error.filename})") from error


def _has_begun(folder: Path) -> bool:
    return bool(CheckpointFolder(folder / "checkpoints").folders())


def _holds_run(config: DictConfig, folder: Path) -> bool:
    """Return whether ``folder`` holds a run, which may be replaced; raise ConfigError if it holds other files."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return False
    if not _is_own(folder / "config.yaml"):
        raise ConfigError(f"{folder} holds files but no run of robo-rl: choose another run.dir, or empty the folder")
    if not section(config, "run").overwrite:
        raise ConfigError(
            f"{folder} already holds a run: resume it with {override('resume', folder)}, choose another run.dir, or "
            "replace it with run.overwrite=true"
        )
    if LiveWatch(folder).is_going_on():
        raise ConfigError(f"another process is using the run in {folder}: end it before you replace the run")
    replaced = [folder.resolve(), *((folder / name).resolve() for name in ENTRIES)]
    for key, value in _paths("", OmegaConf.to_container(config, resolve=True)):
        path = Path(value).resolve()
        if path == replaced[0] or any(path.is_relative_to(entry) for entry in replaced[1:]):
            raise ConfigError(f"{key}={value} lies in the run that run.overwrite=true replaces: choose another run.dir")
    return True


def _is_own(file: Path) -> bool:
    """Return whether ``robo-rl train`` wrote this ``config.yaml``, which then lists the choices of options."""
    try:
        saved = load_config(file)
    except (OSError, DataError):
        return False
    return "choices" in saved and "run" in saved


def _paths(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the key and value of each option in a configuration that names a file or folder."""
    if isinstance(value, str) and key.endswith(PATHS):
        yield key, value
    for name, each in value.items() if isinstance(value, dict) else ():
        yield from _paths(f"{key}.{name}" if key else str(name), each)


def _set_aside(folder: Path, earlier: Path) -> None:
    try:
        _move(folder, earlier)
    except OSError:
        _move(earlier, folder)
        raise


def _move(source: Path, target: Path) -> None:
    """Move the entries of a run to another folder, which is created; remove the source if it is empty then."""
    target.mkdir(exist_ok=True)
    for name in ENTRIES:
        if os.path.lexists(source / name):
            (source / name).rename(target / name)
    _remove([source])


def _discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _remove(folders: list[Path]) -> None:
    """Remove the folders that are empty."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
