"""Scenes: shapes of the arms, poses as in MuJoCo, and arms posed by what their robots measure."""

import base64
import json
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest

from robo_rl.actor import SceneLimits, SceneView
from robo_rl.actor.scene_geometry import SceneGeometry
from robo_rl.actor.scene_meshes import MOST_TRIANGLES, simplified
from robo_rl.core import ManualClock, RelativeBackend, TurningBackend, Verdict, WrappedBackend
from robo_rl.sim import make_backend


def opened(view: SceneView, observation: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    geometry, frame = view.take(observation, always=True)
    return json.loads(geometry or "{}"), json.loads(frame)


def rotation(quaternion: Any) -> Any:
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, np.array(quaternion))
    return matrix.reshape(3, 3)


def as_robot(backend: Any) -> Any:
    """Return what a driver of a robot shows of it: a description and observations, but no state of a simulator."""
    return SimpleNamespace(spec=backend.spec, robot=backend.robot)


@pytest.mark.parametrize(("task", "options"), [("pick_cube", {}), ("cable_route", {}), ("drive", {})])
def test_shapes_stand_where_mujoco_has_them(task: str, options: dict[str, Any]) -> None:
    backend = make_backend(task, **options)
    step = backend.reset(seed=0)
    view = SceneView(backend)
    view.take(step.observation, always=True)
    for _ in range(5):
        step = backend.step(np.full(backend.spec.action.shape, 0.5, np.float32))
    geometry, frame = opened(SceneView(backend), step.observation)
    assert json.loads(view.take(step.observation, always=True).frame)["poses"] == frame["poses"]
    model, data = backend.model, mujoco.MjData(backend.model)
    data.qpos[:], data.mocap_pos[:], data.mocap_quat[:] = (
        backend.data.qpos,
        backend.data.mocap_pos,
        backend.data.mocap_quat,
    )
    mujoco.mj_kinematics(model, data)
    poses = np.array(frame["poses"]).reshape(-1, 7)
    assert len(poses) == len(geometry["bodies"])
    for name, pose in zip(geometry["bodies"], poses, strict=True):
        number = int(name.removeprefix("body ")) if name.startswith("body ") else model.body(name).id
        assert np.abs(pose[:3] - data.xpos[number]).max() < 1e-6
        assert np.abs(pose[3:] - data.xquat[number]).max() < 1e-6
    visible = [each for each in range(model.ngeom) if model.geom_group[each] < 3]
    placed = []
    for geom in geometry["geoms"]:
        body = np.array([0, 0, 0, 1, 0, 0, 0.0]) if geom["body"] == 0 else poses[geom["body"] - 1]
        pose, turned = np.array(geom["pose"]), rotation(body[3:])
        placed.append((turned @ pose[:3] + body[:3], turned @ rotation(pose[3:]), geom["size"]))
    assert len(placed) == len(visible)
    for number in visible:
        place, matrix = data.geom_xpos[number], data.geom_xmat[number].reshape(3, 3)
        assert any(
            np.abs(position - place).max() < 5e-6
            and np.abs(turn - matrix).max() < 1e-5
            and np.abs(np.array(size) - model.geom_size[number]).max() < 1e-6
            for position, turn, size in placed
        )


def test_the_arms_in_the_box_have_their_links() -> None:
    counts = {}
    for task in ("pick_cube", "push_cube"):
        backend = make_backend(task)
        geometry, _ = opened(SceneView(backend), backend.reset(seed=0).observation)
        counts[task] = len(geometry["bodies"]), len(geometry["geoms"])
        assert len(json.dumps(geometry)) < 8192
    assert counts == {"pick_cube": (10, 45), "push_cube": (11, 46)}


def test_frames_say_where_the_tip_is_which_force_acts_and_which_filters_intervened() -> None:
    backend, clock = make_backend("pick_cube"), ManualClock()
    step = backend.reset(seed=0)
    view = SceneView(backend, SceneLimits((0.1, -0.2, 0.0), (0.5, 0.2, 0.4)), clock)
    geometry, frame = opened(view, step.observation)
    assert geometry["box"] == [0.1, -0.2, 0.0, 0.5, 0.2, 0.4]
    assert geometry["version"] == frame["version"] and frame["changed"] == []
    assert np.abs(np.array(frame["tip"]) - backend.arm.position(backend.data)).max() < 1e-6
    force = backend.data.site_xmat[backend.arm._wrist].reshape(3, 3) @ backend.arm.wrench(backend.data)[0]
    assert np.abs(np.array(frame["force"]) - force).max() < 0.006
    for reasons in (("workspace",), (), ("speed", "workspace")):
        view.note(Verdict(changed=bool(reasons), reasons=reasons))
    view.note(Verdict(reasons=("contact",)))
    assert view.take(step.observation) == (b"", b""), "the last frame is too recent"
    clock.sleep_until_ns(clock.now_ns() + 100_000_000)
    assert json.loads(view.take(step.observation).frame)["changed"] == ["workspace", "speed"]
    clock.sleep_until_ns(clock.now_ns() + 10_000_000_000)
    again = view.take(step.observation)
    assert json.loads(again.geometry)["version"] == geometry["version"], "for pages whose message was lost"
    assert json.loads(again.frame)["changed"] == []


def test_a_changed_model_has_another_version() -> None:
    backend = make_backend("pick_cube")
    step = backend.reset(seed=0)
    view = SceneView(backend)
    before, _ = opened(view, step.observation)
    assert opened(view, step.observation)[0] == {}
    backend.model.geom_rgba[-1] = (0, 0, 1, 1)
    after, frame = opened(view, step.observation)
    assert after["version"] == frame["version"] != before["version"]


@pytest.mark.parametrize("task", ["pick_cube", "open_door"])
def test_a_robot_is_posed_by_its_measured_joints_and_objects_that_move_are_left_out(task: str) -> None:
    simulated = make_backend(task)
    step = simulated.reset(seed=0)
    for _ in range(5):
        step = simulated.step(np.array([0.5, -0.5, 0.3, 1.0][: simulated.spec.action.shape[0]], np.float32))
    whole, truth = opened(SceneView(simulated), step.observation)
    geometry, frame = opened(SceneView(as_robot(simulated)), step.observation)
    expected = dict(zip(whole["bodies"], np.array(truth["poses"]).reshape(-1, 7), strict=True))
    assert set(geometry["bodies"]) < set(expected)
    assert len(geometry["bodies"]) == 9 and geometry["camera"] == whole["camera"]
    for name, pose in zip(geometry["bodies"], np.array(frame["poses"]).reshape(-1, 7), strict=True):
        assert np.abs(pose[:3] - expected[name][:3]).max() < 1e-3, "the fingers share one opening"
    assert np.abs(np.array(frame["tip"]) - truth["tip"]).max() < 1e-5, "float32"
    assert frame["force"] == pytest.approx(truth["force"], abs=0.02)


def test_observations_that_hide_joints_leave_the_scene_alone() -> None:
    inner = make_backend("pick_cube")
    step = inner.reset(seed=0)
    _, expected = opened(SceneView(as_robot(inner)), step.observation)

    class Robot(WrappedBackend):
        """The backend without a state of its own, as of a robot."""

        def reset(self, seed: int | None = None) -> Any:
            return step

    robot = Robot(SimpleNamespace(spec=inner.spec, robot=inner.robot))  # type: ignore[arg-type]
    relative = RelativeBackend(robot)  # type: ignore[arg-type]
    _, frame = opened(SceneView(relative), relative.reset(0).observation)
    assert frame["poses"] == expected["poses"]
    turning = TurningBackend(robot)  # type: ignore[arg-type]
    _, frame = opened(SceneView(turning), turning.reset(0).observation)
    assert frame["poses"] == expected["poses"]


def test_without_a_model_there_is_no_scene() -> None:
    backend = make_backend("pick_cube")
    view = SceneView(SimpleNamespace(spec=backend.spec, robot=None))  # type: ignore[arg-type]
    assert not view.is_possible and view.take({}) == (b"", b"")


MESHES = """
<mujoco>
  <worldbody>
    <body name="seen"><freejoint/><geom size="2" group="3"/></body>
    <body name="collides" pos="9 0 0"><freejoint/><geom size=".5" group="3"/></body>
    <body name="clear" pos="99 0 0"><freejoint/><geom size=".5" rgba="0 0 0 0"/></body>
    <geom name="forbidden" type="box" size="1 1 1" rgba="0 0 0 0"/>
    <geom name="allowed" type="box" size="1 1 1" rgba="0 0 0 0"/>
  </worldbody>
</mujoco>
"""


def sphere(count: int) -> tuple[Any, Any]:
    """Return a sphere of radius 1 m with ``count`` rings of twice as many points."""
    down, around = np.meshgrid(np.linspace(0, np.pi, count), np.linspace(0, 2 * np.pi, 2 * count), indexing="ij")
    points = np.stack([np.sin(down) * np.cos(around), np.sin(down) * np.sin(around), np.cos(down)], -1).reshape(-1, 3)
    corner = (np.arange(count - 1)[:, None] * 2 * count + np.arange(2 * count - 1)).ravel()
    faces = [(corner, corner + 2 * count, corner + 1), (corner + 1, corner + 2 * count, corner + 2 * count + 1)]
    return points, np.concatenate([np.stack(face, 1) for face in faces])


def test_meshes_are_simplified_and_bodies_without_visible_shapes_show_those_that_collide() -> None:
    spec = mujoco.MjSpec.from_string(MESHES)
    points, faces = sphere(150)
    spec.add_mesh(name="ball", uservert=points.ravel(), userface=faces.ravel())
    spec.body("seen").add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="ball", mass=1)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert model.mesh_facenum[0] > MOST_TRIANGLES
    scene = SceneGeometry(model, SceneLimits(keep_out=("forbidden",))).describe(data)
    assert scene["bodies"] == ["seen", "collides"]
    assert sorted((geom["type"], geom["body"]) for geom in scene["geoms"]) == [("box", 0), ("mesh", 1), ("sphere", 2)]
    keep_out = next(geom for geom in scene["geoms"] if geom["type"] == "box")
    assert 0 < keep_out["colour"][3] < 1
    points = np.frombuffer(base64.b64decode(scene["meshes"][0]["vertices"]), "<f4").reshape(-1, 3)
    faces = np.frombuffer(base64.b64decode(scene["meshes"][0]["faces"]), "<u2").reshape(-1, 3)
    assert MOST_TRIANGLES / 4 < len(faces) <= MOST_TRIANGLES and faces.max() == len(points) - 1
    assert np.abs(np.linalg.norm(points, axis=1) - 1).max() < 0.02, "still a sphere"


@pytest.mark.parametrize("most", [1, 100, 5000])
def test_a_simplified_mesh_never_has_more_triangles(most: int) -> None:
    rng = np.random.default_rng(0)
    vertices = rng.standard_normal((9000, 3)).astype(np.float32)
    faces = rng.integers(0, 9000, (20_000, 3)).astype(np.int32)
    points, corners = simplified(vertices, faces, most)
    assert len(corners) <= most and (len(corners) == 0 or corners.max() < len(points))
