"""Plots of learning curves: one panel per task, one colour per group, over environment steps and robot time."""

import io
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # needs no window system: pictures are made on robots and servers

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..core import DataError, plain_text, write_durably
from .aggregate import FEW_RUNS, Curve, Group, group_runs, learning_curve, measure_of
from .runs import Run

DOTS_PER_INCH = 160
CAPTION_CHARACTERS = 80
"""Longest name in a picture."""


@dataclass(frozen=True)
class Theme:
    """Colours of a picture."""

    ink: str
    faint: str
    grid: str
    background: str
    lines: tuple[str, ...]


# Hues that colour-blind people can distinguish, darkened or lightened for the background.
LIGHT = Theme(
    ink="#1c2430",
    faint="#667085",
    grid="#e6e9ef",
    background="#ffffff",
    lines=("#1f6feb", "#d9730d", "#0f9d75", "#a23fbf", "#c2283c", "#6b7280"),
)
DARK = Theme(
    ink="#e6eaf0",
    faint="#98a2b3",
    grid="#2a313c",
    background="#161b22",
    lines=("#6cb0ff", "#ffa657", "#4cd2a4", "#d79bf0", "#ff7b85", "#aab2bf"),
)

_NAMES = {"success_rate": "success rate [%]", "return_mean": "return"}


def plot_runs(runs: Sequence[Run], path: Path, theme: Theme = LIGHT, copy: Path | None = None) -> Path:
    """Draw the learning curves of ``runs``, grouped by task, agent and settings, into ``path``.

    Args:
        runs: results of :func:`~robo_rl.evaluation.runs.load_run`.
        path: picture to write; the suffix chooses the format (.png, .svg, .pdf).
        theme: colours.
        copy: another file for the same picture, such as one of another format; drawing it again takes longer.

    Raises:
        DataError: if no run was evaluated.
    """
    return plot_groups(group_runs(runs), path, theme, copy)


def plot_groups(groups: Sequence[Group], path: Path, theme: Theme = LIGHT, copy: Path | None = None) -> Path:
    """Draw the learning curves of ``groups``; see :func:`plot_runs`."""
    panels: dict[str, list[tuple[Group, Curve]]] = {}
    for task in dict.fromkeys(group.task for group in groups):
        members = [group for group in groups if group.task == task]
        curves = [(group, learning_curve(group, measure_of(members))) for group in members]
        if existing := [(group, curve) for group, curve in curves if curve is not None]:
            panels[task] = existing
    if not panels:
        raise DataError("no run holds an evaluation yet, so there is no curve to draw")

    columns = min(len(panels), 2)
    rows = math.ceil(len(panels) / columns)
    width = 7.2 if columns == 1 else 5.4 * columns
    with themed(theme):
        layout = ConstrainedLayoutEngine(h_pad=0.12, w_pad=0.12)
        figure, axes = plt.subplots(rows, columns, figsize=(width, 4.3 * rows), squeeze=False, layout=layout)
        try:
            for axis, (task, panel) in zip(axes.flat, panels.items(), strict=False):
                _draw_panel(axis, task, panel, theme)
            for axis in axes.flat[len(panels) :]:
                axis.set_visible(False)
            note = _note([curve for panel in panels.values() for _, curve in panel])
            note = textwrap.fill(note, round(17 * width))
            figure.supxlabel(note, x=0.01, ha="left", fontsize=7, color=theme.faint)
            for each in (path, copy) if copy else (path,):
                save_figure(figure, each)
        finally:
            plt.close(figure)
    return path


def save_figure(figure: Figure, path: Path) -> None:
    """Write ``figure`` to ``path``; the suffix chooses the format. The same figure gives the same file."""
    figure.set_dpi(DOTS_PER_INCH)
    layout = figure.get_layout_engine()
    if layout is not None:  # once: to save a figure, Matplotlib computes its layout twice, and draws it for each
        layout.execute(figure)
        figure.set_layout_engine(None)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.removeprefix(".") or None, dpi=DOTS_PER_INCH, metadata=metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, buffer.getvalue())


def darkened(svg: str) -> str:
    """Return a picture of the theme ``LIGHT`` with the colours of ``DARK``, as if it had been drawn with them."""
    colours = dict(zip(_colours(LIGHT), _colours(DARK), strict=True))
    return re.sub(r"#[0-9a-f]{6}\b", lambda match: colours.get(match[0], match[0]), svg)


def _colours(theme: Theme) -> tuple[str, ...]:
    return (theme.ink, theme.faint, theme.grid, theme.background, *theme.lines)


def _draw_panel(axis: Any, task: str, curves: Sequence[tuple[Group, Curve]], theme: Theme) -> None:
    measure = curves[0][1].measure
    lines: list[Any] = []
    labels: list[str] = []
    factor = 100.0 if measure == "success_rate" else 1.0
    for index, (_, curve) in enumerate(curves):
        colour = theme.lines[index % len(theme.lines)]
        has_several_runs = len(curve.singles) > 1
        if has_several_runs:
            for steps, values in curve.singles:
                axis.plot(steps, factor * np.array(values), color=colour, linewidth=0.8, alpha=0.35)
        if curve.band:
            axis.fill_between(
                curve.steps, factor * curve.low, factor * curve.high, color=colour, alpha=0.16, linewidth=0
            )
        name = caption(curve.label)
        label = f"{name} · {len(curve.singles)} runs" if has_several_runs else name
        marker = "o" if curve.steps.size <= 30 else None
        lines += axis.plot(curve.steps, factor * curve.value, color=colour, linewidth=2.2, marker=marker, ms=3.5)
        labels.append(label)
    for line, label in _reference_lines(axis, [curve for _, curve in curves], factor, theme):
        lines.append(line)
        labels.append(label)
    if measure == "success_rate":
        axis.set_ylim(-3, 104)
        axis.axhline(95, color=theme.faint, linewidth=0.9, linestyle=(0, (2, 3)), zorder=0)
    axis.set_xlim(left=0)
    axis.set_title(caption(task), loc="left", fontweight="bold", pad=10)
    axis.set_xlabel("environment steps")
    axis.set_ylabel(_NAMES[measure])
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.legend(lines, labels, loc="best", handlelength=1.4)
    _add_robot_time(axis, [group.control_rate for group, _ in curves])


def _reference_lines(axis: Any, curves: Sequence[Curve], factor: float, theme: Theme) -> Iterator[tuple[Any, str]]:
    """Draw horizontal lines for the demonstrations and for the policy at the start; yield each with its label."""
    unit = " %" if curves[0].measure == "success_rate" else ""
    for rate in dict.fromkeys(curve.demonstrations for curve in curves if curve.demonstrations is not None):
        line = axis.axhline(factor * rate, color=theme.faint, linewidth=1.3, linestyle="-.", zorder=1)
        yield line, f"demonstrations: {factor * rate:.3g}{unit}"
    for index, curve in enumerate(curves):
        if curve.first is not None:
            colour = theme.lines[index % len(theme.lines)]
            line = axis.axhline(factor * curve.first, color=colour, linewidth=1.3, linestyle="--", zorder=1)
            name = f"{caption(curve.label)}, {curve.first_name}" if len(curves) > 1 else curve.first_name
            yield line, f"{name}: {factor * curve.first:.3g}{unit}"


def _add_robot_time(axis: Any, rates: Sequence[float | None]) -> None:
    """Add an axis of robot minutes at the top, if all groups of the panel have the same control rate."""
    if len(set(rates)) != 1 or rates[0] is None:
        return
    per_minute = 60.0 * rates[0]
    top = axis.secondary_xaxis("top", functions=(lambda steps: steps / per_minute, lambda time: time * per_minute))
    top.set_xlabel("robot minutes", labelpad=4)
    top.xaxis.set_major_locator(MaxNLocator(5))
    top.spines["top"].set_visible(False)


def _note(curves: Sequence[Curve]) -> str:
    """Return an explanation of the line and the band."""
    bands = list(dict.fromkeys(curve.band for curve in curves if curve.band))
    parts = ["line: interquartile mean over runs"] if any(len(curve.singles) > 1 for curve in curves) else []
    parts += [f"band: {' or '.join(bands)}"] if bands else []
    if any(1 < len(curve.singles) < FEW_RUNS for curve in curves):
        parts.append(f"with fewer than {FEW_RUNS} runs the band is too narrow")
    return "; ".join(parts)


def caption(text: str) -> str:
    """Return a text from a run's files as one line for a picture, shortened and without control characters."""
    return plain_text(text, CAPTION_CHARACTERS) or "unnamed"


@contextmanager
def themed(theme: Theme) -> Iterator[None]:
    """Draw with Matplotlib's defaults and a theme; the user's own settings, such as ``text.usetex``, do not apply."""
    with plt.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_style(theme))
        yield


def _style(theme: Theme) -> Any:
    """Return Matplotlib's settings for a theme."""
    return {
        "figure.facecolor": theme.background,
        "savefig.facecolor": theme.background,
        "axes.facecolor": theme.background,
        "axes.edgecolor": theme.grid,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.labelcolor": theme.faint,
        "axes.labelsize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlecolor": theme.ink,
        "axes.titlesize": 12,
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "grid.color": theme.grid,
        "grid.linewidth": 0.8,
        "legend.fontsize": 8.5,
        "legend.frameon": False,
        "svg.hashsalt": "robo-rl",
        "text.color": theme.ink,
        "text.parse_math": False,  # a $ in the name of a task is not a formula
        "xtick.color": theme.faint,
        "ytick.color": theme.faint,
        "xtick.labelsize": 8.5,
        "ytick.labelsize": 8.5,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
    }
