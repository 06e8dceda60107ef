"""The folder of a run: made or replaced when the run begins, and given up where it does not come to that."""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..app import saved_config, section
from ..core import ConfigError, DataError, load_config, override, write_durably
from ..evaluation.runs import is_run, load_run
from ..learner import CheckpointFolder
from ..telemetry import LiveWatch

ENTRIES = (
    "config.yaml",
    "metrics.jsonl",
    "summary.json",
    "checkpoints",
    "demonstrations",
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
"""All that runs write into their folders. What else lies there is somebody's own."""

BEGINNING = ("demonstrations", "metrics.jsonl", "tensorboard")
"""Those that a run writes before its first checkpoint, and makes anew where it has none."""

PATHS = ("path", "file", "reference", "checkpoint", "certificates")
"""How the names of options end that name files or folders which a run reads."""


@contextlib.contextmanager
def claimed(config: DictConfig, folder: Path) -> Iterator[None]:
    """Make the folder of a new run, with its configuration, for a block in which the run begins.

    Where the block fails nothing was begun: the folder is as it was, and the command may be given again. A run that the
    new one replaces goes when the block succeeds. The folder of a run that is resumed stays as it is, but for what was
    given to go on with, which its configuration keeps when the block succeeds.

    Args:
        config: of the run.
        folder: of the run.

    Raises:
        ConfigError: if the folder cannot be made, holds files that are no run's, or a run that is not to be replaced,
            or goes on, or holds what the new run is to read; as :func:`require_own_files`, if a run is resumed.
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
    """Refuse the folder of a run that holds more than files and folders where the run writes.

    A link may lead to any file of the user's, and what opens a named pipe waits without end.

    Raises:
        ConfigError: naming the first of these.
    """
    waiting = [path for name in reversed(ENTRIES) if os.path.lexists(path := folder / name)]
    while waiting:
        path = waiting.pop()
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise ConfigError(
                f"{path} is a link to {path.readlink()}, and a run writes to its own files alone: put what it "
                "points to in its place, or remove it"
            )
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise ConfigError(f"{path} is neither a file nor a folder, and a run writes to nothing else: remove it")
        if stat.S_ISDIR(mode) and path != folder / "wandb":  # it has links of its own, and writes to new files alone
            try:
                waiting += path.iterdir()
            except OSError as error:
                raise ConfigError(f"{path} cannot be looked into: {error.strerror}") from error


def _keep_resumed(config: DictConfig, file: Path) -> None:
    """Have later resumptions know what was given at this one, beside what the run began with."""
    saved = saved_config(file)
    if config.resumed != (saved.get("resumed") or {}):
        saved.resumed = config.resumed
        write_durably(file, OmegaConf.to_yaml(saved).encode())


@contextlib.contextmanager
def given_up(folder: Path) -> Iterator[None]:
    """Remove what the run in ``folder`` wrote where the block fails before its first checkpoint."""
    try:
        yield
    except BaseException:
        if not _has_begun(folder):
            for name in ENTRIES:
                _discard(folder / name)
        raise


def clear_beginning(folder: Path) -> None:
    """Remove what a process of the run in ``folder`` left that was killed before its first checkpoint.

    Such a run begins anew: what it had recorded and told may be a part of the whole.

    Raises:
        ConfigError: if the run has taken steps: then somebody removed its checkpoints.
    """
    if is_run(folder) and (steps := load_run(folder).env_steps):
        raise ConfigError(
            f"{folder} has no checkpoint to go on from, and took {steps:,} steps: restore its checkpoints from a copy, "
            "or begin a run in another folder"
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
    """Return whether ``folder`` holds a run, which may be replaced; nothing but a run or an empty folder is good."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return False
    if not _is_own(folder / "config.yaml"):
        raise ConfigError(f"{folder} holds files, and no run of robo-rl: choose another run.dir, or empty the folder")
    if not section(config, "run").overwrite:
        raise ConfigError(
            f"{folder} holds a run already: go on with it by {override('resume', folder)}, choose another run.dir, or "
            "replace it by run.overwrite=true"
        )
    if LiveWatch(folder).is_going_on():
        raise ConfigError(f"another process is busy with the run in {folder}: end it before it is replaced")
    goes = [folder.resolve(), *((folder / name).resolve() for name in ENTRIES)]
    for key, value in _paths("", OmegaConf.to_container(config, resolve=True)):
        path = Path(value).resolve()
        if path == goes[0] or any(path.is_relative_to(entry) for entry in goes[1:]):
            raise ConfigError(f"{key}={value} lies in the run that run.overwrite=true replaces: choose another run.dir")
    return True


def _is_own(file: Path) -> bool:
    """Whether robo-rl train wrote this ``config.yaml``: it says which choices were made."""
    try:
        saved = load_config(file)
    except (OSError, DataError):
        return False
    return "choices" in saved and "run" in saved


def _paths(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Return each option of a configuration that names a file or folder, and the name."""
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
    """Move what runs write from one folder to another, which is made; the first goes where nothing is left in it."""
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
    """Remove those folders that are empty."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
