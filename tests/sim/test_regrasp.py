"""regrasp: where bar and racks begin, what counts as success in physics, the expert, and why one grasp is too few."""

import math

import mujoco
import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.sim import ArmBackend, make_backend
from robo_rl.sim.controller import exponential
from robo_rl.sim.tasks.rack_model import BAR_LENGTH, BAR_WIDTH, FLOOR_HEIGHT, SLOT_DEPTH
from robo_rl.sim.tasks.regrasp import DIRECTIONS, GOAL, MOUTHS, START, Regrasp, RegraspExpert

OPEN = np.array([0, 0, 0, 0, -1], dtype=np.float32)


def regrasp(**values) -> tuple[ArmBackend, Regrasp]:
    backend = make_backend("regrasp", **values)
    assert isinstance(backend.task, Regrasp)
    return backend, backend.task


def put(backend: ArmBackend, depth: float, aside=0.0, up=0.0, pitch=0.0, first="red", speed=0.0) -> None:
    """Put the bar into the goal rack, one end first, to a depth; ``up`` is the height of its middle over a lying one's.

    ``pitch`` lifts the end that is outside. The bar moves along the slot with ``speed``.
    """
    task, data, joint = backend.task, backend.data, backend.model.joint("bar")
    yaw, middle = task.slot_yaw(data, GOAL), depth - BAR_LENGTH / 2 * math.cos(pitch)
    into, across = np.array([math.cos(yaw), math.sin(yaw), 0]), np.array([-math.sin(yaw), math.cos(yaw), 0])
    height = FLOOR_HEIGHT + BAR_WIDTH / 2 + up
    place = data.body(GOAL).xpos + middle * into + aside * across + [0, 0, height]
    axis = math.cos(pitch) * into - [0, 0, math.sin(pitch)]
    axis = axis if first == "red" else -axis
    side = np.cross([0, 0, 1], axis) / np.linalg.norm(np.cross([0, 0, 1], axis))
    rotation = np.stack([axis, side, np.cross(axis, side)], axis=1)
    start = joint.qposadr[0]
    data.qpos[start : start + 3] = place
    mujoco.mju_mat2Quat(data.qpos[start + 3 : start + 7], rotation.ravel())
    data.qvel[joint.dofadr[0] : joint.dofadr[0] + 6] = (*(speed * into), 0, 0, 0)
    mujoco.mj_forward(backend.model, data)


def play(backend: ArmBackend, expert, seed: int):
    """Return every step of an episode."""
    steps = [backend.reset(seed)]
    while not steps[-1].ended:
        steps.append(backend.step(expert.act(steps[-1].observation)))
    return steps


def test_racks_begin_within_their_regions_with_the_red_end_out():
    backend, task = regrasp(position_range=(0.03, 0.01), yaw_range=0.4)
    starts = set()
    for seed in range(30):
        backend.reset(seed)
        data = backend.data
        for rack in (START, GOAL):
            assert (np.abs(data.body(rack).xpos[:2] - MOUTHS[rack]) <= np.array([0.03, 0.01]) + 1e-9).all()
            assert abs(task.slot_yaw(data, rack) - DIRECTIONS[rack]) <= 0.4
        depth, aside, height = task.in_rack(data, START)
        assert 0.09 < depth < SLOT_DEPTH and abs(aside) < 1e-6 and height == pytest.approx(BAR_WIDTH / 2, abs=1e-3)
        assert task.next_end(data) == "red" and not task.success(data)
        starts.add(tuple(data.body("bar").xpos))
    assert len(starts) == 30


def test_the_same_seed_places_the_same():
    (one, _), (other, _) = regrasp(), regrasp()
    for seed in (4, 7, 4):
        first, second = one.reset(seed).observation, other.reset(seed).observation
        np.testing.assert_array_equal(first["object"], second["object"])


def test_what_counts_as_success():
    backend, task = regrasp()
    backend.reset(0)
    depth = SLOT_DEPTH - 0.002
    for case, solved in (
        ({"depth": depth}, True),
        ({"depth": depth, "aside": 0.006}, True),
        ({"depth": depth, "first": "blue"}, False),
        ({"depth": SLOT_DEPTH - 0.02}, False),
        ({"depth": depth, "speed": 0.1}, False),
        ({"depth": depth, "aside": 0.05}, False),
        ({"depth": depth, "up": 0.06}, False),  # on the roof
        ({"depth": depth, "up": 0.01, "pitch": 0.12}, False),
    ):
        put(backend, **case)
        assert task.success(backend.data) == solved, case


@pytest.mark.parametrize(("depth", "stays"), [(SLOT_DEPTH - 0.012, True), (0.045, False)])
def test_a_bar_that_is_less_than_half_inside_tips_out(depth, stays):
    backend, task = regrasp(terminate_on_success=False)
    backend.reset(0)
    put(backend, depth)
    for _ in range(15):
        step = backend.step(OPEN)
    assert step.success == stays
    assert (task.in_rack(backend.data, GOAL)[0] > 0.005) == stays


def test_a_bar_that_tipped_out_cannot_be_pushed_in():
    backend, task = regrasp()
    backend.reset(0)
    put(backend, 0.045)
    for _ in range(10):
        backend.step(OPEN)
    yaw = task.slot_yaw(backend.data, GOAL)
    into, turn = np.array([math.cos(yaw), math.sin(yaw), 0]), exponential(np.array([0, 0, yaw + math.pi]))
    nearest = 1.0
    for number in range(60):  # over a place behind the blue end, down, forward
        end = task.end(backend.data, "blue")
        away = (-0.06, -0.05, 0.05)[(number > 14) + (number > 24)]
        target = end + away * into
        target[2] = 0.15 if number < 15 else max(end[2], 0.012)
        backend.step(backend.simulation.action_towards(target, rotation=turn @ np.diag([1, -1, -1]), gripper=1.0))
        hand = backend.arm.position(backend.data)
        nearest = min(nearest, float(np.linalg.norm((task.end(backend.data, "blue") - hand)[:2])))
    assert nearest < 0.03, "it was pushed"
    assert task.in_rack(backend.data, GOAL)[0] < 0.02 and not task.in_place(backend.data)


def test_expert():
    backend, _ = regrasp()
    ends = [play(backend, backend.expert(0), seed) for seed in range(5)]
    assert all(steps[-1].success for steps in ends)
    assert np.mean([len(steps) - 1 for steps in ends]) < 70


def test_the_expert_looks_at_the_state_alone():
    backend, _ = regrasp()
    steps = play(backend, backend.expert(0), 3)
    backend.reset(3)
    for step in steps[1:]:
        backend.step(backend.expert(1).act({}))
        np.testing.assert_array_equal(backend.arm.read(backend.data).astype(np.float32), step.observation["state"])


class OneGrasp(RegraspExpert):
    """The expert without the second grasp: it pushes the bar in by its red end, as far as the hand can, and lets go."""

    def __init__(self, task, simulation):
        super().__init__(task, simulation)
        self.deepest = -1.0
        self.steps_in_slot = 0

    def put_down(self):
        self.deepest = max(self.deepest, self._task.in_rack(self._simulation.data, GOAL)[0])
        self.steps_in_slot += self.deepest > 0.0
        return self.insert() if self.steps_in_slot < 15 else self.retreat()

    def grasp(self, colour):
        return super().grasp("red") if colour == "red" else self.retreat()


@pytest.mark.parametrize("seed", range(2))
def test_one_grasp_is_too_few(seed):
    """The hand at the red end meets the goal rack when less than half the bar is in, which then tips out."""
    backend, task = regrasp(max_episode_steps=100)
    expert = OneGrasp(task, backend.simulation)
    steps = play(backend, expert, seed)
    assert not any(step.success for step in steps)
    assert 0.0 < expert.deepest < 0.5 * BAR_LENGTH and expert.steps_in_slot >= 15
    assert task.in_rack(backend.data, GOAL)[0] < 0.005


def test_the_observation_leads_to_both_ends_and_places_them_in_the_racks():
    backend, task = regrasp()
    names = backend.spec.observation["object"].names
    values = dict(zip(names, backend.reset(1).observation["object"], strict=True))
    hand, bar = backend.arm.position(backend.data), backend.data.body("bar")
    for colour, sign in (("red", 1), ("blue", -1)):
        end = bar.xpos + sign * BAR_LENGTH / 2 * bar.xmat.reshape(3, 3)[:, 0]
        away = [values[f"to_{colour}_end_{axis}"] for axis in "xyz"]
        np.testing.assert_allclose(hand + away, end, atol=1e-6)
    assert values["blue_end_in_start_x"] == pytest.approx(SLOT_DEPTH - 0.004, abs=0.004)
    put(backend, SLOT_DEPTH - 0.01, aside=0.005)
    state = task.object_state(backend.data)
    np.testing.assert_allclose(state["red_end_in_goal"], [SLOT_DEPTH - 0.01, 0.005, BAR_WIDTH / 2], atol=1e-9)
    np.testing.assert_allclose(state["turn_to_goal"], [1, 0], atol=1e-9)
    assert all(np.linalg.norm(state[f"{rack}_direction"]) == pytest.approx(1) for rack in ("start", "goal"))


def test_shaped_terms_follow_the_two_grasps():
    backend, task = regrasp()
    steps = play(backend, backend.expert(0), 2)
    terms = {name: np.array([step.rewards[name] for step in steps[1:]]) for name in task.shaped_terms}
    assert all((values >= 0).all() and (values <= 1).all() for values in terms.values())
    out = int(np.argmax(terms["pulled"] == 1.0))
    assert terms["pulled"][0] < 0.2 and (terms["pulled"][out:] == 1.0).all()
    assert terms["grasped"][:out].max() == 1.0, "at the red end"
    assert terms["grasped"][out] == 0.0 and terms["grasped"][out:].max() == 1.0, "at the blue end, later"
    assert terms["placed"][-1] > 0.9 > terms["placed"][out:].min()


def test_configuration_is_checked():
    with pytest.raises(ConfigError, match="clearance must be in"):
        make_backend("regrasp", clearance=0.05)
    with pytest.raises(ConfigError, match="position_range must be 2 values in"):
        make_backend("regrasp", position_range=(0.1, 0.0))
    with pytest.raises(ConfigError, match="yaw_range must be in"):
        make_backend("regrasp", yaw_range=1.0)
