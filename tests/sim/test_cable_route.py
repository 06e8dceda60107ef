"""cable_route: the cable as a mechanism against closed forms and minimisation, clips by brute force, grip, expert."""

import math
from itertools import pairwise

import mujoco
import numpy as np
import pytest
from scipy.optimize import minimize

from robo_rl.core import ConfigError
from robo_rl.sim import ArmBackend, make_backend
from robo_rl.sim.config import ArmConfig
from robo_rl.sim.tasks import cable_model
from robo_rl.sim.tasks.cable_route import ANCHOR, CableRoute


def task_backend(**values) -> tuple[ArmBackend, CableRoute]:
    backend = make_backend("cable_route", **values)
    assert isinstance(backend.task, CableRoute)
    return backend, backend.task


def lone_cable(gravity: float):
    """A cable along x, in the air, with energies computed."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.option.timestep = 0.002
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.gravity = (0, 0, -gravity)
    spec.option.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    cable_model.add_cable(spec, (0.0, 0.0), yaw=0.0)
    model = spec.compile()
    return model, mujoco.MjData(model)


def settle(model, data) -> None:
    """Go to a state of rest: motion is stopped whenever it slows down."""
    previous = 0.0
    for _ in range(6000):
        mujoco.mj_step(model, data)
        kinetic = data.energy[1]
        if kinetic < previous:
            data.qvel[:] = 0.0
            kinetic = 0.0
        previous = kinetic
    mujoco.mj_forward(model, data)


def joint_positions(model, data) -> np.ndarray:
    return np.array([data.xpos[model.body(name).id] for name in cable_model.joint_names()])


def densely(points: np.ndarray, spacing: float = 2e-5) -> np.ndarray:
    """Points along the line through ``points``, at most ``spacing`` apart."""
    parts = []
    for first, second in pairwise(points):
        count = math.ceil(np.linalg.norm(second - first) / spacing)
        parts.append(first + np.linspace(0, 1, count + 1)[:, None] * (second - first))
    return np.concatenate(parts)


def lies_in_channel(points: np.ndarray) -> bool:
    """Brute force: at each end of the channel some point of the line is between the walls and below the rims."""
    line = densely(points)
    inside = (np.abs(line[:, 1]) < cable_model.CHANNEL_WIDTH / 2) & (line[:, 2] < cable_model.RIM_HEIGHT)
    return all(
        (np.abs(line[inside, 0] - end) < 2e-5).any() for end in np.array([-0.5, 0.5]) * cable_model.CHANNEL_LENGTH
    )


# The cable.


def test_the_cable_does_not_stretch():
    backend, task = task_backend()
    backend.reset(0)
    rng = np.random.default_rng(0)
    for _ in range(30):
        backend.step(rng.uniform(-1, 1, 3).astype(np.float32))
        points = task.cable.points(backend.data)
        lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
        np.testing.assert_allclose(lengths, cable_model.SEGMENT_LENGTH, atol=1e-9)
        np.testing.assert_allclose(points[0], [*ANCHOR, cable_model.ANCHOR_HEIGHT], atol=1e-9)


def test_a_bent_cable_loses_energy_until_it_is_straight():
    model, data = lone_cable(gravity=0.0)
    rng = np.random.default_rng(1)
    angles = rng.uniform(-0.4, 0.4, (cable_model.SEGMENTS + 1, 3))
    for name, vector in zip(cable_model.joint_names(), angles, strict=True):
        start = model.joint(name).qposadr[0]
        angle = float(np.linalg.norm(vector))
        mujoco.mju_axisAngle2Quat(data.qpos[start : start + 4], vector / angle, angle)
    mujoco.mj_forward(model, data)
    energies = [data.energy.sum()]
    np.testing.assert_allclose(energies[0], 0.5 * cable_model.BENDING_STIFFNESS * (angles**2).sum(), rtol=1e-6)
    for _ in range(1000):
        mujoco.mj_step(model, data)
        mujoco.mj_forward(model, data)
        energies.append(data.energy.sum())
    assert (np.diff(energies) < 1e-9).all()
    assert energies[-1] < 0.1 * energies[0]
    settle(model, data)
    assert data.energy.sum() < 1e-6 * energies[0]
    straight = np.arange(cable_model.SEGMENTS + 1) * cable_model.SEGMENT_LENGTH
    np.testing.assert_allclose(joint_positions(model, data)[:, 0], straight, atol=1e-5)


def test_a_hanging_cable_takes_the_shape_of_least_energy():
    gravity = 9.81
    model, data = lone_cable(gravity)
    settle(model, data)
    length, mass = cable_model.SEGMENT_LENGTH, cable_model.LINE_DENSITY * cable_model.SEGMENT_LENGTH

    def energy(turns: np.ndarray) -> float:
        pitch = np.cumsum(turns)
        drops = np.concatenate([[0.0], np.cumsum(length * np.sin(pitch[:-1]))])
        middles = drops[:-1] + length / 2 * np.sin(pitch[:-1])
        tab = drops[-1] + cable_model.TAB_LENGTH / 2 * np.sin(pitch[-1])
        weight = gravity * (mass * middles.sum() + cable_model.TAB_MASS * tab)
        return 0.5 * cable_model.BENDING_STIFFNESS * (turns**2).sum() - weight

    turns = minimize(energy, np.full(cable_model.SEGMENTS + 1, 0.1), tol=1e-12).x
    pitch = np.cumsum(turns)[:-1]
    expected_x = np.concatenate([[0.0], np.cumsum(length * np.cos(pitch))])
    expected_z = cable_model.ANCHOR_HEIGHT - np.concatenate([[0.0], np.cumsum(length * np.sin(pitch))])
    points = joint_positions(model, data)
    assert expected_z[-1] < -0.2  # it hangs far down
    np.testing.assert_allclose(points[:, 0], expected_x, atol=1e-4)
    np.testing.assert_allclose(points[:, 1], 0, atol=1e-6)
    np.testing.assert_allclose(points[:, 2], expected_z, atol=1e-4)


def test_hanging_frames_lead_from_end_to_end():
    rng = np.random.default_rng(2)
    for _ in range(20):
        start = rng.uniform(-0.2, 0.2, 3)
        direction = rng.normal(size=3)
        end = start + direction / np.linalg.norm(direction) * rng.uniform(0.1, 0.99) * cable_model.LENGTH
        frames = np.array(cable_model.hanging_frames(start, end))
        np.testing.assert_allclose(start + cable_model.SEGMENT_LENGTH * frames[:, :, 0].sum(axis=0), end, atol=1e-9)
        np.testing.assert_allclose(
            frames @ frames.transpose(0, 2, 1), np.tile(np.eye(3), (len(frames), 1, 1)), atol=1e-9
        )
        turns = [math.acos(np.clip(a[:, 0] @ b[:, 0], -1, 1)) for a, b in pairwise(frames)]
        np.testing.assert_allclose(turns, turns[0], atol=1e-6)


# The clips.


def test_in_channel_is_what_brute_force_finds():
    rng = np.random.default_rng(3)
    answers = []
    for _ in range(300):
        x = np.linspace(-0.06, 0.06, 5) + rng.normal(0, 0.004, 5)
        y = rng.normal(0, 0.006) + rng.normal(0, 0.3) * x + rng.normal(0, 0.002, 5)
        z = rng.uniform(0.006, 0.024) + rng.normal(0, 0.002, 5)
        points = np.stack([x, y, z], axis=1)
        answers.append(cable_model.in_channel(points))
        assert answers[-1] == lies_in_channel(points)
    assert 60 < sum(answers) < 240


def test_a_line_that_ends_in_the_channel_does_not_pass_through_it():
    inside = np.array([[-0.05, 0, 0.01], [0.0, 0, 0.01]])
    assert not cable_model.in_channel(inside)
    assert cable_model.in_channel(np.array([*inside, [0.05, 0, 0.01]]))


def test_passage_is_the_nearest_crossing_of_the_middle_plane():
    rng = np.random.default_rng(4)
    crossed = 0
    for _ in range(200):
        points = np.cumsum(rng.normal((0.012, 0, 0), (0.02, 0.01, 0.01), (8, 3)), axis=0)
        points += (-0.05, 0, 0.03)
        passage = cable_model.passage(points)
        line = densely(points)
        near = line[np.abs(line[:, 0]) < 2e-5]
        if len(near) == 0:
            assert np.abs(passage[0]) == np.abs(points[:, 0]).min()
            continue
        crossed += 1
        middle = np.array([0, 0, cable_model.CHANNEL_FLOOR + cable_model.RADIUS])
        best = near[np.argmin(np.linalg.norm(near - middle, axis=1))]
        np.testing.assert_allclose(passage, best, atol=1e-4)
    assert crossed > 100


def test_a_cable_in_the_channel_rests_between_the_walls():
    """The geoms stand where CHANNEL_WIDTH, CHANNEL_FLOOR and RIM_HEIGHT say: a probe touches just beyond them."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    cable_model.add_clip(spec, "clip")
    probe = spec.worldbody.add_body(name="probe")
    probe.add_freejoint()
    radius = 0.001
    probe.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=(radius, 0, 0))
    model = spec.compile()
    data = mujoco.MjData(model)

    def touches(y: float, z: float) -> bool:
        data.qpos[:3] = (0, y, z)
        mujoco.mj_forward(model, data)
        return data.ncon > 0

    half, floor, rim = cable_model.CHANNEL_WIDTH / 2, cable_model.CHANNEL_FLOOR, cable_model.RIM_HEIGHT
    step = 1e-5
    for side in (-1, 1):
        assert not touches(side * (half - radius - step), rim - 0.003)
        assert touches(side * (half - radius + step), rim - 0.003)
        # The flare: a plane through the rim that leans outwards by FLARE_ANGLE.
        outwards, up = math.sin(cable_model.FLARE_ANGLE), math.cos(cable_model.FLARE_ANGLE)
        along = cable_model.FLARE_LENGTH / 2
        for gap, expected in ((step, False), (-step, True)):
            y = half + outwards * along - up * (radius + gap)
            assert touches(side * y, rim + up * along + outwards * (radius + gap)) is expected
    assert not touches(0.0, floor + radius + step)
    assert touches(0.0, floor + radius - step)


# The task.


def test_the_cable_begins_at_rest_in_the_hand_and_beside_no_clip():
    backend, task = task_backend()
    clips = [backend.model.body(name).id for name in ("clip1", "clip2")]
    for seed in range(20):
        backend.reset(seed)
        data = backend.data
        tab = data.body("cable_tab")
        middle = tab.xpos + tab.xmat.reshape(3, 3)[:, 0] * cable_model.TAB_LENGTH / 2
        np.testing.assert_allclose(middle, backend.arm.position(data), atol=1e-9)
        bodies = backend.model.geom_bodyid[data.contact.geom]
        assert not np.isin(bodies, clips).any()
        assert not task.cable.laid(data, 0) and not task.cable.laid(data, 1)
    for _ in range(10):
        backend.step(np.zeros(3, dtype=np.float32))
    middle = tab.xpos + tab.xmat.reshape(3, 3)[:, 0] * cable_model.TAB_LENGTH / 2
    np.testing.assert_allclose(middle, backend.arm.position(backend.data), atol=5e-4)


@pytest.mark.parametrize("pull", [(0, 1, 0), (1, 1, 0.5), (0, 1, 1)])
def test_the_hand_does_not_lose_a_taut_cable(pull):
    backend, _ = task_backend()
    backend.reset(0)
    for _ in range(25):
        backend.step(np.array(pull, dtype=np.float32))
    tab = backend.data.body("cable_tab")
    middle = tab.xpos + tab.xmat.reshape(3, 3)[:, 0] * cable_model.TAB_LENGTH / 2
    assert np.linalg.norm(middle - backend.arm.position(backend.data)) < 0.005
    stretched = np.linalg.norm(tab.xpos - [*ANCHOR, cable_model.ANCHOR_HEIGHT])
    assert stretched > 0.97 * cable_model.LENGTH  # it was taut indeed


def test_the_object_state_is_what_it_says():
    backend, task = task_backend()
    names = backend.spec.observation["object"].names
    for seed in range(5):
        values = dict(zip(names, backend.reset(seed).observation["object"], strict=True))
        data, hand = backend.data, backend.arm.position(backend.data)
        points = task.cable.points(data)
        for name in ("clip1", "clip2"):
            clip = data.body(name)
            rotation = clip.xmat.reshape(3, 3)
            to_clip = [values[f"to_{name}_{axis}"] for axis in "xyz"]
            np.testing.assert_allclose(hand + to_clip, clip.xpos, atol=1e-6)
            yaw = values[f"{name}_yaw"]
            np.testing.assert_allclose(rotation[:, 0], [-math.sin(yaw), math.cos(yaw), 0], atol=1e-6)
            assert abs(yaw) <= 0.15
            # Where it passes, back in the base frame, is a point of the cable.
            passes = clip.xpos + rotation @ [0, values[f"cable_at_{name}_0"], values[f"cable_at_{name}_1"]]
            assert np.linalg.norm(densely(points, 1e-4) - passes, axis=1).min() < 1e-4
            for axis in "01":
                fine, coarse = values[f"cable_at_{name}_fine_{axis}"], values[f"cable_at_{name}_{axis}"]
                assert fine == pytest.approx(min(max(coarse, -0.015), 0.015) / 0.015, abs=1e-6)
        middle = hand + [values[f"to_cable_{axis}"] for axis in "xyz"]
        assert np.linalg.norm(points - middle, axis=1).min() < 1e-6


def test_expert():
    backend, task = task_backend()
    expert = backend.expert(0)
    lengths, successes = [], 0
    for seed in range(40):
        step = backend.reset(seed)
        length = 0
        while not step.ended:
            step = backend.step(expert.act(step.observation))
            length += 1
        successes += bool(step.success)
        lengths.append(length)
        if step.success:
            for name in ("clip1", "clip2"):
                clip = backend.data.body(name)
                assert lies_in_channel((task.cable.points(backend.data) - clip.xpos) @ clip.xmat.reshape(3, 3))
            assert step.rewards["first"] == step.rewards["second"] == 1.0
    assert successes >= 0.95 * 40
    assert np.mean(lengths) < 40


def test_the_expert_takes_over_after_disturbances():
    backend, _ = task_backend()
    expert = backend.expert(0)
    rng = np.random.default_rng(5)
    successes = 0
    for seed in range(8):
        step = backend.reset(seed)
        push = rng.uniform(-1, 1, 3)
        for _ in range(15):
            push = np.clip(0.8 * push + rng.normal(0, 0.5, 3), -1, 1)
            if not step.ended:
                step = backend.step(push.astype(np.float32))
        while not step.ended:
            step = backend.step(expert.act(step.observation))
        successes += bool(step.success)
    assert successes >= 7


def test_an_episode_depends_on_its_seed_alone():
    backend, _ = task_backend()
    expert = backend.expert(0)

    def play(seed: int) -> list[dict[str, np.ndarray]]:
        steps = [backend.reset(seed)]
        while not steps[-1].ended:
            steps.append(backend.step(expert.act(steps[-1].observation)))
        return [step.observation for step in steps]

    first = play(1)
    play(2)
    second = play(1)
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])


def test_configuration_is_checked():
    with pytest.raises(ConfigError, match="position_range must be 2 values"):
        make_backend("cable_route", position_range=(0.2, 0.0))
    with pytest.raises(ConfigError, match="yaw_range must be in"):
        make_backend("cable_route", yaw_range=1.0)
    with pytest.raises(ConfigError, match="m from the cable's anchor"):
        make_backend("cable_route", arm=ArmConfig(home_opening=0.0, home=(0.6, *ArmConfig().home[1:])))
