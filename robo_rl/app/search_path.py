"""Folders with configuration files of the user, searched after those of robo-rl."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from ..core import ConfigError

VARIABLE = "ROBO_RL_CONFIG_PATH"
"""Environment variable with the folders, separated as in PATH. Processes that a run starts inherit it."""


class ConfigFolders(SearchPathPlugin):
    """Has Hydra search the folders of ``ROBO_RL_CONFIG_PATH``."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the folders to ``search_path``."""
        for folder in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
            search_path.append(provider=VARIABLE, path=f"file://{Path(folder).expanduser().resolve()}")


def register_search_path() -> None:
    """Tell Hydra of :class:`ConfigFolders`."""
    Plugins.instance().register(ConfigFolders)


@contextlib.contextmanager
def config_folders(folders: Sequence[str]) -> Iterator[None]:
    """Search ``folders`` too, in this process and in those that it starts.

    Raises:
        ConfigError: if one of them is no folder.
    """
    for folder in folders:
        if not Path(folder).expanduser().is_dir():
            raise ConfigError(f"--config-dir: there is no folder {folder!r}")
    before = os.environ.get(VARIABLE)
    found = [str(Path(folder).expanduser().resolve()) for folder in folders]
    if found:
        os.environ[VARIABLE] = os.pathsep.join([*found, *filter(None, [before])])
    try:
        yield
    finally:
        if found and before is None:
            del os.environ[VARIABLE]
        elif found and before is not None:
            os.environ[VARIABLE] = before
