"""Descriptions of deployed policies, with everything that a program needs to use one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from robo_rl.core import (
    OBSERVATION_FRAME,
    DataError,
    EnvSpec,
    ObservationSignals,
    SpecError,
    finite_number,
    reading,
    whole_number,
)

from .tracing import NOISE

FORMAT = 1
"""Version of the description's format."""
_SCALES = (("translation_scale", ("x", "y", "z"), "m"), ("rotation_scale", ("roll", "pitch", "yaw"), "rad"))
"""Facts of a spec that scale elements of an action, the names of these elements, and their unit."""


@dataclass(frozen=True)
class PolicyDescription:
    """Description of a deployed policy.

    Attributes:
        spec: spec of the environment that it was trained in.
        agent: name of the agent.
        step: environment steps after which it was saved.
        action_chunk: number of actions that it decides at once.
        observed: observation keys that it uses, sorted.
        noise_size: elements of standard normal noise that it takes for a decision; 0 if it does not sample.
        noise_seed: seed of the noise with which robo-rl eval evaluates it.
        version: version of robo-rl that wrote it.
    """

    spec: EnvSpec
    agent: str
    step: int
    action_chunk: int
    observed: tuple[str, ...]
    noise_size: int
    noise_seed: int
    version: str

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the elements of an action."""
        return self.spec.action.names or tuple(f"action{i}" for i in range(self.spec.action.shape[0]))

    def inputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Return shape and dtype of each input of the file, by name."""
        inputs = {key: (self.spec.observation[key].shape, self.spec.observation[key].dtype) for key in self.observed}
        return inputs | ({NOISE: ((self.noise_size,), "float32")} if self.noise_size else {})

    def output_shape(self) -> tuple[int, int]:
        """Return the shape (h, A) of the output."""
        return self.action_chunk, self.spec.action.shape[0]

    def element_names(self, key: str) -> tuple[str, ...]:
        """Return the names of the elements of an observation."""
        array = self.spec.observation[key]
        count = 1
        for length in array.shape:
            count *= length
        return array.names or tuple(f"{key}{i}" for i in range(count))

    def element_units(self, key: str) -> tuple[str, ...]:
        """Return the units of the elements of an observation; empty if unknown or without a unit."""
        units = ObservationSignals(self.spec).units
        return tuple((units.get(name) if key == "state" else None) or "" for name in self.element_names(key))

    def action_scales(self) -> tuple[list[float], list[float], list[str]]:
        """Return scale, offset and unit of each element of an action: physical value = scale * action + offset.

        Elements whose physical meaning the spec does not state have scale 1, offset 0 and no unit.

        Raises:
            DataError: if a scale or a bound in the spec is not a finite number.
        """
        with reading(f"the scale of actions of task {self.spec.task!r}", advice="use another checkpoint"):
            return self._scales()

    def _scales(self) -> tuple[list[float], list[float], list[str]]:
        names, extra = self.action_names, self.spec.extra
        scales, offsets, units = [1.0] * len(names), [0.0] * len(names), [""] * len(names)
        for place, name in enumerate(names):
            for fact, axes, unit in _SCALES:
                if name in axes and self.spec.action_space == "end_effector_delta" and fact in extra:
                    scales[place], units[place] = finite_number(extra[fact]), unit
            if self.spec.action_space == "joint_delta" and name != "gripper" and "joint_scale" in extra:
                scales[place], units[place] = finite_number(extra["joint_scale"]), "rad"
            if name == "steering" and "max_steering" in extra:
                scales[place], units[place] = finite_number(extra["max_steering"]), "rad"
        low, high = extra.get("action_low"), extra.get("action_high")
        if isinstance(low, list) and isinstance(high, list) and len(low) == len(high) == len(names):
            scales = [(finite_number(b) - finite_number(a)) / 2 for a, b in zip(low, high, strict=True)]
            offsets = [(finite_number(b) + finite_number(a)) / 2 for a, b in zip(low, high, strict=True)]
        return scales, offsets, units

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object that :meth:`from_json` reads back, with derived facts for other programs."""
        scales, offsets, units = self.action_scales()
        return {
            "format": FORMAT,
            "robo_rl": self.version,
            "task": self.spec.task,
            "agent": self.agent,
            "step": self.step,
            "control_rate": self.spec.control_rate,
            "action": {
                "names": list(self.action_names),
                "low": -1.0,
                "high": 1.0,
                "scale": scales,
                "offset": offsets,
                "unit": units,
                "space": self.spec.action_space,
                "frame": self.spec.action_frame,
                "chunk": self.action_chunk,
            },
            "observation": {
                key: {
                    "shape": list(self.spec.observation[key].shape),
                    "dtype": self.spec.observation[key].dtype,
                    "names": list(self.spec.observation[key].names),
                    "unit": list(self.element_units(key)) if self.spec.observation[key].names else [],
                    "frame": self.spec.extra.get(OBSERVATION_FRAME, "base"),
                }
                for key in self.observed
            },
            "noise": {"size": self.noise_size, "seed": self.noise_seed},
            "spec": self.spec.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: object) -> "PolicyDescription":
        """Inverse of :meth:`to_json`.

        Args:
            value: JSON object.
            where: origin of the object, for messages.

        Raises:
            DataError: if a value is missing or of a wrong type, or the format is newer.
        """
        with reading(where, DataError, "write it again with robo-rl deploy"):
            if (version := whole_number(value["format"], 1)) > FORMAT:
                raise DataError(f"{where} has format {version}; this version of robo-rl reads up to format {FORMAT}")
            try:
                spec = EnvSpec.from_json(value["spec"])
            except SpecError as error:
                raise DataError(f"{where}: {error}") from error
            if len(spec.action.shape) != 1:
                raise ValueError(f"expected an action that is a vector, got the shape {spec.action.shape}")
            observed = tuple(sorted(value["observation"]))
            if unknown := [key for key in observed if key not in spec.observation]:
                raise ValueError(f"observations {unknown} are not in the spec")
            description = cls(
                spec=spec,
                agent=str(value["agent"]),
                step=whole_number(value["step"]),
                action_chunk=whole_number(value["action"]["chunk"], 1, 10_000),
                observed=observed,
                noise_size=whole_number(value["noise"]["size"], 0, 1_000_000),
                noise_seed=whole_number(value["noise"]["seed"]),
                version=str(value["robo_rl"]),
            )
            description.action_scales()
            return description
