"""Peg and hole alone in MuJoCo, then the task with the arm."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.sim import make_backend
from robo_rl.sim.tasks.base import GraspSensor
from robo_rl.sim.tasks.peg_insert import INSERTED_SHARE, PegInsertConfig
from robo_rl.sim.tasks.peg_model import (
    HOLE_DEPTH,
    PEG_BODY,
    PEG_LENGTH,
    PEG_MASS,
    PEG_WIDTH,
    TIP_SITE,
    add_block,
    add_peg,
)

WALLS = ("hole_front", "hole_back", "hole_right", "hole_left")
START = 0.0002
"""Height above the block from which the peg is pressed [m]."""


class Press:
    """The peg on a vertical slide over the block: nothing but the hole decides whether it goes in.

    The slide has the inertia of an arm.
    """

    def __init__(self, clearance):
        spec = mujoco.MjSpec()
        spec.compiler.degree = False
        spec.option.timestep = 0.002
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        add_block(spec, clearance, friction=0.2)
        add_peg(spec)
        spec.delete(spec.joint(PEG_BODY))
        peg = spec.body(PEG_BODY)
        peg.pos = (0, 0, HOLE_DEPTH + PEG_LENGTH / 2 + START)
        peg.add_joint(name="slide", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(0, 0, 1), armature=3.0)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)

    def place(self, x=0.0, y=0.0, yaw=0.0):
        """Move the block; the peg stands at the origin."""
        self.data.mocap_pos[0] = x, y, 0.0
        self.data.mocap_quat[0] = np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)

    def depth_after(self, force, seconds=1.0, **place):
        """Press with ``force`` [N]; return how deep the tip is [m], at most about the hole's depth."""
        mujoco.mj_resetData(self.model, self.data)
        self.place(**place)
        for _ in range(round(seconds / self.model.opt.timestep)):
            self.data.qfrc_applied[0] = -force
            mujoco.mj_step(self.model, self.data)
            if self.depth() > HOLE_DEPTH:
                break
        return self.depth()

    def depth(self):
        mujoco.mj_kinematics(self.model, self.data)
        return HOLE_DEPTH - self.data.site(TIP_SITE).xpos[2]

    def touches_at(self, depth, **place):
        """Whether the peg held ``depth`` [m] inside touches a wall."""
        mujoco.mj_resetData(self.model, self.data)
        self.place(**place)
        self.data.qpos[0] = -START - depth
        mujoco.mj_forward(self.model, self.data)
        return self.data.ncon > 0


@pytest.fixture(scope="module")
def backend():
    backend = make_backend("peg_insert")
    yield backend
    backend.close()


def in_hand(backend):
    """Place of the peg in the hand's frame (3,) [m]."""
    hand = backend.arm.rotation(backend.data)
    return hand.T @ (backend.data.body(PEG_BODY).xpos - backend.arm.position(backend.data))


def run_expert(backend, seed, noise=0.0):
    """Return whether it succeeded, the number of steps, the deepest contact of peg and block, the slip in hand [m]."""
    names = [backend.model.geom(number).name for number in range(backend.model.ngeom)]
    rng = np.random.default_rng(seed)
    step = backend.reset(seed)
    start = in_hand(backend)
    expert = backend.expert(seed)
    expert.reset()
    count, deepest = 0, 0.0
    while not step.ended:
        action = expert.act(step.observation) + noise * rng.standard_normal(backend.spec.action.shape)
        step = backend.step(np.clip(action, -1, 1).astype(np.float32))
        count += 1
        for contact in backend.data.contact:
            if {names[geom] for geom in contact.geom} & set(WALLS):
                deepest = max(deepest, -contact.dist)
    return bool(step.success), count, deepest, float(np.linalg.norm(in_hand(backend) - start))


@pytest.mark.parametrize("clearance", [0.001, 0.0005])
def test_clearance_of_the_models_geoms(clearance):
    """Distance between opposite walls less the width of the peg, from the compiled task."""
    backend = make_backend("peg_insert", clearance=clearance)
    model = backend.model
    position, size = (lambda name: model.geom(name).pos), (lambda name: model.geom(name).size)
    peg = 2 * size("peg")[:2]
    np.testing.assert_allclose(peg, PEG_WIDTH)
    inner_x = (position("hole_back") - size("hole_back"))[0] - (position("hole_front") + size("hole_front"))[0]
    inner_y = (position("hole_left") - size("hole_left"))[1] - (position("hole_right") + size("hole_right"))[1]
    np.testing.assert_allclose([inner_x, inner_y] - peg, clearance, atol=1e-12)
    for wall in WALLS:  # as deep as the block is high, and no gap at the corners
        assert position(wall)[2] == size(wall)[2] == HOLE_DEPTH / 2
    assert size("hole_front")[1] >= inner_y / 2 and position("hole_left")[0] == 0.0
    assert size("hole_left")[0] == pytest.approx(inner_x / 2)


@pytest.mark.parametrize("clearance", [0.001, 0.0005])
def test_clearance_by_collision(clearance):
    press = Press(clearance)
    for axis in ("x", "y"):
        for sign in (-1, 1):
            assert not press.touches_at(0.03, **{axis: sign * (clearance / 2 - 2e-5)})
            assert press.touches_at(0.03, **{axis: sign * (clearance / 2 + 2e-5)})


@pytest.mark.parametrize("clearance", [0.001, 0.0005])
@pytest.mark.parametrize("force", [20.0, 40.0])
def test_the_peg_enters_only_within_the_clearance(clearance, force):
    press = Press(clearance)
    for axis in ("x", "y"):
        assert press.depth_after(force, **{axis: 0.4 * clearance}) > 0.9 * HOLE_DEPTH
        for offset in (0.75 * clearance, 1.5 * clearance, 0.008):
            assert press.depth_after(force, **{axis: offset}) < 1e-4


def test_the_peg_enters_only_within_the_fitting_angle():
    """A square of width w turned by a fills w (cos a + sin a): that must not be more than the hole's width."""
    clearance = 0.001
    angles = np.linspace(0, 0.2, 20001)
    is_insertable = PEG_WIDTH * (np.cos(angles) + np.sin(angles)) <= PEG_WIDTH + clearance
    limit = angles[is_insertable][-1]
    press = Press(clearance)
    assert press.depth_after(20.0, yaw=0.9 * limit) > 0.9 * HOLE_DEPTH
    assert press.depth_after(20.0, yaw=-0.9 * limit) > 0.9 * HOLE_DEPTH
    assert press.depth_after(20.0, yaw=1.2 * limit) < 2e-4
    assert press.depth_after(20.0, yaw=-1.2 * limit) < 2e-4


def test_the_grasp_is_firm(backend):
    """The peg stays where it is in the hand while nothing touches it, and swung from side to side."""
    grasp = GraspSensor(backend.model, backend.config.arm, PEG_BODY)

    for seed in range(4):
        backend.reset(seed)
        start = in_hand(backend)
        assert abs(start[0]) <= 0.003 + 1e-9 and abs(start[2] - 0.02) <= 0.004 + 1e-9
        for number in range(30):
            side = 1.0 if number % 6 < 3 else -1.0
            backend.step(np.array([side, -side, 0.5, 0.5 * side], dtype=np.float32))
            assert grasp.holds(backend.data)
        np.testing.assert_allclose(in_hand(backend), start, atol=2e-4)


def test_success_begins_at_the_threshold_and_only_in_the_hole(backend):
    backend.reset(3)
    task, model, data = backend.task, backend.model, backend.data
    peg = model.joint(PEG_BODY).qposadr[0]
    hole = data.mocap_pos[0].copy()
    needed = INSERTED_SHARE * HOLE_DEPTH
    for depth, aside, solved in (
        (-0.01, 0.0, False),
        (needed - 1e-4, 0.0, False),
        (needed + 1e-4, 0.0, True),
        (needed + 1e-4, 0.03, False),  # deep enough, but beside it: pushed into the block, or beside the block
        (needed + 1e-4, 0.08, False),
    ):
        middle = hole + np.array([aside, 0.0, HOLE_DEPTH - depth + PEG_LENGTH / 2])
        data.qpos[peg : peg + 7] = *middle, 1, 0, 0, 0
        mujoco.mj_forward(model, data)
        assert task.success(data) is solved
        expected = min(1.0, depth / needed) if aside == 0.0 and depth > 0 else 0.0
        assert task.reward_terms(data)["inserted"] == pytest.approx(expected)


def test_object_state_follows_from_the_poses(backend):
    task, data = backend.task, backend.data
    for seed in range(5):
        backend.reset(seed)
        state = task.object_state(data)
        rotation = data.body(PEG_BODY).xmat.reshape(3, 3)
        tip = data.body(PEG_BODY).xpos - PEG_LENGTH / 2 * rotation[:, 2]
        np.testing.assert_allclose(state["tip_to_hole"], data.mocap_pos[0] + (0, 0, HOLE_DEPTH) - tip, atol=1e-9)
        nearest = [min(max(distance, -0.003), 0.003) for distance in state["tip_to_hole"]]
        np.testing.assert_allclose(state["tip_to_hole_fine"], np.array(nearest) / 0.003)
        # Turned by yaw_to_hole, the peg's side lies along one of the hole's.
        turn, yaw = state["yaw_to_hole"][0], state["hole_yaw"][0]
        side = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) @ rotation[:2, 0]
        side /= np.linalg.norm(side)
        along, across = side @ (np.cos(yaw), np.sin(yaw)), side @ (-np.sin(yaw), np.cos(yaw))
        assert min(abs(along), abs(across)) < 1e-9
        assert abs(turn) <= np.pi / 4
        np.testing.assert_allclose(state["peg_tilt"], rotation[:2, 2])


def test_initial_states_are_random_within_their_ranges(backend):
    places, yaws = [], []
    for seed in range(60):
        backend.reset(seed)
        places.append(backend.data.mocap_pos[0, :2].copy())
        yaws.append(backend.task.hole_yaw(backend.data))
        assert backend.task.tip_to_hole(backend.data)[2] < -0.01  # the tip begins above the block
    spread = np.abs(np.array(places) - (0.5, 0.0)).max(axis=0)
    assert (spread <= 0.03).all() and (spread > 0.024).all()
    assert 0.12 < np.abs(yaws).max() <= 0.15


def test_a_wrong_guess_meets_bounded_force_and_does_not_enter(backend):
    """Pressed onto the block 3 mm beside the hole: stiffness times the commanded step, and the weight of the peg."""
    controller = backend.config.controller
    bound = controller.stiffness[2] * min(controller.error_clip[2], controller.translation_scale)
    for seed in range(3):
        backend.reset(seed)
        task, data = backend.task, backend.data
        for number in range(40):
            away = task.tip_to_hole(data) + np.array([0.003, 0.0, 0.0])
            down = -0.03 if number >= 12 else away[2] + 0.003
            turn = task.yaw_to_hole(data) / controller.rotation_scale
            action = np.clip([*(np.array([away[0], away[1], down]) / controller.translation_scale), turn], -1, 1)
            backend.step(action.astype(np.float32))
        assert task.depth(data) < 0.002
        force = np.zeros(6)
        pressing = 0.0
        for number, contact in enumerate(data.contact):
            if {backend.model.geom(int(geom)).name for geom in contact.geom} & set(WALLS):
                mujoco.mj_contactForce(backend.model, data, number, force)
                pressing += abs((contact.frame.reshape(3, 3).T @ force[:3])[2])
                assert contact.dist > -1e-4
        assert pressing == pytest.approx(bound + 9.81 * PEG_MASS, rel=0.1)


@pytest.mark.parametrize("clearance", [0.001, 0.0005])
def test_the_expert_inserts_the_peg(clearance):
    backend = make_backend("peg_insert", clearance=clearance)
    results = [run_expert(backend, seed) for seed in range(40)]
    solved, counts, deepest, slips = zip(*results, strict=True)
    assert sum(solved) >= 38
    assert np.mean(counts) <= 25
    assert max(deepest) < 1e-4
    assert max(slips) < 5e-4


def test_noise_neither_stops_the_expert_nor_tears_the_peg_out_of_the_hand(backend):
    """Demonstrations are recorded with noise, and a learner explores: many wrong touches."""
    results = [run_expert(backend, seed, noise=0.3) for seed in range(20)]
    solved, counts, deepest, slips = zip(*results, strict=True)
    assert sum(solved) >= 19
    assert np.mean(counts) <= 45
    assert max(deepest) < 2e-4
    assert max(slips) < 1.5e-3


def test_three_axes_do_where_the_hole_is_never_turned():
    controller = replace(PegInsertConfig().controller, action_axes="xyz")
    backend = make_backend("peg_insert", yaw_range=0.0, controller=controller)
    assert backend.spec.action.shape == (3,)
    assert sum(run_expert(backend, seed)[0] for seed in range(10)) >= 9


def test_the_same_seed_gives_the_same_episode_after_others(backend):
    def episode():
        step = backend.reset(7)
        seen = [step.observation["object"], step.observation["state"]]
        expert = backend.expert(7)
        while not step.ended:
            step = backend.step(expert.act(step.observation))
            seen += [step.observation["object"], step.observation["state"]]
        return np.concatenate(seen)

    first = episode()
    backend.reset(8)
    for _ in range(5):
        backend.step(np.array([1, 0.3, -1, 0.5], dtype=np.float32))
    np.testing.assert_array_equal(first, episode())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"clearance": 0.0}, "clearance must be in [0.0003, 0.02], got 0.0"),
        ({"grasp_range": (0.0, 0.02)}, "grasp_range must be 2 values in [0, 0.005], got (0.0, 0.02)"),
        ({"yaw_range": 1.0}, "yaw_range must be in [0, 0.6], got 1.0"),
    ],
)
def test_wrong_configurations_are_refused(values, message):
    with pytest.raises(ConfigError) as caught:
        make_backend("peg_insert", **values)
    assert str(caught.value) == message
