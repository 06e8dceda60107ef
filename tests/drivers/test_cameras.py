"""Cameras without ROS: files, streams that go away and come back, devices as the kernel describes them."""

import errno
import shutil
import struct
import subprocess
import threading
from pathlib import Path

import cv2
import numpy as np
import pytest

from robo_rl.cli import main
from robo_rl.core import ConfigError, DriverError, MonotonicClock
from robo_rl.drivers.cameras import CameraConfig, capture, devices
from robo_rl.drivers.cameras.capture import Capture
from robo_rl.drivers.cameras.reader import MOST_DAMAGED, CameraReader

from ..rigs.picture_stream import PictureStream, picture, write_video
from ..rigs.robot_rig import wait_until

SIZE = (32, 24)


def reader(config: CameraConfig, taken: list | None = None) -> CameraReader:
    take = None if taken is None else lambda image, stamp_ns: taken.append((image, stamp_ns))
    return CameraReader("front", config, SIZE, MonotonicClock(), take)


def test_a_file_is_played_once_at_its_rate_in_rgb_and_at_the_size_that_is_observed(tmp_path, capsys):
    taken: list = []
    camera = reader(CameraConfig(write_video(tmp_path / "a.avi", 10)), taken)
    wait_until(lambda: camera.problem == "the file has ended")
    camera.close()
    images, stamps = zip(*taken, strict=True)
    assert len(images) == 10
    assert images[0].shape == (24, 32, 3)
    assert images[0].dtype == np.uint8
    # JPEG and the mean over pixels cost a little; red and blue are not confused.
    assert np.abs(images[0][:, :14].astype(int) - picture(32, 24)[:, :14]).max() < 12
    assert np.abs(images[0][:, 18:].astype(int) - picture(32, 24)[:, 18:]).max() < 12
    assert images[9][0, 0, 2] > images[0][0, 0, 2] + 100
    assert all(np.diff(stamps) > 0)
    assert 0.4 < (stamps[-1] - stamps[0]) * 1e-9 < 2.0, "9 periods of 50 ms"
    newest = camera.latest()
    assert newest is not None
    assert newest[1] == stamps[-1]
    assert f"camera front ({tmp_path}/a.avi): the file has ended\n" in capsys.readouterr().out


def test_a_file_may_begin_anew_and_be_played_faster(tmp_path):
    taken: list = []
    camera = reader(CameraConfig(write_video(tmp_path / "a.avi", 5), fps=200, loop=True), taken)
    wait_until(lambda: len(taken) >= 12)
    camera.close()
    assert camera.problem == ""
    blues = [int(image[0, 0, 2]) for image, _ in taken[:12]]
    assert blues[:5] == blues[5:10]
    assert (taken[11][1] - taken[0][1]) * 1e-9 > 10 / 200


def test_a_stream_that_goes_away_is_told_and_opened_again_when_it_is_back(capsys):
    stream = PictureStream()
    camera = reader(CameraConfig(stream.url))
    try:
        wait_until(camera.latest)
        assert camera.problem == ""
        stream.stop()
        wait_until(lambda: "cannot be reached" in camera.problem)
        last = camera.latest()
        stream.start()
        wait_until(lambda: camera.problem == "" and camera.latest() is not last)
    finally:
        camera.close()
        stream.stop()
    lost, back = capsys.readouterr().out.splitlines()
    assert lost == f"camera front ({stream.url}): it gives no more pictures; it is tried again"
    assert back.startswith(f"camera front ({stream.url}) is back after ")


SMALL, WIDE, TALL, HALF = ((48, 64, 3), (48, 96, 3), (64, 48, 3), (24, 32, 3))


@pytest.mark.parametrize(
    ("shapes", "taken", "problem"),
    [
        ([SMALL, TALL, TALL], 1, "its pictures had 64 x 48 pixels, now they have 48 x 64"),  # turned
        ([SMALL, WIDE], 1, "its pictures had 64 x 48 pixels, now they have 96 x 48"),
        ([SMALL, HALF], 1, "its pictures had 64 x 48 pixels, now they have 32 x 24"),  # the size that is observed
        ([SMALL, TALL, SMALL], 2, "its pictures had 64 x 48 pixels, now they have 48 x 64"),
        ([None] * MOST_DAMAGED, 0, "its pictures are damaged, or have no three colours of 8 bit"),
        ([SMALL, *[None] * MOST_DAMAGED], 1, "its pictures are damaged, or have no three colours of 8 bit"),
        ([SMALL, *[None, SMALL] * MOST_DAMAGED], 1 + MOST_DAMAGED, ""),
    ],
)
@pytest.mark.parametrize("reopened", [False, True])
def test_pictures_that_change_or_cannot_be_used_are_not_taken(shapes, taken, problem, reopened, monkeypatch):
    parts = [[shape] for shape in shapes] if reopened and None not in shapes else [shapes]
    opened = iter(parts)
    over = threading.Event()

    class Scripted:
        """A camera that gives pictures of these shapes."""

        period = 0.0

        def __init__(self, config):
            self._shapes = list(next(opened, []))
            if not self._shapes:
                over.set()

        def grab(self):
            return bool(self._shapes)

        def retrieve(self):
            shape = self._shapes.pop(0)
            return None if shape is None else np.zeros(shape, np.uint8)

        def close(self): ...

    monkeypatch.setattr("robo_rl.drivers.cameras.reader.open_capture", Scripted)
    monkeypatch.setattr("robo_rl.drivers.cameras.reader.FIRST_PAUSE", 0.0)
    images: list = []
    problems: list = []
    report = CameraReader._report_loss

    def noted(camera, text, consequence):
        problems.append(text)
        report(camera, text, consequence)

    monkeypatch.setattr(CameraReader, "_report_loss", noted)
    camera = reader(CameraConfig("http://camera"), images)
    assert over.wait(20)
    camera.close()
    assert len(images) == taken and all(image.shape == (24, 32, 3) for image, _ in images)
    assert set(problems) - {"it gives no more pictures"} - {problem} == set() and problem in ["", *problems]


def test_a_camera_that_is_not_there_is_named_beside_those_that_are(tmp_path, monkeypatch):
    found = [devices.Device("/dev/video2", "Desk camera")]
    monkeypatch.setattr(capture, "find_devices", lambda: found)
    for device in ("/dev/video97", "97"):
        camera = reader(CameraConfig(device))
        wait_until(lambda camera=camera: camera.problem != "no picture yet")
        camera.close()
        assert camera.problem == "/dev/video97 is not there; cameras here: /dev/video2 (Desk camera)"
    found.clear()
    with pytest.raises(DriverError, match="/dev/video97 is not there; there are no cameras here"):
        Capture(CameraConfig("97"))
    with pytest.raises(DriverError, match="/dev/null cannot be opened: another program may have it, or it is no cam"):
        Capture(CameraConfig("/dev/null"))
    with pytest.raises(DriverError, match=r"there is no video file nothing\.mp4"):
        Capture(CameraConfig("nothing.mp4"))
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(DriverError, match=r"text\.mp4 is no video"):
        Capture(CameraConfig(str(tmp_path / "text.mp4")))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"device": "0", "width": 640}, "camera.width must be given with camera.height"),
        ({"device": "0", "format": "MJPEG"}, "camera.format must be four characters"),
        ({"device": "0", "fps": 0}, "camera.fps must be above 0"),
        ({"device": "0", "settings": {"expsure": 1}}, "did you mean 'exposure'"),
        ({"device": "0", "loop": True}, "camera.loop must be false: '0' is no video file"),
        ({"device": "a.mp4", "format": "MJPG"}, "camera.format must be left out: only devices have it, not 'a.mp4'"),
        ({"device": "a.mp4", "settings": {"gain": 1}}, "camera.settings must be left out"),
        ({"device": "rtsp://host/1", "fps": 10}, "camera.fps must be null"),
    ],
)
def test_what_a_camera_cannot_be_asked_for_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        CameraConfig(**fields)


class Webcam:
    """What OpenCV makes of a device that has two sizes, and automatic exposure in the way of a fixed one."""

    def __init__(self, *_: object) -> None:
        self.asked: list[str] = []
        self.values = {cv2.CAP_PROP_FPS: 30.0}
        self.released = False

    def isOpened(self) -> bool:  # noqa: N802
        return True

    def get(self, key: int) -> float:
        return self.values.get(key, 0.0)

    def set(self, key: int, value: float) -> bool:
        names = ("FOURCC", "FRAME_WIDTH", "FRAME_HEIGHT", "FPS", "EXPOSURE", "AUTO_EXPOSURE", "FOCUS")
        self.asked += [name for name in names if getattr(cv2, f"CAP_PROP_{name}") == key]
        if key == cv2.CAP_PROP_EXPOSURE:
            return self.get(cv2.CAP_PROP_AUTO_EXPOSURE) == 1
        if key == cv2.CAP_PROP_FRAME_WIDTH:
            value = 1280.0 if value > 640 else 640.0
        if key == cv2.CAP_PROP_FOURCC and value != cv2.VideoWriter.fourcc(*"MJPG"):
            value = float(cv2.VideoWriter.fourcc(*"YUYV"))
        self.values[key] = value
        return key != cv2.CAP_PROP_FOCUS

    def release(self) -> None:
        self.released = True


def test_a_device_is_set_in_an_order_that_works_and_held_to_it(monkeypatch):
    webcams: list[Webcam] = []
    monkeypatch.setattr(cv2, "VideoCapture", lambda *_: webcams.append(Webcam()) or webcams[-1])
    asked = CameraConfig("/dev/null", 1280, 720, 15, "MJPG", {"exposure": 120, "auto_exposure": 1})
    Capture(asked)
    assert webcams[0].asked == ["FOURCC", "FRAME_WIDTH", "FRAME_HEIGHT", "FPS", "AUTO_EXPOSURE", "EXPOSURE"]
    for fields, message in (
        ({"width": 800, "height": 600}, "/dev/null has width 1280, not 800; robo-rl cameras shows what it can do"),
        ({"format": "H264"}, "/dev/null has format YUYV, not H264"),
        ({"settings": {"exposure": 100}}, "/dev/null does not take exposure=100"),
        ({"settings": {"focus": 3}}, "/dev/null does not take focus=3"),
    ):
        with pytest.raises(DriverError, match=message):
            Capture(CameraConfig("/dev/null", **fields))
        assert webcams[-1].released


HEADER = Path("/usr/include/linux/videodev2.h")


@pytest.mark.skipif(not HEADER.exists() or shutil.which("g++") is None, reason="needs a compiler and kernel headers")
def test_structures_are_those_of_the_kernel(tmp_path):
    """Numbers of requests, which have the sizes in them, and places of what is read."""
    code = """
#include <linux/videodev2.h>
#include <cstddef>
#include <cstdio>
int main() {
  printf("%zu %zu %zu %zu ", (size_t)VIDIOC_QUERYCAP, (size_t)VIDIOC_ENUM_FMT, (size_t)VIDIOC_ENUM_FRAMESIZES,
         (size_t)VIDIOC_ENUM_FRAMEINTERVALS);
  printf("%zu %zu %zu %zu ", offsetof(v4l2_capability, card), offsetof(v4l2_capability, device_caps),
         offsetof(v4l2_fmtdesc, pixelformat), offsetof(v4l2_frmsizeenum, discrete));
  printf("%zu %u %u %u %u %u", offsetof(v4l2_frmivalenum, discrete), V4L2_CAP_VIDEO_CAPTURE,
         V4L2_CAP_VIDEO_CAPTURE_MPLANE, V4L2_CAP_DEVICE_CAPS, V4L2_BUF_TYPE_VIDEO_CAPTURE,
         V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE);
}
"""
    (tmp_path / "sizes.cpp").write_text(code)
    subprocess.run(["g++", "-o", tmp_path / "sizes", tmp_path / "sizes.cpp"], check=True)
    said = subprocess.run([tmp_path / "sizes"], check=True, capture_output=True, text=True).stdout
    layouts = ((2, 0, devices.CAPABILITY), (3, 2, devices.FORMAT), (3, 74, devices.FRAME_SIZE))
    requests = [devices.request(*layout) for layout in (*layouts, (3, 75, devices.FRAME_INTERVAL))]
    places = [struct.calcsize(part) for part in ("16s", "16s32s32sII", "3I32s", "3I", "5I")]
    constants = [devices.CAPTURE, devices.CAPTURE_PLANES, devices.HAS_DEVICE_CAPABILITIES, 1, 9]
    assert [int(word) for word in said.split()] == [*requests, *places, *constants]


def test_devices_are_found_with_what_they_can_do(tmp_path, monkeypatch):
    """The answers of a kernel that has a webcam of two formats, and its second node, which gives no pictures."""
    for name in ("video10", "video2", "video3", "videodev"):
        (tmp_path / name).touch()
    (tmp_path / "v4l/by-id").mkdir(parents=True)
    (tmp_path / "v4l/by-id/usb-Desk-index0").symlink_to("../../video2")
    mjpg, yuyv = (int.from_bytes(word, "little") for word in (b"MJPG", b"YUYV"))
    sizes = {mjpg: [(1280, 720), (640, 480)]}

    def answer(file: int, request: int, data: bytearray) -> None:
        node = Path(f"/proc/self/fd/{file}").readlink().name
        number, index, code = request & 0xFF, *struct.unpack_from("2I", data)
        if node == "video10" and number == 0:
            raise OSError(errno.ENOTTY, "no camera")
        match number:
            case 0:
                data[16:27] = b"Desk camera"
                struct.pack_into("2I", data, 84, 0x84A00001, 0x04200001 if node == "video2" else 0x04A00000)
            case 2 if index < 2:
                struct.pack_into("I", data, 44, (mjpg, yuyv)[index])
            case 74 if code == yuyv and index == 0:
                struct.pack_into("7I", data, 8, 3, 16, 640, 16, 16, 480, 16)
            case 74 if index < len(sizes.get(code, ())):
                struct.pack_into("3I", data, 8, 1, *sizes[code][index])
            case 75 if index < 2:
                struct.pack_into("3I", data, 16, 1, 1, (30, 15)[index])
            case _:
                raise OSError(errno.EINVAL, "no more")

    monkeypatch.setattr(devices.fcntl, "ioctl", answer)
    (device,) = devices.find_devices(tmp_path)
    assert (device.path, device.name) == (f"{tmp_path}/video2", "Desk camera")
    assert device.link == f"{tmp_path}/v4l/by-id/usb-Desk-index0"
    assert device.modes == (
        devices.Mode("MJPG", "1280x720", (30.0, 15.0)),
        devices.Mode("MJPG", "640x480", (30.0, 15.0)),
        devices.Mode("YUYV", "16x16 to 640x480", ()),
    )


def test_a_device_of_this_machine_gives_pictures():
    found = [device for device in devices.find_devices() if not device.problem]
    if not found:
        pytest.skip("there is no camera")
    camera = reader(CameraConfig(found[0].path))
    wait_until(camera.latest)
    camera.close()


def test_the_command_saves_a_picture_of_each(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_video(tmp_path / "a.avi", 3)
    with pytest.raises(SystemExit) as caught:
        main(["cameras", "cameras.also=[a.avi,gone.avi]", "cameras.output=pictures"])
    out = capsys.readouterr().out
    assert caught.value.code == 1
    assert "a.avi\n  picture of 64x48: pictures/also0.png\ngone.avi\n  there is no video file gone.avi\n" in out
    image = cv2.cvtColor(cv2.imread("pictures/also0.png"), cv2.COLOR_BGR2RGB).astype(int)
    assert np.abs(image[:, :28, :2] - picture()[:, :28, :2]).max() < 12
    with pytest.raises(SystemExit) as caught:
        main(["cameras", "cameras.seconds=-1"])
    assert caught.value.code == 2
    assert "cameras.seconds" in capsys.readouterr().err
