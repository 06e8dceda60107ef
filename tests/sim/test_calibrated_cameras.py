"""Calibrated cameras in the simulator: they see what OpenCV's model of them says."""

from dataclasses import replace
from pathlib import Path

import cv2
import mujoco
import numpy as np
import pytest

from robo_rl.core import CameraModel, CameraPose, ConfigError, quaternion_of_matrix
from robo_rl.sim.config import ArmConfig, TaskConfig
from robo_rl.sim.rendering import SceneRenderer
from robo_rl.sim.simulation import ArmSimulation

from ..rigs.board_views import looking_at, transform

POINTS = np.array([[0.40, 0.0, 0.12], [0.48, 0.14, 0.06], [0.62, 0.02, 0.1]])
COLOURS = ((1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1))
BASE = looking_at((0.9, 0.3, 0.5), (0.42, 0.0, 0.05), roll=0.2)
CAMERA = CameraModel(320, 240, (300.0, 290.0), (171.0, 104.0))


def _posed(frame, pose):
    return replace(CAMERA, pose=CameraPose(frame, tuple(pose[:3, 3]), tuple(quaternion_of_matrix(pose[:3, :3]))))


def _simulation(tmp_path: Path, camera: CameraModel, name="cell"):
    camera.write(tmp_path / "camera.json")
    config = TaskConfig(arm=ArmConfig(cameras={name: str(tmp_path / "camera.json")}))

    def build(spec):
        for place, colour in zip(POINTS, COLOURS, strict=True):
            spec.worldbody.add_geom(
                type=mujoco.mjtGeom.mjGEOM_SPHERE, pos=place, size=(0.012, 0, 0), rgba=colour, contype=0, conaffinity=0
            )
        spec.visual.headlight.ambient = (1, 1, 1)

    simulation = ArmSimulation(config, build)
    simulation.data.qpos[simulation._joints] = config.arm.home
    mujoco.mj_forward(simulation.model, simulation.data)
    return simulation


def _centres(picture):
    """Return the middle (3, 2) of the pixels of each colour."""
    values = picture.astype(float)
    middles = []
    for channel in range(3):
        others = values[..., [c for c in range(3) if c != channel]].max(axis=-1)
        rows, columns = np.nonzero((values[..., channel] > 100) & (others < 0.3 * values[..., channel]))
        middles.append((columns.mean(), rows.mean()))
    return np.array(middles)


@pytest.mark.rendering
@pytest.mark.parametrize("size", [(320, 240), (160, 160)])
def test_a_fixed_camera_sees_points_where_its_model_projects_them(tmp_path: Path, size: tuple[int, int]) -> None:
    """Also in pictures of another size and shape, to which the pictures of a real camera are scaled."""
    camera = _posed("base", BASE)
    simulation = _simulation(tmp_path, camera)
    renderer = SceneRenderer(simulation.model, *size)
    picture = renderer.render(simulation.data, "cell")
    renderer.close()
    to_camera = np.linalg.inv(BASE)
    rotation, _ = cv2.Rodrigues(to_camera[:3, :3])
    expected, _ = cv2.projectPoints(POINTS, rotation, to_camera[:3, 3], camera.resized(*size).matrix(), None)
    np.testing.assert_allclose(_centres(picture), expected[:, 0], atol=0.6)


def test_a_camera_in_the_hand_moves_with_the_end_effector(tmp_path: Path) -> None:
    held = transform((0.2, -0.1, 1.5), (0.05, 0.01, -0.04))
    simulation = _simulation(tmp_path, _posed("end_effector", held), "wrist")
    model, data = simulation.model, simulation.data
    for shift in (0.0, 0.3):
        data.qpos[simulation._joints] += shift
        mujoco.mj_forward(model, data)
        site, camera = data.site("end_effector"), data.camera("wrist")
        pose = transform(site.xmat.reshape(3, 3), site.xpos) @ held
        np.testing.assert_allclose(camera.xpos, pose[:3, 3], atol=1e-9)
        np.testing.assert_allclose(camera.xmat.reshape(3, 3) * [1, -1, -1], pose[:3, :3], atol=1e-9)


def test_a_file_without_a_pose_changes_only_the_projection(tmp_path: Path) -> None:
    plain = ArmSimulation(TaskConfig(), lambda spec: None)
    simulation = _simulation(tmp_path, CAMERA, "front")
    np.testing.assert_array_equal(simulation.model.camera("front").pos, plain.model.camera("front").pos)
    assert simulation.model.camera("front").fovy == pytest.approx(np.degrees(2 * np.arctan(120 / 290)))
    with pytest.raises(ConfigError, match=r"arm.cameras.cell: its file has no pose .* no camera 'cell' in the scene"):
        _simulation(tmp_path, CAMERA, "cell")


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"format": "another"}')
    for name, reason in (("other.json", "is no camera file"), ("none.json", "No such file")):
        with pytest.raises(ConfigError, match=rf"arm.cameras.front: .*{name} cannot be read \(.*{reason}"):
            ArmSimulation(TaskConfig(arm=ArmConfig(cameras={"front": str(tmp_path / name)})), lambda spec: None)
