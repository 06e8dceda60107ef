"""Clearances along the path of a stop, in Python and in C++."""

from collections import Counter
from functools import partial
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest

from robo_rl.safety.barrier import Clearances
from robo_rl.safety.kinematics import Kinematics
from robo_rl.safety.native.distances import NativeDistances

from ..rigs.exact_arm import ExactArm
from .test_barrier import distances
from .test_stopping import needs_compiler


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=needs_compiler)])
def test_a_way_is_clear_exactly_if_it_is_in_every_posture(native):
    exact = ExactArm("six_joints")
    clearances = Clearances(exact.robot, exact.kinematics, ("keep_out1",), 0.5)
    *_, barrier, _ = exact.chain()._filters
    rng, margin = np.random.default_rng(0), 0.05
    keeps = NativeDistances(barrier, margin).keeps if native else partial(clearances.keeps, margin)
    outcomes: Counter[tuple[bool, bool]] = Counter()
    while len(outcomes) < 4 or min(outcomes.values()) < 8:
        joints = rng.uniform(exact.lower, exact.upper)
        steps = np.cumsum(rng.normal(0, 0.01, (50, len(joints))), axis=0) * rng.choice([0.02, 0.2, 1.0])
        path = joints + np.cumsum(steps, axis=0)
        start, then = distances(clearances, joints), [distances(clearances, place) for place in path]
        expected = bool((np.min(then, axis=0) >= np.minimum(margin - 1e-6, start) - 1e-9).all())
        travel = np.abs(np.diff(path, axis=0, prepend=joints[None])).sum(axis=0)
        assert keeps(joints, path, travel) == expected
        outcomes[expected, bool(min(start.min(), np.min(then)) < 0)] += 1  # also where the arm is in something


def balls():
    """Return the distances of a ball on two slides from another, 0.15 m away along the first."""
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><geom name="post" type="sphere" size="0.01" pos="0.17 0 0"/>'
        '<body><joint name="x" type="slide" axis="1 0 0"/><geom type="sphere" size="0.01" pos="-1 0 0"/>'
        '<body><joint name="y" type="slide" axis="0 1 0"/><geom type="sphere" size="0.01"/><site name="tip"/></body>'
        "</body></worldbody></mujoco>"
    )
    robot = SimpleNamespace(model=model, joints=("x", "y"), end_effector="tip")
    return Clearances(robot, Kinematics(robot), ("post",), 0.5)


def native_distances(clearances, margin):
    barrier = SimpleNamespace(clearances=clearances, margin=margin, approach=0.5, enough=np.ones(1), measures=True)
    return NativeDistances(barrier, margin)


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=needs_compiler)])
@pytest.mark.parametrize(("nearest", "kept"), [(0.079, False), (0.081, True)])
@pytest.mark.parametrize("returns", [False, True])
def test_the_bound_of_a_way_along_a_slide_is_exact(native, nearest, kept, returns):
    """The ball comes as near as ``nearest``: at the end of its way, or half-way."""
    clearances = balls()
    keeps = native_distances(clearances, 0.08).keeps if native else partial(clearances.keeps, 0.08)
    out = np.linspace([0, 0], [0.15 - nearest, 0], 21)[1:]
    path = np.concatenate([out, out[-2::-1]]) if returns else out
    travel = np.array([0.15 - nearest, 0]) * (2 if returns else 1)
    assert keeps(np.zeros(2), path, travel) == kept
    assert keeps(np.zeros(2), path[:0], np.array([0.069, 0.0]))
    assert not keeps(np.zeros(2), path[:0], np.array([0.071, 0.0]))


@needs_compiler
@pytest.mark.parametrize(("touching", "depth"), [("first", 5e-7), ("on the way", 1e-3), ("last", 5e-7)])
def test_a_way_on_which_geoms_touch_is_left_to_python(touching, depth, monkeypatch):
    clearances, paths = balls(), []
    monkeypatch.setattr(clearances, "keeps", lambda *arguments: paths.append(arguments) or True)
    x = np.linspace(0.0, 0.15 + depth, 21)
    way = {"first": x[::-1], "on the way": np.concatenate([x, x[-2::-1]]), "last": x}[touching]
    path = np.stack([way, np.zeros(len(way))], axis=1)
    travel = np.abs(np.diff(path, axis=0)).sum(axis=0)
    assert native_distances(clearances, 0.0).keeps(path[0], path[1:], travel)
    assert len(paths) == 1


def test_where_geoms_overlap_every_posture_is_looked_at(monkeypatch):
    """Their depth may change faster than any bound says: here it is too large in one posture alone."""
    exact = ExactArm("six_joints")
    clearances = Clearances(exact.robot, exact.kinematics, (), 0.5)
    joints = exact.reader.joint_positions(exact.observation)
    path = joints + 1e-6 * np.arange(1, 21)[:, None]
    deepest, outside = path[13].copy(), path[15].copy()

    def distance(pair, place, points):
        if np.array_equal(place, deepest):
            return -0.2
        return 0.05 if place[0] >= outside[0] else -0.01

    monkeypatch.setattr(clearances, "_distance", distance)
    travel = np.full(len(joints), 2e-5)
    assert not clearances.keeps(0.01, joints, path, travel)
    assert clearances.keeps(0.01, joints, np.delete(path, 13, axis=0), travel)
