"""Interactive charts of runs in a self-contained page: curves over environment steps, and the stops of robots."""

import json
from collections.abc import Sequence
from pathlib import Path

from .curves import POINTS, curves, stops
from .runs import Run

STATIC = Path(__file__).parent / "static"
"""Folder of the charting library and of ``charts.js``, which the pages of ``robo-rl web`` load, too."""
TOTAL_POINTS = 1200
"""Number of points of a curve that all runs of a page share, so that the page stays small."""
FEWEST_POINTS = 20

_DRAW = """
const runs = JSON.parse(document.getElementById("runs").textContent);
new Charts(document.getElementById("charts")).show(runs);
"""


def charts(runs: Sequence[Run]) -> str:
    """Return HTML with a chart for each curve of ``runs``, in which they can be compared; empty if they have none."""
    points = min(POINTS, max(FEWEST_POINTS, TOTAL_POINTS // len(runs)))
    data = [{"name": run.name, "curves": curves(run, points), "stops": stops(run)} for run in runs]
    if not any(run["curves"] for run in data):
        return ""
    library, style, code = (
        (STATIC / name).read_text(encoding="utf-8") for name in ("uplot.js", "charts.css", "charts.js")
    )
    values = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        f'<style>{style}</style><div id="charts" class="curves"></div>'
        '<noscript><p class="quiet">These charts need scripts, which are off here. The page of robo-rl web shows the '
        "same charts.</p></noscript>"
        f'<script type="application/json" id="runs">{values}</script>'
        f'<script>{library}</script><script type="module">{code}{_DRAW}</script>'
    )
