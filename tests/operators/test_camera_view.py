"""The cameras that a person sees while driving, and the directions that their pictures show."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest
from omegaconf import OmegaConf
from scipy.spatial.transform import Rotation

from robo_rl.core import ArraySpec, CameraModel, CameraPose, ConfigError, Intervention, ManualClock, MonotonicClock
from robo_rl.operators.camera_view import find_headings, heading
from robo_rl.operators.panel import Panel
from robo_rl.sim import make_backend

from ..rigs.specs import steered_spec

DOWN = np.diag([1.0, -1.0, -1.0])
"""A camera above the table that looks down, with the base's x to the right in its picture."""


def test_what_is_upwards_in_a_picture_is_the_direction_of_its_heading() -> None:
    backend = make_backend("pick_cube")
    backend.reset(0)
    headings = find_headings(OmegaConf.create({"task": {}}), backend)
    assert set(headings) == {"view", "front"}, "the wrist's camera moves"
    for name, angle in headings.items():
        number = mujoco.mj_name2id(backend.model, mujoco.mjtObj.mjOBJ_CAMERA, name)
        camera, place = backend.data.cam_xmat[number].reshape(3, 3), backend.data.cam_xpos[number]

        def pixel(point: np.ndarray, camera: np.ndarray = camera, place: np.ndarray = place) -> np.ndarray:
            right, up, back = camera.T @ (point - place)
            return np.array([right, up]) / -back

        # In the middle of the picture, where perspective does not turn lines.
        middle = place - camera[:, 2] * place[2] / camera[2, 2]
        moved = pixel(middle + 0.05 * np.array([math.cos(angle), math.sin(angle), 0])) - pixel(middle)
        assert moved[1] > 0.005 and abs(moved[0]) < 0.05 * moved[1]
    backend.close()


@pytest.mark.parametrize(
    ("rotation", "angle"),
    [
        (DOWN, math.pi / 2),
        (Rotation.from_euler("z", 0.4).as_matrix() @ DOWN, math.pi / 2 + 0.4),
        (np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]]), 0.0),  # level, and looks along x
        (np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]]), None),  # on its side
        (np.eye(3), None),  # looks up
    ],
)
def test_headings_of_cameras(rotation: np.ndarray, angle: float | None) -> None:
    assert heading(rotation) == (None if angle is None else pytest.approx(angle))


def test_a_robots_cameras_are_those_whose_pose_beside_it_was_measured(tmp_path: Path) -> None:
    quaternion = tuple(Rotation.from_matrix(DOWN).as_quat())
    files = {}
    for name, frame in (("above", "base"), ("wrist", "end_effector"), ("other", None)):
        pose = None if frame is None else CameraPose(frame, (0.4, 0.0, 0.8), quaternion)
        files[name] = str(tmp_path / f"{name}.json")
        CameraModel(640, 480, (600.0, 600.0), (320.0, 240.0), pose=pose).write(Path(files[name]))
    robot: Any = SimpleNamespace(robot=None)
    config = OmegaConf.create({"task": {"arm": {"cameras": files}}})
    assert find_headings(config, robot) == {"above": pytest.approx(math.pi / 2)}
    config.task.arm.cameras.other = str(tmp_path / "missing.json")
    with pytest.raises(ConfigError, match=r"task.arm.cameras.other: .*missing.json cannot be read"):
        find_headings(config, robot)


class Page:
    """A device with a screen for several cameras."""

    in_base_frame = True

    def __init__(self) -> None:
        self.pictures: dict[str, Any] = {}

    def read(self) -> Intervention | None:
        return None

    def reset(self, closed: bool = False) -> None: ...

    def show(self, picture: Any, lines: list[str]) -> None:
        raise AssertionError("it shows all cameras")

    def show_cameras(self, pictures: dict[str, Any], lines: list[str]) -> None:
        self.pictures = pictures

    def close(self) -> None: ...


@pytest.mark.parametrize("simulated", [True, False])
def test_a_person_sees_the_rendered_picture_and_the_other_cameras(simulated: bool) -> None:
    shapes = {"images/front": (4, 4, 9), "images/wrist": (2, 2, 3)}
    observation = {name: np.zeros(shape, np.uint8) for name, shape in shapes.items()}
    observation["images/front"][..., 6:] = 7
    spec = steered_spec(("x", "y"), observation={name: ArraySpec(shape, "uint8") for name, shape in shapes.items()})
    rendered, page = np.full((8, 8, 3), 5, np.uint8), Page()
    backend: Any = SimpleNamespace(
        spec=spec, clock=ManualClock() if simulated else MonotonicClock(), render=lambda: rendered
    )
    panel = Panel(backend, page, clock=ManualClock())
    panel.turn("step 1", facts={}, observation=observation)
    assert list(page.pictures) == (["view", "front", "wrist"] if simulated else ["front", "wrist"])
    assert page.pictures["wrist"].shape == (2, 2, 3)
    if simulated:
        np.testing.assert_array_equal(page.pictures["front"], np.full((4, 4, 3), 7), err_msg="the newest frame")
    panel.turn("waiting", facts={}, waits=True)
    assert list(page.pictures) == ["view" if simulated else "front"]
