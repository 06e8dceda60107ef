"""Ways home through joint space, against MuJoCo's distance query pair by pair."""

import copy

import mujoco
import numpy as np
import pytest

from robo_rl.reset.paths import ArmPaths
from robo_rl.sim import make_backend

CLEARANCE = 0.02
BOX = (0.5, 0.25, 0.2, 0.03, 0.03, 0.2)
"""A keep-out volume beside the arm's home [m]."""


@pytest.fixture(scope="module")
def robot():
    return make_backend("reach", keep_out=BOX).robot


def smallest_distance(robot, joints: np.ndarray) -> float:
    """Between links three or more joints apart, and all but the first one and what stands still; pair by pair."""
    model = copy.deepcopy(robot.model)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_NATIVECCD  # it errs on boxes far apart
    data = mujoco.MjData(model)
    data.qpos[[model.joint(name).qposadr[0] for name in robot.joints]] = joints
    mujoco.mj_kinematics(model, data)
    links = {f"link{number}": number for number in range(8)} | dict.fromkeys(("hand", "finger1", "finger2"), 7)
    level = [links.get(model.body(model.geom_bodyid[geom]).name, -1) for geom in range(model.ngeom)]
    touches = [bool(model.geom_contype[geom] or model.geom_conaffinity[geom]) for geom in range(model.ngeom)]
    found = CLEARANCE
    for one in range(model.ngeom):
        for other in range(model.ngeom):
            if level[other] < 0 or not touches[other]:
                continue
            still = level[one] < 0 and (touches[one] or model.geom(one).name.startswith("keep_out"))
            if (still and level[other] >= 2) or (level[one] >= 0 and touches[one] and level[other] - level[one] >= 3):
                found = min(found, mujoco.mj_geomDistance(model, data, one, other, CLEARANCE, None))
    return found


def test_the_room_of_a_posture_is_the_smallest_distance_of_all_pairs(robot):
    paths, rng, near = ArmPaths(robot, CLEARANCE), np.random.default_rng(0), 0
    for _ in range(60):
        joints = np.array(robot.home) + rng.uniform(-0.8, 0.8, 7)
        expected = smallest_distance(robot, joints)
        assert paths.room(joints) == pytest.approx(expected, abs=2e-3)
        near += expected < CLEARANCE
    assert 10 < near < 60, "near ones and free ones"


def test_a_line_is_straight_and_does_not_turn(robot):
    paths, home = ArmPaths(robot, CLEARANCE), np.array(robot.home)
    start, rotation = paths.pose(home)
    target = start + np.array([0.05, -0.1, 0.15])
    line = paths.line(home, target)
    along = (target - start) / np.linalg.norm(target - start)
    for posture in line:
        position, turned = paths.pose(posture)
        away = position - start
        assert np.linalg.norm(away - (away @ along) * along) < 2e-3
        np.testing.assert_allclose(turned, rotation, atol=0.02)
    np.testing.assert_allclose(paths.pose(line[-1])[0], target, atol=2e-3)


def test_between_postures_no_joint_moves_far(robot):
    paths, home = ArmPaths(robot, CLEARANCE), np.array(robot.home)
    last = home + np.array([0.5, 0, 0, -0.2, 0, 0, 0])
    path = paths.between(home, last)
    np.testing.assert_allclose(path[0], home)
    np.testing.assert_allclose(path[-1], last)
    assert np.abs(np.diff(path, axis=0)).max() <= 0.05 + 1e-9


def test_the_way_home_goes_up_first_and_is_clear(robot):
    paths, home = ArmPaths(robot, CLEARANCE), np.array(robot.home)
    low = paths.line(home, np.array([0.6, -0.1, 0.03]))[-1]
    path = paths.home(low, home, 0.15, np.zeros(3))
    assert path is not None
    np.testing.assert_allclose(path[-1], home)
    heights = np.array([paths.pose(posture)[0][2] for posture in path])
    first_high = int((heights > 0.14).argmax())
    sideways = [np.linalg.norm(paths.pose(posture)[0][:2] - [0.6, -0.1]) for posture in path[:first_high]]
    assert max(sideways) < 0.005
    assert all(
        smallest_distance(robot, posture) > min(CLEARANCE, smallest_distance(robot, low)) - 2e-3 for posture in path
    )


def test_where_the_straight_way_is_blocked_another_is_taken_or_none():
    # A wall between the arm, on its left, and home.
    def paths(height: float) -> ArmPaths:
        wall = make_backend("reach", keep_out=(0.5, 0.17, height / 2, 0.15, 0.01, height / 2)).robot
        assert wall is not None
        return ArmPaths(wall, CLEARANCE)

    low_wall, high_wall = paths(0.1), paths(1.5)
    home = np.array(make_backend("reach").robot.home)
    aside = home + np.array([0.75, 0, 0, 0, 0, 0, 0])
    low = low_wall.line(aside, low_wall.pose(aside)[0] - [0, 0, 0.12])[-1]
    assert not low_wall.is_clear(low_wall.between(low, home))
    path = low_wall.home(low, home, 0.35, np.zeros(3))
    assert path is not None
    assert low_wall.is_clear(path)
    assert high_wall.home(low, home, 0.35, np.zeros(3)) is None


def test_a_posture_that_begins_near_may_leave_but_not_come_nearer(robot):
    paths, home = ArmPaths(robot, CLEARANCE), np.array(robot.home)
    down = paths.line(home, np.array([0.5, 0.0, 0.012]))  # the fingers are within the clearance of the table
    assert paths.room(down[-1]) < CLEARANCE
    assert paths.is_clear(down[::-1])
    assert not paths.is_clear(down)


def test_a_path_that_begins_clear_keeps_the_whole_clearance(robot):
    paths, home = ArmPaths(robot, CLEARANCE), np.array(robot.home)
    down = paths.line(home, np.array([0.5, 0.0, 0.012]))
    rooms = np.array([paths.room(posture) for posture in down])
    before = int((rooms < CLEARANCE).argmax()) - 1
    finely = np.linspace(down[before], down[before + 1], 400)
    near = next(posture for posture in finely if paths.room(posture) < CLEARANCE - 1e-4)
    assert paths.room(near) > CLEARANCE - 5e-4
    assert not paths.is_clear(np.stack([home, near]))


def test_a_hand_between_two_walls_may_be_lifted():
    # Where fingers that are open a little are closed in the model, or the other way round, walls seem to be touched.
    robot = make_backend("bin_relocate").robot
    paths = ArmPaths(robot, 0.01)
    low = np.array([-0.04342, 0.4529, -0.00071, -2.48463, 0.00176, 2.91831, 0.73971])
    assert paths.room(low) < 0
    path = paths.home(low, np.array(robot.home), 0.15, np.zeros(3))
    assert path is not None
    assert min(paths.room(posture) for posture in path) > paths.room(low) - 0.001


@pytest.mark.parametrize("value", [1e3, -1e4, 1e12, -3e38, 1e300, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("joint", [0, 6])
def test_there_is_no_path_from_what_no_joint_measures(robot, value, joint, monkeypatch):
    """A joint at 1e4 rad would be led home through 200,000 postures, which takes a minute."""
    paths, joints, looked = ArmPaths(robot, CLEARANCE), np.array(robot.home), []
    joints[joint] = value
    monkeypatch.setattr(paths, "room", lambda posture: looked.append(posture) or CLEARANCE)
    assert paths.home(joints, np.array(robot.home), 0.5, np.zeros(3)) is None
    assert looked == []
