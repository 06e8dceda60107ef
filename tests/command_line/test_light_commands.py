"""Commands that watch, command or stop robots and runs start without the libraries that take seconds to import."""

import subprocess
import sys
from pathlib import Path

import pytest

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
