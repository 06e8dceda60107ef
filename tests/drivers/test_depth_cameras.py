"""Cameras with depth: recordings of a RealSense through its real package, sharing, OAK, and packages that lack."""

import importlib.util
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from robo_rl.core import ConfigError, DriverError, MonotonicClock
from robo_rl.drivers.cameras import CameraConfig, realsense
from robo_rl.drivers.cameras.depth import DepthCapture, Frames, picture_of
from robo_rl.drivers.cameras.oak import Oak
from robo_rl.drivers.cameras.opening import open_capture
from robo_rl.drivers.cameras.reader import CameraReader

from ..rigs.realsense_recording import HEIGHT, WIDTH, write_recording
from ..rigs.robot_rig import wait_until

DEPTH = (0.2, 1.0)


def has_package(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None and bool(__import__(name))
    except ImportError:
        return False  # one of its libraries is missing


def test_distances_become_grey_values() -> None:
    depth = np.array([[0.0, 0.1, 0.2, 0.6, 1.0, 3.0]], np.float32)
    picture = picture_of(depth, *DEPTH)
    assert picture.shape == (1, 6, 3) and picture.dtype == np.uint8
    np.testing.assert_array_equal(picture[0, :, 0], [0, 1, 1, 128, 255, 255])
    np.testing.assert_array_equal(picture[..., 0], picture[..., 2])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"device": "realsense", "depth": (1.0, 0.2)}, r"camera\.depth must be two increasing distances"),
        ({"device": "oak", "depth": (0.2,)}, r"camera\.depth must be two increasing distances"),
        ({"device": "/dev/video0", "depth": DEPTH}, r"camera\.depth must be left out: .* not a realsense or oak"),
        ({"device": "oak", "format": "MJPG"}, r"camera\.format"),
        ({"device": "realsense:1", "loop": True}, r"camera\.loop"),
    ],
)
def test_options_that_do_not_fit_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CameraConfig(**fields)


@pytest.mark.parametrize(("device", "package"), [("realsense", "pyrealsense2"), ("oak:1", "depthai")])
def test_a_package_that_is_not_installed_is_named(device: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DriverError, match=rf"cameras need {package} .*pip install 'robo-rl\[depth\]'"):
        open_capture(CameraConfig(device))


class Counting:
    """Camera whose pictures are numbered; it waits for permission to give each."""

    opened = 0

    def __init__(self, config: CameraConfig) -> None:
        type(self).opened += 1
        self.number, self.closed, self.ready = 0, False, threading.Semaphore(0)
        Counting.last = self

    last: "Counting"

    def read(self) -> Frames | None:
        if not self.ready.acquire(timeout=20):
            return None
        self.number += 1
        return Frames(np.full((2, 2, 3), self.number, np.uint8), np.full((2, 2), 0.6, np.float32))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> type[Counting]:
    Counting.opened = 0
    monkeypatch.setattr(realsense, "RealSense", Counting)
    return Counting


def test_colours_and_depth_of_one_camera_are_read_from_the_same_pictures(counting: type[Counting]) -> None:
    colours, depth = DepthCapture(CameraConfig("realsense")), DepthCapture(CameraConfig("realsense", depth=DEPTH))
    camera = counting.last
    assert counting.opened == 1
    seen: list[np.ndarray] = []
    waiting = threading.Thread(target=lambda: (depth.grab(), seen.append(depth.retrieve())))
    waiting.start()
    camera.ready.release()
    waiting.join(20)
    assert colours.grab() and camera.number == 1, "the picture that the other one waited for"
    np.testing.assert_array_equal(colours.retrieve(), 1)
    np.testing.assert_array_equal(seen[0], 128)
    camera.ready.release()
    assert colours.grab() and camera.number == 2
    with pytest.raises(DriverError, match="open with other options; they must agree except for depth"):
        DepthCapture(CameraConfig("realsense", fps=15))
    colours.close()
    assert not camera.closed
    depth.close()
    assert camera.closed
    DepthCapture(CameraConfig("realsense", fps=15)).close()
    assert counting.opened == 2


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not has_package("pyrealsense2"):
        pytest.skip("pyrealsense2 is not installed")
    return write_recording(tmp_path_factory.mktemp("realsense") / "camera.db3")


def test_a_recording_is_played_in_colours_and_depth(recording: Path) -> None:
    device = f"realsense:{recording}"
    fields: dict[str, Any] = {"device": device, "width": WIDTH, "height": HEIGHT, "fps": 30}
    taken: dict[str, list[np.ndarray]] = {"colours": [], "depth": []}
    readers = [
        CameraReader(name, CameraConfig(**fields, depth=depth), (WIDTH // 2, HEIGHT // 2), MonotonicClock(),
                     lambda image, stamp_ns, name=name: taken[name].append(image))
        for name, depth in (("colours", ()), ("depth", DEPTH))
    ]  # fmt: skip
    try:
        wait_until(lambda: all(reader.problem == "the file has ended" for reader in readers))
    finally:
        for reader in readers:
            reader.close()
    assert min(map(len, taken.values())) > 10
    assert taken["colours"][0].shape == (HEIGHT // 2, WIDTH // 2, 3)
    red, green, blue = taken["colours"][-1][5, 5]
    assert (red, green) == (200, 10) and blue > taken["colours"][0][5, 5, 2], "in RGB, and moving on"
    left, right = (taken["depth"][-1][HEIGHT // 4, column] for column in (4, WIDTH // 2 - 4))
    np.testing.assert_array_equal(left, 0, "unknown")
    np.testing.assert_allclose(right, 128, atol=2, err_msg="0.6 m")


@pytest.mark.skipif(not has_package("pyrealsense2"), reason="pyrealsense2 is not installed")
def test_realsense_cameras_and_settings_that_do_not_exist_are_named(request: pytest.FixtureRequest) -> None:
    with pytest.raises(DriverError, match=r"realsense:1 cannot be opened with 640 x 480 at 30 Hz .*RealSense cameras"):
        open_capture(CameraConfig("realsense:1"))
    device = f"realsense:{request.getfixturevalue('recording')}"
    with pytest.raises(DriverError, match="cannot be opened with 640 x 480"):
        open_capture(CameraConfig(device))
    assert CameraConfig(device).is_file


class Group(dict[str, Any]):
    """A message group of depthai."""

    def getMessageNames(self) -> list[str]:  # noqa: N802
        return list(self)


@pytest.fixture
def depthai(monkeypatch: pytest.MonkeyPatch) -> Iterator[MagicMock]:
    """A stand-in for depthai: the real package builds no pipeline without a camera."""
    package = MagicMock()
    package.Device.return_value.getConnectedCameras.return_value = [0, 1, 2]
    monkeypatch.setitem(sys.modules, "depthai", package)
    yield package


def test_pictures_of_an_oak_are_rgb_and_metres(depthai: MagicMock) -> None:
    oak = Oak(CameraConfig("oak:abc", settings={"exposure": 8000, "gain": 200, "white_balance": 4500}))
    depthai.DeviceInfo.assert_called_once_with("abc")
    nodes = depthai.Pipeline.return_value.create.return_value
    control = nodes.build.return_value.initialControl
    control.setManualExposure.assert_called_once_with(8000, 200)
    control.setManualWhiteBalance.assert_called_once_with(4500)
    queue = nodes.out.createOutputQueue.return_value
    blue = np.zeros((2, 2, 3), np.uint8)
    blue[..., 0] = 250
    depth = SimpleNamespace(getFrame=lambda: np.full((2, 2), 700, np.uint16))
    queue.get.return_value = Group(colours=SimpleNamespace(getCvFrame=lambda: blue), depth=depth)
    frames = oak.read()
    assert frames is not None and frames.depth is not None
    assert frames.colours[0, 0].tolist() == [0, 0, 250] and frames.depth[0, 0] == pytest.approx(0.7)
    queue.get.return_value = None
    assert oak.read() is None


def test_settings_that_an_oak_lacks_are_refused(depthai: MagicMock) -> None:
    for settings, message in (
        ({"zoom": 1.0}, "no setting zoom"),
        ({"exposure": 1.0}, "exposure .* and gain .* together"),
    ):
        with pytest.raises(DriverError, match=message):
            Oak(CameraConfig("oak", settings=settings))
        depthai.Device.return_value.close.assert_called_once_with()
        depthai.reset_mock()


@pytest.mark.skipif(not has_package("depthai"), reason="depthai is not installed")
def test_depthai_has_what_is_used() -> None:
    """Names alone: the package builds no pipeline without a camera."""
    import depthai as dai

    for owner, names in (
        (dai, "Device DeviceInfo Pipeline"),
        (dai.Device, "getConnectedCameras getPlatform getAllAvailableDevices"),
        (dai.DeviceInfo, "deviceId"),
        (dai.Pipeline, "create start stop"),
        (dai.Platform, "RVC4"),
        (dai.CameraBoardSocket, "CAM_A"),
        (dai.ImgFrame, "getCvFrame getFrame"),
        (dai.ImgFrame.Type, "BGR888i"),
        (dai.node.Camera, "build requestOutput initialControl"),
        (dai.node.StereoDepth, "build inputAlignTo depth"),
        (dai.node.ImageAlign, "input inputAlignTo outputAligned"),
        (dai.node.Sync, "inputs out setSyncThreshold"),
        (dai.MessageQueue, "get"),
        (dai.MessageGroup, "getMessageNames __getitem__"),
        (dai.CameraControl, "setAutoExposureLock setAutoWhiteBalanceLock setManualExposure setManualWhiteBalance"),
    ):
        assert [name for name in names.split() if not hasattr(owner, name)] == [], owner
    with pytest.raises(DriverError, match="OAK cameras here: none"):
        open_capture(CameraConfig("oak"))
