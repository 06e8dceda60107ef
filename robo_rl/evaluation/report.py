"""Report on runs: results, curves, videos and configuration in one self-contained HTML file."""

import html
import math
import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ..core.fast_yaml import plain_yaml
from .aggregate import Group, group_runs
from .charts import charts
from .cycle_time import CycleTimes
from .demonstration_row import Thumbnails, demonstration_row
from .limits import limit_text, measured_text
from .page import figure, section, table, write_page
from .plots import plot_groups
from .report_videos import videos
from .run_start import start_text
from .runs import Run, differences
from .statistics import Interval, Proportion, ThresholdSteps

RESULTS = (
    "task",
    "agent",
    "runs",
    "success or return",
    "steps to 95 %",
    "robot minutes to 95 %",
    "wall minutes to 95 %",
    "time to success",
    "of the demonstrations'",
)
NOTES = """Success is measured in the final evaluation without exploration, or in the last evaluation if a run did not
finish. For several runs, the figure is the interquartile mean with its 95 % stratified bootstrap interval; for one run,
it is the fraction of episodes with its Wilson interval. In the columns "to 95 %", a run that never reached 95 % counts
as infinitely long; a figure with > is a lower bound. Robot minutes are environment steps over the control rate. Time to
success is the median over the successful episodes of the final evaluation, in robot time; the last column divides it by
that of the demonstrations. In the learning curves, a dashed line marks what cloning the demonstrations
alone reached (the evaluation before the first environment step), and a dash-dotted line the success rate of the
demonstrations themselves. In the charts over the run, drag to enlarge a part, and click twice to see everything again;
red lines mark the stops of robots."""
_NOTHING = "–"
_ANSWERS = {True: "yes", False: "no"}


def write_report(
    runs: Sequence[Run],
    path: Path,
    embed: bool = False,
    curve: Path | None = None,
    thumbnails: Thumbnails = lambda _: (),
) -> Path:
    """Write a page about ``runs`` to ``path`` and return it.

    Args:
        runs: at least one run, of any tasks and agents; runs that were killed are shown as far as they got.
        path: HTML file to write. Videos are linked relative to it.
        embed: embed the videos in the page, so that it can be sent as a single file. The page grows by 4/3 of their
            size. Videos beyond a total of 128 MiB are linked.
        curve: picture of the learning curves (.svg), if :func:`.plot_runs` has drawn these runs, of one task, already.
        thumbnails: makes the thumbnails of the demonstrations of a run.
    """
    groups = group_runs(runs)
    tasks = list(dict.fromkeys(group.task for group in groups))
    agents = list(dict.fromkeys(run.agent for run in runs))
    plural = "s" if len(runs) > 1 else ""
    sections = (
        _cards(groups[0]) if len(groups) == 1 else "",
        _warning("Not all runs are complete.", [(run.name, text) for run in runs for text in run.problems]),
        _warning("Some runs have the same seed.", [("", text) for text in repeated_seeds(groups)]),
        section("Results", table(RESULTS, results(groups), numbers_from=2)) if len(groups) > 1 else "",
        _curves(groups, curve),
        _time_line(runs),
        _constraints(runs),
        demonstration_row(runs, thumbnails),
        videos(runs, path, embed),
        section("Runs", _run_table(runs)),
        _starts(runs),
        _configuration(groups),
        _versions(runs),
    )
    title = f"{', '.join(tasks)} · {', '.join(agents)}"
    folder = os.path.commonpath([run.path.resolve().parent for run in runs])
    return write_page(path, title, f"{len(runs)} run{plural} in {folder}", sections, NOTES)


def results(groups: Sequence[Group]) -> list[list[str]]:
    """Return one row of text for each group, with the columns :data:`RESULTS`."""
    rows = []
    for group in groups:
        steps, wall = group.steps_to_95(), group.wall_seconds_to_95()
        rate = group.control_rate
        rows.append(
            [
                group.task,
                group.label,
                _count(group),
                _result(group),
                _threshold(steps),
                _threshold(steps, 1 / (60 * rate)) if rate else _NOTHING,
                _threshold(wall, 1 / 60),
                _mean(group.seconds_to_success(), " s", group),
                _mean(group.relative_cycle_time(), "", group),
            ]
        )
    return rows


def repeated_seeds(groups: Sequence[Group]) -> list[str]:
    """Return a warning for each seed of which a group has several runs, since its intervals are then too narrow."""
    return [
        f"{group.task}, {group.label}: seed {runs[0].seed} counts {len(runs)} times "
        f"({', '.join(str(run.path) for run in runs)}). Runs of one seed are not independent: the intervals are too "
        "narrow. Name one of these folders in runs, or give each run a different seed."
        for group in groups
        for runs in group.repeats()
    ]


def markdown_table(groups: Sequence[Group]) -> str:
    """Return :func:`results` as a Markdown table, for documents."""
    rows = [list(RESULTS), ["---"] * len(RESULTS), *results(groups)]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)


def _count(group: Group) -> str:
    """Return the number of runs and, if some share a seed, the number of seeds."""
    seeds = len(group.runs) - sum(len(runs) - 1 for runs in group.repeats())
    return str(len(group.runs)) + ("" if seeds == len(group.runs) else f" ({seeds} seed{'s' * (seeds > 1)})")


def _result(group: Group) -> str:
    """Return the final success or, if success is unknown, the final return."""
    single = group.runs[0].success_rate if len(group.runs) == 1 else None
    if single is not None:
        return _proportion(single)
    if (success := group.success()) is not None:
        count = sum(run.success_rate is not None for run in group.runs)
        interval = f"{100 * success.value:.1f} % [{100 * success.low:.1f}, {100 * success.high:.1f}]"
        return interval + _run_count(count, group)
    final = group.final_return()
    if final is None:
        return _NOTHING
    if len(group.runs) == 1:
        return f"{final.value:,.1f}"
    count = sum(run.evaluations.return_mean is not None for run in group.runs)
    return f"{final.value:,.1f} [{final.low:,.1f}, {final.high:,.1f}]" + _run_count(count, group)


def _run_count(count: int, group: Group) -> str:
    """Return the number of runs that a figure is based on, if some runs were killed before they had one."""
    return "" if count == len(group.runs) else f" ({count} of {len(group.runs)} runs)"


def _proportion(rate: Proportion) -> str:
    return f"{100 * rate.value:.1f} % [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"


def _mean(interval: Interval | None, unit: str, group: Group) -> str:
    """Return a mean over runs, with its interval if there are several runs."""
    if interval is None:
        return _NOTHING
    spread = f" [{interval.low:.2f}, {interval.high:.2f}]" if len(group.runs) > 1 else ""
    return f"{interval.value:.2f}{unit}{spread}"


def _threshold(steps: ThresholdSteps | None, scale: float = 1.0) -> str:
    return _NOTHING if steps is None else steps.describe(scale)


def _cards(group: Group) -> str:
    """Return cards with the most important figures of a single group."""
    run, steps = group.runs[0], group.steps_to_95()
    result, _, interval = _result(group).partition(" [")
    reached, opening, spread = _threshold(steps).partition(" [" if steps and steps.value < math.inf else " (")
    episodes = f" of {run.success_rate.episodes} episodes" if len(group.runs) == 1 and run.success_rate else ""
    wall = sum(member.wall_seconds for member in group.runs) / len(group.runs) / 60
    cards = []
    if result != _NOTHING:
        measure = "return" if group.success() is None else f"success{episodes}"
        cards.append((result, measure + (f", 95 % interval [{interval}" if interval else "")))
    if steps is not None:
        cards.append((reached, f"steps to 95 % success{opening}{spread}"))
    if steps is not None and group.control_rate:
        minutes = re.split(r" [\[(]", _threshold(steps, 1 / (60 * group.control_rate)))[0]
        cards.append((minutes, "robot minutes to 95 %"))
    if (seconds := group.seconds_to_success()) is not None:
        relative = group.relative_cycle_time()
        comparison = "" if relative is None else f", {relative.value:.2f} times the demonstrations'"
        cards.append((f"{seconds.value:.1f} s", f"median time to success{comparison}"))
    average = " a run, on average" if len(group.runs) > 1 else ""
    mean_steps = sum(member.env_steps for member in group.runs) / len(group.runs)
    cards.append((f"{mean_steps:,.0f}", f"environment steps{average}"))
    cards.append((f"{wall:.1f} min", f"wall time{average}"))
    items = (
        f'<div class="card"><b>{html.escape(value)}</b><span>{html.escape(name)}</span></div>' for value, name in cards
    )
    return f'<div class="cards">{"".join(items)}</div>'


def _warning(title: str, lines: Sequence[tuple[str, str]]) -> str:
    items = (f"<li>{f'<b>{html.escape(name)}</b>: ' * bool(name)}{html.escape(text)}</li>" for name, text in lines)
    return f'<div class="warn">{title}<ul>{"".join(items)}</ul></div>' if lines else ""


def _curves(groups: Sequence[Group], curve: Path | None) -> str:
    figures = []
    for task in dict.fromkeys(group.task for group in groups):
        members = [group for group in groups if group.task == task]
        if any(run.evaluations.lines for group in members for run in group.runs):
            draw = partial(plot_groups, members) if curve is None else lambda _: curve
            figures.append(figure(draw, f"learning curve of {task}"))
    if not figures:
        return section("Learning curves", '<p class="quiet">No run holds an evaluation yet.</p>', boxed=False)
    return section("Learning curves", f'<div class="curves">{"".join(figures)}</div>', boxed=False)


def _time_line(runs: Sequence[Run]) -> str:
    """Return interactive charts of losses, episodes and stops over environment steps."""
    content = charts(runs)
    return section("Over the run", content, boxed=False) if content else ""


def _constraints(runs: Sequence[Run]) -> str:
    """Return a table of the constraints of runs, as their final evaluations measured them."""
    header = ("run", "constraint", "limits", "limit", "measured", "kept")
    rows = [
        [run.name, name, outcome["subject"], limit_text(outcome), measured_text(outcome), _ANSWERS[outcome["kept"]]]
        for run in runs
        for name, outcome in ((run.summary or {}).get("constraints") or {}).items()
    ]
    return section("Constraints", table(header, rows)) if rows else ""


def _run_table(runs: Sequence[Run]) -> str:
    header = (
        "run",
        "task",
        "agent",
        "seed",
        "steps",
        "robot min",
        "wall min",
        "success",
        "steps to 95 %",
        "s to success",
        "updates/s",
    )
    rows = []
    for run in runs:
        rate, summary = run.success_rate, run.summary or {}
        updates, cycle_time = summary.get("updates_per_second"), CycleTimes.of_summary(summary).policy
        rows.append(
            [
                run.name + ("" if run.status in ("completed", "reached") else f" ({run.status})"),
                run.task,
                run.agent,
                _NOTHING if run.seed is None else str(run.seed),
                f"{run.env_steps:,}",
                _NOTHING if run.robot_minutes is None else f"{run.robot_minutes:.1f}",
                f"{run.wall_seconds / 60:.1f}",
                _NOTHING if rate is None else _proportion(rate),
                _NOTHING if run.evaluations.steps_to_95 is None else f"{run.evaluations.steps_to_95:,}",
                _NOTHING if cycle_time is None else f"{cycle_time.median:.2f}",
                _NOTHING if updates is None else f"{updates:,.0f}",
            ]
        )
    return table(header, rows, numbers_from=3)


def _starts(runs: Sequence[Run]) -> str:
    """Return a table of the runs that started from other runs."""
    starts = [(run.name, (run.summary or {}).get("started_from")) for run in runs]
    rows = [[name, start_text(facts)] for name, facts in starts if facts is not None]
    return section("Started from other runs", table(("run", "started from"), rows)) if rows else ""


def _configuration(groups: Sequence[Group]) -> str:
    """Return a table of the differences between the groups, and all configurations, collapsed."""
    parts = []
    keys = differences([group.settings for group in groups])
    if len({group.task for group in groups}) > 1:
        keys = [key for key in keys if key.split(".")[0] != "task"]  # options of different tasks always differ
    if keys:
        names = [f"{group.task} · {group.label}" for group in groups]
        rows = [[key, *(str(group.settings.get(key, _NOTHING)) for group in groups)] for key in keys]
        parts.append(f'<div class="box">{table(("key that differs", *names), rows, keyed=True)}</div><br>')
    folded = []
    for run in (run for group in groups for run in group.runs):
        text = plain_yaml(run.config) if run.config else "config.yaml is missing"
        folded.append(f"<details><summary>{html.escape(run.name)}</summary><pre>{html.escape(text)}</pre></details>")
    parts.append(f'<div class="box">{"".join(folded)}</div>')
    return section("Configuration", "".join(parts), boxed=False)


def _versions(runs: Sequence[Run]) -> str:
    """Return a table of versions and commits, with a column for each different set."""
    sets: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in runs:
        if run.summary:
            versions = {**run.summary.get("versions", {}), "git commit": run.summary.get("git_commit")}
            sets.setdefault(tuple((str(key), str(value)) for key, value in versions.items()), []).append(run.name)
    if not sets:
        return ""
    keys = list(dict.fromkeys(key for versions_set in sets for key, _ in versions_set))
    names = ["all runs"] if len(sets) == 1 else [", ".join(names) for names in sets.values()]
    rows = [[key, *(dict(versions_set).get(key, _NOTHING) for versions_set in sets)] for key in keys]
    return section("Versions", table(("", *names), rows, keyed=True))
