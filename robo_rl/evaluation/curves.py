"""The curves of a run for pages, thinned to the resolution of a screen, and the stops of its robots."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..core import CONSTRAINT, plain_text
from .runs import Run, first_policy

POINTS = 240
"""Most points of a curve, unless a page sets another limit."""
MOST_STOPS = 200
REASON_CHARACTERS = 200
MOST_CONSTRAINTS = 20
EPISODES = 20
"""Episodes over which returns and successes are averaged."""

SINGLE = (
    ("episode", "intervention_share", "share of intervened steps, last 10 episodes"),
    ("train", "q_mean", "mean Q"),
    ("train", "critic_loss", "critic loss"),
    ("train", "actor_loss", "actor loss"),
    ("train", "entropy", "entropy"),
    ("episode", "safety/changed_steps", "steps changed by safety filters"),
    ("runtime", "ratio", "learner steps to environment steps"),
    ("runtime", "staleness_seconds", "age of the acting policy [s]"),
    ("runtime", "spooled", "steps in spools"),
)


def curves(run: Run, points: int = POINTS) -> list[dict[str, Any]]:
    """Return the curves of a run over environment steps.

    Args:
        run: a run of any task and agent.
        points: most points of a curve.

    Returns:
        Curves with ``title``, ``x``, ``y``, ``share`` if y is a share from 0 to 1, and ``lines``, names and values, if
        the demonstrations or the policy before the first step have a value to compare with.
    """
    episodes = [line for line in run.metrics if line.get("kind") == "episode"]
    plots = [
        _evaluated(run, "success of evaluations", "success_rate", "demonstrations_success_rate", share=True),
        _evaluated(run, "median time to success [s]", "success_seconds_median", "demonstrations_seconds_median"),
        _evaluated(run, "return of evaluations", "return_mean"),
        _averaged(f"success, mean of {EPISODES} episodes", episodes, "success", share=True),
        _averaged(f"return, mean of {EPISODES} episodes", episodes, "episode_return"),
    ]
    for kind, key, title in SINGLE:
        lines = [line for line in run.metrics if line.get("kind") == kind and line.get(key) is not None]
        plots.append(
            _curve(title, [line["step"] for line in lines], [line[key] for line in lines], key.endswith("_share"))
        )
    return [_thinned(curve, points) for curve in (*plots, *_constrained(run)) if curve["x"]]


def stops(run: Run) -> list[tuple[int, str]]:
    """Return the step and the reason of each stop of a robot, at most the last :data:`MOST_STOPS`."""
    stopped = [line for line in run.metrics if line.get("kind") == "episode" and line.get("stopped")]
    return [(int(line["step"]), plain_text(line["stopped"], REASON_CHARACTERS)) for line in stopped[-MOST_STOPS:]]


def _evaluated(run: Run, title: str, key: str, demonstrated: str = "", share: bool = False) -> dict[str, Any]:
    """Return a curve of evaluations, with lines of the demonstrations' and the first policy's value."""
    demonstrations, first = run.evaluations.curve(demonstrated)[1], run.evaluations.before_first_step(key)
    lines = [("demonstrations", demonstrations[-1])] if demonstrations else []
    if first is not None and (name := first_policy(run)):
        lines.append((name, first))
    return _curve(title, *run.evaluations.curve(key), share) | ({"lines": lines} if lines else {})


def _constrained(run: Run) -> Iterator[dict[str, Any]]:
    """Yield curves of the values of constraints, with their limits, and of the multipliers of their costs."""
    rewards = [line for line in run.metrics if line.get("kind") == "reward"]
    limits: dict[str, float] = {}
    for line in rewards:
        for key, value in line.items():
            if key.startswith(CONSTRAINT) and key.endswith("/limit") and value is not None:
                limits[key.removesuffix("limit")] = float(value)
    for start, limit in list(limits.items())[:MOST_CONSTRAINTS]:
        name = plain_text(start.removeprefix(CONSTRAINT).removesuffix("/"), REASON_CHARACTERS)
        for key, title in (("value", f"constraint {name}, newest episodes"), ("multiplier", f"multiplier of {name}")):
            lines = [line for line in rewards if line.get(start + key) is not None]
            curve = _curve(title, [line["step"] for line in lines], [line[start + key] for line in lines])
            yield curve | ({"lines": [("limit", limit)]} if key == "value" else {})


def _averaged(title: str, episodes: Iterable[Mapping[str, Any]], key: str, share: bool = False) -> dict[str, Any]:
    lines = [line for line in episodes if line.get(key) is not None]
    sums = [0.0]
    for line in lines:
        sums.append(sums[-1] + float(line[key]))
    starts = [max(end - EPISODES, 0) for end in range(1, len(sums))]
    means = [(sums[end] - sums[start]) / (end - start) for end, start in enumerate(starts, start=1)]
    return _curve(title, [line["step"] for line in lines], means, share)


def _curve(title: str, x: Sequence[float], y: Sequence[float], share: bool = False) -> dict[str, Any]:
    return {"title": title, "x": list(x), "y": list(y)} | ({"share": True} if share else {})


def _thinned(curve: Mapping[str, Any], points: int) -> dict[str, Any]:
    """Return a curve of at most ``points`` points, including the newest."""
    stride = -(-len(curve["x"]) // points)
    first = (len(curve["x"]) - 1) % stride
    thin = {"x": curve["x"][first::stride], "y": [_rounded(value) for value in curve["y"][first::stride]]}
    lines = [(name, _rounded(value)) for name, value in curve.get("lines", ())]
    return {**curve, **thin, **({"lines": lines} if lines else {})}


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
