"""Commands that watch, command or stop robots and runs start without the libraries that take seconds to import."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import robo_rl
from robo_rl import drivers, sim
from robo_rl.cli import AT_ONCE, COMMANDS
from robo_rl.command_line.light_commands import light_help, light_schemas
from robo_rl.command_line.usage import help_text

from ..rigs.command_line import exit_code

PROGRAM = """
import importlib, sys
from robo_rl.cli import main
module, *words = sys.argv[1:]
try:
    main(words)
except SystemExit as end:
    assert end.code in (0, 2), end.code
if module:
    importlib.import_module(f"robo_rl.commands.{module}")
heavy = {"torch", "mujoco", "scipy", "matplotlib", "gymnasium"} - set(%r.split())
if "--help" in words and not module:
    heavy |= {"hydra", "numpy", "rich"}
sys.stderr = sys.__stderr__
sys.exit(f"imported: {sorted(heavy & sys.modules.keys())}" if heavy & sys.modules.keys() else 0)
"""


@pytest.mark.parametrize(
    ("words", "module", "allowed"),
    [
        ("--version", "", ""),
        ("--help", "", ""),
        ("stop --help", "stop", ""),
        ("rearm --help", "stop", ""),
        ("rearm", "stop", ""),
        ("enable --help", "stop", ""),
        ("top --help", "top", ""),
        ("top once=true", "top", ""),
        ("web --help", "web", ""),
        ("web --cfg job", "web", ""),
        ("view --help", "view", ""),
        ("view path=nothing", "view", ""),
        ("top --help", "", ""),
        ("web --help-all", "", ""),
        ("phone --help", "", ""),
        ("phone --cfg job", "phone", ""),
        ("view --help", "", ""),
        ("stop --help", "", ""),
        ("new --help", "", ""),
        ("doctor --help", "", ""),
        ("keys --help", "keys", ""),
        ("control --help", "control", ""),
        ("report --help", "report", "matplotlib"),
        ("report runs=nothing", "report", "matplotlib"),
        ("eval --help", "", ""),
        ("collect --help", "", ""),
        ("reward answer --help", "", ""),
    ],
)
def test_a_light_command_imports_no_heavy_library(words: str, module: str, allowed: str, tmp_path: Path) -> None:
    """Its start takes a fraction of a second of CPU, where PyTorch and MuJoCo take several."""
    command = [sys.executable, "-c", PROGRAM % allowed, module, *words.split()]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


REFUSED = """
import contextlib, io, sys
from robo_rl.cli import main
output = io.StringIO()
for words in sys.argv[1:]:
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            main(words.split())
        except SystemExit as end:
            code = end.code
    heavy = {"torch", "cv2", "scipy", "matplotlib", "av", "grpc"} & sys.modules.keys()
    assert not heavy, (words, sorted(heavy))
    print(code, words)
"""


def _answers(words: list[str], folder: Path) -> list[str]:
    """Return exit code and words of each command line, all of them in one process without heavy libraries."""
    command = [sys.executable, "-c", REFUSED, *words]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


def test_no_help_imports_what_only_a_run_needs(tmp_path: Path) -> None:
    words = [f"{command} --help" for command in COMMANDS]
    words += ["train --help agent safety", "train --help-all", "train --cfg job", "learner --cfg job"]
    assert _answers(words, tmp_path) == [f"0 {line}" for line in words]


def test_no_refused_command_line_imports_what_only_a_run_needs(tmp_path: Path) -> None:
    words = [
        "train agent.gama=0.9",
        "train task=pick_cub",
        "train agent=sacc",
        "train agent=drq agent.gamma=much",
        "train robot=virtual robot.topic=a",
        "train reward=composed +reward/module@reward.modules.a=gai",
        "train --resume",
        "train run=runs/a",
        "train +seeds=1",
        "train --help agnt",
        "record task=reach record.episode=1",
        "reward write task=nothing",
        "export format=lerbot",
        "robot task=reach virtual.rate=1",
        "train run.env_steps=-1",
        "train safety.violation_budget=-5",
        "learner agent.update_to_data=0",
        "record task=pick_cube task.cube_size=9",
        "-m train seed=1,2",
        "train -m seed=1,2 agent.gama=0.9",
    ]
    assert _answers(words, tmp_path) == [f"2 {line}" for line in words]


def test_training_knows_its_tasks_after_a_light_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Both may run in one process: the second registers what the first one did not need."""

    for words in (["top", "--help"], ["train", "--help"], ["control", "--help"]):
        assert not exit_code(*words)
    assert "task: " in capsys.readouterr().out


def test_the_help_of_a_light_command_is_that_of_hydra() -> None:
    """Without Hydra, which takes longer to import than all else."""
    light = [name for name in set(COMMANDS) - set(AT_ONCE) if light_schemas(name) is not None]
    assert {"top", "view", "web", "doctor", "eval", "report", "control"} <= set(light)
    for name in light:
        for schema in light_schemas(name) or []:
            importlib.import_module(schema.package).register_configs()
        for everything in (False, True):
            words = ["--help-all"] if everything else ["-h"]
            assert light_help(name, words) == help_text(name, name.replace(" ", "_"), [], (), everything), name
    assert light_help("train", ["--help"]) is light_help("top", ["--help", "runs"]) is None


def _imported_on_use() -> list[str]:
    """Return the packages whose names are imported with their first use."""
    tops = (Path(robo_rl.__file__).parent, Path(drivers.__file__).parent, Path(sim.__file__).parent)
    files = [file for top in tops for file in top.rglob("__init__.py") if "imported_on_use(" in file.read_text()]
    return sorted(
        ".".join(("robo_rl", *file.parent.relative_to(tops[0].parent).parts)).replace("robo_rl.robo_rl", "robo_rl")
        for file in files
    )


@pytest.mark.parametrize("package", _imported_on_use())
def test_every_name_is_imported_on_use(package: str) -> None:
    module = importlib.import_module(package)
    modules = {path.stem for path in Path(str(module.__file__)).parent.glob("*.py")}
    assert not modules & set(module.__all__), "a module would hide the name once it is imported"
    assert set(module.__all__) <= set(dir(module)), "completion in a terminal lists no other names"
    assert all(getattr(module, name) is not None for name in module.__all__)


def test_a_name_that_a_package_lacks_cannot_be_imported() -> None:
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"):
        from robo_rl.core import no_such_name  # noqa: F401
