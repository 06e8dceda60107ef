"""Commands that watch, command or stop robots and runs start without the libraries that take seconds to import."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from robo_rl import core
from robo_rl.cli import AT_ONCE, COMMANDS
from robo_rl.command_line.light_commands import light_help, light_schemas
from robo_rl.command_line.usage import help_text

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


def test_training_knows_its_tasks_after_a_light_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Both may run in one process: the second registers what the first one did not need."""
    from robo_rl.cli import main

    for words in (["top", "--help"], ["train", "--help"], ["control", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
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


def test_every_name_of_core_is_imported_on_use() -> None:
    modules = {path.stem for path in Path(core.__file__).parent.glob("*.py")}
    assert not modules & set(core.__all__), "a module would hide the name once it is imported"
    assert all(getattr(core, name) is not None for name in core.__all__)
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"):
        from robo_rl.core import no_such_name  # noqa: F401
