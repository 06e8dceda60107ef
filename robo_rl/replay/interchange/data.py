"""A data set on its way from or to another format: facts, and episodes one after another."""

import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import field as default_field
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, ConfigError, DataError, EnvSpec, Source, SpecError, require

from ..encoding import SUCCESS_UNKNOWN, decode_success
from ..layout import EpisodeArrays, EpisodeRecord, step_fields

Array = NDArray[Any]

IMAGES = "images/"
_KIND = "robo_rl interchange"
_VERSION = 1


@dataclass(frozen=True)
class DataSet:
    """What every format is made from and read as.

    Attributes:
        spec: what was recorded.
        metadata: how it was made, as JSON values.
        instructions: what the robot was told to do, one an episode.
        episodes: begins to read the episodes from the first one. Of another project's, those that are too short for
            a step have none (``record.steps`` is 0): whoever stores them leaves those out.
    """

    spec: EnvSpec
    metadata: Mapping[str, Any]
    instructions: Sequence[str]
    episodes: Callable[[], Iterator[EpisodeArrays]]


@dataclass(frozen=True)
class ForeignConfig:
    """What data that robo-rl did not write leaves open.

    Attributes:
        task: name of the task.
        control_rate: steps a second [Hz]; null: as the data says.
        action_space: what an action means, as in the task that is to use the data: ``end_effector_delta``, ...
        action_frame: frame of the actions: ``base``, ``end_effector`` or ``joint``.
        action_low: value that becomes -1, one for all or one an element; null: actions are in [-1, 1] already.
        action_high: value that becomes 1.
        reward_term: name that the data's reward gets among the reward terms.
        source: who acted: ``policy``, ``human``, ``script`` or ``random``.
        extra: what else data and task must agree on, as in the ``extra`` of the task's spec.
    """

    task: str = "imported"
    control_rate: float | None = None
    action_space: str = "unknown"
    action_frame: str = "base"
    action_low: list[float] | None = None
    action_high: list[float] | None = None
    reward_term: str = "reward"
    source: str = "human"
    extra: dict[str, Any] = default_field(default_factory=dict)

    def __post_init__(self) -> None:
        rate = self.control_rate
        require(rate is None or rate > 0, "foreign.control_rate", "null or above 0", rate)
        sources = [source.name.lower() for source in Source]
        require(self.source in sources, "foreign.source", f"one of {', '.join(sources)}", self.source)
        low, high = self.action_low, self.action_high
        require((low is None) == (high is None), "foreign.action_high", "given with foreign.action_low", high)
        if low is not None and high is not None:
            fits = len(low) == len(high) and bool(np.all(np.asarray(low) < np.asarray(high)))
            require(fits, "foreign.action_high", f"above foreign.action_low ({low}) in each element", high)


class DataFormat(Protocol):
    """A format of another project."""

    def export(self, data: DataSet, path: Path) -> None:
        """Write ``data`` to ``path``, where nothing is yet.

        Raises:
            DataError: if the format cannot hold it; the message says what.
            OSError: if it cannot be written.
        """
        ...

    def load(self, path: Path, foreign: ForeignConfig) -> DataSet:
        """Return what is at ``path``.

        Args:
            path: file or folder.
            foreign: says what data that robo-rl did not write leaves open; not looked at otherwise.

        Raises:
            DataError: if it is damaged, or not of this format.
        """
        ...


def library(name: str) -> Any:
    """Import a library of the extra ``interchange``.

    Raises:
        ConfigError: if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"this format needs {name.split('.')[0]}: pip install 'robo-rl[interchange]'") from error


def check_names(spec: EnvSpec, name_of: Callable[[str], str]) -> None:
    """Check that no two observations get the same name in a format: one would stand in the other's place.

    Args:
        spec: of the data set.
        name_of: returns the format's name of an observation key.

    Raises:
        DataError: if two do.
    """
    keys: dict[str, str] = {}
    for key in spec.observation:
        if (other := keys.setdefault(name_of(key), key)) != key:
            raise DataError(
                f"the observations {other!r} and {key!r} would both be {name_of(key)!r} in this format; export to "
                "another one, or record with other keys"
            )


# --- data that robo-rl wrote -----------------------------------------------------------------------------------------


def facts_json(data: DataSet) -> str:
    """Return what must be known of a whole data set to read it back."""
    facts = {
        "format": _KIND,
        "format_version": _VERSION,
        "spec": data.spec.to_json(),
        "metadata": dict(data.metadata),
        "instructions": list(data.instructions),
    }
    return json.dumps(facts, allow_nan=False)


def read_facts(text: str | bytes, where: Path) -> tuple[EnvSpec, dict[str, Any], list[str]]:
    """Inverse of :func:`facts_json`: spec, metadata, instructions.

    Raises:
        DataError: if ``text`` is damaged or of another version.
    """
    try:
        facts = json.loads(text)
        if (facts["format"], facts["format_version"]) != (_KIND, _VERSION):
            raise DataError(
                f"{where}: expected {_KIND!r} of version {_VERSION}, found {facts['format']!r} of version "
                f"{facts['format_version']}; it was made by another version of robo-rl"
            )
        return EnvSpec.from_json(facts["spec"]), dict(facts["metadata"]), list(facts["instructions"])
    except (ValueError, KeyError, TypeError, AttributeError, SpecError) as error:
        raise DataError(f"{where} is damaged ({type(error).__name__}: {error}); export the data again") from error


def record_json(record: EpisodeRecord) -> str:
    """Return identity, success, sources and verdicts of an episode. Checksums are of our own files and stay there."""
    return json.dumps({key: value for key, value in asdict(record).items() if key != "crc32"}, allow_nan=False)


def read_record(text: str | bytes, where: Path) -> EpisodeRecord:
    """Inverse of :func:`record_json`.

    Raises:
        DataError: if ``text`` is no record.
    """
    try:
        return EpisodeRecord.from_line(json.dumps({**json.loads(text), "crc32": {}}).encode())
    except (ValueError, TypeError) as error:
        raise DataError(f"{where}: the record of an episode is damaged ({error}); export the data again") from error


def step_columns(episode: EpisodeArrays, spec: EnvSpec) -> dict[str, Array]:
    """Return what an episode of L steps holds once a step, (L, ...) by name; rewards are one array (L, T)."""
    rewards = np.zeros((episode.record.steps, len(spec.reward_terms)), np.float32)
    for column, term in enumerate(spec.reward_terms):
        rewards[:, column] = episode.rewards[term]
    names = [field.name for field in step_fields(spec) if field.name != "rewards"]
    return {"rewards": rewards, **{name: getattr(episode, name) for name in names}}


def make_episode(
    record: EpisodeRecord, spec: EnvSpec, observation: Mapping[str, Array], columns: Mapping[str, Array], where: Path
) -> EpisodeArrays:
    """Inverse of :func:`step_columns`.

    Args:
        record: of the episode.
        spec: of the data set.
        observation: (L + 1, ...) by key.
        columns: (L, ...) by name, of any dtype that holds the values.
        where: for messages.

    Raises:
        DataError: if an array is missing or has another shape.
    """
    steps: dict[str, Array] = {}
    for field in step_fields(spec):
        if field.name not in columns:
            raise DataError(f"{where}: {field.name!r} is missing; export the data again")
        steps[field.name] = _shaped(columns[field.name], field.shape, field.dtype, field.name, where)
    wanted = dict.fromkeys(steps, record.steps) | dict.fromkeys(spec.observation, record.steps + 1)
    for name, count in wanted.items():
        found = len(steps[name]) if name in steps else len(observation.get(name, ()))
        if found != count:
            raise DataError(f"{where}: expected {count} rows of {name!r}, found {found}; the data is damaged")
    rewards = steps.pop("rewards")
    return EpisodeArrays(
        record=record,
        observation={
            key: _shaped(observation[key], array.shape, array.dtype, key, where)
            for key, array in spec.observation.items()
        },
        rewards={term: rewards[:, column] for column, term in enumerate(spec.reward_terms)},
        **cast(dict[str, Any], steps),
    )


def _shaped(rows: Array, shape: tuple[int, ...], dtype: str, name: str, where: Path) -> Array:
    """Return ``rows`` (n, ...) as (n, *shape) of ``dtype``."""
    try:
        return np.ascontiguousarray(rows.reshape(len(rows), *shape), dtype=dtype)
    except ValueError as error:
        raise DataError(f"{where}: expected rows of shape {shape} in {name!r}, found {rows.shape[1:]}") from error


def counted(episodes: Iterator[EpisodeArrays], count: int, where: Path) -> Iterator[EpisodeArrays]:
    """Yield ``episodes``, and see that there are ``count``: of a copy that was cut short, files may be missing.

    Raises:
        DataError: if there are more or fewer.
    """
    found = 0
    for episode in episodes:
        found += 1
        yield episode
    if found != count:
        raise DataError(f"{where}: {count} episodes were exported, found {found}; copy or export the data again")


# --- data that others wrote ------------------------------------------------------------------------------------------


def foreign_spec(
    config: ForeignConfig,
    observation: Mapping[str, ArraySpec],
    action: ArraySpec,
    control_rate: float | None,
    rewarded: bool,
    reports_success: bool = False,
) -> EnvSpec:
    """Return the spec of data that robo-rl did not write.

    Args:
        config: what the data leaves open.
        observation: of the data.
        action: shape and names of the data's actions.
        control_rate: as the data says [Hz]; None: it does not.
        rewarded: whether it has rewards.
        reports_success: whether it says of each step whether the task is solved.

    Raises:
        ConfigError: if the control rate is not known.
    """
    rate = config.control_rate or control_rate
    if rate is None:
        raise ConfigError("the data does not say its control rate: give foreign.control_rate in Hz")
    scaling = {} if config.action_low is None else {"action_low": config.action_low, "action_high": config.action_high}
    return EnvSpec(
        task=config.task,
        observation=dict(observation),
        action=ArraySpec(action.shape, low=-1, high=1, names=action.names),
        action_space=config.action_space,
        action_frame=config.action_frame,
        control_rate=float(rate),
        max_episode_steps=None,
        reward_terms=(config.reward_term,) if rewarded else (),
        reports_success=reports_success,
        extra={**scaling, **config.extra},
    )


def foreign_episode(
    config: ForeignConfig,
    spec: EnvSpec,
    number: int,
    observation: Mapping[str, Array],
    actions: Array,
    where: Path,
    *,
    rewards: Array | None = None,
    terminated: bool = False,
    success: Array | None = None,
    stamp_ns: Array | None = None,
) -> EpisodeArrays:
    """Return an episode that robo-rl did not write; it has no steps where there is no action between two observations.

    Where the final observation was not recorded, it is the last one again if the task ended the episode, as nothing is
    ever computed of it then. If the episode was cut, its value is: so the last action is left out instead, and the
    observation before it is the final one.

    Args:
        config: who acted, and how actions are scaled.
        spec: see :func:`foreign_spec`.
        number: of the episode.
        observation: (L + 1, ...) by key, or (L, ...) where the final observation was not recorded.
        actions: (L, A) as they stand in the data.
        where: for messages.
        rewards: (L,), where the spec has a reward term.
        terminated: whether the task itself ended the episode; it was cut otherwise.
        success: (L,) int8: 1, 0, or -1 where nobody knows; None: nobody knows at all.
        stamp_ns: (L,) times of the observations [ns]; None: one control period apart.

    Raises:
        DataError: if actions are out of range.
    """
    if all(len(rows) == len(actions) for rows in observation.values()):
        if terminated:
            observation = {key: np.concatenate([rows, rows[-1:]]) for key, rows in observation.items()}
        else:
            actions = actions[:-1]
    steps = len(actions)
    scaled = _scaled(config, actions, where)
    source = Source[config.source.upper()]
    successes = np.full(steps, SUCCESS_UNKNOWN) if success is None else success[:steps]
    ends = np.arange(steps) == steps - 1
    record = EpisodeRecord(
        steps=steps,
        actor="imported",
        session=number,
        episode=0,
        sequence=0,
        success=decode_success(int(successes[-1])) if steps else None,
        sources={source.name.lower(): steps},
        crc32={},
    )
    columns: dict[str, Array] = {
        "proposed_action": scaled,
        "executed_action": scaled,
        "rewards": np.zeros((steps, 0)) if rewards is None else rewards[:steps],
        "terminated": ends & terminated,
        "truncated": ends & (not terminated),
        "source": np.full(steps, source),
        "success": successes,
        "policy_version": np.full(steps, -1),
        "stamp_ns": np.arange(steps) * round(1e9 / spec.control_rate) if stamp_ns is None else stamp_ns[:steps],
    }
    return make_episode(record, spec, observation, columns, where)


def _scaled(config: ForeignConfig, actions: Array, where: Path) -> NDArray[np.float32]:
    """Return ``actions`` (L, A) in [-1, 1]."""
    values = np.asarray(actions, np.float64)
    if config.action_low is not None:
        low, high = np.asarray(config.action_low), np.asarray(config.action_high)
        if low.size not in (1, values.shape[1]):
            raise DataError(f"{where}: foreign.action_low has {low.size} elements, an action {values.shape[1]}")
        values = 2 * (values - low) / (high - low) - 1
    # A last bit of rounding is no other action.
    if not (np.abs(values) <= 1 + 1e-6).all():
        raise DataError(
            f"{where}: actions must be in [-1, 1] after scaling, found {values.min(0).tolist()} to "
            f"{values.max(0).tolist()}; give foreign.action_low and foreign.action_high, one value an element"
        )
    return np.clip(values, -1, 1).astype(np.float32)
