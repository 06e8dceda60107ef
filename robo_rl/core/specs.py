"""Specifications of arrays and environments, and checks against them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import SpecError
from .options import MAX_RATE, MIN_RATE
from .readers import reading, whole_number
from .types import Observation

PYTHON_NAMESPACE = "python/"
"""Beginning of the ids of environments that a function of a Python program makes: only that program knows them."""

_MOST_AXES = 8
_MOST_KEYS = 1000
_ABSENT_FACTS = {"observation_frame": "base"}
"""Values of facts in ``EnvSpec.extra`` that a spec without them has."""


@dataclass(frozen=True)
class ArraySpec:
    """Shape, dtype and range of one array.

    Attributes:
        shape: without any batch axis.
        dtype: NumPy dtype name, for example ``"float32"`` or ``"uint8"``.
        low: smallest allowed value of every element (inclusive).
        high: largest allowed value of every element (inclusive).
        names: names of the elements of a vector, or empty.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = -float("inf")
    high: float = float("inf")
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.names and self.shape != (len(self.names),):
            raise SpecError(f"{len(self.names)} names given for an array of shape {self.shape}; give one per element")

    @property
    def nbytes(self) -> int:
        """Bytes of one array."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def check(self, key: str, value: NDArray[Any]) -> None:
        """Raise :class:`SpecError` unless ``value`` matches; the message names ``key``."""
        if not isinstance(value, np.ndarray) or value.shape != self.shape or value.dtype != np.dtype(self.dtype):
            got = (
                f"{value.dtype} array of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
            )
            raise SpecError(f"{key}: expected a {self.dtype} array of shape {self.shape}, got a {got}")
        if value.dtype == np.uint8:
            return
        # Called several times per step. Counting is faster than ``all`` and ``any`` on arrays of this size.
        finite = np.isfinite(value)
        if np.count_nonzero(finite) != value.size:
            raise SpecError(f"{key}: expected finite values, got {self._offender(~finite, value)}")
        if self.low == -np.inf and self.high == np.inf:
            return
        outside = (value < self.low) | (value > self.high)
        if np.count_nonzero(outside):
            offender = self._offender(outside, value)
            raise SpecError(f"{key}: expected values in [{self.low}, {self.high}], got {offender}")

    def check_rows(self, key: str, rows: NDArray[Any]) -> None:
        """Check all rows of ``rows`` (n, *shape) at once, as :meth:`check` does."""
        if rows.ndim > 0 and rows.shape[1:] == self.shape and rows.dtype == np.dtype(self.dtype):
            if rows.dtype == np.uint8 or not len(rows):
                return
            # Comparisons with NaN are false.
            good = (rows >= self.low) & (rows <= self.high) & np.isfinite(rows)
            if good.all():
                return
            row = int(np.flatnonzero(~good.reshape(len(rows), -1).all(1))[0])
            self.check(f"{key} (row {row})", np.asarray(rows[row]))
        raise SpecError(f"{key}: expected {self.dtype} rows of shape {self.shape}, got {rows.dtype} {rows.shape[1:]}")

    def _offender(self, bad: NDArray[np.bool_], value: NDArray[Any]) -> str:
        index = tuple(int(axis[0]) for axis in np.nonzero(bad))
        name = f" ({self.names[index[0]]})" if self.names else ""
        return f"{value[index]} at index {list(index)}{name}"

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object that :meth:`from_json` reads back."""
        bounds = {"low": self.low, "high": self.high}
        finite = {key: value for key, value in bounds.items() if np.isfinite(value)}
        names = {"names": list(self.names)} if self.names else {}
        return {"shape": list(self.shape), "dtype": self.dtype, **finite, **names}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ArraySpec":
        """Inverse of :meth:`to_json`.

        Raises:
            SpecError: if a value has a wrong type, or there are more than eight axes.
        """
        with reading("an array's specification", SpecError, "expected what ArraySpec.to_json returns"):
            dtype = np.dtype(_text(value["dtype"]))
            if dtype.kind not in "biuf" or dtype.name != value["dtype"]:
                raise ValueError(f"expected numbers, got {value['dtype']!r}")
            shape = tuple(whole_number(size) for size in _listed(value["shape"]))
            if len(shape) > _MOST_AXES:
                raise ValueError(f"expected {_MOST_AXES} axes at most, got {len(shape)}")
            return cls(
                shape=shape,
                dtype=dtype.name,
                low=_number(value.get("low", -float("inf"))),
                high=_number(value.get("high", float("inf"))),
                names=tuple(map(_text, _listed(value.get("names", [])))),
            )


@dataclass(frozen=True)
class EnvSpec:
    """The properties that an agent, a data set and a robot must agree on.

    Attributes:
        task: name of the task, for messages and files.
        observation: one spec per observation key. ``state`` is proprioception, ``object`` the state of the
            objects (if it is measured), ``images/<camera>`` are uint8 (height, width, 3), or
            (height, width, 3 * frames) with the newest frame last.
        action: always float32 in [-1, 1]; the backend scales it to physical units.
        action_space: meaning of the action, for example ``end_effector_delta`` or ``joint_position``.
        action_frame: frame in which the action is expressed: ``base``, ``end_effector`` or ``joint``.
        control_rate: policy steps per second [Hz].
        max_episode_steps: time limit (a truncation), or None.
        reward_terms: names of the terms that every Step carries.
        reports_success: whether ``Step.success`` is a truth value rather than None.
        extra: further facts that data must agree on, as JSON values: action scaling in physical units, and so on.
    """

    task: str
    observation: Mapping[str, ArraySpec]
    action: ArraySpec
    action_space: str
    action_frame: str
    control_rate: float
    max_episode_steps: int | None
    reward_terms: tuple[str, ...]
    reports_success: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def commands_positions(self) -> bool:
        """Whether actions are positions, as those of imported data whose meaning is unknown usually are.

        All other actions command motion unless they are zero, except the elements of a gripper, which are positions.
        """
        return self.action_space.endswith(("position", "positions", "pose", "unknown"))

    def check_observation(self, observation: Observation) -> None:
        """Raise :class:`SpecError` unless the keys are exactly those of the spec and each array matches."""
        if observation.keys() != self.observation.keys():
            raise SpecError(f"observation: expected keys {sorted(self.observation)}, got {sorted(observation)}")
        for key, spec in self.observation.items():
            spec.check(f"observation {key!r}", observation[key])

    def differences(self, other: "EnvSpec") -> list[str]:
        """Return one line for each point in which ``other`` differs incompatibly from this spec.

        Names of tasks, reward terms and time limits may differ; observations, actions, frames and rates may not.
        """
        lines = []
        for key in sorted(self.observation.keys() | other.observation.keys()):
            local, remote = self.observation.get(key), other.observation.get(key)
            if local is None or remote is None:
                absent, present = ("expected", remote) if local is None else ("found", local)
                assert present is not None
                lines.append(f"observation {key!r}: shape {present.shape} present, but not {absent}")
            elif (local.shape, local.dtype) != (remote.shape, remote.dtype):
                lines.append(
                    f"observation {key!r}: expected {local.dtype} {local.shape}, found {remote.dtype} {remote.shape}"
                    + _differing_elements(local.names, remote.names)
                )
            elif local.names != remote.names:
                lines.append(f"observation {key!r}: expected elements {local.names}, found {remote.names}")
        if self.action.shape != other.action.shape:
            lines.append(f"action: expected shape {self.action.shape}, found {other.action.shape}")
        for name in ("action_space", "action_frame", "control_rate"):
            if getattr(self, name) != getattr(other, name):
                lines.append(f"{name}: expected {getattr(self, name)}, found {getattr(other, name)}")
        for key in sorted(self.extra.keys() | other.extra.keys()):
            expected, found = (spec.extra.get(key, _ABSENT_FACTS.get(key)) for spec in (self, other))
            if expected != found:
                lines.append(f"{key}: expected {expected}, found {found}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object that :meth:`from_json` reads back."""
        return {
            "task": self.task,
            "observation": {key: spec.to_json() for key, spec in self.observation.items()},
            "action": self.action.to_json(),
            "action_space": self.action_space,
            "action_frame": self.action_frame,
            "control_rate": self.control_rate,
            "max_episode_steps": self.max_episode_steps,
            "reward_terms": list(self.reward_terms),
            "reports_success": self.reports_success,
            "extra": dict(self.extra),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "EnvSpec":
        """Inverse of :meth:`to_json`.

        Raises:
            SpecError: if a value is missing or of a wrong type, or there are more than a thousand observations.
        """
        with reading("an environment's specification", SpecError, "expected what EnvSpec.to_json returns"):
            limit, rate = value["max_episode_steps"], _number(value["control_rate"])
            if not MIN_RATE <= rate <= MAX_RATE:
                raise ValueError(f"control_rate must be in [{MIN_RATE:g}, {MAX_RATE:g}], got {rate}")
            if len(value["observation"]) > _MOST_KEYS or not isinstance(value["extra"], Mapping):
                raise ValueError(f"expected {_MOST_KEYS} observations at most, and extra facts by name")
            return cls(
                task=_text(value["task"]),
                observation={key: ArraySpec.from_json(spec) for key, spec in value["observation"].items()},
                action=ArraySpec.from_json(value["action"]),
                action_space=_text(value["action_space"]),
                action_frame=_text(value["action_frame"]),
                control_rate=rate,
                max_episode_steps=None if limit is None else whole_number(limit, 1),
                reward_terms=tuple(map(_text, _listed(value["reward_terms"]))),
                reports_success=_flag(value["reports_success"]),
                extra=value["extra"],
            )


def _differing_elements(expected: Sequence[str], found: Sequence[str], most: int = 8) -> str:
    """Return the names that only one of two arrays has, for a message; empty if either has no names."""
    if not expected or not found:
        return ""
    missing, surplus = (
        [name for name in one if name not in other] for one, other in ((expected, found), (found, expected))
    )
    parts = [
        f"{title} {', '.join(names[:most])}{', ...' if len(names) > most else ''}"
        for title, names in (("without", missing), ("with", surplus))
        if names
    ]
    return f" {' and '.join(parts)}" if parts else ""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, got {value!r}")
    return value


def _listed(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple) or len(value) > _MOST_KEYS:
        raise TypeError(f"expected a list of at most {_MOST_KEYS}, got {str(value)[:40]!r}")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise TypeError(f"expected a number, got {value!r}")
    return value
