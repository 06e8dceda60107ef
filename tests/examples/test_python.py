"""docs/guide/python.md and its notebook: their code, with small networks and few steps."""

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

import robo_rl

from ..rigs.guide import PAGES, SMALL, blocks

FEW = ["run.env_steps=15", "demonstrations.episodes=1", "run.final_evaluation_episodes=1"]
NOTEBOOK = PAGES / "notebooks" / "train.ipynb"


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all trainings take a moment, in a folder of their own."""
    train = robo_rl.train

    def train_little(task: Any, **arguments: Any) -> robo_rl.Run:
        options = SMALL if isinstance(task, str) else [word for word in SMALL if word.startswith("run.")]
        overrides = [*arguments.pop("overrides", []), *options, *FEW]
        return train(task, **(arguments | {"steps": None, "overrides": overrides}))

    resume = robo_rl.Run.resume
    monkeypatch.setattr(robo_rl, "train", train_little, raising=False)
    monkeypatch.setattr(robo_rl.Run, "resume", lambda run, *, steps: resume(run, steps=steps - 95))
    monkeypatch.setattr(robo_rl.Policy, "evaluate", _few_episodes(robo_rl.Policy.evaluate))
    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.chdir(tmp_path)


def _few_episodes(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    def evaluate_few(policy: robo_rl.Policy, episodes: int = 100, **arguments: Any) -> Any:
        task = {**arguments.pop("task", {}), "max_episode_steps": 4}
        return evaluate(policy, min(episodes, 1), **arguments, task=task)

    return evaluate_few


def run_all(cells: list[str]) -> None:
    names = {"__name__": "__main__"}
    for cell in cells:
        exec(compile(cell, "<cell>", "exec"), names)


def test_the_code_of_the_page_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_all(blocks("python.md", "python"))
    for name in ("success.png", "cubes.mp4", "policy.h", "runs/python/report.html"):
        assert (tmp_path / name).stat().st_size > 0
    printed = capsys.readouterr().out
    assert "Run('runs/python': task pick_cube, agent rlpd, seed 0, completed after 15 steps, success " in printed
    assert "\n20\n" in printed, "resumed for 100 steps more, of which 95 are left out here"
    assert "unknown task 'pick_cub': did you mean 'pick_cube'?" in printed


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[str] = []
    module = types.ModuleType("IPython.display")  # which no other part of robo-rl needs
    module.__dict__.update(Video=lambda path, embed: path, display=displayed.append)
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    notebook = json.loads(NOTEBOOK.read_text())
    assert notebook["nbformat"] == 4
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in code), "outputs are not kept in the repository"
    run_all(["".join(cell["source"]) for cell in code])
    assert displayed == ["runs/notebook.mp4"] and Path(displayed[0]).stat().st_size > 0
