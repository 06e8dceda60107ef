"""Folders in which Hydra looks for configurations: those of robo-rl, those of the user, and registered ones."""

import contextlib
import functools
import glob
import importlib.metadata
import importlib.util
import itertools
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from .errors import ConfigError
from .fast_yaml import use_fast_yaml

CONFIG_PATH_VARIABLE = "ROBO_RL_CONFIG_PATH"
"""Environment variable with the folders, separated as in PATH. Child processes of a run inherit it."""
CONFIG_FOLDERS = "robo_rl.config_folder"
"""Entry points of packages: modules beside which there are configuration files."""
_flagged: list[str] = []
"""Folders of the flag ``--config-dir`` of this process."""


class ConfigFolders(SearchPathPlugin):
    """A plugin that makes Hydra search the folders in ``ROBO_RL_CONFIG_PATH`` and those of installed packages."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the folders to ``search_path``."""
        for folder in filter(None, os.environ.get(CONFIG_PATH_VARIABLE, "").split(os.pathsep)):
            search_path.append(provider=CONFIG_PATH_VARIABLE, path=f"file://{Path(folder).expanduser().resolve()}")
        for package_folder in package_folders():
            search_path.append(provider=CONFIG_FOLDERS, path=f"file://{package_folder}")


@functools.cache
def package_folders() -> tuple[Path, ...]:
    """Return the folders of configuration files that installed packages offer; their modules are not imported."""
    modules = {entry.value for entry in importlib.metadata.entry_points(group=CONFIG_FOLDERS)}
    specs = [importlib.util.find_spec(module) for module in sorted(modules) if module.isidentifier()]
    return tuple(Path(spec.origin).resolve().parent for spec in specs if spec is not None and spec.origin is not None)


def own_file(name: str) -> Path:
    """Return the path of a file that a configuration names.

    A relative path is that of a file in the working folder or, if there is none, below a folder in
    ``ROBO_RL_CONFIG_PATH`` or of an installed package.
    """
    path = Path(name)
    if path.is_absolute() or path.is_file():
        return path
    named = filter(None, os.environ.get(CONFIG_PATH_VARIABLE, "").split(os.pathsep))
    folders = itertools.chain((Path(folder).expanduser() for folder in named), package_folders())
    return next((folder / path for folder in folders if (folder / path).is_file()), path)


def register_search_path() -> None:
    """Register :class:`ConfigFolders` with Hydra, and let its searches share the registered configurations.

    Hydra also reads configuration files faster afterwards.
    """
    use_fast_yaml()
    Plugins.instance().register(ConfigFolders)
    # Hydra copies all of them each time it lists groups or composes, although it copies again those that it loads. A
    # program that saves Hydra's state (Singleton.get_state) and restores it keeps what was registered in between.
    cast(Any, ConfigStore).__deepcopy__ = lambda store, memo: store


@contextlib.contextmanager
def inner_hydra() -> Iterator[None]:
    """Let a block initialise Hydra for itself; a Hydra application around it continues afterwards."""
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        yield
    finally:
        GlobalHydra.instance().clear()
        if outer is not None:
            GlobalHydra.instance().initialize(outer)


@contextlib.contextmanager
def config_folders(folders: Sequence[str]) -> Iterator[None]:
    """Search ``folders`` too, in this process and its child processes.

    Raises:
        ConfigError: if one of them is not a folder.
    """
    for folder in folders:
        if not Path(folder).expanduser().is_dir():
            raise ConfigError(f"--config-dir: there is no folder {folder!r}")
    before = os.environ.get(CONFIG_PATH_VARIABLE)
    resolved = [str(Path(folder).expanduser().resolve()) for folder in folders]
    if resolved:
        os.environ[CONFIG_PATH_VARIABLE] = os.pathsep.join([*resolved, *filter(None, [before])])
    _flagged[:] = resolved
    try:
        yield
    finally:
        _flagged.clear()
        if resolved and before is None:
            del os.environ[CONFIG_PATH_VARIABLE]
        elif resolved and before is not None:
            os.environ[CONFIG_PATH_VARIABLE] = before


def config_flags() -> str:
    """Return the flags ``--config-dir`` that another command needs to find what this one did, each after a space."""
    return "".join(f" --config-dir {shlex.quote(folder)}" for folder in _flagged)


def folder_hint(group: str, name: str) -> str:
    """Return a sentence about the folder to search for the unknown choice ``name``; empty for most groups.

    A file in the working folder or a folder in it is named. If there is none, only tasks and robots have a hint,
    because people write files for these.
    """
    file = f"{glob.escape(group)}/{glob.escape(name)}.yaml"
    if path := next(itertools.chain(Path().glob(file), Path().glob(f"*/{file}")), None):
        folder = shlex.quote(str(path.parents[1].resolve()))
        return (
            f". There is {path}: add --config-dir {folder}, or export {CONFIG_PATH_VARIABLE}={folder} for all commands"
        )
    if group in ("task", "robot"):
        return f". For files of your own, add --config-dir FOLDER, or export {CONFIG_PATH_VARIABLE}=FOLDER"
    return ""
