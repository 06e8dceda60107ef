"""Cameras of the virtual robot: what they see, and that the robot does not wait for them."""

import threading
import time

import numpy as np
import pytest

from robo_rl.core import RenderingError
from robo_rl.drivers.virtual.config import VirtualRobotConfig
from robo_rl.drivers.virtual.filming import CameraThread
from robo_rl.sim import make_backend
from robo_rl.sim.config import ObservationConfig

PERIOD_NS = 1_000_000_000 // 30


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Robot:
    """A robot whose pictures take as long as the test wants, and show how often the world was looked at."""

    cameras = ("front", "wrist")

    def __init__(self):
        self.looks, self.closed, self.failure = 0, False, None
        self.drawing, self.go = threading.Event(), threading.Event()

    def look(self):
        self.looks += 1

    def image(self, camera):
        self.drawing.set()
        assert self.go.wait(30)
        if self.failure:
            raise self.failure
        return np.full((4, 4, 3), self.looks, np.uint8)

    def close_cameras(self):
        self.closed = True


class Topics:
    def __init__(self):
        self.pictures = []

    def publish_image(self, camera, image):
        self.pictures.append((camera, image))


@pytest.fixture
def filming():
    robot, topics = Robot(), Topics()
    thread = CameraThread(VirtualRobotConfig(camera_rate=30, camera_noise=0.0), robot, topics)
    yield thread, robot, topics
    robot.go.set()
    thread.close()
    assert robot.closed


def test_pictures_come_at_their_rate_without_drift(filming):
    thread, robot, topics = filming
    robot.go.set()
    for milliseconds in range(0, 1000, 2):
        thread.turn(10**12 + milliseconds * 1_000_000)
        wait_until(lambda: len(topics.pictures) == 2 * robot.looks)
    assert robot.looks == 30
    assert [camera for camera, _ in topics.pictures[:4]] == ["front", "wrist", "front", "wrist"]


def test_the_robot_never_waits_for_a_picture_and_the_world_stays_as_it_is_while_one_is_drawn(filming):
    thread, robot, topics = filming
    for number in range(5):
        thread.turn(10**12 + number * PERIOD_NS)
    assert robot.looks == 1
    robot.go.set()
    wait_until(lambda: len(topics.pictures) == 2)
    assert all((image == 1).all() for _, image in topics.pictures)


def test_a_machine_that_cannot_render_ends_the_robot(filming):
    thread, robot, _ = filming
    robot.failure = RenderingError("no graphics")
    robot.go.set()
    thread.turn(10**12)
    wait_until(lambda: robot.closed)
    with pytest.raises(RenderingError, match="no graphics"):
        thread.turn(10**12 + PERIOD_NS)


def test_it_ends_while_a_picture_is_drawn(filming):
    thread, robot, topics = filming
    thread.turn(10**12)
    wait_until(robot.drawing.is_set)
    closing = threading.Thread(target=thread.close, daemon=True)
    closing.start()
    wait_until(lambda: thread._closed.is_set())
    robot.go.set()
    closing.join(10)
    assert not closing.is_alive() and robot.closed
    assert len(topics.pictures) == 2


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_noise_has_the_deviation_that_was_asked_for(noise):
    robot, topics = Robot(), Topics()
    robot.go.set()
    robot.image = lambda camera: np.full((64, 64, 3), 100, np.uint8)
    thread = CameraThread(VirtualRobotConfig(camera_noise=noise), robot, topics)
    thread.turn(10**12)
    wait_until(lambda: len(topics.pictures) == 2)
    thread.close()
    first, second = (image.astype(float) for _, image in topics.pictures)
    assert first.mean() == pytest.approx(100, abs=0.1)
    assert first.std() == pytest.approx(noise, abs=0.1)
    assert np.array_equal(first, second) is (noise == 0), "no two pictures have the same noise"


def test_noise_is_independent_in_neighbours_and_from_picture_to_picture_and_saturates():
    """Correlations of n independent pairs have a deviation of 1 / sqrt(n); five of them are the bound."""
    thread = CameraThread(VirtualRobotConfig(camera_noise=5.0), Robot(), Topics())
    try:
        grey = np.full((64, 64, 3), 128, np.uint8)
        noise = np.stack([thread._noisy(grey).astype(float) - 128 for _ in range(50)])
        pairs = {
            "pixels": (noise[:, :, 1:], noise[:, :, :-1]),
            "colours": (noise[..., 1:], noise[..., :-1]),
            "pictures": (noise[1:], noise[:-1]),
        }
        for name, (one, other) in pairs.items():
            correlation = np.corrcoef(one[0].ravel(), other[0].ravel())[0, 1]
            assert abs(correlation) < 5 / np.sqrt(one[0].size), name
        for value, share in ((0, 0.54), (255, 0.54)):  # half of all, and what is rounded to zero: P(|x| < 0.5) / 2
            noisy = thread._noisy(np.full((64, 64, 3), value, np.uint8))
            assert abs(int(np.median(noisy)) - value) <= 1
            assert (noisy == value).mean() == pytest.approx(share, abs=0.03)
        thread.noise = 1.0
        assert (thread._noisy(grey).astype(float) - 128).std() == pytest.approx(np.sqrt(1 + 1 / 12), abs=0.03)
    finally:
        thread.close()


def test_noise_follows_the_size_of_the_picture_and_none_is_none():
    thread = CameraThread(VirtualRobotConfig(camera_noise=2.0), Robot(), Topics())
    try:
        for shape in ((4, 6, 3), (32, 24, 3), (2, 2, 3)):
            image = np.full(shape, 90, np.uint8)
            assert thread._noisy(image).shape == shape and (image == 90).all()
        thread.noise = 0.0
        assert thread._noisy(image) is image
    finally:
        thread.close()


@pytest.mark.parametrize("task", ["reach", "drive"])
def test_a_picture_shows_the_world_as_it_was_at_the_last_look(task):
    view = ObservationConfig(cameras=("front",), width=32, height=32)
    stepped = make_backend(task, observation=view)
    robot = make_backend(task, observation=view).as_robot()
    seen = stepped.reset(0).observation["images/front"]
    robot.reset(0)
    robot.look()
    for _ in range(50):
        robot.advance(1)
    robot.reset(5)
    try:
        np.testing.assert_array_equal(robot.image("front"), seen)
    except RenderingError as error:
        pytest.skip(str(error))
    finally:
        robot.close_cameras()
        robot.close()
        stepped.close()
