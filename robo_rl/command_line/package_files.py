"""Files of a package with a task, reward term, safety filter or agent of one's own, made from examples."""

import importlib.resources
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple


class Template(NamedTuple):
    """An example that is copied under another name.

    Attributes:
        example: folder of the example, and name of its module.
        stem: part of its class names that is renamed.
        use: options of ``robo-rl train`` that use it, with ``{name}`` and ``{stem}`` in place of the names.
        page: page of the guide that explains the example.
        group: group of configurations in which the name is a choice; empty if it is none.
    """

    example: str
    stem: str
    use: str
    page: str
    group: str


TEMPLATES = {
    "task": Template("push_block", "PushBlock", "task={name}", "task", "task"),
    "reward": Template(
        "gentle",
        "Gentle",
        "reward=composed +reward.terms.success.weight=1 +reward/module@reward.modules.{name}={name} "
        "+reward.terms.{name}.weight=0.1",
        "reward",
        "reward/module",
    ),
    "filter": Template(
        "slow_near_table", "SlowNearTable", "'safety.filters=[{{target: {name}.{stem}}}]'", "safety_filter", ""
    ),
    "agent": Template("td3_bc", "TD3BC", "agent={name}", "agent", "agent"),
}
PROJECT = "pyproject.toml"
ROBOT_MODULE = '"""The arm {name}: robo-rl finds the configuration files in the folders beside this module."""\n'
ROBOT_TEST = '''"""Test of the arm ``{name}``: it moves in simulation."""

from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_module

from robo_rl.app import build_backend, register_all_configs


def test_the_arm_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBO_RL_CONFIG_PATH", str(Path(__file__).parent))
    register_all_configs()
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        backend = build_backend(compose("train", overrides=["task=reach_{name}"]))
    before = backend.reset(seed=0).observation["state"]
    step = backend.step(np.full(backend.spec.action.shape, 0.5, np.float32))
    assert np.abs(step.observation["state"] - before).max() > 1e-3
    backend.close()
'''
"""The module and the test of a package with a robot alone."""


def make_package_files(names: Mapping[str, str], robot: str | None = None) -> dict[str, str]:
    """Return the texts of a package by their file names.

    Args:
        names: names of its modules, for example ``open_drawer``, by kind: keys of :data:`TEMPLATES`. The first one is
            the name of the package.
        robot: name of a robot, whose configuration files are beside the modules; None if there is none. If there is
            nothing else, the package has its name.
    """
    if robot is not None and not names:
        project = {"project": {"name": robot.replace("_", "-")}, "tool": {"setuptools": {"py-modules": [robot]}}}
        texts = {f"{robot}.py": ROBOT_MODULE, f"test_{robot}.py": ROBOT_TEST}
        files = {file: text.replace("{name}", robot) for file, text in texts.items()}
        return files | {PROJECT: _project([project], has_configuration=True)}
    parts = [_part(TEMPLATES[kind], name) for kind, name in names.items()]
    projects = [tomllib.loads(part.pop(PROJECT)) for part in parts]
    files = {file: text for part in parts for file, text in part.items()}
    return dict(sorted((files | {PROJECT: _project(projects, robot is not None)}).items()))


def stem_of(name: str) -> str:
    """Return the beginning of the names of classes for a name: ``OpenDrawer`` for ``open_drawer``."""
    return "".join(part.capitalize() for part in name.split("_"))


def train_options(names: Mapping[str, str], robot: str | None) -> str:
    """Return the options of ``robo-rl train``, in a shell, that use all parts of a package.

    Args:
        names: names of the parts by kind.
        robot: name of the arm in configuration files beside it; None if there is none.
    """
    options = [TEMPLATES[kind].use.format(name=name, stem=stem_of(name)) for kind, name in names.items()]
    if robot is not None:
        options = [f"task={names.get('task', 'reach')}_{robot}", *(each for each in options if each[:5] != "task=")]
    elif "task" not in names:
        options.insert(0, "task=pick_cube")
    return " ".join(options)


def _part(template: Template, name: str) -> dict[str, str]:
    """Return the texts of an example under another name by their file names."""
    project = {template.example.replace("_", "-"): name.replace("_", "-")}
    new = project | {template.example: name, template.stem: stem_of(name)}
    pattern = re.compile("|".join(sorted(map(re.escape, new), key=len, reverse=True)))
    folder = importlib.resources.files("robo_rl.examples") / template.example
    return {
        pattern.sub(lambda found: new[found.group()], file.name): pattern.sub(
            lambda found: new[found.group()], file.read_text(encoding="utf-8")
        )
        for file in folder.iterdir()
        if file.name.endswith((".py", ".toml"))
    }


def _project(projects: list[dict[str, Any]], has_configuration: bool) -> str:
    """Return the ``pyproject.toml`` of one package with the modules and entry points of several.

    If it has configuration files, ``robo-rl`` finds them beside its first module.
    """
    entries: dict[str, str] = {}
    for project in projects:
        entries |= project["project"].get("entry-points", {}).get("robo_rl.config", {})
    modules = [module for project in projects for module in project["tool"]["setuptools"]["py-modules"]]
    lines = ["[project]", f'name = "{projects[0]["project"]["name"]}"', 'version = "0.1"', 'dependencies = ["robo-rl"]']
    if entries:
        lines += ["", '[project.entry-points."robo_rl.config"]']
        lines += [f'{name} = "{function}"' for name, function in entries.items()]
    if has_configuration:
        lines += ["", '[project.entry-points."robo_rl.config_folder"]', f'{modules[0]} = "{modules[0]}"']
    return "\n".join([*lines, "", "[tool.setuptools]", f"py-modules = {json.dumps(modules)}", ""])
