"""Trees of transforms, against products of matrices."""

import numpy as np
import pytest

from robo_rl.core import ConfigError, quaternion_of_matrix
from robo_rl.drivers.robot.config import TRANSFORMS, SourceConfig
from robo_rl.drivers.robot.transforms import TransformTree
from robo_rl.drivers.ros2.message_types import RosbagsTypes
from robo_rl.sim.controller import exponential

TYPES = RosbagsTypes()


def message(*links, sec=1, **turn):
    """Return a TFMessage of (parent, child, matrix (4, 4))."""
    transforms = []
    for parent, child, matrix in links:
        quaternion = dict(zip("xyzw", quaternion_of_matrix(matrix[:3, :3]).tolist(), strict=True)) | turn
        transform = {"translation": dict(zip("xyz", matrix[:3, 3].tolist(), strict=True)), "rotation": quaternion}
        header = {"frame_id": parent, "stamp": {"sec": sec}}
        transforms.append({"header": header, "child_frame_id": child, "transform": transform})
    return TYPES.make(TRANSFORMS, transforms=transforms)


def poses(count):
    rng, matrices = np.random.default_rng(0), np.tile(np.eye(4), (count, 1, 1))
    for matrix in matrices:
        matrix[:3, :3], matrix[:3, 3] = exponential(rng.normal(size=3)), rng.normal(size=3)
    return matrices


def test_a_frame_in_any_other_is_the_product_of_what_is_between():
    tree = TransformTree()
    a, b, c, d = poses(4)
    tree.update(message(("/world", "base", a), ("base", "camera", b)), None)
    assert tree.look_up("camera", "base").received_ns == ()
    tree.update(message(("base", "link", c)), 100)
    tree.update(message(("link", "tool", d)), 70)
    for frame, parent, expected, times in (
        ("tool", "base", c @ d, {100, 70}),
        ("tool", "world", a @ c @ d, {100, 70}),
        ("base", "tool", np.linalg.inv(c @ d), {100, 70}),
        ("link", "camera", np.linalg.inv(b) @ c, {100}),
        ("tool", "tool", np.eye(4), set()),
    ):
        placement = tree.look_up(frame, parent)
        np.testing.assert_allclose(placement.position, expected[:3, 3], atol=1e-9)
        np.testing.assert_allclose(placement.rotation, expected[:3, :3], atol=1e-9)
        assert set(placement.received_ns) == times
    assert tree.look_up("tool", "moon") is None
    assert tree.frames == ["base", "camera", "link", "tool", "world"]


class Growing(dict):
    """Gets another link whenever one of its own is looked at, as from the node's thread."""

    def values(self):
        for link in super().values():
            yield link
            self[f"frame {len(self)}"] = link


def test_frames_are_told_while_others_are_heard_of():
    tree = TransformTree()
    tree.update(message(("base", "link", np.eye(4)), ("link", "tool", np.eye(4))), 1)
    tree._links = Growing(tree._links)
    assert tree.frames == ["base", "link", "tool"]


def test_what_repeats_its_stamp_or_is_no_rotation_is_nothing_new():
    tree = TransformTree()
    a, b = poses(2)
    tree.update(message(("base", "tool", a)), 10)
    tree.update(message(("base", "tool", b)), 20)
    assert tree.look_up("tool", "base").received_ns == (10,)
    tree.update(message(("base", "tool", b), sec=2, x=float("nan")), 30)
    np.testing.assert_allclose(tree.look_up("tool", "base").position, a[:3, 3])
    tree.update(message(("base", "tool", b), sec=2), 40)
    placement = tree.look_up("tool", "base")
    assert placement.received_ns == (40,)
    np.testing.assert_allclose(placement.position, b[:3, 3])


def test_a_circle_of_frames_ends():
    tree = TransformTree()
    a, b = poses(2)
    tree.update(message(("b", "a", a), ("a", "b", b)), 1)
    assert tree.look_up("a", "elsewhere") is None


def test_sources_of_transforms_name_their_frames():
    source = SourceConfig("/tf", TRANSFORMS, "end_effector_pose", frame="tool", parent="base")
    assert source.frame == "tool"
    for fields, said in (
        ({"type": TRANSFORMS, "frame": "tool"}, "parent must be the name of a frame"),
        ({"type": "geometry_msgs/msg/PoseStamped", "frame": "tool"}, "frame must be given for tf2_msgs"),
    ):
        with pytest.raises(ConfigError, match=said):
            SourceConfig(topic="/tf", gives="end_effector_pose", **fields)
