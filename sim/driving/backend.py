"""A car on a closed track in simulation as an ``EnvBackend``."""

import math
import secrets
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    ArraySpec,
    DriverError,
    EnvSpec,
    ManualClock,
    Observation,
    State,
    Step,
    generator,
)

from ..cameras import Cameras
from ..world import restore_world, save_world
from .car import Car
from .config import DriveConfig
from .detectors import Detectors
from .driver import PurePursuit
from .scene import make_scene
from .simulated_car import SimulatedCar
from .track import ClosedPath, make_track

Array = NDArray[np.float64]

GRAVITY = 9.81
START_SIDEWAYS, START_ALONG, START_HEADING, START_STEERING = 0.2, 0.3, 0.15, 0.1
"""Half widths of the uniform noise on the pose at the start line [m, m, rad] and on the steering there [rad]."""

STATE_NAMES = (
    *(f"acceleration_{axis}" for axis in "xyz"),
    *(f"rotation_rate_{axis}" for axis in "xyz"),
    "velocity_x",
    "velocity_y",
    "wheel_speed",
    "steering",
    *(f"up_{axis}" for axis in "xyz"),
)
"""Elements of the observation ``state``, in the car's frame (x forward, y left): acceleration that the IMU feels and
rotation rate, means of the control period [g, rad/s]; odometry [m/s]; speed of the treads [m/s]; angle of the middle
front wheel [rad]; the direction against gravity."""

IMPACT_UNIT, IMPACT_LIMIT = 5.0, 5.0
"""How hard a failure was: acceleration in units of 5 m/s^2, at most 5 of them (FastRLAP)."""

KEPT_DISTANCE = 0.1
"""Positions of the demonstrated lap that are nearer to the one before say nothing new [m]."""


class CarBackend:
    """A car that is to go round a closed track, on and on.

    When it is made, the scripted driver drives one slow lap from the start line, which becomes the checkpoints.
    Reward terms, all in [0, 1]: ``success``, after the laps of the configuration; ``progress`` and ``regress``, speed
    towards the next checkpoint and away from it as a share of the top speed, mean of the control period; ``crashed``
    and ``flipped``, which terminate; ``stuck``, which truncates; ``impact``, how hard one of the three was.

    Args:
        config: of the task.

    Attributes:
        model: compiled model. Tests and the scripted driver may read it.
        data: its state.
        car: drives and reads the car.
        track: centre line.
        lap: the demonstrated lap, whose corners are the checkpoints.
        clock: simulated time since the episode began.
    """

    def __init__(self, config: DriveConfig) -> None:
        self.config = config
        self.track = make_track(config.track)
        self.model: Any = make_scene(config, self.track).compile()
        self.data: Any = mujoco.MjData(self.model)
        self._cameras = Cameras(self.model, config.observation)
        self.car = Car(self.model, config.car)
        self.clock = ManualClock()
        self._detectors = Detectors(config.detectors)
        self._running = self._placed = False
        self._steps = self._laps = 0
        self._along = self._travelled = self._lap_began = 0.0
        self.lap = self._demonstrate()
        self._spec = self._make_spec()

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    @property
    def robot(self) -> None:
        """The filters of arms know nothing of cars."""
        return None

    @property
    def travelled(self) -> float:
        """How far the car has come along the demonstrated lap since the episode began [m]."""
        return self._travelled

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode.

        With ``seed`` the car is put at the start line, a little off as the seed has it; ``Step.info["placed"]`` says
        that somebody had to. Without one an autonomous car begins where it stands, or rolls, after it was placed once;
        any other is put at the start line, in a new way each time.
        """
        in_place = seed is None and self.config.autonomous and self._placed
        if not in_place:
            rng = generator(secrets.randbits(63) if seed is None else seed, "episode")
            sideways, along, heading, steering = rng.uniform(-1, 1, 4) * (
                START_SIDEWAYS,
                START_ALONG,
                START_HEADING,
                START_STEERING,
            )
            self._place(along, sideways, heading, steering)
        return self._begin({} if in_place else {"placed": True})

    def world(self) -> State:
        """Return everything that the next episode depends on if it begins where the car is."""
        return save_world(self.model, self.data, car=self.car.memory())

    def restore(self, world: State) -> Step:
        """Begin an episode in the world as it was when :meth:`world` returned it, bit for bit.

        Raises:
            CheckpointError: if it is another simulator's.
        """
        self.car.remember(restore_world(self.model, self.data, world, "car"))
        self._placed = True
        return self._begin({})

    def step(self, action: NDArray[np.float32]) -> Step:
        """Execute ``action`` (steering, positive to the left, and throttle) for one control period.

        ``Step.info["lap_seconds"]`` of a step that completes a lap is how long the lap took [s].

        Raises:
            SpecError: if the action does not fit the spec.
            RuntimeError: if no episode is running.
            DriverError: if the simulation became unstable.
        """
        if not self._running:
            raise RuntimeError("no episode is running; call reset() first")
        self._spec.action.check("action", action)
        before = self.car.position(self.data)
        self.car.drive(self.data, float(action[0]), float(action[1]), self.config.ticks)
        return self.judge(before)

    def judge(self, before: Array) -> Step:
        """Return the step of a control period in which the car drove.

        Args:
            before: where it was when the period began (2,) [m].

        Raises:
            DriverError: if the simulation became unstable.
        """
        goal = self._checkpoints(1)[0] - before
        self._steps += 1
        self.clock.sleep_until_ns(self._stamp_ns())
        if not np.isfinite(self.data.qpos).all():
            self._running = self._placed = False
            raise DriverError(
                f"the simulation became unstable in step {self._steps} of the episode; reset() begins another. "
                "A higher physics_rate helps"
            )
        after = self.car.position(self.data)
        info = self._advance(after)
        speed = (
            float((after - before) @ goal) / math.hypot(*goal) * self.config.control_rate / self.config.car.top_speed
        )
        success = self._travelled >= self.config.laps * self.lap.length
        failures = {
            "crashed": self._detectors.crashed(self.car.impact),
            "stuck": self._detectors.stuck(after),
            "flipped": self._detectors.flipped(self.car.acceleration),
        }
        hardness = min(self.car.impact / IMPACT_UNIT, IMPACT_LIMIT) / IMPACT_LIMIT if any(failures.values()) else 0.0
        terminated = failures["crashed"] or failures["flipped"] or (success and self.config.terminate_on_success)
        cut = success and self.config.truncate_on_success
        truncated = not terminated and (failures["stuck"] or cut or self._steps >= self.config.max_episode_steps)
        self._running = not (terminated or truncated)
        rewards = {
            "success": float(success),
            "progress": min(max(speed, 0.0), 1.0),
            "regress": min(max(-speed, 0.0), 1.0),
            **{name: float(failed) for name, failed in failures.items()},
            "impact": hardness,
        }
        return Step(
            observation=self._observe(),
            rewards=rewards,
            terminated=terminated,
            truncated=truncated,
            stamp_ns=self._stamp_ns(),
            success=success,
            info=info,
        )

    def as_robot(self) -> "SimulatedCar":
        """Return the car as something that goes on by itself; nobody may step it meanwhile."""
        return SimulatedCar(self)

    def checkpoints_ahead(self) -> NDArray[np.float32]:
        """Return the next checkpoints in the car's frame, x and y in turn [m]."""
        rotation = self.car.rotation(self.data)
        heading = math.atan2(rotation[1, 0], rotation[0, 0])
        turn = np.array([[math.cos(heading), -math.sin(heading)], [math.sin(heading), math.cos(heading)]])
        ahead: Array = (self._checkpoints(self.config.checkpoints_ahead) - self.car.position(self.data)) @ turn
        return ahead.ravel().astype(np.float32)

    def render(self, camera: str = "view") -> NDArray[np.uint8]:
        """Return a picture (picture_height, picture_width, 3) from ``camera``: ``view``, ``chase`` or ``front``.

        Raises:
            RenderingError: if this machine cannot render.
            ConfigError: if there is no such camera.
        """
        self.pose()
        return self._cameras.picture(self.data, camera)

    def expert(self, seed: int) -> PurePursuit:
        """Return the scripted driver of the configuration; it has no use for ``seed``."""
        return PurePursuit(self, self.track, self.config.driver)

    def stop(self, reason: str) -> None:
        """End the episode; nothing moves while nobody steps the simulator."""
        self._running = False

    def close(self) -> None:
        self._running = False
        self._cameras.close()

    # --- the drive ---------------------------------------------------------------------------------------------------

    def _place(self, along: float, sideways: float, heading: float, steering: float) -> None:
        """Put the car on the track, that far from the start line and the centre line, at rest."""
        mujoco.mj_resetData(self.model, self.data)
        forward = self.track.tangent(along)
        position = self.track.at(along) + sideways * np.array([-forward[1], forward[0]])
        self.car.place(self.data, position, math.atan2(forward[1], forward[0]) + heading)
        self.car.steering = steering
        self._placed = True

    def _demonstrate(self) -> ClosedPath:
        """Return one lap of the scripted driver from the start line, as checkpoints."""
        config = self.config
        self._place(0.0, 0.0, 0.0, 0.0)
        driver = PurePursuit(self, self.track, config.driver)
        kept, come = [self.car.position(self.data)], 0.0
        here = self.track.locate(kept[0])
        for _ in range(round(4 * self.track.length / config.driver.speed * config.control_rate)):
            steering, throttle = driver.act({}).tolist()
            self.car.drive(self.data, steering, throttle, config.ticks)
            position = self.car.position(self.data)
            there = self.track.locate(position)
            come += float(self.track.ahead(there, here))
            here = there
            if come > self.track.length - KEPT_DISTANCE:
                self._placed = False
                return ClosedPath(kept).resampled(config.checkpoint_spacing)
            if math.hypot(*(position - kept[-1])) >= KEPT_DISTANCE:
                kept.append(position)
        raise DriverError(
            f"the scripted driver came {come:.1f} of {self.track.length:.1f} m round the track: give it a lower "
            "driver.speed or driver.lateral_acceleration, or the track a larger min_radius"
        )

    def _begin(self, info: dict[str, Any]) -> Step:
        """Begin an episode where the car is, from the nearest place of the demonstrated lap."""
        self._along = self.lap.locate(self.car.position(self.data))
        self._travelled = self._lap_began = 0.0
        self._steps = self._laps = 0
        self._cameras.begin()
        self._detectors.reset()
        self.clock.restart()
        self._running = True
        return Step(self._observe(), dict.fromkeys(self._spec.reward_terms, 0.0), False, False, 0, False, info=info)

    def _advance(self, position: Array) -> dict[str, Any]:
        """Follow the car along the demonstrated lap; return what there is to tell."""
        there = self.lap.locate(position, near=self._along)
        distance = float(self.lap.ahead(there, self._along))
        self._along = there
        self._travelled += distance
        beyond = self._travelled - (self._laps + 1) * self.lap.length
        if beyond < 0:
            return {}
        self._laps += 1
        now = (self._steps - beyond / distance) / self.config.control_rate
        seconds, self._lap_began = now - self._lap_began, now
        return {"lap_seconds": seconds}

    def _checkpoints(self, count: int) -> Array:
        """Return the next ``count`` checkpoints (count, 2) in the world's frame [m]."""
        spacing = self.lap.length / len(self.lap.points)
        first = math.ceil((self._along + self.config.checkpoint_reach) / spacing)
        points: Array = self.lap.points[(first + np.arange(count)) % len(self.lap.points)]
        return points

    # --- observations ------------------------------------------------------------------------------------------------

    def _stamp_ns(self) -> int:
        return round(self._steps / self.config.control_rate * 1e9)

    def _observe(self) -> Observation:
        car, data, view = self.car, self.data, self.config.observation
        rotation = car.rotation(data)
        velocity = rotation.T @ car.velocity(data)
        odometry = (velocity[0], velocity[1], car.wheel_speed(data), car.steering)
        state = np.concatenate([car.acceleration / GRAVITY, car.rotation_rate, odometry, rotation[2]])
        observation: Observation = {"state": state.astype(np.float32)}
        if view.object:
            observation["object"] = self.checkpoints_ahead()
        if view.cameras:
            self.pose()
        return observation | self._cameras.observe(data)

    def pose(self) -> None:
        """Bring positions of geoms, cameras and lamps up to date; the physics' course does not depend on them."""
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)

    def _make_spec(self) -> EnvSpec:
        config = self.config
        view, car = config.observation, config.car
        observation = {"state": ArraySpec((len(STATE_NAMES),), names=STATE_NAMES)}
        if view.object:
            names = tuple(f"checkpoint{n}_{axis}" for n in range(1, config.checkpoints_ahead + 1) for axis in "xy")
            observation["object"] = ArraySpec((len(names),), names=names)
        observation |= self._cameras.specs()
        return EnvSpec(
            task=config.name,
            observation=observation,
            action=ArraySpec((2,), low=-1.0, high=1.0, names=("steering", "throttle")),
            action_space="steering_throttle",
            action_frame="base",
            control_rate=config.control_rate,
            max_episode_steps=config.max_episode_steps,
            reward_terms=("success", "progress", "regress", "crashed", "stuck", "flipped", "impact"),
            extra={"max_steering": car.max_steering, "steering_rate": car.steering_rate, "top_speed": car.top_speed},
        )
