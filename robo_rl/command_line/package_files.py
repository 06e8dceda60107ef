"""Files of a package with a task, reward term, safety filter or agent of one's own, made from an example."""

import importlib.resources
import re
from typing import NamedTuple


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


def make_package_files(template: Template, name: str, stem: str) -> dict[str, str]:
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
