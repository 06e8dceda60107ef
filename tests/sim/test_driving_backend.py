"""The task drive: progress, laps, what ends an episode, and episodes that begin where the car stands."""

import math

import numpy as np
import pytest

from robo_rl.core import CheckpointError, ConfigError, DriverError, PersistentWorld
from robo_rl.sim import make_backend
from robo_rl.sim.driving.config import DetectorConfig, DriverConfig
from robo_rl.sim.driving.detectors import Detectors

PRACTICE = {"terminate_on_success": False, "truncate_on_success": True, "autonomous": True}


@pytest.fixture(scope="module")
def backend():
    backend = make_backend("drive", **PRACTICE)
    yield backend
    backend.close()


def push(backend, steering, throttle, most=200):
    """Do the same until the episode ends; return its last step and how many there were."""
    for number in range(1, most + 1):
        step = backend.step(np.array([steering, throttle], np.float32))
        if step.ended:
            return step, number
    raise AssertionError("the episode did not end")


def test_progress_of_a_lap_sums_to_its_length(backend):
    step, driver, steps = backend.reset(0), backend.expert(0), []
    while not step.ended:
        step = backend.step(driver.act(step.observation))
        steps.append(step)
    assert step.success
    assert (step.terminated, step.truncated) == (False, True)
    assert backend.task.progress.travelled == pytest.approx(backend.task.lap.length, abs=0.1)
    speed = sum(step.rewards["progress"] - step.rewards["regress"] for step in steps)
    metres = speed * backend.config.car.top_speed / backend.config.control_rate
    # The way to the next checkpoint cuts corners a little.
    assert metres == pytest.approx(backend.task.lap.length, rel=0.03)
    assert step.info["lap_seconds"] == pytest.approx(len(steps) / 20, abs=0.05)


def test_the_demonstrated_lap_lies_on_the_track(backend):
    assert backend.task.lap.length == pytest.approx(backend.task.track.length, rel=0.02)
    for point in backend.task.lap.points:
        nearest = backend.task.track.at(backend.task.track.locate(point))
        assert math.hypot(*(point - nearest)) < 0.15


def test_the_second_lap_is_timed_from_the_end_of_the_first():
    backend = make_backend("drive", laps=2, max_episode_steps=2000)
    step, driver, laps, count = backend.reset(3), backend.expert(0), [], 0
    while not step.ended:
        step = backend.step(driver.act(step.observation))
        count += 1
        laps += [step.info["lap_seconds"]] if "lap_seconds" in step.info else []
    assert len(laps) == 2
    assert sum(laps) == pytest.approx(count / 20, abs=0.05)
    assert laps[1] < laps[0], "the first began at rest"


def test_a_lap_is_told_once_and_only_if_it_was_driven():
    """Backing up over the line and crossing it again completes no lap, neither at the start nor after one."""
    backend = make_backend("drive", laps=3, max_episode_steps=3000)
    laps = []

    def drive(throttle, steps):
        for _ in range(steps):
            step = backend.step(np.array([0, throttle], np.float32))
            laps.append(step.info.get("lap_seconds"))

    backend.reset(0)
    drive(-0.4, 12)
    assert backend.task.progress.travelled < 0
    drive(0.5, 20)
    assert backend.task.progress.travelled > 0 and not any(laps)
    step, driver = backend.reset(0), backend.expert(0)
    while "lap_seconds" not in step.info:
        step = backend.step(driver.act({}))
    drive(-0.6, 40)
    assert backend.task.progress.travelled < backend.task.lap.length
    while backend.task.progress.travelled < backend.task.lap.length + 1:
        step = backend.step(driver.act({}))
        laps.append(step.info.get("lap_seconds"))
    assert not any(laps)


def test_driving_back_is_regress_and_undoes_the_way(backend):
    backend.reset(0)
    driver = backend.expert(0)
    for _ in range(40):
        backend.step(driver.act({}))
    travelled = backend.task.progress.travelled
    for _ in range(30):
        step = backend.step(np.array([0, -0.5], np.float32))
    assert step.rewards["regress"] > 0
    assert step.rewards["progress"] == 0
    assert backend.task.progress.travelled < travelled


def test_checkpoints_are_shown_in_the_cars_frame(backend):
    step = backend.reset(0)
    ahead = step.observation["object"].reshape(-1, 2)
    assert (ahead[0] > (0.8, -0.6)).all()
    assert ahead[0][0] < 2.2
    rotation = backend.simulation.car.rotation(backend.data)[:2, :2]
    world = ahead @ rotation.T + backend.simulation.car.position(backend.data)
    for point in world:
        assert np.hypot(*(backend.task.lap.points - point).T).min() < 1e-4
    spacing = backend.task.lap.length / len(backend.task.lap.points)
    np.testing.assert_allclose(np.hypot(*np.diff(world, axis=0).T), spacing, rtol=0.05)


def test_a_wall_at_speed_is_a_crash_which_terminates(backend):
    backend.reset(0)
    step, _ = push(backend, 1.0, 1.0)
    assert step.rewards["crashed"] == 1.0
    assert step.rewards["impact"] > 0.7
    assert (step.terminated, step.truncated, step.success) == (True, False, False)


def test_a_car_that_does_not_come_away_is_stuck_which_truncates(backend):
    backend.reset(0)
    step, number = push(backend, 0.0, 0.0)
    assert number == backend.config.detectors.stuck_positions
    assert step.rewards["stuck"] == 1.0
    assert (step.terminated, step.truncated) == (False, True)


def test_a_car_on_its_back_has_flipped_which_terminates(backend):
    backend.reset(0)
    backend.data.qpos[2:7] = (0.2, 0, 1, 0, 0)
    step, number = push(backend, 0.0, 0.0)
    assert step.rewards["flipped"] == 1.0 or step.rewards["crashed"] == 1.0
    assert number < 20
    assert step.terminated
    step = backend.reset()
    while not step.ended:
        step = backend.step(np.zeros(2, np.float32))
    assert step.rewards["flipped"] == 1.0, "it lies there still"


def test_stuck_is_30_positions_within_30_centimetres_of_the_newest():
    detectors = Detectors(DetectorConfig())
    along = np.array([1.0, 0.0])
    assert [detectors.stuck(0.0101 * number * along) for number in range(30)] == [False] * 29 + [True]
    detectors.reset()
    assert not any(detectors.stuck(0.0104 * number * along) for number in range(60)), "30.2 cm in 29 steps"
    # One step far away, and it takes 30 more.
    detectors.reset()
    away = [detectors.stuck(np.array([9.0, 0]) if number == 20 else np.zeros(2)) for number in range(60)]
    assert away.index(True) == 50


def test_flips_and_crashes_by_their_limits():
    detectors = Detectors(DetectorConfig())
    assert detectors.flipped(np.array([0, 0, -9.81]))
    assert not detectors.flipped(np.array([0, 0, -3.9]))
    assert detectors.crashed(20.1)
    assert not detectors.crashed(19.9)


def test_an_autonomous_car_begins_where_it_stands(backend):
    first = backend.reset(0)
    assert first.info["placed"]
    push(backend, 0.3, 0.5)
    before = backend.data.qpos.copy()
    step = backend.reset()
    np.testing.assert_array_equal(backend.data.qpos, before)
    assert "placed" not in step.info
    assert not step.ended
    assert backend.task.progress.travelled == 0
    # With a seed somebody puts it at the start line.
    again = backend.reset(0)
    assert again.info["placed"]
    np.testing.assert_array_equal(again.observation["state"], first.observation["state"])


def test_a_car_that_is_not_autonomous_is_put_at_the_start_line():
    backend = make_backend("drive")
    backend.reset(0)
    push(backend, 0.3, 0.5)
    step = backend.reset()
    assert step.info["placed"]
    assert math.hypot(*(backend.simulation.car.position(backend.data) - backend.task.track.at(0.0))) < 0.5


def test_a_saved_world_goes_on_bit_for_bit(backend):
    other = make_backend("drive", **PRACTICE)
    assert isinstance(other, PersistentWorld)
    backend.reset(1)
    push(backend, 0.5, 0.7)
    first = backend.reset()
    world = backend.world()
    assert world is not None
    actions = np.random.default_rng(0).uniform(-1, 1, (25, 2)).astype(np.float32)
    restored = other.restore(world)
    for key in first.observation:
        np.testing.assert_array_equal(first.observation[key], restored.observation[key])
    one, two = first, restored
    for action in actions:
        if one.ended:
            break
        one, two = backend.step(action), other.step(action)
        for key in one.observation:
            np.testing.assert_array_equal(one.observation[key], two.observation[key])
        assert one.rewards == two.rewards
        assert one.stamp_ns == two.stamp_ns
    np.testing.assert_array_equal(backend.data.qpos, other.data.qpos)


def test_the_world_of_another_simulator_is_refused(backend):
    world = backend.world()
    with pytest.raises(CheckpointError, match="another simulator's world"):
        backend.restore({"physics": world["physics"], "controller": world["car"]})
    with pytest.raises(CheckpointError, match="another simulator's world"):
        backend.restore({"physics": world["physics"][:-1], "car": world["car"]})


def test_a_faster_driver_shows_what_is_possible():
    backend = make_backend("drive", driver=DriverConfig(speed=4.5, lateral_acceleration=6.0))
    step, driver = backend.reset(0), backend.expert(0)
    while not step.ended:
        step = backend.step(driver.act(step.observation))
    assert step.success
    assert step.info["lap_seconds"] < 10


def test_a_driver_that_leaves_the_track_is_told():
    with pytest.raises(DriverError, match="the scripted driver completed only"):
        make_backend("drive", driver=DriverConfig(speed=5.0, lateral_acceleration=60.0))


def test_detector_limits_are_checked():
    with pytest.raises(ConfigError, match=r"detectors\.stuck_positions must be in \[2, 100000\]"):
        DetectorConfig(stuck_positions=1)
