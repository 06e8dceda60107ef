"""The curves of a run for the web page, thinned to the resolution of a screen."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..evaluation.runs import Run

POINTS = 240
EPISODES = 20
"""Episodes over which returns and successes are averaged."""

SINGLE = (
    ("episode", "intervention_share", "share of intervened steps, last 10 episodes"),
    ("train", "q_mean", "mean Q"),
    ("train", "critic_loss", "critic loss"),
    ("train", "entropy", "entropy"),
    ("runtime", "ratio", "learner steps to environment steps"),
    ("runtime", "staleness_seconds", "age of the acting policy [s]"),
    ("runtime", "spooled", "steps in spools"),
)


def curves(run: Run) -> list[dict[str, Any]]:
    """Return curves over environment steps with ``title``, ``x``, ``y``, and ``share`` if y is a share from 0 to 1."""
    episodes = [line for line in run.metrics if line.get("kind") == "episode"]
    plots = [
        _curve("success of evaluations", *run.evaluations.curve("success_rate"), share=True),
        _curve("return of evaluations", *run.evaluations.curve("return_mean")),
        _averaged(f"success, mean of {EPISODES} episodes", episodes, "success", share=True),
        _averaged(f"return, mean of {EPISODES} episodes", episodes, "episode_return"),
    ]
    for kind, key, title in SINGLE:
        lines = [line for line in run.metrics if line.get("kind") == kind and line.get(key) is not None]
        plots.append(
            _curve(title, [line["step"] for line in lines], [line[key] for line in lines], key.endswith("_share"))
        )
    return [curve for curve in plots if curve["x"]]


def _averaged(title: str, episodes: Iterable[Mapping[str, Any]], key: str, share: bool = False) -> dict[str, Any]:
    lines = [line for line in episodes if line.get(key) is not None]
    sums = [0.0]
    for line in lines:
        sums.append(sums[-1] + float(line[key]))
    starts = [max(end - EPISODES, 0) for end in range(1, len(sums))]
    means = [(sums[end] - sums[start]) / (end - start) for end, start in enumerate(starts, start=1)]
    return _curve(title, [line["step"] for line in lines], means, share)


def _curve(title: str, x: Sequence[float], y: Sequence[float], share: bool = False) -> dict[str, Any]:
    """Return a curve of at most ``POINTS`` points, including the newest."""
    stride = -(-len(x) // POINTS) or 1
    first = (len(x) - 1) % stride
    return {"title": title, "x": list(x[first::stride]), "y": [round(value, 6) for value in y[first::stride]]} | (
        {"share": True} if share else {}
    )
