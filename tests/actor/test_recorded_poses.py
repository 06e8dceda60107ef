"""Poses along recorded episodes: arm and objects stand where the simulator had them, or are hidden."""

from dataclasses import replace
from typing import Any

import mujoco
import numpy as np
import pytest

from robo_rl.actor import RecordedPoses
from robo_rl.core import ArraySpec, DataError, EnvSpec
from robo_rl.sim import make_backend

STEPS = 12


def recorded(task: str) -> tuple[Any, dict[str, Any], list[Any]]:
    """Return a backend, the observations of the first steps of an expert's episode, and all poses of bodies in them."""
    backend: Any = make_backend(task)
    expert, step = backend.expert(0), backend.reset(seed=5)
    expert.reset()
    observations: list[Any] = []
    poses: list[Any] = []
    while len(observations) < STEPS:
        observations.append(step.observation)
        poses.append(np.concatenate([backend.data.xpos, backend.data.xquat], axis=1))
        if step.ended:
            break
        step = backend.step(expert.act(step.observation))
    return backend, {key: np.stack([each[key] for each in observations]) for key in ("state", "object")}, poses


def turn_between(one: Any, other: Any) -> float:
    """Return the angle between two quaternions [rad]."""
    return float(2 * np.arccos(min(abs(float(one @ other)), 1.0)))


@pytest.mark.parametrize("task", ["pick_cube", "push_cube", "open_door"])
def test_bodies_stand_where_the_simulator_had_them(task: str) -> None:
    backend, observation, truth = recorded(task)
    poses = RecordedPoses(make_backend(task), backend.spec)
    found = poses.find(observation, list(range(len(truth))))
    assert found.hidden == () and found.kept == 0
    assert found.note == "The recorded states are shown; no action is applied."
    scene = poses.scene(found)
    for place, expected in enumerate(truth):
        data = poses.show(found, place)
        for body in found.known:
            assert np.abs(data.xpos[body] - expected[body, :3]).max() < 2e-3, "the fingers share one opening"
            if backend.model.body(body).name not in ("cube", "goal"):  # all sides of a cube are alike
                assert turn_between(data.xquat[body], expected[body, 3:]) < 0.02
        frame = scene.frame(place)
        assert frame["version"] == scene.version and np.abs(frame["tip"] - backend.arm.position(data)).max() < 1e-5


def test_an_object_whose_pose_is_not_observed_is_hidden_and_named() -> None:
    backend, observation, truth = recorded("plug_insert")
    poses = RecordedPoses(make_backend("plug_insert"), backend.spec)
    found = poses.find(observation, list(range(len(truth))))
    assert "socket" in found.hidden and "their pose does not follow from the recording: " in found.note
    assert backend.model.body("socket").id not in found.known


def test_without_observed_objects_the_arm_alone_is_posed_also_in_pictures() -> None:
    backend, observation, truth = recorded("pick_cube")
    spec = replace(backend.spec, observation={"state": backend.spec.observation["state"]})
    recorder = Pictured(make_backend("pick_cube"))
    poses = RecordedPoses(recorder, spec)  # type: ignore[arg-type]
    found = poses.find(observation, list(range(len(truth))))
    assert poses.keys == ["state"] and found.hidden == ("cube",)
    poses.picture(found, 3)
    assert recorder.hidden == {backend.model.body("cube").id}
    hand = backend.model.site_bodyid[backend.model.site("end_effector").id]
    assert np.abs(recorder.place[hand] - truth[3][hand, :3]).max() < 1e-4


class Pictured:
    """A simulator that notes what it is to draw."""

    def __init__(self, inner: Any) -> None:
        self.model, self.data, self.spec, self.robot = inner.model, inner.data, inner.spec, inner.robot
        self.reset, self.object_values = inner.reset, inner.object_values

    def render(self, camera: str = "view", data: Any = None, hidden: Any = ()) -> Any:
        self.hidden, self.place = set(hidden), data.xpos.copy()
        return np.zeros((2, 2, 3), np.uint8)


def test_a_contradiction_hides_the_objects_or_keeps_them_where_they_were() -> None:
    backend, observation, truth = recorded("pick_cube")
    poses = RecordedPoses(make_backend("pick_cube"), backend.spec)
    rows = list(range(len(truth)))
    observation["object"][4, :3] += 0.5  # the cube is now elsewhere than the offset from the hand says
    found = poses.find(observation, [*rows[:5], *rows])
    assert found.hidden == ("cube",) and "keep" not in found.note, "two of 17 are more than a tenth"
    few = poses.find(observation, rows[:4] * 3 + rows[4:5])
    assert few.kept == 1 and few.hidden == ()
    assert "In 1 of 13 states the objects keep their earlier pose." in few.note
    mujoco.mj_kinematics(backend.model, poses.data)
    assert np.abs(few.qpos[-1] - few.qpos[-2])[-7:].max() == 0


def test_what_cannot_be_posed_is_explained() -> None:
    backend = make_backend("reach")
    state = ArraySpec((2,), names=("end_effector_x", "end_effector_y"))
    spec: EnvSpec = replace(backend.spec, observation={"state": state})
    with pytest.raises(DataError, match=r"joint positions of the arm were not recorded.*joint1_position"):
        RecordedPoses(backend, spec)
    car = make_backend("drive")
    with pytest.raises(DataError, match="drive has no model of an arm"):
        RecordedPoses(car, car.spec)
