"""The import rules of docs/reference/architecture.md, and the package list of pyproject.toml."""

import ast
import functools
import graphlib
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from robo_rl.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = ("sim", "rewards", "drivers")
COMPOSITION = ("app", "operators", "recording", "monitoring", "training", "command_line", "commands", "api", "cli")
"""What stands above the rooms; each imports only those before it, and any room."""
LOOKING_UP = ("robo_rl/commands/doctor.py", "robo_rl/command_line/machine.py", "robo_rl/commands/new.py")
"""They check that what is below works; new reads the model of a robot as the simulator does."""


def sources() -> list[Path]:
    return sorted(path for top in ("robo_rl", *OUTSIDE, "configs") for path in (ROOT / top).rglob("*.py"))


def module_of(path: Path) -> list[str]:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] != "robo_rl":
        parts.insert(0, "robo_rl")
    return parts[:-1] if parts[-1] == "__init__" else parts


@functools.cache
def imported(path: Path) -> set[str]:
    """Return the absolute names of everything of ours that ``path`` imports."""
    package = module_of(path) if path.name == "__init__.py" else module_of(path)[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{name}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == "robo_rl"}


def room(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_rooms_import_only_core(path: Path) -> None:
    relative = str(path.relative_to(ROOT))
    own = room(".".join(module_of(path)))
    if own in COMPOSITION:
        above = (*OUTSIDE, *COMPOSITION[COMPOSITION.index(own) + 1 :])
        forbidden = {name for name in imported(path) if room(name) in above and relative not in LOOKING_UP}
    else:
        allowed = {own} if own == "core" else {own, "core", "version"}
        if not own:  # robo_rl itself, a module beside it in its folder, and what robo_rl.train is
            allowed |= {"graphics", "api"}
        forbidden = {name for name in imported(path) if room(name) not in allowed}
    assert not forbidden, f"{relative} imports {sorted(forbidden)}; across folders only robo_rl.core may be imported"


def test_no_import_leads_in_a_circle() -> None:
    """Those for type checking alone and those within functions count, too."""
    modules = {".".join(module_of(path)): path for path in sources()}

    def source_of(name: str) -> str:
        return name if name in modules else name.rpartition(".")[0]  # a module, or what is defined in one

    graph = {name: {source_of(other) for other in imported(path)} - {name} for name, path in modules.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        raise AssertionError(f"imports go in a circle: {' <- '.join(error.args[1])}") from error


def test_commands_has_one_thin_module_for_each_command() -> None:
    modules = {path.stem: path for path in (ROOT / "robo_rl" / "commands").glob("*.py") if path.stem != "__init__"}
    commands = {name.replace(" ", "_") for name in COMMANDS} - {"rearm", "enable"}  # these two are in stop.py
    assert {stem.removesuffix("_") for stem in modules} == commands
    assert {stem: lines for stem, path in modules.items() if (lines := len(path.read_text().splitlines())) > 150} == {}


def test_package_list_is_complete() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    present = {".".join(module_of(path)) for path in sources() if path.name == "__init__.py"}
    assert listed - present == {"robo_rl.examples"} and not present - listed, "examples are data of robo-rl new"


def test_every_folder_with_modules_is_a_package() -> None:
    assert all((path.parent / "__init__.py").exists() for path in sources())
    assert not (ROOT / "launch" / "__init__.py").exists(), "launch/ must not hide ROS 2's package of that name"


def test_wheel_has_one_top_level_name(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.startswith("robo_rl-")} == {"robo_rl"}
    launch = "robo_rl/command_line/launches/train.yaml"
    definition = "robo_rl/drivers/ros2/interfaces/common/std_srvs/srv/Trigger.srv"
    example = "robo_rl/examples/push_block/push_block.py"
    configuration = "robo_rl/configs/train.yaml"
    for wanted in ("robo_rl/sim/__init__.py", configuration, "robo_rl/py.typed", launch, definition, example):
        assert wanted in names
    # Where the environment is an ament prefix, `ros2 launch robo_rl` finds these.
    for shared in (
        "robo_rl/launch/train.launch.py",
        "robo_rl/launch/robo_rl_launch.py",
        "robo_rl/package.xml",
        "ament_index/resource_index/packages/robo_rl",
    ):
        assert any(name.endswith(f".data/data/share/{shared}") for name in names)
