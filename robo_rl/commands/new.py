"""robo-rl new: a package with a task, reward term, safety filter, agent or robot of one's own."""

import importlib.resources
import importlib.util
import keyword
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..command_line.model_files import find_model, user_path
from ..command_line.package_files import TEMPLATES, make_package_files, train_options
from ..core import ConfigError, DataError, draft_of, nearest, printable

KINDS = (*TEMPLATES, "robot")
USAGE = f"{'|'.join(KINDS)} NAME [KIND NAME ...] [model=FILE] [end_effector=LINK] [folder=FOLDER]"
OPTIONS = ("folder", "model", "end_effector")


def run(command: str, words: Sequence[str]) -> int:
    """Write a package with the requested parts and, for a robot, its configuration files; return 0.

    Args:
        command: ``new``.
        words: kinds, each followed by a name, and options: ``folder``, by default the first name; ``model``, the file
            of a robot's arm or the name of its module in robot_descriptions; ``end_effector``, a site or link of it.

    Raises:
        ConfigError: if a word is invalid, a name cannot be that of a new Python module, or the model is unusable.
        DataError: if the folder exists or cannot be written.
    """
    pairs = [word.partition("=")[::2] for word in words if "=" in word]
    plain, options = [word for word in words if "=" not in word], dict(pairs)
    if unknown := options.keys() - OPTIONS:
        raise ConfigError(f"robo-rl {command} has no option {min(unknown)!r}: {nearest(min(unknown), OPTIONS)}")
    names = dict(zip(plain[::2], plain[1::2], strict=False))
    for kind in names.keys() - set(KINDS):
        raise ConfigError(f"robo-rl {command} knows no {kind!r}: {nearest(kind, KINDS)}")
    if not names or len(plain) != 2 * len(names) or len(pairs) > len(options):
        raise ConfigError(f"robo-rl {command} takes kinds, each once and followed by a name: robo-rl {command} {USAGE}")
    if ("model" in options) != ("robot" in names) or ("end_effector" in options and "robot" not in names):
        raise ConfigError(
            f"model=FILE is the MJCF or URDF file of a robot's arm: robo-rl {command} robot NAME model=FILE"
        )
    for kind, name in names.items():
        _check_name(name, "robot" if kind == "robot" else TEMPLATES[kind].group)
    if len(set(names.values())) < len(names):
        raise ConfigError(f"each part needs a different name, not {', '.join(names.values())}")
    folder = user_path(options.get("folder", next(iter(names.values()))))
    if folder.exists():
        raise DataError(f"{folder} already exists; choose another folder with folder=FOLDER")
    robot = names.pop("robot", None)
    files: dict[str, str] = make_package_files(names, robot)
    notes: Sequence[str] = ()
    if robot is not None:
        from ..sim.robot_files import make_robot_files

        model = find_model(options["model"])
        robot_files, notes = make_robot_files(robot, model, names.get("task"), options.get("end_effector"))
        files = robot_files | files
    _write(folder, files)
    print("".join(f"Check {' '.join(printable(note).split())}.\n" for note in notes), end="")
    _print_use(folder, names, robot)
    return 0


def _print_use(folder: Path, names: Mapping[str, str], robot: str | None) -> None:
    """Print descriptions of the files, and the commands that use them.

    Args:
        folder: folder of the files.
        names: names of the modules by kind.
        robot: name of the robot; None if there is none.
    """
    for kind, name in names.items():
        page = f"docs/guide/{TEMPLATES[kind].page}.md"
        print(f"{name}.py is the example of {page} under this name: adapt it.")
    shell = shlex.quote(str(folder))
    print(f"\n  pip install -e {shell}\n  python -m pytest {shell}")
    use = train_options(names, robot)
    if robot is None:
        print(f"  robo-rl train {use}")
        return
    print(f"  robo-rl train {use}       # in simulation")
    print(f"\n  robo-rl robot task=reach_{robot}       # a virtual robot")
    print(f"  robo-rl train task=reach_{robot} robot={robot} reward=shaped       # in another terminal")


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files to a new folder, and print their names.

    Raises:
        DataError: if that fails; no file remains.
    """
    try:
        with draft_of(folder) as draft:
            for file, text in files.items():
                (draft / file).parent.mkdir(parents=True, exist_ok=True)
                (draft / file).write_text(text, encoding="utf-8")
            draft.replace(folder)
    except OSError as error:
        raise DataError(f"{folder} cannot be written ({error})") from error
    print(f"Created {folder} with {', '.join(files)}.")


def _check_name(name: str, group: str) -> None:
    """Check that ``name`` is valid for a new module, and is not yet a choice in ``group``.

    Raises:
        ConfigError: if it is not.
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
