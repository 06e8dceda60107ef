"""robo-rl new: a package with a task, reward term, safety filter or agent of one's own, or the files of a robot."""

import importlib.resources
import importlib.util
import keyword
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..command_line.package_files import TEMPLATES, make_package_files
from ..core import ConfigError, DataError, draft_of, nearest, printable

USAGE = f"{'|'.join(TEMPLATES)} NAME [folder=FOLDER], or robot NAME model=FILE [folder=FOLDER]"
OPTIONS = ("folder", "model")


def run(command: str, words: Sequence[str]) -> int:
    """Write a package or, for a robot, configuration files as ``words`` request; return 0.

    Args:
        command: ``new``.
        words: a kind, a name, and options: ``folder``, by default the name, and ``model``, the file of a robot's arm.

    Raises:
        ConfigError: if a word is wrong, the name cannot be that of a new Python module, or the model is unusable.
        DataError: if the folder exists or cannot be written.
    """
    pairs = [word.partition("=")[::2] for word in words if "=" in word]
    names, options = [word for word in words if "=" not in word], dict(pairs)
    if unknown := options.keys() - OPTIONS:
        raise ConfigError(f"robo-rl {command} has no option {min(unknown)!r}: {nearest(min(unknown), OPTIONS)}")
    if len(names) != 2 or len(pairs) > len(options) or ("model" in options) != (names[0] == "robot"):
        raise ConfigError(f"robo-rl {command} takes a kind and a name: robo-rl {command} {USAGE}")
    kind, name = names
    if kind not in (*TEMPLATES, "robot"):
        raise ConfigError(f"robo-rl {command} knows no {kind!r}: {nearest(kind, [*TEMPLATES, 'robot'])}")
    _check_name(name, "robot" if kind == "robot" else TEMPLATES[kind].group)
    folder = _path(options.get("folder", name))
    if folder.exists():
        raise DataError(f"{folder} already exists; choose another folder with folder=FOLDER")
    if kind == "robot":
        from ..sim.robot_files import make_robot_files

        files, notes = make_robot_files(name, _path(options["model"]))
        _write(folder, files)
        print("".join(f"Check {' '.join(printable(note).split())}.\n" for note in notes), end="")
        print(
            f"\n  cd {shlex.quote(str(folder))}\n  export ROBO_RL_CONFIG_PATH=$PWD\n  robo-rl robot task=reach_{name}"
        )
        print(f"  robo-rl train task=reach_{name} robot={name} reward=shaped       # in another terminal")
        return 0
    template, stem = TEMPLATES[kind], "".join(part.capitalize() for part in name.split("_"))
    _write(folder, make_package_files(template, name, stem))
    print(f"They are the example of docs/guide/{template.page}.md under another name: change what they do.")
    print(f"\n  cd {shlex.quote(str(folder))}\n  pip install -e .\n  python -m pytest")
    print(f"  {template.use.format(name=name, stem=stem)}")
    return 0


def _path(text: str) -> Path:
    """Return a path, in which ``~`` may be the home of a user.

    Raises:
        ConfigError: if there is no such user.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{text}: {error}") from error


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files to a new folder, and print their names.

    Raises:
        DataError: if that fails; nothing is left behind.
    """
    try:
        with draft_of(folder) as draft:
            for file, text in files.items():
                (draft / file).parent.mkdir(parents=True, exist_ok=True)
                (draft / file).write_text(text, encoding="utf-8")
            draft.replace(folder)
    except OSError as error:
        raise DataError(f"{folder} cannot be written ({error})") from error
    print(f"{folder} holds {', '.join(files)}.")


def _check_name(name: str, group: str) -> None:
    """Check that ``name`` can be the name of a new module, and is no choice in ``group`` yet.

    Raises:
        ConfigError: if it cannot.
    """
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ConfigError(f"the name {name!r} must be that of a Python module: small letters, digits and _, as my_task")
    if importlib.util.find_spec(name) is not None:
        raise ConfigError(f"there is a module {name!r} already, which the new one would hide: choose another name")
    if group and f"{name}.yaml" in _choices(group):
        raise ConfigError(f"{group.partition('/')[0]} {name!r} exists already: choose another name")


def _choices(group: str) -> set[str]:
    """Return the file names of the configurations in ``group``, of robo-rl and of installed packages."""
    from hydra.core.config_store import ConfigStore

    from ..app import register_all_configs

    register_all_configs()
    store, folder = ConfigStore.instance(), importlib.resources.files("robo_rl.configs") / group
    files = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
    return files | set(store.list(group))
