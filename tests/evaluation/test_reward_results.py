"""The overview of docs/reference/rewards.md against what was measured."""

import importlib
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from robo_rl.evaluation.statistics import interquartile_mean

ROOT = Path(__file__).resolve().parents[2]


def percentages(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], set[int]]:
    """Return the successes that were measured of each choice of the overview and each task, over seeds [%]."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    rows = importlib.import_module("reward_rows").ROWS
    learning, exploitation = (
        json.loads((ROOT / "docs" / "measured" / "results" / f"{name}.json").read_text())
        for name in ("reward_learning", "classifier_exploitation")
    )
    groups = defaultdict(list)
    for run in learning:
        if not run["control"]:
            (choice,) = (each[7:] for each in rows[run["row"]].overrides if each.startswith("reward="))
            choice = rows[run["row"]].term if choice == "composed" else choice
            groups[choice, run["task"], run["row"]].append(run)
    for run in exploitation:
        choice = {("classifier", 0): "classifier", ("labelled", 1): "stages"}.get((run["classifier"], run["round"]))
        groups[choice, run["task"], "exploitation"].append(run)
    found = defaultdict(set)
    for (choice, task, _), runs in groups.items():
        scores = [[100 * run["success_rate"]["value"] if run["success_rate"] else 0.0] for run in runs]
        found[choice, task].add(round(float(interquartile_mean(scores))))
    return found


def test_the_overview_says_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measured, checked = percentages(monkeypatch), set()
    text = (ROOT / "docs" / "reference" / "rewards.md").read_text()
    for choice, cell in re.findall(r"^\| \[`(\w+)`.*\| (.*) \|$", text, re.MULTILINE):
        task = ""
        for name, percentage in re.findall(r"`(\w+)`|(\d+) %", cell):
            task = name or task
            if percentage:
                assert int(percentage) in measured[choice, task], f"{choice}: {cell}"
                checked.add(choice)
    assert len(checked) >= 10


def test_what_was_measured_reaches_what_is_promised() -> None:
    """So that figures of a later run below these do not come in unseen."""

    def results(name: str) -> Any:
        return json.loads((ROOT / "docs" / "measured" / "results" / f"{name}.json").read_text())

    aims = {
        "perceptual": (range(12, 17), 0.8),
        "optimal_transport": (range(12, 15), 0.8),
        "preferences": ((3, 4, 5), 0.8),
    }
    # Later entries of a seed are of the modules as they are.
    correlations = {
        (run["seed"], name): each for run in results("rank_correlation") for name, each in run["modules"].items()
    }
    for module, (seeds, least) in aims.items():
        for seed in seeds:
            found = correlations[seed, module]
            assert min(found[column] for column in ("steps", "within", "episodes")) >= least, (module, seed)
    for task, run in results("clip_benchmark").items():
        assert run["modules"]["clip"]["steps"] >= 0.6, task
    exploited = [run for run in results("classifier_exploitation") if run["classifier"] in ("classifier", "vice")]
    assert len(exploited) >= 6 and max(run["false_positives"] for run in exploited) < 0.02
    speed = results("bench_clip")["frames_per_second"]
    assert speed["first pass"] >= 0.9 * speed["bare encoder"]
    assert speed["second pass"] >= 100 * speed["bare encoder"]
