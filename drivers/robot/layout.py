"""Layout of a task's observation: the assignment of messages to elements."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArmPose, ArmTarget, ArraySpec, ConfigError, EnvSpec, Observation, SpecError, shortest

from .config import IMAGES, RobotConfig
from .decoding import POSE, VELOCITY, NamedNumbers, Opening, Wrench, make_decoder

Array = NDArray[np.float64]

ARM_KINDS = ("joints", "end_effector_pose", "end_effector_velocity", "wrist_wrench", "gripper")
BASE_KINDS = ("odometry", "imu", "orientation", "drive")
"""Kinds of sources that provide elements of ``state``, for an arm and for a mobile base."""


class ArmModel(Protocol):
    """Kinematics of the arm and meaning of its actions; :class:`robo_rl.sim.arm_model.ArmModel` is one.

    Attributes:
        endless: which joints (n,) turn without limits.
    """

    endless: NDArray[np.bool_]

    def begin(self, joints: Array) -> None: ...

    def pose(self, joints: Array) -> ArmPose: ...

    def velocity(self, joints: Array, velocities: Array) -> tuple[Array, Array]: ...

    def target(self, joints: Array, action: NDArray[np.float32]) -> ArmTarget: ...


class SourceLayout:
    """Layout that fills each element of the task's observation from the robot's sources.

    Args:
        config: configuration of the robot and its sources.
        spec: the task's spec.
        joints: names of the task's joints.
        kinds: kinds of sources that provide elements of ``state``.
        computed: elements of ``state``, by kind, that are computed if no source provides them.

    Attributes:
        spec: the task's spec.
        used: the sources that the task observes, by name.
        by_kind: names of the used sources, by what they provide.
        wrench: decoder of force and torque at the wrist; None if no source provides them.
        wanted: names that a source picks from messages with names (JointState). A topic may carry different names in
            different messages.

    Raises:
        ConfigError: if nothing provides an element or image.
    """

    def __init__(
        self,
        config: RobotConfig,
        spec: EnvSpec,
        joints: tuple[str, ...],
        kinds: Sequence[str],
        computed: Mapping[str, tuple[str, ...]],
    ) -> None:
        # Only cameras, objects and scans may be unused. Sources of other kinds must match the task.
        self.used = {
            name: source
            for name, source in config.sources.items()
            if not (source.gives in ("object", "scan") or source.gives.startswith(IMAGES))
            or source.gives in spec.observation
        }
        self._decoders = {
            name: make_decoder(source, spec.observation, joints, spec.reward_terms)
            for name, source in self.used.items()
        }
        named = {
            name: decoder for name, decoder in self._decoders.items() if isinstance(decoder, NamedNumbers | Opening)
        }
        self.wanted = {name: frozenset(decoder.wanted) for name, decoder in named.items()}
        self.by_kind = {source.gives: name for name, source in self.used.items()}
        self.wrench = next((decoder for decoder in self._decoders.values() if isinstance(decoder, Wrench)), None)
        if self.wrench is not None and config.tare.seconds:
            self.wrench.bias = None
        self.spec = spec
        elements = spec.observation["state"].names
        self._parts = [
            (name, _places(self._decoders[name].names, elements)) for kind in kinds if (name := self.by_kind.get(kind))
        ]
        provided = {element for name, _ in self._parts for element in self._decoders[name].names}
        missing_kinds = {kind: names for kind, names in computed.items() if kind not in self.by_kind}
        self._computed = {kind: _places(names, elements) for kind, names in missing_kinds.items()}
        provided |= {element for names in missing_kinds.values() for element in names}
        for beginning in config.unmeasured:
            matching = {element for element in elements if element.startswith(beginning)}
            if matching and matching <= provided:
                raise ConfigError(
                    f"robot.unmeasured: {beginning!r} has no effect: {', '.join(sorted(matching))} of {config.name} "
                    f"{'is' if len(matching) == 1 else 'are'} measured or computed. Leave it out, or the source"
                )
        self._unmeasured = {element for element in elements if element.startswith(tuple(config.unmeasured))}
        provided |= self._unmeasured
        for key, spec_of_key in spec.observation.items():
            _require_given(config.name, key, spec_of_key, provided, self.by_kind)

    @property
    def reports_success(self) -> bool:
        """Whether a source reports the task's success."""
        return "success" in self._measured_terms

    @property
    def unmeasured(self) -> frozenset[str]:
        """Names of the elements of ``state`` and of the reward terms that no source gives: they are always 0."""
        return frozenset(self._unmeasured | (set(self.spec.reward_terms) - set(self._measured_terms)))

    @property
    def _measured_terms(self) -> tuple[str, ...]:
        return self._decoders[self.by_kind["rewards"]].names if "rewards" in self.by_kind else ()

    def observation(self, messages: Mapping[str, Any]) -> Observation:
        """Return the task's observation, without images that have no message.

        Raises:
            SpecError: if a message is not as expected.
        """
        state = np.zeros(self.spec.observation["state"].shape)
        for name, (from_, to) in self._parts:
            state[to] = self._observed(name, self._numbers(name, messages))[from_]
        if self._computed:
            values = self._compute(messages)
            for kind, (from_, to) in self._computed.items():
                state[to] = values[kind][from_]
        observation: Observation = {"state": state.astype(np.float32)}
        for key in self.spec.observation:
            if key != "state" and (not key.startswith(IMAGES) or self.by_kind[key] in messages):
                numbers = self._numbers(self.by_kind[key], messages)
                observation[key] = numbers if key.startswith(IMAGES) else numbers.astype(np.float32)
        return observation

    def rewards(self, messages: Mapping[str, Any]) -> dict[str, float]:
        """Return the reward terms; 0 for terms that no source provides."""
        terms = dict.fromkeys(self.spec.reward_terms, 0.0)
        name = self.by_kind.get("rewards")
        if name is not None:
            terms |= zip(self._decoders[name].names, self._numbers(name, messages).tolist(), strict=True)
        return terms

    def ready(self, messages: Mapping[str, Any]) -> bool:
        """Return whether the robot reports that it executes commands; true if no source reports it."""
        name = self.by_kind.get("ready")
        return name is None or bool(self._numbers(name, messages)[0])

    def _compute(self, messages: Mapping[str, Any]) -> Mapping[str, Array]:
        """Return elements that no source measures, by kind. None by default; subclasses override it."""
        return {}

    def _observed(self, source: str, numbers: Array) -> Array:
        """Return the numbers of a source as ``state`` contains them. Unchanged by default; subclasses override it."""
        return numbers

    def _numbers(self, source: str, messages: Mapping[str, Any]) -> NDArray[Any]:
        """Return the decoded message of a source.

        Raises:
            SpecError: if it is not as expected, or not finite.
        """
        values = self._decoders[source](messages[source])
        if not np.isfinite(values).all():
            raise SpecError(f"{self.used[source].place}: expected finite values, got {values.tolist()}")
        return values


class ObservationLayout(SourceLayout):
    """Layout for an arm; see :class:`SourceLayout`.

    Pose and velocity of the end effector are computed from the joints if no source measures them. Positions of endless
    joints, which robots count over whole turns, are wrapped to [-pi, pi) as in simulation.

    Args:
        config: configuration of the robot and its sources.
        spec: the task's spec.
        joints: names of the task's joints.
        model: kinematics of the arm.

    Raises:
        ConfigError: if nothing provides an element or image.
    """

    def __init__(self, config: RobotConfig, spec: EnvSpec, joints: tuple[str, ...], model: ArmModel) -> None:
        if not any(source.gives == "joints" for source in config.sources.values()):
            raise ConfigError(f"robot {config.name!r}: no source gives 'joints'; without them it cannot be driven")
        super().__init__(
            config, spec, joints, ARM_KINDS, {"end_effector_pose": POSE, "end_effector_velocity": VELOCITY}
        )
        self._model = model
        self._count = len(joints)

    def joints(self, messages: Mapping[str, Any]) -> tuple[Array, Array]:
        """Return positions (n,) and velocities (n,) of the joints. Endless joints count whole turns."""
        values = self._numbers(self.by_kind["joints"], messages)
        return values[: self._count], values[self._count :]

    def pose(self, messages: Mapping[str, Any]) -> ArmPose:
        """Return the measured pose of the end effector, or the computed one if no source measures it."""
        name = self.by_kind.get("end_effector_pose")
        if name is None:
            return self._model.pose(self.joints(messages)[0])
        values = self._numbers(name, messages)
        x, y = values[3:6], values[6:9]
        return ArmPose(values[:3], np.stack([x, y, np.cross(x, y)], axis=1))

    def _observed(self, source: str, numbers: Array) -> Array:
        if source != self.by_kind["joints"]:
            return numbers
        return np.concatenate([shortest(numbers[: self._count], self._model.endless), numbers[self._count :]])

    def _compute(self, messages: Mapping[str, Any]) -> Mapping[str, Array]:
        positions, velocities = self.joints(messages)
        pose = self._model.pose(positions)
        return {
            "end_effector_pose": np.concatenate([pose.position, pose.rotation[:, 0], pose.rotation[:, 1]]),
            "end_effector_velocity": np.concatenate(self._model.velocity(positions, velocities)),
        }


def _places(names: tuple[str, ...], elements: tuple[str, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices, in ``names`` and in ``elements``, of the names that both contain."""
    both = [name for name in names if name in elements]
    return np.array([names.index(name) for name in both], int), np.array([elements.index(name) for name in both], int)


def _require_given(robot: str, key: str, spec: ArraySpec, provided: set[str], sources: Mapping[str, str]) -> None:
    if key == "state":
        missing = [element for element in spec.names if element not in provided]
        if missing:
            raise ConfigError(
                f"robot {robot!r}: nothing gives {', '.join(missing)} of the observation 'state' of shape "
                f"{spec.shape}; it gives {len(spec.names) - len(missing)} elements; add a source, or name them in "
                "robot.unmeasured"
            )
    elif key not in sources:
        raise ConfigError(
            f"robot {robot!r}: the task observes {key!r} of shape {spec.shape}, which no source gives; add a source "
            f"with gives: {key}, or take it out of task.observation"
        )
