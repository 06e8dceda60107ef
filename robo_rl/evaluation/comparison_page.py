"""The page of a comparison of policies: success, evidence over the pairs, and failures with their videos."""

import html
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from ..core import plain_text
from .comparison import LABEL_CHARACTERS, Comparison, PolicyResult
from .page import figure, relative, section, table, write_page
from .plots import LIGHT, Theme, caption, save_figure, themed
from .sequential import log_evidence

NOTES = """The policies acted in random order from the same start states, and nobody who judged them knew which one
acted. A pair counts for a policy if it alone succeeded. The evidence is the factor by which the outcomes are more
likely if a policy is better than if both are equally good. The comparison is decided when it reaches the dashed line,
which is chosen such that the probability of a decision between equally good policies stays below the stated error,
however often one looks. Intervals of success rates are Wilson intervals and those of differences bootstrap intervals,
both of 95 %; they do not account for the early end, which makes differences look somewhat larger than they are. An
episode in which a person took over counts as failed."""


def write_comparison(comparison: Comparison, file: Path, page: Path) -> Path:
    """Write the page of a comparison and return its path.

    Args:
        comparison: plan and episodes.
        file: file of the comparison, which paths of videos are relative to.
        page: HTML file to write. Videos are linked relative to it.
    """
    plan = comparison.plan
    lines = "".join(f"<p>{html.escape(line)}</p>" for line in comparison.describe())
    names = " · ".join(policy.label for policy in plan.policies)
    error = f"Error probability at most {100 * plan.error:.3g} %, at most {plan.pairs} episodes of each policy"
    sections = (
        section("Conclusion", lines),
        section("Policies", _policies(comparison.policies)),
        section("Pairs", _pairs(comparison)),
        section("Evidence", figure(partial(_plot, comparison), "evidence over the pairs"), boxed=False),
        _failures(comparison, file, page),
    )
    lead = f"{len(comparison.episodes)} episodes judged by the {plan.success}. {error}"
    return write_page(page, f"{caption(plan.task)}: {names}", lead, sections, NOTES)


def _policies(results: list[PolicyResult]) -> str:
    header = ("policy", "step", "success", "time to success", "successes an hour", "interventions")
    rows = []
    for result in results:
        times = result.cycle_time
        rows.append(
            [
                result.policy.label,
                f"{result.policy.step:,}",
                f"{result.success} of {result.success.episodes}",
                "–" if times is None else str(times),
                "–" if times is None else f"{times.successes_per_hour:,.0f}",
                str(result.interventions),
            ]
        )
    return table(header, rows, numbers_from=2)


def _pairs(comparison: Comparison) -> str:
    header = ("first", "second", "pairs", "only first", "only second", "evidence", "difference", "first does better")
    names = [policy.label for policy in comparison.plan.policies]
    rows = []
    for result in comparison.pairs:
        difference, improvement = result.difference, result.improvement
        rows.append(
            [
                names[result.first],
                names[result.second],
                str(result.pairs),
                str(result.wins),
                str(result.losses),
                f"{result.evidence:.3g}",
                f"{100 * difference.value:+.0f} [{100 * difference.low:+.0f}, {100 * difference.high:+.0f}] points",
                f"{100 * improvement.value:.0f} % [{100 * improvement.low:.0f}, {100 * improvement.high:.0f}]",
            ]
        )
    return table(header, rows, numbers_from=2)


def _plot(comparison: Comparison, path: Path, theme: Theme = LIGHT) -> Path:
    """Draw the evidence for each policy against each other one over the pairs."""
    outcomes, plan = comparison.outcomes(), comparison.plan
    table_of_logs = log_evidence(len(outcomes))
    with themed(theme):
        drawing, axis = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
        lines: list[Any] = []
        labels: list[str] = []
        try:
            for number, (first, second) in enumerate(np.argwhere(~np.eye(len(plan.policies), dtype=np.bool_))):
                wins = (outcomes[:, first] & ~outcomes[:, second]).cumsum()
                losses = (~outcomes[:, first] & outcomes[:, second]).cumsum()
                values = [1.0, *np.exp(table_of_logs[wins + losses, wins])]
                labels.append(" better than ".join(caption(plan.policies[at].label) for at in (first, second)))
                lines += axis.plot(values, color=theme.lines[number % len(theme.lines)])
            axis.axhline(plan.test.threshold, color=theme.faint, linestyle="--")
            axis.set(yscale="log", xlabel="pairs", ylabel="evidence")
            axis.legend(lines, labels, frameon=False)  # given, labels that begin with an underscore are shown
            save_figure(drawing, path)
        finally:
            plt.close(drawing)
    return path


def _failures(comparison: Comparison, file: Path, page: Path) -> str:
    """Return a table of the failures by category, and their videos."""
    categories = sorted({end for result in comparison.policies for end in result.failures})
    rows = [
        [result.policy.label, *(str(result.failures.get(end, 0)) for end in categories)]
        for result in comparison.policies
    ]
    videos = []
    for number, episode in enumerate(comparison.episodes, start=1):
        if episode.clip is not None:
            note = f": {plain_text(episode.note, LABEL_CHARACTERS)}" if episode.note else ""
            policy = comparison.plan.policies[episode.policy].label
            about = f"{policy} · episode {number} · {caption(episode.end)}{note}"
            source = html.escape(relative(file.parent / episode.clip, page))
            player = f'<video src="{source}" controls muted loop playsinline preload="metadata"></video>'
            videos.append(f"<figure>{player}<figcaption>{html.escape(about)}</figcaption></figure>")
    header = ("policy", *map(caption, categories))
    content = table(header, rows, numbers_from=1) if categories else "<p>No episode failed.</p>"
    clips = f'<div class="videos">{"".join(videos)}</div>' if videos else ""
    return section("Failures", content) + clips
