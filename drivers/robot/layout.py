"""Observations of a task, made of the messages of all sources."""

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
"""Kinds of sources that give elements of ``state``, for an arm and for a mobile base."""


class ArmModel(Protocol):
    """Kinematics of the arm, and what its actions mean; :class:`robo_rl.sim.arm_model.ArmModel` is one.

    Attributes:
        endless: which joints (n,) turn without end.
    """

    endless: NDArray[np.bool_]

    def begin(self, joints: Array) -> None: ...

    def pose(self, joints: Array) -> ArmPose: ...

    def velocity(self, joints: Array, velocities: Array) -> tuple[Array, Array]: ...

    def target(self, joints: Array, action: NDArray[np.float32]) -> ArmTarget: ...


class SourceLayout:
    """Fills every element of the task's observation from what the robot's sources give.

    Args:
        config: sources.
        spec: of the task.
        joints: names of its joints.
        kinds: what sources may give of ``state``.
        computed: elements of ``state`` that come from elsewhere.

    Attributes:
        spec: as given.
        used: sources by name, those that the task looks at.
        by_kind: names of these by what they give.
        wrench: decoder of force and torque at the wrist; None where no source gives them.
        wanted: names that a source takes from messages with names (JointState). A topic may give them in some of its
            messages, and others in others.

    Raises:
        ConfigError: if an element or image comes from nowhere.
    """

    def __init__(
        self,
        config: RobotConfig,
        spec: EnvSpec,
        joints: tuple[str, ...],
        kinds: Sequence[str],
        computed: Mapping[str, tuple[str, ...]],
    ) -> None:
        # What the task does not look at is no fault of the robot's, if it is a camera, the objects or a scan.
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
        named = {name: each for name, each in self._decoders.items() if isinstance(each, NamedNumbers | Opening)}
        self.wanted = {name: frozenset(decoder.wanted) for name, decoder in named.items()}
        self.by_kind = {source.gives: name for name, source in self.used.items()}
        self.wrench = next((each for each in self._decoders.values() if isinstance(each, Wrench)), None)
        if self.wrench is not None and config.tare.seconds:
            self.wrench.bias = None
        self.spec = spec
        elements = spec.observation["state"].names
        self._parts = [
            (name, _places(self._decoders[name].names, elements)) for kind in kinds if (name := self.by_kind.get(kind))
        ]
        given = {element for name, _ in self._parts for element in self._decoders[name].names}
        wanted = {kind: names for kind, names in computed.items() if kind not in self.by_kind}
        self._computed = {kind: _places(names, elements) for kind, names in wanted.items()}
        given |= {element for names in wanted.values() for element in names}
        for beginning in config.unmeasured:
            meant = {element for element in elements if element.startswith(beginning)}
            if meant and meant <= given:
                raise ConfigError(
                    f"robot.unmeasured: {beginning!r} has no effect: {', '.join(sorted(meant))} of {config.name} "
                    f"{'is' if len(meant) == 1 else 'are'} measured or computed. Leave it out, or the source"
                )
        given |= {element for element in elements if element.startswith(tuple(config.unmeasured))}
        for key, spec_of_key in spec.observation.items():
            _require_given(config.name, key, spec_of_key, given, self.by_kind)

    @property
    def reports_success(self) -> bool:
        """Whether a source reports the task's success."""
        return "rewards" in self.by_kind and "success" in self._decoders[self.by_kind["rewards"]].names

    def observation(self, messages: Mapping[str, Any]) -> Observation:
        """Return what the task observes, without images of which there is no message.

        Args:
            messages: by source.

        Raises:
            SpecError: if a message has not what is expected.
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
        """Return the reward terms, 0 where no source gives them."""
        terms = dict.fromkeys(self.spec.reward_terms, 0.0)
        name = self.by_kind.get("rewards")
        if name is not None:
            terms |= zip(self._decoders[name].names, self._numbers(name, messages).tolist(), strict=True)
        return terms

    def ready(self, messages: Mapping[str, Any]) -> bool:
        """Return whether the robot says that it obeys; true where no source says anything."""
        name = self.by_kind.get("ready")
        return name is None or bool(self._numbers(name, messages)[0])

    def _compute(self, messages: Mapping[str, Any]) -> Mapping[str, Array]:
        """Return what no source measures, by kind; nothing here, a subclass may know more."""
        return {}

    def _observed(self, source: str, numbers: Array) -> Array:
        """Return the numbers of a source as ``state`` has them; the same here, a subclass may know more."""
        return numbers

    def _numbers(self, source: str, messages: Mapping[str, Any]) -> NDArray[Any]:
        """Return what a source says.

        Raises:
            SpecError: if that is not what is expected, or not finite.
        """
        values = self._decoders[source](messages[source])
        if not np.isfinite(values).all():
            raise SpecError(f"{self.used[source].place}: expected finite values, got {values.tolist()}")
        return values


class ObservationLayout(SourceLayout):
    """A :class:`SourceLayout` for an arm.

    What no source measures of the end effector's pose and velocity is computed from the joints. Positions of endless
    joints, which robots count over whole turns, are observed in [-pi, pi), as in simulation.

    Args:
        config: sources.
        spec: of the task.
        joints: names of its joints.
        model: kinematics.

    Raises:
        ConfigError: if an element or image comes from nowhere.
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
        """Return positions (n,) and velocities (n,) of the joints, as the robot counts them."""
        values = self._numbers(self.by_kind["joints"], messages)
        return values[: self._count], values[self._count :]

    def pose(self, messages: Mapping[str, Any]) -> ArmPose:
        """Return where the end effector is: measured, or computed where no source measures it."""
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
    """Return where in ``names`` and where in ``elements`` the names are that both have."""
    both = [name for name in names if name in elements]
    return np.array([names.index(name) for name in both], int), np.array([elements.index(name) for name in both], int)


def _require_given(robot: str, key: str, spec: ArraySpec, given: set[str], sources: Mapping[str, str]) -> None:
    if key == "state":
        missing = [element for element in spec.names if element not in given]
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
