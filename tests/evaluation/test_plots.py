"""Pictures of runs whose names are anything."""

import re
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

from robo_rl.evaluation.plots import DARK, darkened, plot_runs
from robo_rl.evaluation.report import write_report
from robo_rl.evaluation.reward_plot import plot_rewards
from robo_rl.evaluation.runs import Run, first_policy, has_cloned

NAMES = (
    "$x$",
    "$\\frac{1$",
    "a $ b $ c",
    "\\$1 \\alpha",
    "_hidden",
    "%s {0} {",
    "a\x1b[2Jb\x00c",
    "line\nbreak\ttab",
    "<b>&amp;</b>",
    "\ud800",
    " ",
    "x" * 100_000,
)


def run_of(name: str, path: Path) -> Run:
    lines = [
        {
            "step": 100 * i,
            "wall_seconds": 1.0 * i,
            "kind": "evaluation",
            "success_rate": 0.5,
            "episodes": 2,
            "return_mean": i,
        }
        for i in range(3)
    ]
    return Run(
        path, {"agent": {"name": name}, "task": {"name": name, "control_rate": 10}, "seed": 0}, tuple(lines), None
    )


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_of_tasks_and_agents_are_drawn_as_they_are(name: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runs = [run_of(name, tmp_path / "a"), run_of("other", tmp_path / "b")]
        picture = plot_runs(runs, tmp_path / "curve.svg")
        rewards = {name: np.arange(4, dtype=np.float32)}
        drawn = plot_rewards(rewards, np.arange(4, dtype=np.float32), [], 10.0, tmp_path / "reward.svg")
    for file in (picture, drawn):
        assert file.stat().st_size < 1_000_000
        ElementTree.parse(file)
    assert "<!-- other -->" in picture.read_text()


def test_a_dollar_is_a_dollar(tmp_path: Path) -> None:
    assert "<!-- push_$5_$10 -->" in plot_runs([run_of("push_$5_$10", tmp_path)], tmp_path / "curve.svg").read_text()


def test_a_label_that_begins_with_an_underscore_is_shown(tmp_path: Path) -> None:
    text = plot_runs([run_of("_mine", tmp_path)], tmp_path / "curve.svg").read_text()
    assert text.count("<!-- _mine -->") == 2  # title and legend


def test_lines_mark_cloning_and_the_demonstrations(tmp_path: Path) -> None:
    plain = run_of("rlpd", tmp_path / "a")
    first, *others = (dict(line) | {"demonstrations_success_rate": 0.9} for line in plain.metrics)
    first["success_rate"] = 0.25
    settings = dict(plain.config) | {"agent": {"name": "rlpd", "pretrain_steps": 100}}
    cloned = Run(tmp_path / "b", settings, (first, *others), None)
    text = plot_runs([cloned], tmp_path / "curve.svg").read_text()
    assert "<!-- demonstrations: 90 % -->" in text and "<!-- cloning alone: 25 % -->" in text
    both = plot_runs([cloned, plain], tmp_path / "both.svg").read_text()
    assert "<!-- rlpd pretrain_steps=100, cloning alone: 25 % -->" in both and both.count("cloning alone") == 1
    assert "cloning" not in plot_runs([plain], tmp_path / "plain.svg").read_text()


@pytest.mark.parametrize(
    ("base", "start", "name"),
    [
        ({"run": "runs/clone", "policy": None}, {"run": None}, "base policy"),
        ({"run": None, "policy": "clone.onnx"}, None, "base policy"),
        ({"run": None, "policy": None}, None, ""),
        ({"run": "runs/clone"}, {"run": "runs/other"}, ""),
    ],
)
def test_a_line_marks_the_base_policy(
    base: dict[str, str | None], start: dict[str, str | None] | None, name: str, tmp_path: Path
) -> None:
    plain = run_of("residual", tmp_path / "a")
    settings = dict(plain.config) | {"agent": {"name": "residual", "pretrain_steps": 0}, "base": base, "start": start}
    run = Run(tmp_path, settings, plain.metrics, None)
    assert first_policy(run) == name
    text = plot_runs([run], tmp_path / "curve.svg").read_text()
    assert ("<!-- base policy: 50 % -->" in text) == bool(name) and "cloning" not in text


@pytest.mark.parametrize(
    ("agent", "start", "is_clone"),
    [
        ({"pretrain_steps": 100}, None, True),
        ({"pretrain_steps": 100, "offline_steps": 0}, {"run": None}, True),
        ({"pretrain_steps": 100, "offline_steps": 10, "pretrain_critics": 10}, {"run": None}, True),
        ({"pretrain_steps": 100, "offline_steps": 10}, {"run": None}, False),
        ({"pretrain_steps": 100}, {"run": "runs/other"}, False),
        ({"pretrain_steps": 0}, None, False),
    ],
)
def test_only_a_clone_is_named_one(
    agent: dict[str, int], start: dict[str, str | None] | None, is_clone: bool, tmp_path: Path
) -> None:
    plain = run_of("rlpd", tmp_path / "a")
    metrics = tuple(dict(line) | {"demonstrations_success_rate": 0.9} for line in plain.metrics)
    run = Run(tmp_path, dict(plain.config) | {"agent": {"name": "rlpd", **agent}, "start": start}, metrics, None)
    assert has_cloned(run) is is_clone


@pytest.mark.parametrize(
    "settings",
    [{"text.usetex": True}, {"axes.formatter.use_mathtext": True, "font.family": "serif"}, {"axes.grid": False}],
)
def test_the_users_own_settings_of_matplotlib_change_no_picture(settings: dict[str, Any], tmp_path: Path) -> None:
    """With usetex, the name of a task is a program in LaTeX."""
    runs = [run_of("push_$5_%", tmp_path)]
    expected = plot_runs(runs, tmp_path / "defaults.svg").read_bytes()
    with matplotlib.rc_context(settings):
        own = dict(matplotlib.rcParams)
        assert plot_runs(runs, tmp_path / "own.svg").read_bytes() == expected
        assert dict(matplotlib.rcParams) == own


@pytest.mark.parametrize("name", ["$\\frac{1$", "a\x1b[2Jb", "_x"])
def test_reports_are_written(name: str, tmp_path: Path) -> None:
    page = write_report([run_of(name, tmp_path / "a")], tmp_path / "report.html")
    assert "data:image" in page.read_text() or "<svg" in page.read_text()


def test_a_copy_in_another_format_is_the_picture_drawn_anew_and_that_of_the_report(tmp_path: Path) -> None:
    runs = [run_of("rlpd", tmp_path / "a"), run_of("sac", tmp_path / "b")]
    alone = {name: plot_runs(runs, tmp_path / f"alone.{name}").read_bytes() for name in ("png", "svg")}
    picture = plot_runs(runs[:1], tmp_path / "one.svg")
    copy = tmp_path / "copy.svg"
    assert plot_runs(runs, tmp_path / "curve.png", copy=copy).read_bytes() == alone["png"]
    assert copy.read_bytes() == alone["svg"]
    page = write_report(runs[:1], tmp_path / "report.html").read_bytes()
    assert write_report(runs[:1], tmp_path / "report.html", curve=picture).read_bytes() == page
    assert write_report(runs[:1], tmp_path / "report.html", curve=copy).read_bytes() != page


def test_a_darkened_picture_is_the_one_drawn_with_dark_colours(tmp_path: Path) -> None:
    def without_ids(text: str) -> str:
        return re.sub(r"\b[mp][0-9a-f]{10}\b", "", text)

    runs = [run_of(name, tmp_path / name) for name in ("a", "b")]
    rewards = {name: np.arange(4, dtype=np.float32) for name in ("near", "far")}
    frames = [np.full((8, 8, 3), 200, np.uint8)] * 2
    for draw in (plot_runs, lambda *more: plot_rewards(rewards, rewards["near"], frames, 10.0, *more[1:])):
        light = draw(runs, tmp_path / "light.svg").read_text()
        dark = draw(runs, tmp_path / "dark.svg", DARK).read_text()
        assert without_ids(darkened(light)) == without_ids(dark) != without_ids(light)
