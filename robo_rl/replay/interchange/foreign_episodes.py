"""Conversion of episodes that robo-rl did not write: they are checked, cut at gaps in time or values, and scaled."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as default_field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DataError, EnvSpec, Source

from ..encoding import SUCCESS_UNKNOWN, decode_success
from ..layout import EpisodeArrays, EpisodeRecord
from .data import make_episode
from .foreign import ForeignConfig, as_float32
from .notes import ImportNotes

Array = NDArray[Any]

GAP = 0.4
"""Deviation of an interval from the control period, in periods, above which it is a gap."""
_OTHER_RATE = 0.1
"""Deviation of the typical interval from the control period, in periods, above which the control rate is wrong."""

_LARGEST = float(np.finfo(np.float32).max)
_LATEST = 9e9
"""Latest accepted time [s]; later times in nanoseconds do not fit into 64 bits."""

LAST_LEFT_OUT = "Last actions left out with reward and success, since no observation follows and 'done' is not set"


@dataclass(frozen=True)
class ForeignEpisode:
    """Episode in the form in which it was read from the data of another project.

    Attributes:
        number: number of the episode in the data set, from 0.
        where: file, and name within it, for error messages.
        observation: arrays (L + 1, ...) by key, or (L, ...) if the final observation was not recorded. A missing value
            is NaN.
        actions: (L, A), not scaled.
        rewards: (L,), if the spec has a reward term.
        done: (L,) booleans, or 0 and 1: whether the task itself ended the episode; otherwise it was truncated. None:
            it was always truncated.
        success: (L,) booleans, or 0 and 1; -1 or NaN if unknown. None: unknown for all steps.
        stamp_ns: (L,) or (L + 1,) int64 times of the observations [ns]; None: not recorded.
        names: names of the observations in the data, by key, for error messages; the default is the key.
        missing: numbers of the rows that were not recorded, by key of the observation; their content is ignored.
        apart: steps after which the data itself has another observation than that of the next step.
    """

    number: int
    where: object
    observation: Mapping[str, Array]
    actions: Array
    rewards: Array | None = None
    done: Array | None = None
    success: Array | None = None
    stamp_ns: Array | None = None
    names: Mapping[str, str] = default_field(default_factory=dict)
    missing: Mapping[str, Sequence[int]] = default_field(default_factory=dict)
    apart: Sequence[int] = ()


def foreign_episodes(
    config: ForeignConfig, spec: EnvSpec, episode: ForeignEpisode, notes: ImportNotes
) -> Iterator[EpisodeArrays]:
    """Convert an episode; yield one episode, or several if it has gaps.

    A step is an action between two observations that are one control period apart. An episode ends where recorded
    time jumps, after a step that is done, and with ``faults=cut`` at a value that is missing or not finite. If there is
    no step at all, one episode without steps is yielded.

    If the final observation was not recorded and the task ended the episode, the last observation is repeated, because
    nothing is ever computed from a terminal observation. If the episode was truncated, the value of the final
    observation is needed. In this case the last action is left out, and the observation before it is the final one.

    Args:
        config: source of the actions, scaling of actions, and treatment of faults.
        spec: spec of the data, see :func:`foreign_spec`.
        episode: the episode that was read.
        notes: receives notes on omissions and changes.

    Raises:
        DataError: if a value is missing or not finite (``faults=refuse``), an action is out of range, a flag is neither
            0 nor 1, arrays differ in length, or the frames were recorded at another rate.
    """
    count = len(episode.actions)
    if episode.actions.shape[1:] != spec.action.shape:
        shape = episode.actions.shape[1:]
        raise DataError(f"{_place(episode)}: expected actions of shape {spec.action.shape}, found {shape}")
    for key, rows in episode.observation.items():
        if len(rows) not in (count, count + 1):
            name = episode.names.get(key, key)
            raise DataError(f"{_place(episode)}: {name!r} has {len(rows)} rows, but there are {count} actions")
    lacks_final = all(len(rows) == count for rows in episode.observation.values())
    observation = {
        key: np.concatenate([rows, rows[-1:]]) if lacks_final else _check_final(episode, key, rows)
        for key, rows in episode.observation.items()
    }
    valid = _find_valid(config, episode, observation, notes)
    if valid is None:
        return
    if episode.rewards is not None:
        episode = replace(episode, rewards=as_float32(episode.rewards, "reward", notes))
    done, success = _done_flags(episode, valid, notes), _success(episode, notes)
    if lacks_final and not done[-1:].any():
        valid[-1:] = False  # no observation follows the last action
        _note_last(episode, notes)
    cuts = _find_gaps(spec, episode, notes, count)
    actions = _scale_actions(config, episode, valid, notes)
    for number, (begin, end) in enumerate(_segments(valid, cuts, done)):
        columns = {
            "actions": actions[begin:end],
            "rewards": None if episode.rewards is None else episode.rewards[begin:end],
            "success": success[begin:end],
            "stamp_ns": None if episode.stamp_ns is None else episode.stamp_ns[begin:end],
        }
        observed = {key: rows[begin : end + 1] for key, rows in observation.items()}
        yield _episode(config, spec, episode, number, observed, columns, bool(done[begin:end][-1:].any()))


def _note_last(episode: ForeignEpisode, notes: ImportNotes) -> None:
    """Add a note if a success or a reward is left out with the last action of a truncated episode."""
    losses = [
        name
        for name, rows in (("success", episode.success), ("a reward", episode.rewards))
        if rows is not None and len(rows) and np.isfinite(rows[-1]) and rows[-1] > 0
    ]
    if losses:
        notes.add(LAST_LEFT_OUT, f"episode {episode.number}: {' and '.join(losses)}")


def _episode(
    config: ForeignConfig,
    spec: EnvSpec,
    episode: ForeignEpisode,
    segment: int,
    observation: Mapping[str, Array],
    columns: Mapping[str, Array | None],
    terminated: bool,
) -> EpisodeArrays:
    """Return one segment as an episode; ``columns`` have a row for each step."""
    actions, rewards, success, stamp_ns = (columns[name] for name in ("actions", "rewards", "success", "stamp_ns"))
    assert actions is not None and success is not None
    steps = len(actions)
    source = Source[config.source.upper()]
    ends = np.arange(steps) == steps - 1
    record = EpisodeRecord(
        steps=steps,
        actor="imported",
        session=episode.number,
        episode=segment,
        sequence=0,
        success=decode_success(int(success[-1])) if steps else None,
        sources={source.name.lower(): steps},
        crc32={},
    )
    step_columns: dict[str, Array] = {
        "proposed_action": actions,
        "executed_action": actions,
        "rewards": np.zeros((steps, 0)) if rewards is None else rewards[:, None],
        "terminated": ends & terminated,
        "truncated": ends & (not terminated),
        "source": np.full(steps, source),
        "success": success,
        "policy_version": np.full(steps, -1),
        "stamp_ns": np.arange(steps) * round(1e9 / spec.control_rate) if stamp_ns is None else stamp_ns,
    }
    return make_episode(record, spec, observation, step_columns, episode.where)


def as_stamps(rows: Array, control_rate: float, where: str) -> NDArray[np.int64]:
    """Return times of steps in seconds (n,) as times in nanoseconds.

    Args:
        rows: times [s].
        control_rate: control rate [Hz].
        where: file and name in it, for error messages.

    Raises:
        DataError: if they are not one finite number per step, not in seconds, or too coarse for the control rate.
    """
    if rows.ndim != 1 or rows.dtype.kind not in "iuf" or not np.isfinite(rows).all():
        raise DataError(f"{where} must be one finite number per step, the time in seconds")
    check_times(rows, control_rate, where)
    stamps: NDArray[np.int64] = np.rint(np.asarray(rows, np.float64) * 1e9).astype(np.int64)
    return stamps


def check_times(seconds: Array, control_rate: float, where: str) -> None:
    """Check times (n,) in seconds.

    Raises:
        DataError: if a time cannot be represented in nanoseconds, or rounding alone would look like gaps.
    """
    if (wrong := ~(np.abs(seconds.astype(np.float64)) < _LATEST)).any():
        frame = int(wrong.argmax())
        raise DataError(f"{where}: expected times in seconds, frame {frame} has {seconds[frame]:g}")
    latest = np.abs(seconds).max(initial=0)
    resolution = float(np.spacing(latest)) if seconds.dtype.kind == "f" else 0.0
    if resolution * control_rate > GAP:
        raise DataError(
            f"{where} reaches {latest:.10g} s, where {seconds.dtype} has steps of {resolution:.3g} s, too coarse for a "
            f"control rate of {control_rate:g} Hz; store the time since the beginning of the episode"
        )


def _place(episode: ForeignEpisode) -> str:
    return f"{episode.where}: episode {episode.number}"


def _check_final(episode: ForeignEpisode, key: str, rows: Array) -> Array:
    """Return ``rows`` after checking that an observation has a final row, since another observation has one."""
    if len(rows) != len(episode.actions) + 1:
        name = episode.names.get(key, key)
        raise DataError(f"{_place(episode)}: {name!r} has no final observation, but others have one")
    return rows


# --- values ----------------------------------------------------------------------------------------------------------


def _find_valid(
    config: ForeignConfig, episode: ForeignEpisode, observation: Mapping[str, Array], notes: ImportNotes
) -> NDArray[np.bool_] | None:
    """Return which steps (L,) have only finite values; None: the episode is dropped."""
    count = len(episode.actions)
    steps = {"action": episode.actions, "reward": episode.rewards, "done": episode.done}
    named = {episode.names.get(key, key): rows for key, rows in observation.items() if rows.dtype.kind == "f"}
    faults: list[tuple[int, str, NDArray[np.bool_]]] = []
    for name, rows in {**named, **steps}.items():
        if rows is None:
            continue
        is_valid = np.isfinite(rows)
        if rows.dtype.kind == "f" and rows.dtype.itemsize > 4:
            is_valid &= np.abs(rows) <= _LARGEST
        wrong = np.asarray(~is_valid.all(tuple(range(1, rows.ndim))))
        if wrong.any():
            frame = int(wrong.argmax())
            element = int((~is_valid[frame].reshape(-1)).argmax())
            value = rows[frame].reshape(-1)[element]
            large = "" if np.isnan(value) else " (or too large)" if np.isinf(value) else " (too large for float32)"
            faults.append((frame, f"{name!r} of frame {frame} has {value:g} in element {element}{large}", wrong))
    for key, frames in episode.missing.items():
        if len(frames):
            wrong = np.isin(np.arange(len(observation[key])), frames)
            faults.append((min(frames), f"{episode.names.get(key, key)!r} of frame {min(frames)} is missing", wrong))
    valid = np.ones(count, np.bool_)
    for *_, wrong in faults:
        valid[(wrong[:-1] | wrong[1:] if len(wrong) == count + 1 else wrong)[:count]] = False
    if not faults:
        return valid
    _, first, _ = min(faults, key=lambda fault: fault[0])
    row_count = sum(int(wrong.sum()) for *_, wrong in faults)
    if config.faults == "refuse":
        raise DataError(
            f"{_place(episode)}: {first}; {row_count} of its rows are missing or not finite. foreign.faults=cut ends "
            "episodes there, foreign.faults=drop leaves such episodes out"
        )
    if config.faults == "drop":
        notes.add("Episodes with values that are missing or not finite, left out", f"{episode.number}: {first}")
        return None
    notes.add("Episodes cut where values are missing or not finite", f"{episode.number}: {first}")
    return valid


def _done_flags(episode: ForeignEpisode, valid: NDArray[np.bool_], notes: ImportNotes) -> NDArray[np.bool_]:
    """Return whether the task itself ended the episode after each step (L,)."""
    if episode.done is None:
        return np.zeros(len(valid), np.bool_)
    done = np.where(valid, episode.done, 0)
    _check_flags(episode, "done", done, (0, 1))
    if early := int((done[:-1] == 1).sum()):
        place = f"{episode.number}: {early} steps, first {int(done.argmax())} of {len(done)}"
        notes.add("Episodes that are done before their last step, and are split there", place)
    return np.asarray(done == 1)


def _success(episode: ForeignEpisode, notes: ImportNotes) -> NDArray[np.int8]:
    """Return the success of each step (L,): 1, 0, or -1 if unknown."""
    if episode.success is None:
        return np.full(len(episode.actions), SUCCESS_UNKNOWN, np.int8)
    if missing := int(np.isnan(episode.success).sum()):
        notes.add("Episodes with steps whose success is missing, stored as unknown", f"{episode.number}: {missing}")
    flags = np.nan_to_num(episode.success, nan=SUCCESS_UNKNOWN, posinf=np.inf, neginf=-np.inf)
    _check_flags(episode, "success", flags, (0, 1, SUCCESS_UNKNOWN))
    return np.asarray(flags, np.int8)


def _check_flags(episode: ForeignEpisode, name: str, values: Array, allowed: tuple[int, ...]) -> None:
    wrong = ~np.isin(values, allowed)
    if wrong.any():
        frame, numbers = int(wrong.argmax()), ", ".join(map(str, allowed))
        raise DataError(
            f"{_place(episode)}: {name!r} of frame {frame} is {values[frame]}, expected one of {numbers}, or a "
            f"boolean; {int(wrong.sum())} of its {len(values)} frames have other values. Correct the data, or rename "
            "it if it is not a flag"
        )


def _scale_actions(
    config: ForeignConfig, episode: ForeignEpisode, valid: NDArray[np.bool_], notes: ImportNotes
) -> NDArray[np.float32]:
    """Return the actions (L, A) in [-1, 1]; only those of ``valid`` steps are checked."""
    values = np.asarray(episode.actions, np.float64)
    if config.action_low is not None:
        low, high = np.asarray(config.action_low), np.asarray(config.action_high)
        if low.size not in (1, values.shape[1]):
            raise DataError(
                f"{_place(episode)}: foreign.action_low has {low.size} elements, but an action has {values.shape[1]}"
            )
        with np.errstate(over="ignore", invalid="ignore"):  # infinite and invalid values are out of range
            values = 2 * (values - low) / (high - low) - 1
    values = np.where(valid[:, None], values, 0)
    outside = np.abs(values) > 1 + 1e-6  # the tolerance is for rounding
    if outside.any():
        frame, element = map(int, np.argwhere(outside)[0])
        example = f"'action' of frame {frame} is {episode.actions[frame, element]:g} in element {element}"
        rows = int(outside.any(1).sum())
        if not config.clip:
            raise DataError(
                f"{_place(episode)}: {example}; actions must be in [-1, 1] after scaling, but {rows} of {len(values)} "
                f"are not; the values are {values.min(0).round(3).tolist()} to {values.max(0).round(3).tolist()}. "
                "foreign.action_low and foreign.action_high scale actions, foreign.clip=true clips them"
            )
        notes.add("Episodes with actions beyond the limits, clipped", f"{episode.number}: {rows} actions")
    return np.clip(values, -1, 1).astype(np.float32)


# --- time ------------------------------------------------------------------------------------------------------------


def _find_gaps(spec: EnvSpec, episode: ForeignEpisode, notes: ImportNotes, count: int) -> set[int]:
    """Return the steps whose two observations are not one control period apart, or do not follow each other."""
    for step in episode.apart:
        notes.add("Steps that the next one does not follow, which ends an episode", f"episode {episode.number}: {step}")
    return {*episode.apart, *_time_gaps(spec, episode, notes, count)}


def _time_gaps(spec: EnvSpec, episode: ForeignEpisode, notes: ImportNotes, count: int) -> set[int]:
    """Return the steps whose two observations are not one control period apart."""
    if episode.stamp_ns is None or len(episode.stamp_ns) < 2:
        return set()
    intervals = np.diff(episode.stamp_ns) / 1e9 * spec.control_rate
    # Jitter shifts the median of a short episode, and a gap shifts the mean of all intervals. The mean of the intervals
    # near the period is shifted only by another rate, also if they alternate between two lengths. If few are near it,
    # those near the median are typical.
    median = float(np.median(intervals))
    regular = np.abs(intervals - 1) <= GAP
    if regular.mean() <= 0.5:
        regular = np.abs(intervals - median) <= abs(median) / 2
    typical = float(np.mean(intervals[regular]))
    if len(intervals) > 2 and abs(median - 1) > _OTHER_RATE and abs(typical - 1) > _OTHER_RATE:
        rate = f"{spec.control_rate / typical:.4g} Hz" if typical > 0 else "no rate, since they do not advance"
        raise DataError(
            f"{_place(episode)}: the control rate is {spec.control_rate:g} Hz, but the recorded times give {rate}: "
            f"frames are {typical / spec.control_rate:.4g} s apart. If the times are right, set foreign.control_rate"
        )
    gaps = np.flatnonzero(np.abs(intervals - 1) > GAP)
    for step in gaps[:count]:
        seconds = intervals[step] / spec.control_rate
        place = f"episode {episode.number} frame {step}: {seconds:.4g} s"
        notes.add("Jumps in recorded time, each of which ends an episode", place)
    return set(gaps.tolist())


def _segments(valid: NDArray[np.bool_], cuts: set[int], done: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return begin and end of the runs of valid steps of which only the last may be done; (0, 0) if there are none."""
    is_usable = valid.copy()
    # A step that is done is valid even if the observation after it is invalid, since that may belong to the next
    # episode.
    is_usable[[step for step in cuts if step < len(is_usable) and not done[step]]] = False
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_usable, [False]]).astype(np.int8)))
    runs = list(pairwise(edges.tolist()))[::2] or [(0, 0)]
    ends = (np.flatnonzero(done) + 1).tolist()
    return [
        piece for begin, end in runs for piece in pairwise([begin, *(stop for stop in ends if begin < stop < end), end])
    ]
