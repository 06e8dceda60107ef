"""``regrasp``: move a bar from one rack into the other, with its other end first, which takes two grasps."""

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from robo_rl.core import Observation, option, require

from ..config import ControllerConfig, TaskConfig
from ..controller import exponential
from ..simulation import ArmSimulation
from . import rack_model
from .base import Array, GraspSensor, Task, raised, set_free_pose
from .rack_model import BAR_LENGTH, BAR_WIDTH, FLOOR_HEIGHT, HEADROOM, SLOT_DEPTH

CONTROLLER = ControllerConfig(action_axes="xyz+yaw+gripper", translation_scale=0.04)

START, GOAL = "start_rack", "goal_rack"
MOUTHS = {START: (0.62, 0.15), GOAL: (0.43, -0.16)}
"""Middles of the regions in which the mouths of the racks are placed (x, y) [m]."""
DIRECTIONS = {START: 0.0, GOAL: -math.pi / 2}
"""Nominal directions into the slots, from the x axis of the base [rad]."""
ENDS = {START: "blue", GOAL: "red"}
"""Ends of the bar that are inside the racks."""
START_GAP = 0.008
"""Largest initial distance of the blue end from the back wall [m]."""

FREE = 0.01
"""Distance of the blue end from the mouth of the start rack from which the bar is free [m]."""
PLACED = 0.015
"""Distance from the back wall below which the red end is in its place [m]."""
LEVEL = 0.05
"""Largest sine of the tilt of a bar that counts as level."""
REST_SPEED = 0.05
"""Speed below which the bar counts as at rest [m/s]."""

# Parameters of the expert, in [m] except for the angles [rad].
GRASP_FROM_END = 0.032
"""Distance of the fingers from the end of the bar."""
GRASP_HEIGHT = 0.008
"""Height of the end effector above the middle of the bar."""
HOVER = 0.06
"""The same height while the gripper is moved over the bar."""
GRASP_ERROR, GRASP_TURN = 0.01, 0.1
"""Horizontal distance and angle within which the fingers move down beside the bar."""
FUNNEL_SLOPE = 2.5
"""Height above the bar per distance beyond that."""
TURN_LEVER = 0.05
"""Distance that one unit of angle counts for [m/rad]."""
DESCENT = 0.4
"""Downward motion of a step per height above the grasp point."""
PULLED = -0.035
"""Depth of the blue end in the start rack from which the bar is turned."""
IN_SLOT = (BAR_WIDTH + HEADROOM) / 2
"""Height of the middle of the bar above the slot's floor, halfway to the roof."""
PUT_DOWN = -0.08
"""Depth of the red end in the goal rack at which the bar is put down."""
PUT_DOWN_ERROR, PUT_DOWN_TURN = 0.035, 0.3
"""Distance and angle from that pose within which the bar may be put down."""
STANDOFF = -0.02
"""Depth of the red end in the goal rack at which the bar is aligned."""
RELEASE_GAP = 0.006
"""Gap below the bar, or between it and the back wall, when it is released."""
ALIGNED = 0.004
"""Distance from the middle of the slot within which the bar moves in."""
ALIGNED_TURN = 0.06
STRIDE = 0.025
"""Largest horizontal motion of a step with the bar."""
TURN_GAIN = 0.5
"""Turn of a step per angle: below 1, so that a slow hand does not turn too far."""
AIM = 1.5
"""Motion across a slot per distance."""


@dataclass(frozen=True)
class RegraspConfig(TaskConfig):
    """Configuration of ``regrasp``.

    Attributes:
        clearance: width of the slots minus width of the bar (30 mm) [m].
        position_range: half widths of the uniform displacement of each rack in x and y [m].
        yaw_range: half width of the uniform turn of each rack about the vertical [rad].
    """

    name: str = "regrasp"
    max_episode_steps: int = 200
    controller: ControllerConfig = CONTROLLER
    clearance: float = option(0.014, low=0.006, high=0.03)
    position_range: tuple[float, ...] = (0.02, 0.02)
    yaw_range: float = option(0.25, low=0, high=0.4)

    def __post_init__(self) -> None:
        super().__post_init__()
        valid = len(self.position_range) == 2 and all(0 <= value <= 0.03 for value in self.position_range)
        require(valid, "position_range", "2 values in [0, 0.03]", self.position_range)


class Regrasp(Task):
    """Move a bar that lies in a rack, its blue end first, into the other rack, its red end first.

    One grasp is not enough. At first only the red end is out of its slot, whose walls and roof leave no room for
    fingers; in the end only the blue end is. The slots are deeper than half the bar, so no part of it is free in both.
    A hand at the red end brings less than half the bar into the goal rack. If released there, the bar tips out, because
    the slot's floor is high above the table. If pushed from there, it jams below the roof. So it is pulled out, turned,
    put down and grasped at the blue end.

    Success: the bar rests level in the goal rack, with its red end at the back wall, and no finger touches it.

    Object state: the vectors from the end effector to the middles of the red and of the blue end (base frame) [m]; the
    position of the blue end in the start rack and of the red end in the goal rack: depth in the slot, distance aside of
    its middle and height above its floor [m]; the directions into the two slots in the base frame, and the angle by
    which the bar must turn about the vertical to enter the goal rack with its red end, as cosine and sine.

    Shaped terms: ``near`` (1 with the next grasp point between the fingers), ``grasped`` (0 or 1: at that end),
    ``pulled`` (1 with the bar out of the start rack), ``placed`` (1 with the red end in its place).
    """

    config_class = RegraspConfig
    shaped_terms = ("near", "grasped", "pulled", "placed")

    config: RegraspConfig

    def build(self, spec: mujoco.MjSpec) -> None:
        rack_model.add_rack(spec, START, "blue", self.config.clearance)
        rack_model.add_rack(spec, GOAL, "red", self.config.clearance)
        rack_model.add_bar(spec)

    def bind(self, model: mujoco.MjModel) -> None:
        self._bar = model.body(rack_model.BAR).id
        first = int(model.joint(rack_model.BAR).dofadr[0])
        self._velocity = slice(first, first + 3)
        self._racks = {name: int(model.body(name).mocapid[0]) for name in (START, GOAL)}
        self._end_effector = model.site(self.config.arm.end_effector).id
        self._grasp = GraspSensor(model, self.config.arm, rack_model.BAR)

    def initialise(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        config = self.config
        for name, mocap in self._racks.items():
            mouth = MOUTHS[name] + rng.uniform(-1, 1, 2) * config.position_range
            yaw = DIRECTIONS[name] + rng.uniform(-config.yaw_range, config.yaw_range)
            rack_model.place_rack(data, mocap, mouth, yaw)
        start = self._racks[START]
        yaw = rack_model.rack_yaw(data, start)
        depth = SLOT_DEPTH - BAR_LENGTH / 2 - rng.uniform(0.2, 1.0) * START_GAP
        middle = data.mocap_pos[start] + depth * np.array([math.cos(yaw), math.sin(yaw), 0.0])
        set_free_pose(model, data, rack_model.BAR, raised(middle, FLOOR_HEIGHT + BAR_WIDTH / 2), yaw + math.pi)

    def axis(self, data: mujoco.MjData) -> Array:
        """Return the direction (3,) along the bar to its red end."""
        axis: Array = data.xmat[self._bar].reshape(3, 3)[:, 0].copy()
        return axis

    def end(self, data: mujoco.MjData, colour: str) -> Array:
        """Return the middle (3,) of the ``red`` or ``blue`` end [m]."""
        sign = 1.0 if colour == "red" else -1.0
        end: Array = data.xpos[self._bar] + sign * BAR_LENGTH / 2 * self.axis(data)
        return end

    def in_rack(self, data: mujoco.MjData, rack: str) -> Array:
        """Return the position in a rack of the end that enters it first: depth, aside, above its floor (3,) [m]."""
        return rack_model.in_slot(data, self._racks[rack], self.end(data, ENDS[rack]))

    def slot_yaw(self, data: mujoco.MjData, rack: str) -> float:
        """Return the direction into the slot of a rack, as an angle from the x axis of the base [rad]."""
        return rack_model.rack_yaw(data, self._racks[rack])

    def next_end(self, data: mujoco.MjData) -> str:
        """Return the end to grasp next: ``red`` while the bar is in the start rack, then ``blue``."""
        depth, aside, _ = self.in_rack(data, START)
        return "red" if depth > -FREE and abs(aside) < BAR_WIDTH else "blue"

    def held_end(self, data: mujoco.MjData) -> str | None:
        """Return the end nearer to the fingers, if they hold the bar."""
        if not self._grasp.holds(data):
            return None
        along = self.axis(data) @ (data.site_xpos[self._end_effector] - data.xpos[self._bar])
        return "red" if along > 0 else "blue"

    def in_place(self, data: mujoco.MjData) -> bool:
        """Return whether the bar lies in its place in the goal rack, at rest or not, held or not."""
        depth, aside, height = self.in_rack(data, GOAL)
        inside = depth > SLOT_DEPTH - PLACED and abs(aside) < self.config.clearance
        level = abs(float(self.axis(data)[2])) < LEVEL and abs(height - BAR_WIDTH / 2) < HEADROOM
        return bool(inside and level)

    def object_state(self, data: mujoco.MjData) -> dict[str, Array]:
        hand = data.site_xpos[self._end_effector]
        start, goal = self.slot_yaw(data, START), self.slot_yaw(data, GOAL)
        return {
            "to_red_end": self.end(data, "red") - hand,
            "to_blue_end": self.end(data, "blue") - hand,
            "blue_end_in_start": self.in_rack(data, START),
            "red_end_in_goal": self.in_rack(data, GOAL),
            "start_direction": _direction(start),
            "goal_direction": _direction(goal),
            "turn_to_goal": _direction(goal - _heading(self.axis(data))),
        }

    def success(self, data: mujoco.MjData) -> bool:
        at_rest = bool(np.linalg.norm(data.qvel[self._velocity]) < REST_SPEED)
        return self.in_place(data) and at_rest and not self._grasp.touches(data)

    def reward_terms(self, data: mujoco.MjData) -> dict[str, float]:
        colour = self.next_end(data)
        away = self.in_rack(data, GOAL) - (SLOT_DEPTH, 0.0, BAR_WIDTH / 2)
        to_grasp = self.grasp_point(data, colour) - data.site_xpos[self._end_effector]
        remaining = float(self.in_rack(data, START)[0]) + FREE if colour == "red" else 0.0
        return {
            "near": 1.0 - math.tanh(5.0 * math.hypot(*to_grasp.tolist())),
            "grasped": float(self.held_end(data) == colour),
            "pulled": 1.0 - min(1.0, remaining / (SLOT_DEPTH + FREE)),
            "placed": 1.0 - math.tanh(5.0 * math.hypot(*away.tolist())),
        }

    def grasp_point(self, data: mujoco.MjData, colour: str) -> Array:
        """Return the position (3,) at which the end effector grasps the bar at an end [m]."""
        sign = -1.0 if colour == "red" else 1.0
        return raised(self.end(data, colour) + sign * GRASP_FROM_END * self.axis(data), GRASP_HEIGHT)

    def expert(self, backend: ArmSimulation, rng: np.random.Generator) -> "RegraspExpert":
        return RegraspExpert(self, backend)


class RegraspExpert:
    """A scripted expert: pull out, turn, put down, grasp at the other end, push in, from the current state alone."""

    def __init__(self, task: Regrasp, simulation: ArmSimulation) -> None:
        self._task = task
        self._simulation = simulation
        self._lowest = simulation.config.controller.workspace_low[2]

    def reset(self) -> None:
        """Do nothing: the expert has no memory."""

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return the action (5,) for the simulator's current state; ``observation`` is ignored."""
        task, data = self._task, self._simulation.data
        held = task.held_end(data)
        if held is None:
            return self.retreat() if task.in_place(data) else self.grasp(task.next_end(data))
        if held == "blue":
            return self.insert() if task.next_end(data) == "blue" else self.retreat()
        inside = task.in_rack(data, START)[0] > PULLED and abs(self._turn(START)) < ALIGNED_TURN
        return self.pull() if inside or task.next_end(data) == "red" else self.put_down()

    def retreat(self) -> NDArray[np.float32]:
        """Open the gripper, and move up once it is open."""
        simulation = self._simulation
        height = HOVER if simulation.arm.opening(simulation.data) > 0.6 else 0.0
        return simulation.action_towards(raised(simulation.arm.position(simulation.data), height), gripper=-1.0)

    def grasp(self, colour: str) -> NDArray[np.float32]:
        """Move down a funnel over an end of the bar, with the fingers across it, then close the gripper."""
        simulation, task, data = self._simulation, self._task, self._simulation.data
        point, hand = task.grasp_point(data, colour), simulation.arm.position(data)
        turn = _wrapped(_heading(-task.axis(data)) - _heading(simulation.arm.rotation(data)[:, 0]))
        distance, above = math.hypot(*(point - hand)[:2]), hand[2] - point[2]
        if distance > 0.04 and above < 0.5 * HOVER:  # too low to pass the bar
            return self.retreat()
        error = max(0.0, distance - GRASP_ERROR, TURN_LEVER * (abs(turn) - GRASP_TURN))
        fall = min(above - min(FUNNEL_SLOPE * error, HOVER), 0.01 + DESCENT * max(above, 0.0))
        closes = distance < 1.5 * GRASP_ERROR and abs(turn) < 1.5 * GRASP_TURN and above < 0.01
        return self._towards([*point[:2], hand[2] - fall], turn, 1.0 if closes else -1.0)

    def pull(self) -> NDArray[np.float32]:
        """Pull the bar out of the start rack along its slot."""
        return self._carry(START, self._task.in_rack(self._simulation.data, START)[0] - STRIDE)

    def put_down(self) -> NDArray[np.float32]:
        """Turn the bar towards the goal rack, put it down in front of it and release it."""
        data, hand, low = self._simulation.data, self._simulation.arm.position(self._simulation.data), BAR_WIDTH / 2
        depth, aside, _ = self._task.in_rack(data, GOAL)
        if math.hypot(depth - PUT_DOWN, aside) > PUT_DOWN_ERROR or abs(self._turn(GOAL)) > PUT_DOWN_TURN:
            return self._carry(GOAL, PUT_DOWN)
        # The bar may be low in the fingers, or one end may hang down.
        height = min(float(self._task.end(data, colour)[2]) - low for colour in ("red", "blue"))
        if min(height, hand[2] - self._lowest) < RELEASE_GAP:
            return self.retreat()
        return self._towards(raised(hand, -height), 0.0, 1.0)

    def insert(self) -> NDArray[np.float32]:
        """Lift the bar in front of the goal rack and push it in; release it at the back wall."""
        place, turn = self._task.in_rack(self._simulation.data, GOAL), abs(self._turn(GOAL))
        depth, aside, height = place
        if depth > SLOT_DEPTH - RELEASE_GAP:
            return self.retreat()
        # Nearer to the mouth, a larger error is accepted, so that the bar does not move back for errors that motion
        # adds.
        slack = 2.0 if depth > STANDOFF + 0.005 else 1.0
        aligned = max(abs(aside), abs(height - IN_SLOT)) < slack * ALIGNED and turn < slack * ALIGNED_TURN
        return self._carry(GOAL, depth + STRIDE if aligned or _inside(place) else STANDOFF)

    def _carry(self, rack: str, depth: float) -> NDArray[np.float32]:
        """Return the action that aligns the held bar with a slot and moves the end that enters first to a depth.

        Outside the slot, that end is moved to the middle line. Inside, where it cannot give way, the hand and the other
        end are.
        """
        task, data, hand = self._task, self._simulation.data, self._simulation.arm.position(self._simulation.data)
        place, yaw = task.in_rack(data, rack), task.slot_yaw(data, rack)
        into, aside = _direction(yaw), _direction(yaw + math.pi / 2)
        across, rise = -place[1], IN_SLOT - place[2]
        if _inside(place):
            across += aside @ (task.end(data, ENDS[rack]) - hand)[:2]
            rise = IN_SLOT + FLOOR_HEIGHT - task.end(data, ENDS[GOAL if rack == START else START])[2]
        motion = (depth - place[0]) * into + AIM * across * aside
        motion /= max(1.0, float(np.linalg.norm(motion)) / STRIDE)
        return self._towards(hand + np.array([*motion, rise]), self._turn(rack), 1.0)

    def _turn(self, rack: str) -> float:
        """Return the angle by which the bar must turn to be in line with a slot, in [-pi, pi] [rad]."""
        data, sign = self._simulation.data, -1.0 if rack == START else 1.0
        return _wrapped(self._task.slot_yaw(data, rack) - _heading(sign * self._task.axis(data)))

    def _towards(self, position: ArrayLike, turn: float, gripper: float) -> NDArray[np.float32]:
        """Return the action that moves towards a position (3,) [m] and turns the hand by an angle [rad]."""
        turned = exponential(np.array([0.0, 0.0, TURN_GAIN * turn])) @ self._simulation.arm.rotation(
            self._simulation.data
        )
        return self._simulation.action_towards(position, rotation=turned, gripper=gripper)


def _inside(place: Array) -> bool:
    """Return whether an end of the bar at a position (3,) in a rack is in its slot."""
    depth, aside, height = place
    return bool(depth > 0 and abs(aside) < BAR_WIDTH / 2 and abs(height - IN_SLOT) < HEADROOM)


def _direction(angle: float) -> Array:
    """Return the cosine and sine (2,) of an angle [rad]."""
    return np.array([math.cos(angle), math.sin(angle)])


def _heading(direction: Array) -> float:
    """Return the angle of a direction (3,) from the x axis of the base about the vertical [rad]."""
    return math.atan2(direction[1], direction[0])


def _wrapped(angle: float) -> float:
    """Return an equivalent angle in [-pi, pi] [rad]."""
    return math.remainder(angle, 2 * math.pi)
