"""The car's physics against closed forms: steering geometry, tyre slip, IMU, weight on its springs."""

import math

import mujoco
import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.sim import make_backend
from robo_rl.sim.driving.car import WHEELS, Car, ackermann, add_car
from robo_rl.sim.driving.config import CarConfig

CONTROL_TICKS, DT = 20, 1 / 400


class OpenFloor:
    """A car on an endless floor, without walls and patches."""

    def __init__(self, config: CarConfig | None = None) -> None:
        self.config = config or CarConfig()
        spec = mujoco.MjSpec()
        spec.option.timestep = DT
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        spec.option.impratio = 10.0
        spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_PLANE, size=(50, 50, 0.1), contype=1, conaffinity=12,
            friction=(self.config.friction, 0.005, 0.0001),
        )  # fmt: skip
        add_car(spec, self.config)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.car = Car(self.model, self.config)
        self.car.place(self.data, np.zeros(2), 0.0)

    def drive(self, steering: float, throttle: float, seconds: float) -> None:
        for _ in range(round(seconds / (CONTROL_TICKS * DT))):
            self.car.drive(self.data, steering, throttle, CONTROL_TICKS)

    def radius(self, steering: float, throttle: float, seconds: float) -> float:
        """Return the radius of the circle on which the middle of the rear axle goes: speed over rotation rate."""
        rear, turned = [], []
        for _ in range(round(seconds / (CONTROL_TICKS * DT))):
            self.car.drive(self.data, steering, throttle, CONTROL_TICKS)
            rotation = self.car.rotation(self.data)
            rear.append(self.car.position(self.data) - rotation[:2, 0] * self.config.wheelbase / 2)
            turned.append(math.atan2(rotation[1, 0], rotation[0, 0]))
        way = np.hypot(*np.diff(rear, axis=0).T).sum()
        return float(way / abs(np.unwrap(turned)[-1] - turned[0]))


@pytest.mark.parametrize("steering", [-0.4, -0.1, 0.05, 0.3, 0.42])
def test_all_wheels_roll_about_one_point(steering):
    wheelbase, width = 0.32, 0.26
    left, right = ackermann(steering, wheelbase, width)
    centre = wheelbase / math.tan(steering)  # to the left of the rear axle's middle
    assert wheelbase / math.tan(left) == pytest.approx(centre - width / 2)
    assert wheelbase / math.tan(right) == pytest.approx(centre + width / 2)
    assert ackermann(0.0, wheelbase, width) == (0.0, 0.0)


@pytest.mark.parametrize("share", [-1.0, 0.5])
def test_at_low_speed_the_radius_is_the_closed_form(share):
    floor = OpenFloor()
    floor.drive(share, 0.08, 1.5)
    expected = floor.config.wheelbase / math.tan(abs(share) * floor.config.max_steering)
    assert floor.radius(share, 0.08, 4.0) == pytest.approx(expected, rel=0.03)


def test_beyond_friction_the_tyres_slip_and_the_radius_grows():
    floor = OpenFloor()
    config = floor.config
    rolling = config.wheelbase / math.tan(config.max_steering)
    floor.drive(0.0, 0.8, 1.5)  # straight on, to 3.3 m/s: 15 m/s^2 in that circle, of which tyres give 8.3
    floor.drive(1.0, 0.8, 0.3)
    speed = float(np.linalg.norm(floor.car.velocity(floor.data)[:2]))
    assert speed**2 / rolling > 1.3 * config.friction * 9.81
    radius = floor.radius(1.0, 0.8, 0.5)
    assert radius > 1.3 * rolling
    # Coulomb: what the IMU feels sideways is no more than friction times weight.
    assert np.hypot(*floor.car.acceleration[:2]) < 1.1 * config.friction * 9.81


def test_full_throttle_pushes_as_hard_as_said_and_ends_at_the_top_speed():
    floor = OpenFloor()
    config = floor.config
    floor.drive(0.0, 0.2, 0.05)
    wheels = 4 * config.wheel_mass * (1 + 0.5 * 1.7**2 / 6) + 4 * 3e-4 / config.wheel_radius**2
    assert floor.car.acceleration[0] == pytest.approx(0.2 * config.stall_force / (config.mass + wheels), rel=0.15)
    floor.drive(0.0, 1.0, 6.0)
    assert floor.car.velocity(floor.data)[0] == pytest.approx(config.top_speed, rel=0.05)


def test_the_imu_agrees_with_finite_differences_of_the_pose():
    floor = OpenFloor()
    floor.drive(0.0, 0.3, 1.0)
    period = CONTROL_TICKS * DT
    for steering, throttle in ((0.0, 0.6), (0.5, 0.4), (-0.5, 0.2), (0.0, -0.3)):
        floor.drive(steering, throttle, 0.3)
        before = floor.car.velocity(floor.data), floor.car.rotation(floor.data)
        floor.car.drive(floor.data, steering, throttle, CONTROL_TICKS)
        after = floor.car.velocity(floor.data), floor.car.rotation(floor.data)
        felt = (after[0] - before[0]) / period + (0, 0, 9.81)
        middle = before[1] + after[1]
        in_car = (middle / np.linalg.norm(middle, axis=0)).T @ felt
        np.testing.assert_allclose(floor.car.acceleration, in_car, atol=0.25)
        turned = before[1].T @ after[1]
        rate = np.array([turned[2, 1] - turned[1, 2], turned[0, 2] - turned[2, 0], turned[1, 0] - turned[0, 1]]) / 2
        np.testing.assert_allclose(floor.car.rotation_rate, rate / period, atol=0.05)


def test_at_rest_the_car_stands_on_its_wheels_and_feels_its_weight():
    floor = OpenFloor()
    floor.drive(0.0, 0.0, 1.0)
    np.testing.assert_allclose(floor.car.acceleration, (0, 0, 9.81), atol=0.05)
    assert floor.data.qpos[2] == pytest.approx(floor.config.wheel_radius, abs=0.003)
    assert floor.car.impact < 0.1
    assert np.abs(floor.car.velocity(floor.data)).max() < 1e-3


def test_the_servo_turns_at_its_rate():
    floor = OpenFloor()
    floor.car.drive(floor.data, 1.0, 0.0, CONTROL_TICKS)
    assert floor.car.steering == pytest.approx(CONTROL_TICKS * DT * floor.config.steering_rate)
    floor.drive(1.0, 0.1, 0.5)
    angles = [float(floor.data.joint(f"steer_{wheel}").qpos[0]) for wheel in WHEELS[:2]]
    wanted = ackermann(floor.config.max_steering, floor.config.wheelbase, floor.config.track_width)
    np.testing.assert_allclose(angles, wanted, atol=0.02)


def test_rough_patches_shake_the_car():
    backend = make_backend("drive", max_episode_steps=600)
    patches = [backend.task.track.locate(backend.model.body(f"rough{number}").pos[:2]) for number in range(3)]
    step, driver = backend.reset(0), backend.expert(0)
    on, off = [], []
    while not step.ended:
        step = backend.step(driver.act(step.observation))
        s = backend.task.track.locate(backend.simulation.car.position(backend.data))
        near = min(abs(float(backend.task.track.ahead(s, patch))) for patch in patches)
        if near < 0.4:
            on.append(backend.simulation.car.acceleration[2])
        elif near > 1.2:
            off.append(backend.simulation.car.acceleration[2])
    assert np.std(on) > 3 * np.std(off)
    assert step.success, "and it comes through"


@pytest.mark.parametrize(
    ("values", "message"),
    [({"mass": 0.0}, "car.mass must be above 0"), ({"max_steering": 1.0}, "car.max_steering must be below 0.785398")],
)
def test_wrong_cars_are_refused_by_name(values, message):
    with pytest.raises(ConfigError, match=message):
        CarConfig(**values)
