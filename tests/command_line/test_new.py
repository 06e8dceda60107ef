"""robo-rl new: packages from the examples under other names, whose own tests pass."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from robo_rl.commands.new import TEMPLATES, run
from robo_rl.core import ConfigError, DataError


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_new_package_passes_its_own_tests(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("new", [kind, "wipe_table", f"folder={tmp_path / 'made'}"]) == 0
    printed = capsys.readouterr().out
    assert "wipe_table" in printed.splitlines()[-1] and f"{TEMPLATES[kind].page}.md" in printed
    names = {path.name for path in (tmp_path / "made").iterdir()}
    assert names == {"pyproject.toml", "wipe_table.py", "test_wipe_table.py"}
    text = "".join(path.read_text() for path in (tmp_path / "made").iterdir())
    template = TEMPLATES[kind]
    assert not any(word in text for word in (template.example, template.example.replace("_", "-"), template.stem))
    assert "WipeTable" in text
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "made")}
    done = subprocess.run(command, cwd=tmp_path / "made", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["task"], "takes a kind and a name: robo-rl new task|reward|filter|agent NAME"),
        (["task", "one", "two"], "takes a kind and a name"),
        (["task", "one", "folder=a", "folder=b"], "takes a kind and a name"),
        (["tusk", "one"], "knows no 'tusk': .*task"),
        (["task", "My-Task"], "'My-Task' must be that of a Python module"),
        (["task", "../up"], "must be that of a Python module"),
        (["task", "class"], "must be that of a Python module"),
        (["task", "numpy"], "there is a module 'numpy' already"),
        (["task", "reach"], "task 'reach' exists already"),
        (["reward", "novelty"], "reward 'novelty' exists already"),
        (["agent", "rlpd"], "agent 'rlpd' exists already"),
    ],
)
def test_wrong_words_are_refused_and_write_nothing(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        run("new", words)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(DataError, match="mine already exists; choose another folder"):
        run("new", ["task", "wipe_table", f"folder={tmp_path / 'mine'}"])
    with pytest.raises(DataError, match="cannot be written"):
        run("new", ["task", "wipe_table", f"folder={tmp_path / 'mine' / 'below'}"])
    assert (tmp_path / "mine").read_text() == "kept"
