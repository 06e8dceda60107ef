"""Quality of recorded episodes: measurements, and flags that describe faults of an episode."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import ArraySpec, EnvSpec, counted
from ..replay import EpisodeArrays

Array = NDArray[np.float64]

FLAGS = {
    "failure": "the episode did not succeed",
    "length": "it is much longer or shorter than the others",
    "gap": "time between two steps is missing",
    "clock": "time stands still or runs backwards",
    "saturation": "actions are at their bounds far more often than in other episodes",
    "pause": "the operator stood still in the middle",
    "idle": "nothing happens at the start or at the end",
    "jerk": "actions are much less smooth than those of the others",
    "frozen_state": "observations repeat although the robot is commanded to move",
    "repeated_pictures": "pictures repeat although the state changes",
    "exposure": "the brightness of the pictures jumps",
}
"""Flags of an episode, and their meanings."""

GAP_PERIODS = 1.5
"""Longest time between two steps that does not count as a gap [control periods]."""
STILL_SECONDS = 1.0
"""Longest time without motion that does not count as a pause [s]."""
OUTLIER = 3.5
"""Distance from the median above which a value is an outlier [robust standard deviations] (Iglewicz, Hoaglin 1993)."""
LENGTH_FACTOR = 1.5
JERK_FACTOR = 3.0
"""Smallest factor between an outlier and the median, because the spread of a data set may be very small."""
SATURATION_DIFFERENCE = 0.3
REPEATED_SHARE = 0.1
"""Largest share of repeated rows that is not flagged."""
BRIGHTNESS_JUMP = 0.15
"""Largest change of the mean brightness between two pictures that is not flagged [share of the range]."""
FEWEST_EPISODES = 5
"""Smallest number of episodes among which one can be an outlier."""
LONGEST_DELAY_SECONDS = 1.0
DELAY_STEPS = 20_000
"""Number of steps that suffices to estimate the delay."""
LEAST_CORRELATION = 0.3
"""Correlation between actions and motion below which no delay is stated."""


@dataclass(frozen=True)
class EpisodeQuality:
    """Measurements of one episode.

    Attributes:
        number: number of the episode in the data set.
        steps: number of actions.
        success: whether it succeeded; None if that is unknown.
        idle_start: steps before the first motion.
        idle_end: steps after the last motion.
        pause_seconds: longest time without motion between the first and the last motion [s].
        pause_step: first step of that pause.
        gap_seconds: longest time between two steps [s].
        clock_errors: number of steps after which time does not advance.
        saturation: share of actions at a bound, mean over their elements.
        jerk: mean second difference of actions [share of their range].
        frozen_state: share of the moving steps after which no number of the observation has changed.
        repeated_pictures: the same for the pictures of the camera that repeats most, among steps that change the state.
        brightness_jump: largest change of the mean brightness between two pictures [share of the range].
        flags: text by name, for those of :data:`FLAGS` that apply.
    """

    number: int
    steps: int
    success: bool | None
    idle_start: int
    idle_end: int
    pause_seconds: float
    pause_step: int
    gap_seconds: float
    clock_errors: int
    saturation: float
    jerk: float
    frozen_state: float
    repeated_pictures: float
    brightness_jump: float
    flags: Mapping[str, str]


def moving(actions: Array, spec: EnvSpec) -> NDArray[np.bool_]:
    """Return which of the actions (L, A) command motion, as (L,) bool.

    Actions command motion unless they are zero: deltas, velocities, throttle. In spaces of positions, and for grippers,
    they command motion when they change.
    """
    changed = np.diff(actions, axis=0, prepend=actions[:1]) != 0
    if spec.commands_positions:
        return np.asarray(changed.any(1))
    relative = np.array(["gripper" not in name for name in spec.action.names or ("",) * actions.shape[1]])
    return np.asarray(np.where(relative, actions != 0, changed).any(1))


def measure(episodes: Iterable[EpisodeArrays], spec: EnvSpec) -> list[EpisodeQuality]:
    """Measure and flag the episodes of a data set; numbers count from 0."""
    measured = [_measure_episode(number, episode, spec) for number, episode in enumerate(episodes)]
    return _flagged(measured, spec)


def _measure_episode(number: int, episode: EpisodeArrays, spec: EnvSpec) -> EpisodeQuality:
    actions = episode.proposed_action.astype(np.float64)
    motion = moving(actions, spec)
    moved = np.flatnonzero(motion)
    first, last = (int(moved[0]), int(moved[-1])) if moved.size else (len(actions), len(actions) - 1)
    pauses = np.diff(moved) - 1 if moved.size > 1 else np.zeros(1, np.int64)
    longest = int(pauses.argmax())
    seconds = np.diff(episode.stamp_ns) / 1e9
    low, high = np.broadcast_to(spec.action.low, actions.shape), np.broadcast_to(spec.action.high, actions.shape)
    extent = np.where(np.isfinite(high - low), high - low, np.maximum(np.ptp(actions, axis=0), 1e-9))
    at_bound = (actions <= low + 0.005 * extent) | (actions >= high - 0.005 * extent)
    steady = [index for index, name in enumerate(spec.action.names or ()) if "gripper" in name]
    smooth = np.delete(actions / extent, steady, axis=1)
    changed = _state_changes(episode, spec)
    pictures = [rows for key, rows in episode.observation.items() if is_picture(spec.observation[key])]
    return EpisodeQuality(
        number=number,
        steps=len(actions),
        success=episode.record.success,
        idle_start=min(first, len(actions)),
        idle_end=len(actions) - 1 - last if moved.size else 0,
        pause_seconds=float(pauses[longest]) / spec.control_rate,
        pause_step=int(moved[longest]) + 1 if moved.size else 0,
        gap_seconds=float(seconds.max()) if seconds.size else 0.0,
        clock_errors=int((seconds <= 0).sum()),
        saturation=float(np.delete(at_bound, steady, axis=1).mean()) if smooth.size else 0.0,
        jerk=float(np.abs(np.diff(smooth, 2, axis=0)).mean()) if len(smooth) > 2 and smooth.size else 0.0,
        frozen_state=_share(~changed, motion) if changed is not None else 0.0,
        repeated_pictures=max((_repeated(rows, changed) for rows in pictures), default=0.0),
        brightness_jump=max((_brightness_jump(rows) for rows in pictures), default=0.0),
        flags={},
    )


def _share(found: NDArray[np.bool_], among: NDArray[np.bool_]) -> float:
    return float(found[among].mean()) if among.any() else 0.0


def _state_changes(episode: EpisodeArrays, spec: EnvSpec) -> NDArray[np.bool_] | None:
    """Return after which of the L steps any number of the observation differs; None without such observations."""
    rows = _numbers(episode, spec)
    if not rows:
        return None
    return np.asarray(np.any([np.any(row[1:] != row[:-1], axis=1) for row in rows], axis=0))


def is_picture(array: ArraySpec) -> bool:
    """Return whether an observation is a picture, as opposed to numbers."""
    return array.dtype == "uint8" and len(array.shape) == 3


def _numbers(episode: EpisodeArrays, spec: EnvSpec) -> list[NDArray[Any]]:
    """Return the observations (L + 1, N) other than pictures."""
    kept = [rows for key, rows in episode.observation.items() if not is_picture(spec.observation[key])]
    return [rows.reshape(len(rows), -1) for rows in kept]


def _repeated(pictures: NDArray[Any], changed: NDArray[np.bool_] | None) -> float:
    same = np.array([np.array_equal(one, other) for one, other in pairwise(pictures)])
    return _share(same, np.ones_like(same) if changed is None else changed)


def _brightness_jump(pictures: NDArray[Any]) -> float:
    brightness = np.array([picture.mean() for picture in pictures]) / 255
    return float(np.abs(np.diff(brightness)).max()) if len(brightness) > 1 else 0.0


def _outliers(values: Sequence[float], factor: float) -> list[int]:
    """Return -1 for values that are unusually small, 1 for those unusually large, otherwise 0."""
    array = np.array(values)
    if len(array) < FEWEST_EPISODES:
        return [0] * len(array)
    middle = np.median(array)
    deviation = max(1.4826 * float(np.median(np.abs(array - middle))), 1e-9)
    far = np.abs(array - middle) > OUTLIER * deviation
    signs = np.where(array > factor * middle, 1, np.where(array < middle / factor, -1, 0))
    return [int(sign) for sign in signs * far]


def _flagged(measured: Sequence[EpisodeQuality], spec: EnvSpec) -> list[EpisodeQuality]:
    """Return the measurements with their flags, some of which compare an episode with the others."""
    if not measured:
        return []
    lengths = _outliers([each.steps for each in measured], LENGTH_FACTOR)
    jerks = _outliers([each.jerk for each in measured], JERK_FACTOR)
    usual_steps = float(np.median([each.steps for each in measured]))
    usual_saturation = float(np.median([each.saturation for each in measured]))
    flagged = []
    for each, length, jerk in zip(measured, lengths, jerks, strict=True):
        flags = _own_flags(each, spec)
        if length:
            comparison = "more" if length > 0 else "less"
            flags["length"] = f"{counted(each.steps, 'step')}, {comparison} than usual ({usual_steps:g})"
        if jerk > 0:
            flags["jerk"] = f"second difference of actions {100 * each.jerk:.1f} % of their range"
        if each.saturation > usual_saturation + SATURATION_DIFFERENCE and len(measured) >= FEWEST_EPISODES:
            usual = _percent(usual_saturation)
            flags["saturation"] = f"{_percent(each.saturation)} of actions at a bound, usually {usual}"
        flagged.append(replace(each, flags={name: flags[name] for name in FLAGS if name in flags}))
    return flagged


def _own_flags(each: EpisodeQuality, spec: EnvSpec) -> dict[str, str]:
    """Return the flags that do not depend on other episodes."""
    still = round(STILL_SECONDS * spec.control_rate)
    flags = {}
    if each.success is False:
        flags["failure"] = "not successful"
    if each.gap_seconds > GAP_PERIODS / spec.control_rate:
        flags["gap"] = f"{each.gap_seconds:.3g} s between two steps, {1 / spec.control_rate:.3g} s expected"
    if each.clock_errors:
        flags["clock"] = f"time does not advance after {counted(each.clock_errors, 'step')}"
    if each.pause_seconds > STILL_SECONDS:
        flags["pause"] = f"{each.pause_seconds:.1f} s without motion from step {each.pause_step}"
    if max(each.idle_start, each.idle_end) > still:
        flags["idle"] = f"no motion in the first {each.idle_start} and the last {each.idle_end} steps"
    if each.frozen_state > REPEATED_SHARE:
        flags["frozen_state"] = f"no number changed in {_percent(each.frozen_state)} of the moving steps"
    if each.repeated_pictures > REPEATED_SHARE:
        flags["repeated_pictures"] = f"{_percent(each.repeated_pictures)} of the pictures repeat"
    if each.brightness_jump > BRIGHTNESS_JUMP:
        flags["exposure"] = f"brightness changed by {_percent(each.brightness_jump)} between two pictures"
    return flags


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def motion_delay(episodes: Sequence[EpisodeArrays], spec: EnvSpec) -> float | None:
    """Estimate the time from an action to the motion that it causes [s], in whole control periods.

    The delay is the one at which actions (changes of actions, in spaces of positions) correlate best with changes of
    the observed numbers: for each element of the action the best correlated number counts, and the mean over the
    elements is maximised. The first episodes suffice, with :data:`DELAY_STEPS` steps. None is returned if the data do
    not determine the delay.
    """
    parts, steps = [], 0
    for episode in episodes:
        if steps < DELAY_STEPS:
            parts.append(_actions_and_changes(episode, spec))
            steps += len(episode.stamp_ns)
    best, delay = LEAST_CORRELATION, None
    for lag in range(round(LONGEST_DELAY_SECONDS * spec.control_rate) + 1):
        pairs = [(one[: len(one) - lag], other[lag:]) for one, other in parts if len(one) > lag + 1]
        if not pairs:
            break
        actions, changes = (np.concatenate(each) for each in zip(*pairs, strict=True))
        correlation = _correlation(actions, changes)
        if correlation > best + 1e-6:
            best, delay = correlation, lag / spec.control_rate
    return delay


def _actions_and_changes(episode: EpisodeArrays, spec: EnvSpec) -> tuple[Array, Array]:
    """Return actions (L, A), or their changes in spaces of positions, and changes of the observed numbers (L, N)."""
    numbers = [rows.astype(np.float64) for rows in _numbers(episode, spec)]
    changes = np.diff(np.concatenate(numbers, axis=1), axis=0) if numbers else np.zeros((len(episode.stamp_ns), 0))
    actions = episode.executed_action.astype(np.float64)
    if spec.commands_positions:
        actions = np.diff(actions, axis=0, prepend=actions[:1])
    return actions, changes


def _correlation(actions: Array, changes: Array) -> float:
    """Return the mean over elements of the actions of the largest correlation with any change."""
    actions, changes = (_standardised(array) for array in (actions, changes))
    if not actions.size or not changes.size:
        return 0.0
    return float(np.abs(actions.T @ changes / len(actions)).max(axis=1).mean())


def _standardised(array: Array) -> Array:
    """Return the columns that vary, with mean 0 and standard deviation 1."""
    varying = array.std(axis=0) > 1e-9
    centred = array[:, varying] - array[:, varying].mean(axis=0)
    return np.asarray(centred / array[:, varying].std(axis=0))
