"""Files that the command line names: paths of a user, and models of arms in the package robot_descriptions."""

import difflib
import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path

from ..core import ConfigError, nearest

DESCRIPTIONS = "robot_descriptions"
"""Package with descriptions of robots, one module for each."""


def user_path(text: str) -> Path:
    """Return a path, in which ``~`` stands for the home of a user.

    Raises:
        ConfigError: if there is no such user.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{text}: {error}") from error


def find_model(text: str) -> Path:
    """Return the path of an arm's file, which may be that of a module of the package robot_descriptions.

    Raises:
        ConfigError: if the module does not exist, or has no file that can be read.
    """
    if not re.fullmatch(r"\w+_description", text):
        return user_path(text)
    if importlib.util.find_spec(DESCRIPTIONS) is None:
        raise ConfigError(f"model={text} is a name in the package {DESCRIPTIONS}: pip install {DESCRIPTIONS}")
    package = importlib.import_module(DESCRIPTIONS)
    names = [module.name for module in pkgutil.iter_modules(package.__path__) if module.name.endswith("_description")]
    if text not in names:
        similar = difflib.get_close_matches(text, names, 6)  # of some 200
        raise ConfigError(f"{DESCRIPTIONS} has no {text!r}: {nearest(text, similar or names)}")
    try:
        module = importlib.import_module(f"{DESCRIPTIONS}.{text}")  # fetches the files with git, unless it did before
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"{DESCRIPTIONS} could not fetch {text} ({reason}): repeat with access to the network, or name a file"
        ) from error
    for attribute in ("MJCF_PATH", "URDF_PATH"):
        if path := getattr(module, attribute, None):
            return Path(path)
    raise ConfigError(
        f"{text} of {DESCRIPTIONS} has neither MJCF nor URDF, but perhaps xacro "
        f"({getattr(module, 'XACRO_PATH', 'no XACRO_PATH')}): resolve it with xacro and name the URDF file"
    )
