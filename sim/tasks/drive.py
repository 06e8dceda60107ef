"""``drive``: drive a small car round a closed track, faster than the demonstration."""

import math
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DriverError

from ..driving import CarBackend, DriveConfig
from ..driving.detectors import Detectors
from ..driving.driver import PurePursuit
from ..driving.laps import LapProgress
from ..driving.scene import add_track
from ..driving.simulation import CarSimulation
from ..driving.track import ClosedPath, make_track
from ..episode import SimulatedTask

Array = NDArray[np.float64]

START = np.array([0.2, 0.3, 0.15, 0.1])
"""Half widths of the uniform noise on the start: sideways and along the track [m], heading and steering [rad]."""

IMPACT_UNIT, IMPACT_LIMIT = 5.0, 5.0
"""Hardness of a failure: acceleration in units of 5 m/s^2, at most 5 units (FastRLAP)."""

KEPT_DISTANCE = 0.1
"""Smallest distance between the stored positions of the demonstrated lap [m]."""


class Drive(SimulatedTask):
    """Drive a car round a closed track between walls, lap after lap (docs/reference/driving.md).

    When the backend is made, the scripted driver drives one slow lap from the start line, which defines the
    checkpoints. Success: the number of laps in the configuration. ``Step.info["lap_seconds"]`` of a step that completes
    a lap is the duration of that lap [s].

    Shaped terms: ``progress`` and ``regress``, speed towards the next checkpoint and away from it as a share of the top
    speed, mean of the control period; ``crashed`` and ``flipped``, which terminate; ``stuck``, which truncates;
    ``impact``, the hardness of any of these three.

    Object state: the next checkpoints in the car's frame [m].

    Attributes:
        simulation: simulation of the car on the track.
        track: centre line.
        lap: the demonstrated lap, whose corners are the checkpoints.
        progress: progress along that lap.
    """

    config_class = DriveConfig
    cameras = ("front",)
    shaped_terms = ("progress", "regress", "crashed", "stuck", "flipped", "impact")

    def __init__(self, config: DriveConfig) -> None:
        self.config: DriveConfig = config
        self.track = make_track(config.track)
        self.simulation = CarSimulation(config, self.build)
        self._detectors = Detectors(config.detectors)
        self._terms: dict[str, float] = {}

    def make_backend(self) -> CarBackend:
        return CarBackend(self, self.simulation)

    def build(self, spec: mujoco.MjSpec) -> None:
        add_track(spec, self.config, self.track)

    def bind(self, model: mujoco.MjModel) -> None:
        """Record the scripted driver's lap, which defines the checkpoints.

        Raises:
            DriverError: if the driver does not complete the lap.
        """
        config = self.config
        self.lap = self._demonstrate().resampled(config.checkpoint_spacing)
        self.progress = LapProgress(self.lap, config.checkpoint_reach, config.control_rate)

    def initialise(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        sideways, along, heading, steering = rng.uniform(-1, 1, 4) * START
        self.put(along, sideways, heading, steering)
        self.begin_here(data)

    def put(self, along: float, sideways: float, heading: float, steering: float = 0.0) -> None:
        """Put the car at rest on the track, ``along`` from the start line and ``sideways`` to the left [m].

        Heading, relative to the direction of the track, and steering are angles [rad].
        """
        forward = self.track.tangent(along)
        position = self.track.at(along) + sideways * np.array([-forward[1], forward[0]])
        self.simulation.put(position, math.atan2(forward[1], forward[0]) + heading, steering)

    def begin_here(self, data: mujoco.MjData) -> None:
        self._position = self.simulation.car.position(data)
        self.progress.begin(self._position)
        self._detectors.reset()

    def follow(self, data: mujoco.MjData) -> dict[str, Any]:
        config, car = self.config, self.simulation.car
        before, after = self._position, car.position(data)
        goal = self.progress.checkpoints(1)[0] - before
        self._position = after
        seconds = self.progress.follow(after)
        speed = float((after - before) @ goal) / math.hypot(*goal) * config.control_rate / config.car.top_speed
        failures = {
            "crashed": self._detectors.crashed(car.impact),
            "stuck": self._detectors.stuck(after),
            "flipped": self._detectors.flipped(car.acceleration),
        }
        hardness = min(car.impact / IMPACT_UNIT, IMPACT_LIMIT) / IMPACT_LIMIT if any(failures.values()) else 0.0
        self._terms = {
            "progress": min(max(speed, 0.0), 1.0),
            "regress": min(max(-speed, 0.0), 1.0),
            **{name: float(failed) for name, failed in failures.items()},
            "impact": hardness,
        }
        return {} if seconds is None else {"lap_seconds": seconds}

    def object_state(self, data: mujoco.MjData) -> dict[str, Array]:
        car, count = self.simulation.car, self.config.checkpoints_ahead
        rotation = car.rotation(data)
        heading = math.atan2(rotation[1, 0], rotation[0, 0])
        turn = np.array([[math.cos(heading), -math.sin(heading)], [math.sin(heading), math.cos(heading)]])
        ahead = ((self.progress.checkpoints(count) - car.position(data)) @ turn).astype(np.float32)
        return {f"checkpoint{n + 1}_{axis}": ahead[n, i] for n in range(count) for i, axis in enumerate("xy")}

    def success(self, data: mujoco.MjData) -> bool:
        return self.progress.travelled >= self.config.laps * self.lap.length

    def reward_terms(self, data: mujoco.MjData) -> dict[str, float]:
        return self._terms

    def ending(self, rewards: Mapping[str, float]) -> tuple[bool, bool]:
        reached, _ = super().ending(rewards)
        truncated = rewards["stuck"] > 0 or (rewards["success"] > 0 and self.config.truncate_on_success)
        return reached or rewards["crashed"] > 0 or rewards["flipped"] > 0, truncated

    def expert(self, backend: CarSimulation, rng: np.random.Generator) -> PurePursuit:
        """Return the scripted driver of the configuration; ``rng`` is not used."""
        return PurePursuit(backend, self.track, self.config.driver)

    def _demonstrate(self) -> ClosedPath:
        """Return one lap of the scripted driver from the start line."""
        config, simulation = self.config, self.simulation
        car, data = simulation.car, simulation.data
        self.put(0.0, 0.0, 0.0)
        driver = PurePursuit(simulation, self.track, config.driver)
        positions, travelled = [car.position(data)], 0.0
        along = self.track.locate(positions[0])
        for _ in range(round(4 * self.track.length / config.driver.speed * config.control_rate)):
            simulation.execute(driver.act({}))
            position = car.position(data)
            before, along = along, self.track.locate(position)
            travelled += float(self.track.ahead(along, before))
            if travelled > self.track.length - KEPT_DISTANCE:
                return ClosedPath(positions)
            if math.hypot(*(position - positions[-1])) >= KEPT_DISTANCE:
                positions.append(position)
        raise DriverError(
            f"the scripted driver completed only {travelled:.1f} of {self.track.length:.1f} m of the track: "
            "set a lower driver.speed or driver.lateral_acceleration, or a larger track.min_radius"
        )
