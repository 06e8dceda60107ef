"""robo-rl new: a package with a task, a reward term, a safety filter or an agent of one's own, made from an example."""

import importlib.resources
import importlib.util
import keyword
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..core import ConfigError, DataError, draft_of, nearest


class Template(NamedTuple):
    """An example that is copied under another name.

    Attributes:
        example: folder of the example, and name of its module.
        stem: part of its class names that is renamed.
        use: command that uses the package, with ``{name}`` and ``{stem}`` in place of the names.
        page: page of the guide that explains the example.
        group: group of configurations in which the name is a choice; empty if it is none.
    """

    example: str
    stem: str
    use: str
    page: str
    group: str


TEMPLATES = {
    "task": Template("push_block", "PushBlock", "robo-rl train task={name}", "task", "task"),
    "reward": Template(
        "gentle",
        "Gentle",
        "robo-rl train task=pick_cube reward=composed +reward.terms.success.weight=1 "
        "+reward/module@reward.modules.{name}={name} +reward.terms.{name}.weight=0.1",
        "reward",
        "reward/module",
    ),
    "filter": Template(
        "slow_near_table",
        "SlowNearTable",
        "robo-rl train task=pick_cube 'safety.filters=[{{target: {name}.{stem}}}]'",
        "safety_filter",
        "",
    ),
    "agent": Template("td3_bc", "TD3BC", "robo-rl train task=pick_cube agent={name}", "agent", "agent"),
}
USAGE = f"{'|'.join(TEMPLATES)} NAME [folder=FOLDER]"


def run(command: str, words: Sequence[str]) -> int:
    """Write the package as ``words`` request: a kind, a name and, if not ``NAME``, a folder; return 0.

    Raises:
        ConfigError: if a word is wrong, or the name cannot be that of a new Python module.
        DataError: if the folder exists or cannot be written.
    """
    places = [word.partition("=")[2] for word in words if word.startswith("folder=")]
    names = [word for word in words if not word.startswith("folder=")]
    if len(names) != 2 or len(places) > 1:
        raise ConfigError(f"robo-rl {command} takes a kind and a name: robo-rl {command} {USAGE}")
    kind, name = names
    if kind not in TEMPLATES:
        raise ConfigError(f"robo-rl {command} knows no {kind!r}: {nearest(kind, TEMPLATES)}")
    _check_name(name, TEMPLATES[kind].group)
    folder = Path(places[0] if places else name).expanduser()
    template, stem = TEMPLATES[kind], "".join(part.capitalize() for part in name.split("_"))
    files = make_files(template, name, stem)
    if folder.exists():
        raise DataError(f"{folder} already exists; choose another folder with folder=FOLDER")
    try:
        with draft_of(folder) as draft:
            draft.mkdir()
            for file, text in files.items():
                (draft / file).write_text(text, encoding="utf-8")
            draft.replace(folder)
    except OSError as error:
        raise DataError(f"{folder} cannot be written ({error})") from error
    print(f"{folder} holds {', '.join(files)}.")
    print(f"They are the example of docs/guide/{template.page}.md under another name: change what they do.")
    print(f"\n  cd {folder}\n  pip install -e .\n  python -m pytest")
    print(f"  {template.use.format(name=name, stem=stem)}")
    return 0


def make_files(template: Template, name: str, stem: str) -> dict[str, str]:
    """Return the texts of a package by their file names.

    Args:
        template: the example.
        name: of the package and its module, for example ``open_drawer``.
        stem: of its class names, for example ``OpenDrawer``.
    """
    project = {template.example.replace("_", "-"): name.replace("_", "-")}
    new = project | {template.example: name, template.stem: stem}
    pattern = re.compile("|".join(sorted(map(re.escape, new), key=len, reverse=True)))
    folder = importlib.resources.files("robo_rl.examples") / template.example
    return {
        pattern.sub(lambda found: new[found.group()], file.name): pattern.sub(
            lambda found: new[found.group()], file.read_text(encoding="utf-8")
        )
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith((".py", ".toml"))
    }


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

    from ..app.composition import register_all_configs

    register_all_configs()
    store, folder = ConfigStore.instance(), importlib.resources.files("robo_rl.configs") / group
    files = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
    return files | set(store.list(group))
