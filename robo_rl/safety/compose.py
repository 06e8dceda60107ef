"""Composition of a backend with safety from the configuration."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import get_method
from numpy.typing import NDArray

from robo_rl.core import (
    ConfigError,
    DeadmanSwitch,
    EmergencyStop,
    EnvBackend,
    EnvSpec,
    Observation,
    ObservationGuard,
    RobotDescription,
    SafetyFilter,
    StopButton,
    TurningState,
    deadman_file,
    require,
)

from .actions import ActionMap, EndEffectorActions, make_action_map
from .age import AgeLimit
from .backend import SafeBackend
from .barrier import BarrierFilter, Clearances
from .chain import FilterChain
from .config import SafetyConfig
from .feasibility_filter import FeasibilityFilter, load_model
from .joint_limits import JointLimits
from .kinematics import DAMPING, Kinematics
from .motion import Action, ArmReader
from .native import NativeStopPlanner
from .native import available as native_available
from .native.distances import NativeDistances
from .native.filters import NativeFilters
from .observations import FrozenImages, PlausibleEndEffector, PlausibleJoints, ValidObservation
from .own_filter import OwnFilter
from .reference import PythonStopPlanner
from .serial_chain import serial_chain
from .slowing import ContactLimits, EndEffectorSpeed, SingularitySlowdown
from .specification import SpecificationMonitor
from .start import StartCheck
from .stopping import SLACK, EndEffectorControl, StopPlanner, StopProblem
from .workspace import OrientationCone, WorkspaceBox

Array = NDArray[np.float64]

KEEP_OUT = "keep_out"
"""Prefix of the names of geoms in a robot's model that the arm keeps away from."""
BOX_INSET = 1e-5
"""Distance that motion keeps from the box at which the robot's own controller cuts actions off [m]."""
LOOK_SECONDS = 0.005
"""Time between two checks of a stop of the end effector, at control rates above 200 Hz [s]."""
INTERPOLATED = 0.999
"""Share of velocity limits that a stop of the end effector may use: its Jacobian is interpolated between two checks."""
CLEARANCE_DIP = 1e-4
"""Amount by which clearances may be smaller between two checks than at them [m]."""


def make_safe_backend(backend: EnvBackend, button: StopButton | None = None, **fields: Any) -> EnvBackend:
    """Return ``backend`` with safety filters and guards around it.

    If the robot has no description (third-party Gymnasium environments), there are the guards of NaN, shapes, ages and
    frozen images and the filters of the configuration's ``filters``, but none that need limits or kinematics.

    Args:
        backend: robot or simulator.
        button: the button that holds the robot still; None for the emergency stop of all robots, or
            ``emergency_stop.file``.
        fields: fields of :class:`SafetyConfig`.

    Raises:
        ConfigError: if a limit is out of range or does not match the robot.
    """
    config = SafetyConfig(**fields)
    spec, robot = backend.spec, backend.robot
    guards: list[ObservationGuard] = [ValidObservation(spec)]
    watch = config.observations
    if robot is not None and watch.enabled:
        reader = ArmReader(spec, robot)
        guards.append(_plausible_joints(config, robot, reader))
        guards.append(PlausibleEndEffector(spec, robot, watch.pose_tolerance, watch.max_pose_jump, reader))
    images = tuple(key for key in spec.observation if key.startswith("images/"))
    if watch.enabled and watch.frozen_images and images:
        guards.append(FrozenImages(images, watch.frozen_images))
    chain = make_filter_chain(spec, robot, config)
    max_age = watch.max_age if watch.enabled else float("inf")
    if button is None:
        stop = config.emergency_stop
        emergency = EmergencyStop(None if stop.file is None else Path(stop.file))
        deadman = DeadmanSwitch(deadman_file(emergency.file), stop.deadman_timeout) if stop.deadman else None
        button = StopButton(emergency, deadman)
    start = None if robot is None else _start_check(config, spec, robot)
    return SafeBackend(backend, AgeLimit(chain, max_age, watch.stale_steps), guards, button, start)


def make_filter_chain(spec: EnvSpec, robot: RobotDescription | None, config: SafetyConfig) -> FilterChain:
    """Return the filters of actions that ``config`` names; without a robot description, none of those that need one."""
    custom = [_user_filter(node, spec, robot) for node in config.filters]
    if robot is None:
        learned = _learned(config, TurningState(spec, robot), _zero, _scaled)
        return FilterChain([*_monitors(config, spec, _zero), *custom], _zero, config.violation_budget, learned)
    reader, kinematics = ArmReader(spec, robot), Kinematics(robot)
    actions = make_action_map(spec, robot, kinematics, reader)
    keeps_clear: Callable[[Array, Array, Array], bool] | None = None
    distances: NativeDistances | None = None
    problem = _stop_problem(config, robot, actions) if config.joints.enabled else None
    planner = None if problem is None else make_stop_planner(problem)
    regularity = planner.is_surely_regular if isinstance(planner, NativeStopPlanner) else None
    filters = _arm_filters(config, robot, actions, reader, kinematics, regularity)
    if config.barrier.enabled:
        barrier, clearances = config.barrier, _clearances(config, robot, kinematics)
        largest = None if problem is None else (1 + SLACK) * problem.velocity * problem.period
        shift = math.inf
        if config.speed.enabled:
            shift = (1 + 2 * SLACK) * math.hypot(*_speeds(config, robot)) * actions.period
        last = BarrierFilter(barrier.margin, barrier.approach, clearances, actions, reader, largest, shift)
        filters.append(last)
        dip = CLEARANCE_DIP if _stride(actions) > 1 else 0.0
        margin = barrier.margin + dip
        keeps_clear = partial(clearances.keeps, margin)
        if isinstance(planner, NativeStopPlanner):
            distances = NativeDistances(last, margin)
            keeps_clear = distances.keeps
    filters += _monitors(config, spec, actions.hold)
    filters += custom
    if planner is not None:  # last, because the joints do what this filter returns
        filters.append(JointLimits(planner, actions, reader, keeps_clear))
    learned = _learned(config, TurningState(spec, robot), actions.hold, actions.scaled)
    together = None
    if isinstance(planner, NativeStopPlanner):
        together = NativeFilters(filters, planner, actions, reader, distances, spec.observation["state"].shape[0])
    return FilterChain(filters, actions.hold, config.violation_budget, learned, actions.with_measured_gripper, together)


def without_safety(backend: EnvBackend, button: StopButton | None = None) -> EnvBackend:
    """Return ``backend`` unchanged, whatever the state of ``button``."""
    return backend


def _arm_filters(
    config: SafetyConfig,
    robot: RobotDescription,
    actions: ActionMap,
    reader: ArmReader,
    kinematics: Kinematics,
    is_surely_regular: Callable[[Array, float], bool] | None,
) -> list[SafetyFilter]:
    """Return the filters of an arm that come before the barrier and the joint limits."""
    filters: list[SafetyFilter] = []
    contact, singularity = config.contact, config.singularity
    if contact.enabled:
        filters.append(ContactLimits(*_contact_limits(config, robot), contact.slow_from, actions, reader))
    if config.workspace.enabled:
        filters += _workspace(config, robot, actions, reader)
    if config.speed.enabled:
        filters.append(EndEffectorSpeed(*_speeds(config, robot), actions))
    if singularity.enabled:
        slow, stop, ahead = singularity.slow, singularity.stop, Kinematics(robot)
        filters.append(SingularitySlowdown(slow, stop, actions, reader, kinematics, ahead, is_surely_regular))
    return filters


def _learned(
    config: SafetyConfig,
    state: TurningState,
    hold: Callable[[Observation, Action], Action],
    scaled: Callable[[Observation, Action, float], Action],
) -> list[SafetyFilter]:
    """Return the filter of a learned feasibility value, if one is configured."""
    learned = config.feasibility
    if learned.model is None:
        return []
    model = load_model(Path(learned.model), state.spec)
    return [FeasibilityFilter(model, state, learned.candidates, learned.margin, hold, scaled)]


def _monitors(config: SafetyConfig, spec: EnvSpec, hold: Callable[[Observation, Action], Action]) -> list[SafetyFilter]:
    """Return the filter of a specification, if one is configured."""
    watched = config.specification
    if watched.formula is None:
        return []
    return [SpecificationMonitor(watched.formula, spec, watched.backup, hold)]


def _clearances(config: SafetyConfig, robot: RobotDescription, kinematics: Kinematics) -> Clearances:
    barrier = config.barrier
    names = [robot.model.geom(number).name for number in range(robot.model.ngeom)]
    keep_out = (*barrier.keep_out, *(name for name in names if name.startswith(KEEP_OUT)))
    return Clearances(robot, kinematics, keep_out, barrier.reach)


def _start_check(config: SafetyConfig, spec: EnvSpec, robot: RobotDescription) -> StartCheck:
    box = _box(config, robot) if config.workspace.enabled else None
    clearances = _clearances(config, robot, Kinematics(robot)) if config.barrier.enabled else None
    contact = None
    if config.contact.enabled:
        share, (force, torque) = config.contact.slow_from, _contact_limits(config, robot)
        contact = share * force, share * torque
    return StartCheck(ArmReader(spec, robot), box, clearances, contact)


def _value_or(value: float | None, default: float) -> float:
    return default if value is None else value


def _contact_limits(config: SafetyConfig, robot: RobotDescription) -> tuple[float, float]:
    """Return the force [N] and the torque [Nm] at the wrist at which the arm stops."""
    contact = config.contact
    return _value_or(contact.force, robot.force), _value_or(contact.torque, robot.torque)


def _speeds(config: SafetyConfig, robot: RobotDescription) -> tuple[float, float]:
    """Return the end effector's largest speed [m/s] and rotation speed [rad/s]."""
    speed = config.speed
    return _value_or(speed.linear, robot.linear_speed), _value_or(speed.angular, robot.angular_speed)


def _box(config: SafetyConfig, robot: RobotDescription) -> tuple[Array, Array]:
    """Return the corners (3,) of the end effector's box [m]."""
    box = config.workspace
    low = np.array(robot.workspace_low if box.low is None else box.low, np.float64)
    high = np.array(robot.workspace_high if box.high is None else box.high, np.float64)
    require(bool((low < high).all()), "safety.workspace.low", f"below safety.workspace.high {high}", low)
    return low, high


def _workspace(
    config: SafetyConfig, robot: RobotDescription, actions: ActionMap, reader: ArmReader
) -> list[SafetyFilter]:
    box = config.workspace
    filters: list[SafetyFilter] = [WorkspaceBox(*_box(config, robot), actions, reader)]
    if box.cone_angle is not None:
        filters.append(OrientationCone(np.array(box.cone_axis), box.cone_angle, actions, reader))
    return filters


def _stop_problem(config: SafetyConfig, robot: RobotDescription, actions: ActionMap) -> StopProblem:
    """Return the problem of stopping ``robot``, with the limits that a stop has to keep."""
    joints = config.joints
    limits = {}
    for key in ("velocity", "acceleration", "jerk"):
        values = getattr(joints, key)
        values = getattr(robot, key) if values is None else values
        require(len(values) == len(robot.joints), f"safety.joints.{key}", f"{len(robot.joints)} values", values)
        limits[key] = np.array(values, dtype=np.float64)
    limits = _without_rounding(limits, actions)
    limits["velocity"] = np.minimum(limits["velocity"], actions.top_velocity)
    lower, upper = np.array(robot.position_lower), np.array(robot.position_upper)
    if actions.moves_joints:  # no action leads further; endless joints turn without limits
        lower = np.where(robot.endless, lower, np.maximum(lower, robot.command_lower))
        upper = np.where(robot.endless, upper, np.minimum(upper, robot.command_upper))
    lower, upper = lower + joints.margin, upper - joints.margin
    require(bool((lower < upper).all()), "safety.joints.margin", "less than half of every joint's range", joints.margin)
    if _stride(actions) > 1:
        limits["velocity"] = INTERPOLATED * limits["velocity"]
    control = None
    low, high = _box(config, robot) if config.workspace.enabled else (np.full(3, -np.inf), np.full(3, np.inf))
    if isinstance(actions, EndEffectorActions):
        box = actions.controller_box
        control = EndEffectorControl(actions.directions, actions.own_frame, box, DAMPING)
        if box is not None:  # a motion that this box cuts off at once could not be part of a stop
            low, high = np.maximum(low, box[0] + BOX_INSET), np.minimum(high, box[1] - BOX_INSET)
    linear, angular = _speeds(config, robot) if config.speed.enabled else (np.inf, np.inf)
    axis, angle = np.array(config.workspace.cone_axis, np.float64), config.workspace.cone_angle
    problem = StopProblem(
        chain=serial_chain(robot),
        control=control,
        period=actions.period,
        lower=lower,
        upper=upper,
        **limits,
        low=low,
        high=high,
        linear=linear,
        angular=angular,
        cone_axis=axis / np.linalg.norm(axis),
        cone_angle=angle if angle is not None and config.workspace.enabled else np.inf,
        stride=_stride(actions),
    )
    return problem


def _stride(actions: ActionMap) -> int:
    """Return the number of periods between two checks of where the end effector goes in a stop.

    If each joint brakes independently, the end effector's speed may rise from one period to the next, so every period
    is checked.
    """
    return 1 if actions.moves_joints else max(1, round(LOOK_SECONDS / actions.period))


def _without_rounding(limits: dict[str, Array], actions: ActionMap) -> dict[str, Array]:
    """Return ``limits`` reduced by what the rounding of float32 actions may use up.

    Raises:
        ConfigError: if the rounding may use up more than half of a limit.
    """
    reduced = {}
    for power, (key, values) in enumerate(limits.items(), start=1):
        # A velocity is the difference of two positions, one of them rounded; an acceleration, of two velocities; ...
        loss = 2 ** (power - 1) * actions.resolution / actions.period**power
        reduced[key] = values - loss
        if (reduced[key] < values / 2).any():
            worst = int(np.argmin(reduced[key] / values))
            raise ConfigError(
                f"safety.joints.{key}: joint {worst + 1} may have {values[worst]:g}, but at {1 / actions.period:g} Hz "
                f"the rounding of float32 actions alone ({actions.resolution[worst]:.1g} rad) may take "
                f"{loss[worst]:.3g}. Allow more, act at a lower rate, or choose "
                "task.controller.action_space=joint_delta with a small joint_scale"
            )
    return reduced


def make_stop_planner(problem: StopProblem) -> StopPlanner:
    """Return a planner of stops: in C++ if it can be compiled, otherwise in Python, which is much slower."""
    return NativeStopPlanner(problem) if native_available()[0] else PythonStopPlanner(problem)


def _plausible_joints(config: SafetyConfig, robot: RobotDescription, reader: ArmReader) -> PlausibleJoints:
    watch = config.observations
    return PlausibleJoints(
        lower=np.array(robot.position_lower) - watch.position_tolerance,
        upper=np.array(robot.position_upper) + watch.position_tolerance,
        velocity=np.array(robot.velocity) * watch.velocity_factor,
        max_jump=watch.max_joint_jump,
        endless=robot.endless,
        reader=reader,
    )


def _user_filter(node: Any, spec: EnvSpec, robot: RobotDescription | None) -> SafetyFilter:
    """Make a filter that the user's configuration names."""
    if not isinstance(node, dict) or "target" not in node:
        raise ConfigError(f"safety.filters: expected mappings with the key target, got {node!r}")
    values = dict(node)
    target = values.pop("target")
    try:
        factory = get_method(target)
    except Exception as error:
        raise ConfigError(f"safety.filters: {target!r} cannot be imported: {error}") from error
    try:
        return OwnFilter(factory(spec=spec, robot=robot, **values))
    except Exception as error:
        raise ConfigError(f"safety.filters: {target!r} cannot be made: {type(error).__name__}: {error}") from error


def _zero(observation: Observation, action: Action) -> Action:
    return np.zeros_like(action)


def _scaled(observation: Observation, action: Action, factor: float) -> Action:
    return factor * action
