"""The door's mechanism alone in MuJoCo, then the task with the arm."""

import mujoco
import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.sim import make_backend
from robo_rl.sim.tasks import door_model
from robo_rl.sim.tasks.door_model import DoorDynamics, add_door, latch_angle

DYNAMICS = DoorDynamics()


class Door:
    """A door in an empty world."""

    def __init__(self):
        spec = mujoco.MjSpec()
        spec.compiler.degree = False
        spec.option.timestep = 0.002
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        add_door(spec, DYNAMICS)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        hinge, handle = self.model.joint(door_model.HINGE_JOINT), self.model.joint(door_model.HANDLE_JOINT)
        self.hinge, self.handle = hinge.qposadr[0], handle.qposadr[0]
        self.hinge_dof, self.handle_dof = hinge.dofadr[0], handle.dofadr[0]

    def touches(self, first, second):
        geoms = {self.model.geom(first).id, self.model.geom(second).id}
        return any(set(pair) == geoms for pair in self.data.contact.geom.tolist())

    def push(self, forward, down, seconds):
        """Apply a constant force [N] at the lever's pressing point."""
        site = self.model.site(door_model.PRESS_SITE).id
        body = self.model.body("handle").id
        for _ in range(round(seconds / self.model.opt.timestep)):
            self.data.qfrc_applied[:] = 0
            mujoco.mj_kinematics(self.model, self.data)
            mujoco.mj_comPos(self.model, self.data)
            force, point = np.array([forward, 0.0, -down]), self.data.site_xpos[site]
            mujoco.mj_applyFT(self.model, self.data, force, np.zeros(3), point, body, self.data.qfrc_applied)
            mujoco.mj_step(self.model, self.data)


@pytest.fixture
def door():
    return Door()


@pytest.fixture(scope="module")
def backend():
    backend = make_backend("open_door")
    yield backend
    backend.close()


def test_latch_angle_is_where_the_tongue_stops_meeting_the_keeper(door):
    def blocked(handle):
        door.data.qpos[door.handle] = handle
        for hinge in np.linspace(0.0, 0.15, 151):  # swing the tongue through the keeper
            door.data.qpos[door.hinge] = hinge
            mujoco.mj_forward(door.model, door.data)
            if door.touches("door_tongue", "door_keeper"):
                return True
        return False

    assert blocked(0.0)
    assert blocked(latch_angle() - 0.01)
    assert not blocked(latch_angle() + 0.01)


@pytest.mark.parametrize("force", [20.0, 100.0])
def test_a_push_alone_does_not_open_the_latched_door(door, force):
    door.push(forward=force, down=0.0, seconds=2.0)
    assert 0.0 < door.data.qpos[door.hinge] < 0.005
    assert door.touches("door_tongue", "door_keeper")


def test_a_push_with_the_lever_half_turned_does_not_open(door):
    # Statics of the lever: force x arm = preload + stiffness x angle, less its own weight.
    down = (DYNAMICS.handle_preload + DYNAMICS.handle_stiffness * 0.5 * latch_angle()) / door_model.PRESS_DISTANCE
    door.push(forward=40.0, down=down, seconds=2.0)
    assert 0.05 < door.data.qpos[door.handle] < latch_angle()
    assert door.data.qpos[door.hinge] < 0.005


def test_turning_the_lever_alone_does_not_open(door):
    door.push(forward=0.0, down=10.0, seconds=2.0)
    assert door.data.qpos[door.handle] > latch_angle()
    assert door.data.qpos[door.hinge] < 0.01


def test_turning_and_pushing_opens(door):
    door.push(forward=20.0, down=10.0, seconds=2.0)
    assert door.data.qpos[door.hinge] > 1.0


def test_the_lever_springs_back_and_the_latch_does_not_let_the_door_in_again(door):
    door.data.qpos[[door.hinge, door.handle]] = 0.5, 0.6
    door.push(0.0, 0.0, seconds=4.0)
    assert abs(door.data.qpos[door.handle]) < 0.02
    # The tongue lies behind the keeper: the closer holds the door ajar.
    assert 0.02 < door.data.qpos[door.hinge] < 0.15


def test_the_closer_shuts_the_door_while_the_lever_is_held_down(door):
    door.data.qpos[[door.hinge, door.handle]] = 0.5, 0.6
    door.push(0.0, 10.0, seconds=4.0)
    assert abs(door.data.qpos[door.hinge]) < 0.005


@pytest.mark.parametrize("angle", [0.2, 0.5])
def test_torque_of_the_hinge_spring(door, angle):
    """A constant torque of preload + stiffness x angle holds the door at that angle, where no friction acts."""
    door.data.qpos[[door.hinge, door.handle]] = angle, 0.0
    torque = DYNAMICS.hinge_preload + DYNAMICS.hinge_stiffness * angle
    for _ in range(5000):
        door.data.qfrc_applied[door.hinge_dof] = torque
        mujoco.mj_step(door.model, door.data)
    assert door.data.qpos[door.hinge] == pytest.approx(angle, abs=1e-3)


def test_damping_of_the_hinge(door):
    door.data.qpos[[door.hinge, door.handle]] = 0.5, 0.0
    door.data.qvel[door.hinge_dof] = 0.7
    mujoco.mj_forward(door.model, door.data)
    expected = -DYNAMICS.hinge_preload - DYNAMICS.hinge_stiffness * 0.5 - DYNAMICS.hinge_damping * 0.7
    assert door.data.qfrc_passive[door.hinge_dof] == pytest.approx(expected)


def test_the_door_swings_clear_of_its_frame(door):
    door.data.qpos[door.handle] = 0.6
    for hinge in np.linspace(0.0, door_model.MAX_HINGE_ANGLE, 121):
        door.data.qpos[door.hinge] = hinge
        mujoco.mj_forward(door.model, door.data)
        assert door.data.ncon == 0, f"contact at {hinge:.2f} rad"


def test_success_begins_at_the_threshold(backend):
    backend.reset(0)
    task, data = backend.task, backend.data
    hinge = backend.model.joint(door_model.HINGE_JOINT).qposadr[0]
    for angle, solved in ((0.0, False), (0.349, False), (0.351, True)):
        data.qpos[hinge] = angle
        mujoco.mj_forward(backend.model, data)
        assert task.success(data) is solved
        assert task.reward_terms(data)["open"] == pytest.approx(min(1.0, angle / 0.35))


def test_object_state_follows_from_the_pose_of_the_frame(backend):
    """The pressing point from the frame's pose, by hand; the door is closed and the lever level."""
    task, data = backend.task, backend.data
    for seed in range(5):
        backend.reset(seed)
        state = task.object_state(data)
        assert state["handle_angle"] == pytest.approx(0.0, abs=1e-6)
        assert state["hinge_angle"] == pytest.approx(0.0, abs=1e-6)
        yaw = state["door_yaw"][0]
        local = np.array(
            [
                -door_model.LEVER_STANDOFF,
                -door_model.WIDTH / 2 + door_model.SPINDLE_TO_EDGE + door_model.PRESS_DISTANCE,
                door_model.SPINDLE_HEIGHT,
            ]
        )
        turn = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
        expected = data.mocap_pos[0] + turn @ local - backend.arm.position(data)
        np.testing.assert_allclose(state["lever_offset"], expected, atol=1e-9)


def test_initial_states_are_random_within_their_ranges(backend):
    places, yaws = [], []
    for seed in range(60):
        backend.reset(seed)
        places.append(backend.data.mocap_pos[0, :2].copy())
        yaws.append(backend.task.frame_yaw(backend.data))
    spread = np.abs(np.array(places) - (0.655, 0.04)).max(axis=0)
    assert (spread <= (0.03, 0.05)).all() and (spread > (0.024, 0.04)).all()
    assert 0.08 < np.abs(yaws).max() <= 0.1


def test_the_arm_cannot_open_the_latched_door_by_force(backend):
    """Down before the lever, then forward against it at full force."""
    for seed in range(3):
        backend.reset(seed)
        for number in range(40):
            action = np.array([-0.3, 0, -1] if number < 8 else [1, 0, 0], dtype=np.float32)
            step = backend.step(action)
        assert not step.success
        assert backend.task.hinge_angle(backend.data) < 0.01
        contacts = {backend.model.geom(int(geom)).name for pair in backend.data.contact.geom for geom in pair}
        assert "door_keeper" in contacts  # it did push


def test_the_expert_opens_the_door(backend):
    lengths, turned = [], []
    solved = 0
    for seed in range(40):
        step = backend.reset(seed)
        expert = backend.expert(seed)
        expert.reset()
        count, largest = 0, 0.0
        while not step.ended:
            step = backend.step(expert.act(step.observation))
            count += 1
            largest = max(largest, backend.task.handle_angle(backend.data))
        solved += bool(step.success)
        lengths.append(count)
        turned.append(largest)
    assert solved >= 38
    assert np.mean(lengths) <= 20
    assert min(turned) > latch_angle()  # never round the latch


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
        backend.step(np.array([1, 0.3, -1], dtype=np.float32))
    np.testing.assert_array_equal(first, episode())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"success_angle": 2.0}, "success_angle must be in (0, 1.2], got 2.0"),
        ({"position_range": (0.1,)}, "position_range must be 2 values, 0 or more, got (0.1,)"),
        ({"hinge_stiffness": 0.0}, "hinge_stiffness must be above 0, got 0.0"),
    ],
)
def test_wrong_configurations_are_refused(values, message):
    with pytest.raises(ConfigError) as caught:
        make_backend("open_door", **values)
    assert str(caught.value) == message
