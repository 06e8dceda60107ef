"""Comparison of the views of a camera that was moved by known amounts, as MuJoCo renders them."""

import functools
from collections.abc import Callable
from pathlib import Path

import cv2
import mujoco
import numpy as np
import pytest

from robo_rl.calibration import compare_views, overlay
from robo_rl.cli import main
from robo_rl.core import DataError
from robo_rl.sim import make_backend
from robo_rl.sim.backend import ArmBackend

SIZE = (480, 640)
FOCAL = SIZE[0] / 2 / np.tan(np.radians(45) / 2)
"""Focal length of the camera ``front`` [pixels]."""
X, Y, Z = np.eye(3)
"""Axes of MuJoCo's cameras: to the right, upwards, and out of the picture."""

Look = Callable[..., np.ndarray]


@functools.cache
def looking(task: str) -> Look:
    """Return a function that renders the scene of a task by the camera ``front``, turned [degrees] about an axis.

    Each picture is rendered once.
    """
    backend = make_backend(task)
    assert isinstance(backend, ArmBackend)
    backend.reset(0)
    model, data = backend.model, backend.data
    camera = model.camera("front").id
    place, posture = model.cam_pos[camera].copy(), model.cam_quat[camera].copy()

    pictures: dict[tuple[float, ...], np.ndarray] = {}

    def look(axis: np.ndarray = Z, degrees: float = 0.0, moved: tuple[float, float, float] = (0, 0, 0)) -> np.ndarray:
        view = (*axis.tolist(), degrees, *moved)
        if view not in pictures:
            pictures[view] = render(axis, degrees, moved)
        return pictures[view]

    def render(axis: np.ndarray, degrees: float, moved: tuple[float, float, float]) -> np.ndarray:
        turn = np.empty(4)
        mujoco.mju_axisAngle2Quat(turn, axis, np.radians(degrees))
        mujoco.mju_mulQuat(model.cam_quat[camera], posture, turn)
        model.cam_pos[camera] = place + moved
        mujoco.mj_forward(model, data)
        with mujoco.Renderer(model, *SIZE) as renderer:
            renderer.update_scene(data, camera="front")
            picture: np.ndarray = renderer.render()
        return picture

    return look


@pytest.fixture(scope="module")
def look() -> Look:
    return looking("pick_cube")


@pytest.mark.parametrize(
    ("axis", "degrees", "shift", "rotation"),
    [
        (Z, 0.0, (0, 0), 0.0),
        (Y, 1.0, (FOCAL * np.tan(np.radians(1)), 0), 0.0),  # the camera turns left, and the scene moves to the right
        (X, -0.5, (0, -FOCAL * np.tan(np.radians(0.5))), 0.0),
        (Z, 3.0, (0, 0), 3.0),
        (Z, -0.7, (0, 0), -0.7),
    ],
)
def test_rotations_of_the_camera_are_measured(
    look: Look, axis: np.ndarray, degrees: float, shift: tuple[float, float], rotation: float
) -> None:
    noise = np.random.default_rng(0).normal(0, 2, (2, *SIZE, 3))
    pictures = [
        np.clip(each + disturbance, 0, 255).astype(np.uint8)
        for each, disturbance in zip((look(), look(axis, degrees)), noise, strict=True)
    ]
    change = compare_views(*pictures)
    assert change is not None and change.matches >= 15
    assert change.shift == pytest.approx(shift, abs=0.7)
    assert change.rotation == pytest.approx(rotation, abs=0.15)
    corner = np.hypot(*SIZE) / 2 * 2 * np.sin(np.radians(abs(rotation)) / 2)
    assert change.farthest == pytest.approx(max(np.hypot(*shift), corner), abs=2)
    assert change.brightness == pytest.approx(1, abs=0.02)


def test_a_camera_that_was_displaced_is_noticed(look: Look) -> None:
    """By parallax, near things move further than distant ones: the numbers are those of most features."""
    change = compare_views(look(), look(moved=(0, 0.01, 0)))
    assert change is not None and 4 < np.hypot(*change.shift) < 15 and change.farthest > 5


@pytest.mark.parametrize("factor", [0.6, 1.25])
def test_a_change_of_exposure_is_measured_beside_a_motion(look: Look, factor: float) -> None:
    brighter = np.clip(look(Y, 1.0) * factor, 0, 255).astype(np.uint8)
    change = compare_views(look(), brighter)
    assert change is not None
    assert change.brightness == pytest.approx(factor, rel=0.06) and change.shift[0] == pytest.approx(10.1, abs=0.7)


@pytest.mark.parametrize("task", ["push_cube", "wipe", "open_door"])
def test_another_scene_is_no_match(look: Look, task: str) -> None:
    assert compare_views(look(), looking(task)()) is None


def test_a_camera_that_was_turned_away_is_no_match(look: Look) -> None:
    assert compare_views(look(), look(Y, 40.0)) is None


def test_without_features_the_phase_gives_the_shift_alone(look: Look) -> None:
    blurred = cv2.GaussianBlur(look(), (0, 0), 12)
    change = compare_views(blurred, np.roll(blurred, (6, -9), axis=(0, 1)))
    assert change is not None and change.matches == 0 and change.rotation is None
    assert change.shift == pytest.approx((-9, 6), abs=0.7)
    assert compare_views(blurred, np.full_like(blurred, 90)) is None
    noise = np.random.default_rng(0).integers(0, 255, blurred.shape, dtype=np.uint8)
    assert compare_views(blurred, cv2.GaussianBlur(noise, (0, 0), 12)) is None


def test_pictures_of_other_sizes_are_refused(look: Look) -> None:
    with pytest.raises(DataError, match="the picture has 320 x 240 pixels, the reference 640 x 480"):
        compare_views(look(), cv2.resize(look(), (320, 240)))


def test_the_overlay_is_grey_where_the_views_agree(look: Look) -> None:
    assert np.ptp(overlay(look(), look()).astype(int), axis=2).max() == 0
    assert np.ptp(overlay(look(), look(Y, 2.0)).astype(int), axis=2).max() > 50


def film(file: Path, picture: np.ndarray) -> None:
    """Write a video of a camera that stands still."""
    writer = cv2.VideoWriter(str(file), cv2.VideoWriter.fourcc(*"MJPG"), 10, (SIZE[1], SIZE[0]))
    for _ in range(3):
        writer.write(cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    writer.release()


def cameras(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    """Run ``robo-rl cameras`` with two files as cameras; return exit code and output."""
    with pytest.raises(SystemExit) as caught:
        main(["cameras", "cameras.also=[front.avi,side.avi]", *options])
    printed = capsys.readouterr()
    return int(caught.value.code or 0), printed.out + printed.err


def test_the_command_compares_with_yesterday(
    look: Look, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("robo_rl.drivers.cameras.finding.find_devices", lambda: [])
    front, side = Path("front.avi"), Path("side.avi")
    film(front, look())
    film(side, look(X, 2.0))
    assert cameras(capsys, "cameras.output=yesterday")[0] == 0
    code, printed = cameras(capsys, "reference=yesterday")
    assert code == 0 and printed.count("shifted by") == 2 and "brightness +0 %" in printed
    assert cv2.imread("cameras/also0_overlay.png").shape == (*SIZE, 3)

    film(front, look(Y, 1.0))
    film(side, (look(X, 2.0) * 0.6).astype(np.uint8))
    code, printed = cameras(capsys, "reference=yesterday")
    assert code == 1 and "shifted by 10." in printed
    assert "the view has moved by 1" in printed and "5 are allowed (largest_shift)" in printed
    assert "the brightness has changed by -" in printed and "20 % are allowed" in printed
    assert cameras(capsys, "reference=yesterday", "largest_shift=20", "largest_brightness_change=0.5")[0] == 0

    film(front, looking("wipe")())
    side.unlink()
    code, printed = cameras(capsys, "reference=yesterday")
    assert code == 1 and "no match: it does not show the scene of yesterday/also0.png" in printed
    assert "shifted" not in printed and "brightness" not in printed
    assert "yesterday/also1.png: no camera gives this picture now" in printed

    (Path("yesterday") / "also0.png").write_bytes(b"\x89PNG no picture")
    code, printed = cameras(capsys, "reference=yesterday")
    assert code == 1 and "yesterday/also0.png" in printed and "Traceback" not in printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["reference=nowhere"], "nowhere has no pictures of cameras; save them with robo-rl cameras"),
        (["reference=cameras"], "expected another folder than reference=cameras"),
        (["reference=cameras", "cameras.output=null"], "expected another folder"),
        (["largest_shift=0"], "largest_shift"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, printed = cameras(capsys, *options)
    assert code == 2 and message in printed
