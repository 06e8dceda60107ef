"""Map of the start states of a final evaluation by success, which shows where a policy fails."""

import html
from collections.abc import Mapping, Sequence

from ..core import ForeignFolder
from .run_files import Episode, read_episodes
from .runs import Run

SIZE, MARGIN = 260, 44
"""Edge of the map and the margin for its labels [px]."""
LEAST_RANGE = 1e-3
"""Range from which an element of the start states counts as varied."""
MOST_CLIPPED = 0.05
"""Share of the start states beyond two at the ends of its range from which an element counts as clipped."""
NO_POSITIONS = ("force", "torque", "axis", "end_effector")
"""Parts of names that end in _x and _y and are no position of an object."""

_MARKS = {
    True: '<circle class="success" cx="{x:.1f}" cy="{y:.1f}" r="4.5">{title}</circle>',
    False: '<path class="failure" d="M{x:.1f} {y:.1f}m-5-5l10 10m0-10l-10 10">{title}</path>',
    None: '<circle class="unknown" cx="{x:.1f}" cy="{y:.1f}" r="4.5">{title}</circle>',
}


def start_map(run: Run, clips: Mapping[int, str]) -> str:
    """Return a figure with a mark for each start state; empty if the run has no evaluation of varied start states.

    Args:
        run: the run.
        clips: ids of the figures with the videos of failures, by the number of their episode from 0; the marks of these
            episodes are links to them.
    """
    episodes = read_episodes(ForeignFolder(run.path))
    names = varied_elements(episodes)
    if names is None:
        return ""
    columns = [[episode.start[name] for episode in episodes] for name in names]
    lows = [min(column) for column in columns]
    ranges = [max(column) - low for column, low in zip(columns, lows, strict=True)]
    if names[0].removesuffix("x") == names[1].removesuffix("y"):  # a position: both axes have the same scale
        lows = [low - (max(ranges) - extent) / 2 for low, extent in zip(lows, ranges, strict=True)]
        ranges = [max(ranges)] * 2
    marks = []
    for episode, first, second in zip(episodes, *columns, strict=True):
        outcome = {True: "success", False: "failure", None: "success unknown"}[episode.success]
        text = f"episode {episode.number + 1}: {outcome}, {names[0]} {first:.4g}, {names[1]} {second:.4g}"
        mark = _MARKS[episode.success].format(
            x=MARGIN + SIZE * (first - lows[0]) / ranges[0],
            y=MARGIN / 2 + SIZE * (1 - (second - lows[1]) / ranges[1]),
            title=f"<title>{html.escape(text)}</title>",
        )
        clip = clips.get(episode.number)
        marks.append(mark if clip is None else f'<a href="#{html.escape(clip)}">{mark}</a>')
    solved = sum(episode.success is True for episode in episodes)
    caption = html.escape(f"{run.name}: {solved} of {len(episodes)} start states solved")
    svg = _frame(names, lows, ranges) + "".join(marks)
    edge = SIZE + 1.5 * MARGIN
    picture = f'<svg viewBox="-8 0 {edge + 16:.0f} {edge + 8:.0f}" role="img" aria-label="{caption}">{svg}</svg>'
    legend = '<b class="success">●</b> success <b class="failure">×</b> failure'
    return f'<figure class="map">{picture}<figcaption>{caption} · {legend}</figcaption></figure>'


def varied_elements(episodes: Sequence[Episode]) -> tuple[str, str] | None:
    """Return two elements that differ most between start states, if possible x and y of an object's position.

    Positions of objects come before those relative to the robot (``to_...``), and these before all other elements.
    Clipped elements, which have the same value in many start states, are used only if there are no others.
    """
    if not episodes or any(episode.start.keys() != episodes[0].start.keys() for episode in episodes):
        return None
    extents, free = {}, {}
    for name in episodes[0].start:
        values = [episode.start[name] for episode in episodes]
        low, high = min(values), max(values)
        if high - low >= LEAST_RANGE:
            extents[name] = high - low
            if values.count(low) + values.count(high) - 2 <= MOST_CLIPPED * len(values):
                free[name] = high - low
    return _axes(free) or _axes(extents)


def _axes(extents: Mapping[str, float]) -> tuple[str, str] | None:
    """Return two of the elements with these extents, by the rules of :func:`varied_elements`."""
    pairs = [(name, f"{name[:-1]}y") for name in extents if name.endswith("_x") and f"{name[:-1]}y" in extents]
    positions = [pair for pair in pairs if not any(part in pair[0] for part in NO_POSITIONS)]
    if positions:
        absolute = [pair for pair in positions if not pair[0].startswith("to_")]
        return max(absolute or positions, key=lambda pair: min(extents[pair[0]], extents[pair[1]]))
    first, *others = sorted(extents, key=lambda name: -extents[name]) or [""]
    return (first, others[0]) if others else None


def _frame(names: Sequence[str], lows: Sequence[float], ranges: Sequence[float]) -> str:
    """Return the frame of the map with its labels."""
    bottom, left, right = MARGIN / 2 + SIZE, MARGIN, MARGIN + SIZE
    (low_x, low_y), (range_x, range_y) = lows, ranges
    labels = (
        (left, bottom + 28, "start", f"{low_x:.3g}"),
        (right, bottom + 28, "end", f"{low_x + range_x:.3g}"),
        ((left + right) / 2, bottom + 28, "middle", names[0]),
        (left - 12, bottom, "end", f"{low_y:.3g}"),
        (left - 12, MARGIN / 2 + 8, "end", f"{low_y + range_y:.3g}"),
    )
    texts = "".join(
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{html.escape(text)}</text>'
        for x, y, anchor, text in labels
    )
    middle = f"{left - 20:.0f} {MARGIN / 2 + SIZE / 2:.0f}"
    side = f'<text transform="translate({middle}) rotate(-90)" text-anchor="middle">{html.escape(names[1])}</text>'
    return f'<rect x="{left - 8}" y="{MARGIN / 2 - 8}" width="{SIZE + 16}" height="{SIZE + 16}"/>{texts}{side}'
