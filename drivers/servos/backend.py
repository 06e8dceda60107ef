"""Backend that drives an arm of servos on a serial bus."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    Clock,
    ConfigError,
    EnvBackend,
    EnvSpec,
    MonotonicClock,
    RenderingError,
    RobotAwayError,
    RobotDescription,
    SafetyStop,
    ScriptedExpert,
    Step,
    derive_seed,
)

from ..cameras.reader import CameraReader
from ..real_time import RealTime
from ..robot.rate import RateKeeper
from ..source_state import SourceState
from ..stopping import stopping
from .arm import ArmReading, ServoArm
from .config import VIRTUAL, ServoArmConfig
from .loop import ServoLoop
from .observing import IMAGES, UNMEASURED, ServoLayout
from .port import BusError
from .readings import ServoReadings
from .simulated import require_arm
from .virtual_arm import VirtualServoArm

Array = NDArray[np.float64]

POLL_NS = 5_000_000


class ServoBackend:
    """Arm of servos, driven in fixed control periods.

    Inverse kinematics converts targets of the end effector to joint positions, starting from the measured posture. The
    goals of the servos move straight to them within a control period, no joint faster than its largest speed.
    Observations are never invented: when the newest reading becomes too old, or a servo reports a fault, the arm holds,
    and the episode ends without that step.

    Args:
        config: configuration of the arm.
        simulation: the task's simulated arm. Its spec, description and model are used; it is never stepped. Virtual
            servos move another instance.
        clock: monotonic clock.

    Attributes:
        unmeasured: names of what is not measured; see :class:`~robo_rl.core.PartlyMeasured`.

    Raises:
        ConfigError: if the task has no arm, or observes or moves something that this arm does not have.
    """

    def __init__(self, config: ServoArmConfig, simulation: EnvBackend, clock: Clock | None = None) -> None:
        self._config, self._simulation = config, require_arm(config, simulation)
        self.clock: Clock = clock or MonotonicClock()
        self._description, self._model = self._simulation.robot, self._simulation.as_model()
        self.virtual: VirtualServoArm | None = None
        is_virtual = config.port == VIRTUAL
        self._layout = ServoLayout(config, simulation.spec, self._description.joints, self._model, is_virtual)
        self._spec = replace(simulation.spec, reports_success=is_virtual)
        self.unmeasured = frozenset((*UNMEASURED, *(() if is_virtual else simulation.spec.reward_terms)))
        self._period = 1.0 / (self._spec.control_rate * config.real_time_factor)
        self.rate = RateKeeper(round(self._period * 1e9))
        self._real_time = RealTime(config.real_time_priority)
        self._speed: Array = np.array(self._description.speed)
        self._make_arm("")  # to detect an invalid configuration before anything is opened
        self._loop: ServoLoop | None = None
        self._cameras: dict[str, CameraReader] = {}
        self._steps = self._episodes = 0
        self._complete_ns = self._stamp_ns = 0  # times of the current observation
        self._running = False

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    @property
    def robot(self) -> RobotDescription:
        return self._description

    def watch(self) -> Any:
        """Raise :class:`ConfigError`, because a servo bus has one master."""
        raise ConfigError(
            f"robo-rl guard cannot watch robot {self._config.name!r}: a servo bus has one master, the driver itself"
        )

    def connect(self) -> None:
        """Open port and cameras, and find every servo. The first ``reset`` does this.

        Raises:
            RobotAwayError: if the port cannot be opened or a servo does not answer within ``start_timeout``.
            DriverError: if the servos are not those of the configuration and calibration.
        """
        if self._loop is not None:
            return
        config = self._config
        if config.port == VIRTUAL and self.virtual is None:
            self.virtual = VirtualServoArm(config, self._simulation.as_servos(), self.clock)
        arm = self._make_arm(config.port if self.virtual is None else str(self.virtual.bus.path))
        deadline_ns = self.clock.now_ns() + round(config.start_timeout * 1e9)
        while not arm.is_connected:
            try:
                arm.connect()
            except BusError as error:
                if self.clock.now_ns() >= deadline_ns:
                    raise RobotAwayError(f"robot {config.name!r}: {error}") from error
                self.clock.sleep_until_ns(self.clock.now_ns() + 20 * POLL_NS)
        speed = self._speed * config.real_time_factor
        self._loop = ServoLoop(arm, config.name, config.rate, speed, config.relax_after, self.clock)
        self._readings = ServoReadings(config, arm.bus, self._loop, self.clock)
        for name, camera in config.cameras.items():
            if (key := f"{IMAGES}{name}") in self._spec.observation:
                height, width, _ = self._spec.observation[key].shape
                self._cameras[key] = CameraReader(name, camera, (width, height), self.clock)
        self._real_time.claim_for("The control loop")

    def sources(self) -> dict[str, SourceState]:
        """Return the state of the servos and of each camera, after :meth:`connect`."""
        assert self._loop is not None
        newest = self._loop.newest
        stamp_ns = None if newest is None else newest.stamp_ns
        states = {"servos": SourceState(self._config.port, stamp_ns, self._config.max_age)}
        for key, camera in self._cameras.items():
            latest = camera.latest()
            stamp_ns = None if latest is None else latest[1]
            age = 1e-9 * self._layout.image_age_ns
            states[key.removeprefix(IMAGES)] = SourceState(camera.topic, stamp_ns, age)
        return states

    def reset(self, seed: int | None = None) -> Step:
        """Move the arm home, let the scene be arranged, and begin an episode. Only virtual servos use the seed.

        Raises:
            RobotAwayError: if the servos are not available at the first call.
            DriverError: if they are not those of the configuration and calibration.
            SafetyStop: if the servos do not answer, report a fault, or do not come home.
        """
        self.connect()
        assert self._loop is not None
        if self._running:
            self.stop("another episode begins")
        self._readings.go_home(np.array(self._description.home), self._model.home_opening)
        if self.virtual is not None:
            seed = derive_seed(0, "virtual servos", self._episodes) if seed is None else seed
            self.virtual.place(seed)
            self._loop.forget()
            self._readings.fresh()
            self._loop.hold()
        self.clock.sleep_until_ns(self.clock.now_ns() + round(self._config.pause * 1e9))
        reading = self._readings.fresh()
        self._model.begin(reading.positions)
        self.rate.restart()
        self._steps, self._running = 0, True
        self._episodes += 1
        with stopping(self):
            return self._step_of(reading, rewarded=False)

    def step(self, action: NDArray[np.float32]) -> Step:
        """Execute ``action`` for one control period.

        Raises:
            SpecError: if the action does not match the spec.
            RuntimeError: if no episode is running.
            SafetyStop: if the newest reading or image becomes too old, a servo reports a fault, or too many control
                periods in a row begin too late.
        """
        if not self._running:
            raise RuntimeError("the episode has ended or none was begun: call reset() before step()")
        assert self._loop is not None
        self._spec.action.check("action", action)
        with stopping(self):
            end_ns = self.rate.begin(self.clock.now_ns())
            self.rate.check_overruns(self._config.overruns)
            positions = self._readings.checked().positions
            target = self._model.target(positions, action)
            joints = target.joints if target.pose is None else self._model.joints_towards(positions, target.pose)
            assert joints is not None
            now_ns = self.clock.now_ns()
            self._loop.move(joints, target.opening, max(end_ns - now_ns, 0) * 1e-9)
            self.rate.commanded(now_ns, self._complete_ns, self._stamp_ns)
            while (now_ns := self.clock.now_ns()) < end_ns:
                self._readings.checked()
                self.clock.sleep_until_ns(min(now_ns + POLL_NS, end_ns))
            self.rate.ended(now_ns)
            self._steps += 1
            return self._step_of(self._readings.checked(), rewarded=True)

    def render(self) -> NDArray[np.uint8]:
        """Return the newest image of the first camera.

        Raises:
            RenderingError: if there is none.
        """
        latest = next((camera.latest() for camera in self._cameras.values()), None)
        if latest is None:
            raise RenderingError(f"robot {self._config.name!r} has no picture: observe a camera of robot.cameras")
        return latest[0]

    def expert(self, seed: int) -> ScriptedExpert:
        raise ConfigError("a robot has no scripted expert: it is the simulation's, which has the same observations")

    def stop(self, reason: str) -> None:
        """End the episode; the arm holds, and is relaxed after ``relax_after``."""
        if self._running:
            assert self._loop is not None
            self._running = False
            self._loop.hold()

    def close(self) -> None:
        if self._loop is not None:
            self.stop("closed")
            if self.rate.periods:
                print(f"Robot {self._config.name}: {self.rate}", flush=True)
            if failures := self._readings.failures():
                print(f"Robot {self._config.name}: failures of the bus: {failures}", flush=True)
            self._real_time.release()
            self._loop.close(self._config.relax_on_close)
            self._loop = None
        for camera in self._cameras.values():
            camera.close()
        self._cameras = {}
        if self.virtual is not None:
            self.virtual.close()
            self.virtual = None
        self._simulation.close()

    def _make_arm(self, port: str) -> ServoArm:
        description, model = self._description, self._model
        limits = dict(
            zip(
                description.joints,
                zip(description.position_lower, description.position_upper, strict=True),
                strict=True,
            )
        )
        gripper = model.fingers[0] if model.fingers else None
        if gripper is not None:
            closed, open_ = model.finger_strokes[0].tolist()
            limits[gripper] = closed, open_
        return ServoArm(self._config, port, description.joints, limits, self._speed, gripper, self.clock)

    def _images(self) -> tuple[dict[str, NDArray[np.uint8]], int | None]:
        """Return the newest image of each camera, and the stamp of the oldest of them [ns].

        Raises:
            SafetyStop: if one of them is too old.
        """
        images, stamps = {}, []
        for key, camera in self._cameras.items():
            latest = camera.latest()
            now_ns = self.clock.now_ns()
            if latest is None or now_ns - latest[1] > self._layout.image_age_ns:
                raise SafetyStop(
                    "driver_silent", f"{camera.topic} gives no new picture: {camera.problem or 'it is slow'}"
                )
            images[key] = latest[0]
            stamps.append(latest[1])
        return images, min(stamps, default=None)

    def _step_of(self, reading: ArmReading, rewarded: bool) -> Step:
        images, image_ns = self._images()
        objects, rewards = None, dict.fromkeys(self._spec.reward_terms, 0.0)
        if self.virtual is not None:
            rewards = self.virtual.rewards()
            objects = self.virtual.objects() if "object" in self._spec.observation else None
        success = rewards["success"] > 0.5 if self.virtual is not None else None
        ends = bool(success) and self._config.terminate_on_success
        limit = self._spec.max_episode_steps
        truncated = limit is not None and self._steps >= limit
        self._complete_ns = self.clock.now_ns()
        self._stamp_ns = reading.stamp_ns if image_ns is None else min(reading.stamp_ns, image_ns)
        step = Step(
            observation=self._layout.observation(reading, objects) | images,
            rewards=rewards if rewarded else dict.fromkeys(rewards, 0.0),
            terminated=rewarded and ends,
            truncated=rewarded and truncated and not ends,
            stamp_ns=self._stamp_ns,
            success=success,
            info={"commanded_ns": self.rate.commanded_ns} if rewarded else {},
            expires_ns=reading.stamp_ns + round(self._config.max_age * 1e9),
        )
        if step.ended:
            self.stop("the episode has ended")
        return step
