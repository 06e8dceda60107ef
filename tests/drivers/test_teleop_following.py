"""What a leader arm's motion becomes: the robot has made it all in the end, whatever the frame and however fast."""

import dataclasses
import itertools
from pathlib import Path

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robo_rl.core import ConfigError, EnvSpec
from robo_rl.drivers.teleop.config import LeaderConfig
from robo_rl.drivers.teleop.following import EndEffectorFollowing
from robo_rl.sim import make_backend

from ..rigs.specs import steered_spec

ALL = ("x", "y", "z", "roll", "pitch", "yaw")


def make_spec(*names: str, frame: str = "base") -> EnvSpec:
    return steered_spec(
        names, action_frame=frame, reward_terms=(), extra={"translation_scale": 0.02, "rotation_scale": 0.1}
    )


class Follower:
    """An end effector that does what actions say, as docs of the controllers have it."""

    def __init__(self, frame: str, rotation: Rotation) -> None:
        self.in_own_frame = frame == "end_effector"
        self.position, self.rotation = np.zeros(3), rotation

    def act(self, action: np.ndarray) -> None:
        assert np.abs(action).max() <= 1 + 1e-12
        frame = self.rotation if self.in_own_frame else Rotation.identity()
        self.position = self.position + frame.apply(0.02 * action[:3])
        self.rotation = Rotation.from_rotvec(frame.apply(0.1 * action[3:])) * self.rotation


def poses(joints: np.ndarray) -> list[tuple[np.ndarray, Rotation]]:
    """Where the built-in arm's end effector is at joints (n, 7), as MuJoCo's own forward pass has it."""
    robot = make_backend("reach").robot
    data, found = mujoco.MjData(robot.model), []
    for row in joints:
        for name, value in zip(robot.joints, row, strict=True):
            data.joint(name).qpos[0] = value
        mujoco.mj_forward(robot.model, data)
        site = data.site(robot.end_effector)
        found.append((site.xpos.copy(), Rotation.from_matrix(site.xmat.reshape(3, 3))))
    return found


@pytest.mark.parametrize("frame", ["base", "end_effector"])
@pytest.mark.parametrize("speed", [0.02, 0.4], ids=["slow", "faster than actions"])
def test_the_robot_makes_the_leaders_motion(frame: str, speed: float) -> None:
    robot = make_backend("reach").robot
    rng = np.random.default_rng(0)
    joints = np.array(robot.home) + np.cumsum(rng.uniform(-speed, speed, (12, 7)), axis=0)
    following = EndEffectorFollowing(make_spec(*ALL, frame=frame), LeaderConfig(), robot)
    (start, turned), *_, (end, turned_at_last) = poses(joints)
    begin = Rotation.from_rotvec([0.3, -1.0, 0.5])  # the robot is not as the leader
    follower = Follower(frame, begin)
    for before, after in itertools.pairwise(joints):
        following.note(before, after)
        follower.act(following.take())
    for _ in range(400):
        follower.act(following.take())
    if frame == "base":
        expected, turn = end - start, turned_at_last * turned.inv()
        difference = follower.rotation * (turn * begin).inv()
    else:
        expected = begin.apply(turned.inv().apply(end - start))
        difference = follower.rotation * (begin * turned.inv() * turned_at_last).inv()
    assert difference.magnitude() < 1e-9
    np.testing.assert_allclose(follower.position, expected, atol=1e-9)
    assert not following.take().any()


def test_axes_that_actions_do_not_move_are_left_out() -> None:
    robot = make_backend("reach").robot
    following = EndEffectorFollowing(make_spec("x", "z", "gripper"), LeaderConfig(), robot)
    before = np.array(robot.home)
    after = before + 0.01
    following.note(before, after)
    (start, _), (end, _) = poses(np.array([before, after]))
    np.testing.assert_allclose(0.02 * following.take(), (end - start)[[0, 2]], atol=1e-12)
    following.note(before, after)
    following.forget()
    assert not following.take().any()


def test_a_leader_whose_kinematics_are_not_known(tmp_path: Path) -> None:
    spec, robot = make_spec(*ALL), make_backend("reach").robot
    file = tmp_path / "leader.xml"
    joint = '<joint name="shoulder"/><geom size="0.1"/><site name="tip"/>'
    file.write_text(f"<mujoco><worldbody><body>{joint}</body></worldbody></mujoco>")
    known = LeaderConfig(model=str(file), joints=("shoulder",), end_effector="tip")
    EndEffectorFollowing(spec, known, None)
    for changes, message in (
        ({"model": None}, r"one for each of joint1, .*joint7"),
        ({"model": "none.xml"}, "there is no file none.xml"),
        ({"joints": ()}, r"teleop.leader.joints must be given with teleop.leader.model"),
        ({"joints": ("sholder",)}, r"has no 'sholder'; did you mean 'shoulder'"),
        ({"end_effector": "tap"}, r"teleop.leader.end_effector: .* has no 'tap'"),
        ({"scale": (1.0,)}, "teleop.leader.scale must be none"),
    ):
        with pytest.raises(ConfigError, match=message):
            EndEffectorFollowing(spec, dataclasses.replace(known, **changes), robot)
    with pytest.raises(ConfigError, match=r"give teleop.leader.model"):
        EndEffectorFollowing(spec, LeaderConfig(), None)
    file.write_text("<nothing/>")
    with pytest.raises(ConfigError, match="is not a valid MJCF file"):
        EndEffectorFollowing(spec, known, None)
