"""Backend that drives a robot over ROS 2."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    Clock,
    ConfigError,
    DriverError,
    EnvBackend,
    EnvSpec,
    MonotonicClock,
    RenderingError,
    RobotDescription,
    SafetyStop,
    ScriptedExpert,
    Step,
    happened,
    nearest,
    require,
)

from ..real_time import RealTime
from ..source_state import SourceState
from ..stopping import stopping
from .assembly import Selection
from .bodies import make_body
from .config import IMAGES, RobotConfig
from .connection import RobotConnection
from .rate import RateKeeper
from .sources import understood

if TYPE_CHECKING:
    from .watch import RobotWatch, ScoredRobot


class RobotBackend:
    """Robot over ROS 2, driven in fixed control periods.

    A command is repeated within its control period and never after it, so that a failure of this process has the same
    effect on the robot as an absence of commands. Observations are never invented: when a source becomes too old, the
    robot is stopped, and the episode ends without that step, whose action was not executed.

    Args:
        config: configuration of the robot.
        simulation: the task's simulated arm or car. Its spec, description and model are used; it is never stepped.
        clock: monotonic clock.

    Attributes:
        unmeasured: names of what no source gives; see :class:`~robo_rl.core.PartlyMeasured`.

    Raises:
        ConfigError: if the robot does not provide what the task observes, or cannot execute its actions.
    """

    def __init__(self, config: RobotConfig, simulation: EnvBackend, clock: Clock | None = None) -> None:
        self._config = config
        if config.discovery_range:  # before the first node, because all nodes of a process share it
            os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", config.discovery_range)
        self.clock: Clock = clock or MonotonicClock()
        self._simulation = simulation
        spec = simulation.spec
        self._period = 1.0 / (spec.control_rate * config.real_time_factor)
        self._body = make_body(config, simulation)
        self._layout = self._body.layout
        self.unmeasured = self._layout.unmeasured
        for key, terms in (("terminate_on", config.terminate_on), ("truncate_on", config.truncate_on)):
            for term in terms:
                require(term in spec.reward_terms, f"robot.{key}", nearest(term, spec.reward_terms), term)
        self._spec = replace(spec, reports_success=self._layout.reports_success)
        self.rate = RateKeeper(round(self._period * 1e9))
        self._real_time = RealTime(config.real_time_priority)
        self._connection: RobotConnection | None = None
        self._steps = 0
        self._complete_ns = self._stamp_ns = 0  # times of the current observation
        self._running = False

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    @property
    def robot(self) -> RobotDescription | None:
        return self._simulation.robot

    def watch(self) -> "RobotWatch":
        """Return a watch that observes the robot and never moves it, for a guard in a separate process.

        Cameras of this machine are left out because the driver has opened them.
        """
        from .watch import RobotWatch

        filmed = [source.gives for source in self._layout.used.values() if source.camera.device]
        return RobotWatch(self._config, self._layout, self.clock, ignored=filmed)

    def scored(self, topic: str) -> "ScoredRobot":
        """Return a watch that observes the robot without moving it and publishes rewards below ``topic``."""
        from .watch import ScoredRobot

        return ScoredRobot(self._config, self._layout, self.clock, topic)

    def connect(self) -> None:
        """Open topics, cameras and services, switch controllers and wait for the robot. The first ``reset`` does this.

        Raises:
            DriverError: if something is missing, types or profiles do not match, or controllers cannot be switched. The
                message lists everything that is missing.
        """
        if self._connection is not None:
            return
        self._connection = RobotConnection(self._config, self._body, self.clock)
        self._sources = self._connection.sources
        self._watch = self._connection.watch
        self._real_time.claim_for("The control loop")

    def sources(self) -> dict[str, SourceState]:
        """Return the state of each source by name, after :meth:`connect`."""
        sources = self._sources
        return {
            name: SourceState(
                sources.topic(name), sources.assembler.measured_ns(name), None if source.latched else source.max_age
            )
            for name, source in sources.used.items()
        }

    def reset(self, seed: int | None = None) -> Step:
        """Reset arm and scene and begin an episode. A robot does not use the seed.

        Raises:
            DriverError: if the robot is not available at the first call.
            SafetyStop: if the reset fails, controllers cannot be activated, or no observation follows. A reset that did
                not answer in time may still be running: no other reset is called until a person has looked and
                re-armed.
        """
        self.connect()
        assert self._connection is not None
        if self._running:
            self.stop("another episode begins")
        self._connection.reset_robot()
        selection = self._sources.observe_first(self._config.silence)
        if self._connection.tare is not None:
            self._connection.tare.begin()
            selection = self._sources.observe()
        with self._watch.lock:
            understood(self._body.begin, selection.messages)
        self.rate.restart()
        self._steps = 0
        self._running = True
        with stopping(self):
            return self._step_of(selection, rewarded=False)

    def step(self, action: NDArray[np.float32]) -> Step:
        """Execute ``action`` for one control period.

        Raises:
            SpecError: if the action does not match the spec.
            RuntimeError: if no episode is running.
            SafetyStop: if a source becomes too old, if the robot reports that it does not execute commands, refuses one
                or sends an invalid message, or if too many control periods in a row begin too late.
        """
        if not self._running:
            raise RuntimeError("the episode has ended or none was begun: call reset() before step()")
        self._spec.action.check("action", action)
        with stopping(self):
            end_ns = self.rate.begin(self.clock.now_ns())
            self.rate.check_overruns(self._config.overruns)
            with self._watch.lock:
                plan = understood(self._body.plan, self._sources.newest(), action)
            repeat_ns = round(1e9 / self._config.command.rate)
            commanded = False
            while (now_ns := self.clock.now_ns()) < end_ns:
                self._sources.check(now_ns)
                self._send(plan)
                if not commanded:
                    self.rate.commanded(self.clock.now_ns(), self._complete_ns, self._stamp_ns)
                    commanded = True
                self.clock.sleep_until_ns(min(now_ns + repeat_ns, end_ns))
            self.rate.ended(self.clock.now_ns())
            selection = self._sources.observe()
            self._steps += 1
            return self._step_of(selection, rewarded=True)

    def render(self) -> NDArray[np.uint8]:
        """Return the newest image of the first camera.

        Raises:
            RenderingError: if the robot has no camera, before the first ``reset``, and while a source is silent.
        """
        cameras, name = [key for key in self._spec.observation if key.startswith(IMAGES)], self._config.name
        if not cameras:
            raise RenderingError(f"robot {name!r} has no picture: observe a camera (task.observation.cameras)")
        if self._connection is None:
            raise RenderingError(f"robot {name!r} has no picture yet: it is connected when the first episode begins")
        now_ns = self.clock.now_ns()
        selection = self._sources.assembler.select(now_ns)
        if selection is None:
            ages = self._sources.describe(self._sources.assembler.stale(now_ns))
            why = ages or "its sources have no messages of one time"
            raise RenderingError(f"robot {name!r} has no picture now: {why}")
        return self._layout.observation(selection.messages)[cameras[0]]

    def expert(self, seed: int) -> ScriptedExpert:
        raise ConfigError("a robot has no scripted expert: it is the simulation's, which has the same observations")

    def stop(self, reason: str) -> None:
        """End the episode and command the robot once to stay where it was last measured.

        No command is sent if that measurement is too old: the robot may have moved since.
        """
        if self._running:
            assert self._connection is not None
            self._running = False
            with self._watch.lock:
                self._watch.rest()
                self._connection.hold()

    def close(self) -> None:
        if self._connection is not None:
            self.stop("closed")
            if self.rate.periods:
                print(f"Robot {self._config.name}: {self.rate}", flush=True)
            self._real_time.release()
            self._connection.close()
            self._connection = None
        self._simulation.close()

    def _send(self, plan: Any) -> None:
        try:
            with self._watch.lock:
                self._watch.sent()
                understood(self._body.send, plan, self._sources.newest())
        except DriverError as error:
            raise SafetyStop("command_refused", str(error)) from error

    def _step_of(self, selection: Selection, rewarded: bool) -> Step:
        messages = selection.messages
        self._complete_ns, self._stamp_ns = self.clock.now_ns(), selection.stamp_ns
        observation = understood(self._layout.observation, messages)
        rewards = understood(self._layout.rewards, messages)
        success = happened(rewards, ["success"]) if self._layout.reports_success else None
        config, limit = self._config, self._spec.max_episode_steps
        joints = self._layout.by_kind.get("joints")  # None for a car
        times = {} if joints is None else {"measured_ns": selection.measured_ns[joints]}
        ends = (bool(success) and config.terminate_on_success) or happened(rewards, config.terminate_on)
        truncated = (limit is not None and self._steps >= limit) or happened(rewards, config.truncate_on)
        step = Step(
            observation=observation,
            rewards=rewards if rewarded else dict.fromkeys(rewards, 0.0),
            terminated=rewarded and ends,
            truncated=rewarded and truncated and not ends,
            stamp_ns=selection.stamp_ns,
            success=success,
            info=times | ({"commanded_ns": self.rate.commanded_ns} if rewarded else {}),
            expires_ns=selection.expires_ns,
        )
        if step.ended:
            self.stop("the episode has ended")  # otherwise a mobile base would keep driving until the reset
        return step
