"""The car: its model, motors, steering and inertial measurement unit (IMU).

The car's frame has its origin midway between the axles at the height of the wheels' centres; x points forward, y to
the left. Tyres are spheres in MuJoCo's contact with an elliptic friction cone, so that force along and across a tyre
share one limit, by Coulomb friction: a car that accelerates in a bend slides.
"""

import math
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from ..arm import looking_at
from .config import CarConfig

Array = NDArray[np.float64]

WHEELS = ("front_left", "front_right", "rear_left", "rear_right")
GROUND, WALL, WHEEL, BODY = 1, 2, 4, 8
"""Bits of contact types: wheels touch the ground, and the body touches ground and walls."""

ROTOR_INERTIA = 3e-4  # of each motor, at its wheel [kg m^2]
STEERING_STIFFNESS, STEERING_DAMPING = 15.0, 0.3  # of the steering servo [Nm/rad, Nms/rad]
SUSPENSION_TRAVEL = 0.02  # in each direction [m]
BUMPER = (0.08, 0.4)
"""Time constant [s] and damping ratio of MuJoCo's contact: foam that an impact at 0.5 m/s compresses by 1 to 2 cm."""

CRASH_FILTER = 4
"""Number of physics steps over which accelerations are averaged before their peak is taken."""

TYRE, BODYWORK, WINDOW = (0.12, 0.12, 0.13, 1), (0.85, 0.16, 0.12, 1), (0.15, 0.18, 0.22, 1)


def add_car(spec: mujoco.MjSpec, config: CarConfig) -> None:
    """Add the car to ``spec``: body and free joint ``car``, sensors ``accelerometer`` and ``gyroscope``, camera
    ``front``, and an actuator ``drive_<wheel>`` for each of ``WHEELS``, with ``steer_<wheel>`` for the front ones."""
    car = spec.worldbody.add_body(name="car", pos=(0, 0, config.wheel_radius))
    car.add_freejoint(name="car")
    length, width = config.wheelbase + 2.2 * config.wheel_radius, config.track_width + 0.06
    height = config.centre_of_mass_height - config.wheel_radius
    _set_inertial(car, config.mass, (0, 0, height), (length, 0.7 * width, 0.08))
    box: dict[str, Any] = {"type": mujoco.mjtGeom.mjGEOM_BOX, "mass": 0}
    contact = {"contype": BODY, "conaffinity": GROUND | WALL, "friction": (0.3, 0.005, 0.0001)}
    contact |= {"solref": BUMPER, "solmix": 1e3}
    # A box around everything touches the walls. Body and bumpers are only visible.
    half = length / 2 + 0.02
    car.add_geom(name="hull", pos=(0, 0, 0.02), size=(half, width / 2, 0.025), group=3, **box, **contact)
    car.add_geom(name="cabin", pos=(-0.03, 0, 0.07), size=(0.1, 0.08, 0.03), rgba=WINDOW, **box, **contact)
    visual = {"contype": 0, "conaffinity": 0, "rgba": BODYWORK}
    car.add_geom(pos=(0, 0, 0.02), size=(half - 0.02, 0.085, 0.025), **box, **visual)
    for x in (-half + 0.01, half - 0.01):
        car.add_geom(pos=(x, 0, 0.01), size=(0.012, width / 2, 0.015), **box, **(visual | {"rgba": TYRE}))
    car.add_site(name="imu", pos=(0, 0, 0))
    eye = (0.2, 0, 0.12)
    car.add_camera(name="front", pos=eye, fovy=80, **looking_at(eye, (1.2, 0, -0.05)))
    chase = (-1.5, 0, 0.9)
    car.add_camera(name="chase", pos=chase, fovy=60, **looking_at(chase, (0.6, 0, 0)))
    for name in WHEELS:
        _add_wheel(spec, car, name, config)
    for sensor, kind in (
        ("accelerometer", mujoco.mjtSensor.mjSENS_ACCELEROMETER),
        ("gyroscope", mujoco.mjtSensor.mjSENS_GYRO),
    ):
        spec.add_sensor(name=sensor, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="imu")


def _set_inertial(body: Any, mass: float, centre: tuple[float, float, float], size: tuple[float, ...]) -> None:
    """Give ``body`` the mass and inertia of a box with edges ``size`` about ``centre``."""
    x, y, z = (edge**2 for edge in size)
    body.mass, body.ipos, body.explicitinertial = mass, centre, True
    body.inertia = (mass * (y + z) / 12, mass * (x + z) / 12, mass * (x + y) / 12)


def _add_wheel(spec: mujoco.MjSpec, car: Any, name: str, config: CarConfig) -> None:
    front, left = name.startswith("front"), name.endswith("left")
    x = config.wheelbase / 2 if front else -config.wheelbase / 2
    y = config.track_width / 2 if left else -config.track_width / 2
    radius = config.wheel_radius
    wheel = car.add_body(name=name, pos=(x, y, 0))
    quarter = config.mass / 4
    pulse = 2 * math.pi * config.suspension_frequency
    spring, damper = quarter * pulse**2, 2 * config.suspension_damping * quarter * pulse
    wheel.add_joint(
        name=f"suspension_{name}", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(0, 0, 1), stiffness=(spring, 0, 0),
        damping=(damper, 0, 0), springref=-quarter * 9.81 / spring, limited=True,
        range=(-SUSPENSION_TRAVEL, SUSPENSION_TRAVEL),
    )  # fmt: skip
    if front:
        wheel.add_joint(name=f"steer_{name}", type=mujoco.mjtJoint.mjJNT_HINGE, axis=(0, 0, 1), armature=1e-3)
        servo = spec.add_actuator(name=f"steer_{name}", target=f"steer_{name}", trntype=mujoco.mjtTrn.mjTRN_JOINT)
        servo.set_to_position(kp=STEERING_STIFFNESS, kv=STEERING_DAMPING)
    wheel.add_joint(
        name=f"drive_{name}", type=mujoco.mjtJoint.mjJNT_HINGE, axis=(0, 1, 0), armature=ROTOR_INERTIA,
        frictionloss=0.002,
    )  # fmt: skip
    _set_inertial(wheel, config.wheel_mass, (0, 0, 0), (1.7 * radius, 0.04, 1.7 * radius))
    wheel.add_geom(
        name=f"tyre_{name}", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=(radius, 0, 0), mass=0, contype=WHEEL,
        conaffinity=GROUND, condim=3, friction=(config.friction, 0.005, 0.0001), group=3,
    )  # fmt: skip
    across = (math.cos(math.pi / 4), math.sin(math.pi / 4), 0, 0)
    looks: dict[str, Any] = {"type": mujoco.mjtGeom.mjGEOM_CYLINDER, "mass": 0, "contype": 0, "conaffinity": 0}
    wheel.add_geom(size=(radius, 0.022, 0), quat=across, rgba=TYRE, **looks)
    wheel.add_geom(size=(0.6 * radius, 0.024, 0), quat=across, rgba=(0.7, 0.7, 0.72, 1), **looks)
    # One motor per wheel: its torque falls linearly from standstill to zero at top speed.
    torque = config.stall_force / 4 * radius
    motor = spec.add_actuator(name=f"drive_{name}", target=f"drive_{name}", trntype=mujoco.mjtTrn.mjTRN_JOINT)
    motor.gaintype, motor.biastype = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_AFFINE
    motor.gainprm[0] = torque
    motor.biasprm[2] = -torque * radius / config.top_speed


def ackermann(steering: float, wheelbase: float, track_width: float) -> tuple[float, float]:
    """Return the angles of the left and right front wheels for which all wheels roll about one point [rad].

    Args:
        steering: angle of the imaginary middle wheel, positive to the left [rad]. The middle of the rear axle then
            moves on a circle of radius wheelbase / tan(steering).
        wheelbase: distance between the axles [m].
        track_width: distance between the wheels of an axle [m].
    """
    slope = math.tan(steering)
    shift = slope * track_width / (2 * wheelbase)
    return math.atan(slope / (1 - shift)), math.atan(slope / (1 + shift))


class Car:
    """The car of a compiled model: drives it, and computes readings from positions and velocities alone.

    The state that ``mj_getState`` saves, together with :meth:`state`, therefore determines all readings.

    Attributes:
        steering: angle at which the servo holds the imaginary middle wheel, positive to the left [rad].
        acceleration: acceleration measured by the IMU, mean of the last control period, in the car's frame (3,)
            [m/s^2].
        rotation_rate: rotation rate measured likewise (3,) [rad/s].
        impact: largest horizontal acceleration in that period, averaged over ``CRASH_FILTER`` steps [m/s^2].
    """

    def __init__(self, model: mujoco.MjModel, config: CarConfig) -> None:
        self._model = model
        self._config = config
        joint = model.joint("car")
        self._qpos, self._dof = int(joint.qposadr[0]), int(joint.dofadr[0])
        self._drives = np.array([model.actuator(f"drive_{name}").id for name in WHEELS])
        self._steers = np.array([model.actuator(f"steer_{name}").id for name in WHEELS[:2]])
        self._spins = np.array([int(model.joint(f"drive_{name}").dofadr[0]) for name in WHEELS])
        sensors = (model.sensor("accelerometer").adr[0], model.sensor("gyroscope").adr[0])
        self._accelerometer, self._gyroscope = (slice(int(start), int(start) + 3) for start in sensors)
        self.rest()

    def rest(self) -> None:
        """Forget the last control period: the car stands still, with straight wheels."""
        self.steering = 0.0
        self.acceleration: Array = np.array([0.0, 0.0, 9.81])
        self.rotation_rate: Array = np.zeros(3)
        self.impact = 0.0

    def state(self) -> Array:
        """Return the state (8,) that positions and velocities do not contain."""
        return np.array([self.steering, *self.acceleration, *self.rotation_rate, self.impact])

    def load(self, state: Array) -> None:
        """Restore a state that :meth:`state` returned."""
        self.steering, self.impact = float(state[0]), float(state[7])
        self.acceleration, self.rotation_rate = state[1:4].copy(), state[4:7].copy()

    def place(self, data: mujoco.MjData, position: Array, heading: float) -> None:
        """Put the car at ``position`` (2,) [m] with ``heading`` [rad], at rest on its wheels."""
        start = self._qpos
        data.qpos[start : start + 3] = (*position, self._config.wheel_radius)
        data.qpos[start + 3 : start + 7] = (math.cos(heading / 2), 0, 0, math.sin(heading / 2))
        self.rest()

    def drive(self, data: mujoco.MjData, steering: float, throttle: float, ticks: int) -> None:
        """Let ``ticks`` physics steps pass.

        Args:
            data: state of the model.
            steering: target as a share of the largest angle, -1 (right) to 1 (left); the servo turns at its own rate.
            throttle: voltage of the motors as a share of the largest, -1 (backwards) to 1.
            ticks: number of steps.
        """
        config, dt = self._config, self._model.opt.timestep
        target, largest_change = steering * config.max_steering, config.steering_rate * dt
        readings = np.empty((ticks, 6))
        data.ctrl[self._drives] = throttle
        for tick in range(ticks):
            self.steering += min(max(target - self.steering, -largest_change), largest_change)
            data.ctrl[self._steers] = ackermann(self.steering, config.wheelbase, config.track_width)
            mujoco.mj_step(self._model, data)
            readings[tick, :3] = data.sensordata[self._accelerometer]
            readings[tick, 3:] = data.sensordata[self._gyroscope]
        self.acceleration, self.rotation_rate = readings[:, :3].mean(0), readings[:, 3:].mean(0)
        size = min(CRASH_FILTER, ticks)
        smooth = np.stack([np.convolve(readings[:, axis], np.full(size, 1 / size), "valid") for axis in (0, 1)])
        self.impact = float(np.hypot(*smooth).max())

    def position(self, data: mujoco.MjData) -> Array:
        """Return the car's position (2,) [m]."""
        position: Array = data.qpos[self._qpos : self._qpos + 2].copy()
        return position

    def rotation(self, data: mujoco.MjData) -> Array:
        """Return the car's orientation as a rotation matrix (3, 3)."""
        matrix = np.empty(9)
        mujoco.mju_quat2Mat(matrix, data.qpos[self._qpos + 3 : self._qpos + 7])
        return matrix.reshape(3, 3)

    def velocity(self, data: mujoco.MjData) -> Array:
        """Return the velocity (3,) of the frame's origin in the world frame [m/s]."""
        velocity: Array = data.qvel[self._dof : self._dof + 3].copy()
        return velocity

    def wheel_speed(self, data: mujoco.MjData) -> float:
        """Return the mean speed of the tyres' treads [m/s]."""
        return float(data.qvel[self._spins].mean()) * self._config.wheel_radius
