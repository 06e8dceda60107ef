"""A robot over ROS 2 as an ``EnvBackend``."""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    ROBOT_AWAY,
    Clock,
    ConfigError,
    DriverError,
    EnvBackend,
    EnvSpec,
    MonotonicClock,
    Observation,
    RenderingError,
    RobotAwayError,
    RobotDescription,
    SafetyStop,
    ScriptedExpert,
    SpecError,
    Step,
    happened,
    nearest,
    require,
)

from ..cameras.reader import CameraReader
from ..real_time import RealTime
from ..ros2 import Node, open_node
from .agreement import MismatchError
from .assembly import ObservationAssembler, Selection
from .bodies import make_body
from .camera_readers import open_cameras
from .config import IMAGES, RobotConfig
from .controllers import ControllerSwitch
from .listening import Listener, timings_of
from .rate import RateKeeper
from .resetting import ResetService
from .taring import WrenchTare

if TYPE_CHECKING:
    from .watch import RobotWatch, ScoredRobot

POLL_NS = 5_000_000
UNDER_WAY_NS = 50_000_000
"""Messages from before a reset have come when its answer is this old, and commands when its request is sent."""
AWAY_NS = 2_000_000_000
"""Longest wait for what takes commands, before people are told that it is not there."""


class RobotBackend:
    """Drives a robot: fixed control periods, observations of which nothing is too old, commands that end with us.

    A command is repeated within its control period and never after it: whatever happens to this process, the robot is
    left with what it does in silence. No step is made up: once a source has become too old the robot is told to hold
    still, and the episode is over without the step in which that happened, as its action was not executed.

    Args:
        config: topics, ages, commands.
        simulation: the task's simulated arm or car; its spec, description and model are used, it is not stepped.
        clock: monotonic time.

    Raises:
        ConfigError: if the robot does not give what the task observes, or cannot take its actions.
    """

    def __init__(self, config: RobotConfig, simulation: EnvBackend, clock: Clock | None = None) -> None:
        self._config = config
        if config.discovery_range:  # before any node is opened: those of a process share it
            os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", config.discovery_range)
        self.clock: Clock = clock or MonotonicClock()
        self._simulation = simulation
        spec = simulation.spec
        self._period = 1.0 / (spec.control_rate * config.real_time_factor)
        self._body = make_body(config, simulation)
        self._layout = self._body.layout
        for key, terms in (("terminate_on", config.terminate_on), ("truncate_on", config.truncate_on)):
            for term in terms:
                require(term in spec.reward_terms, f"robot.{key}", nearest(term, spec.reward_terms), term)
        self._spec = replace(spec, reports_success=self._layout.reports_success)
        self.rate = RateKeeper(round(self._period * 1e9))
        self._real_time = RealTime(config.real_time_priority)
        timings = timings_of(self._layout.used)
        align = config.align_to if config.align_to in timings else None
        self._assembler = ObservationAssembler(timings, align)
        self._node: Node | None = None
        self._cameras: dict[str, CameraReader] = {}
        self._steps = 0
        self._complete_ns = self._stamp_ns = 0  # of the observation that is acted on
        self._running = False

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    @property
    def robot(self) -> RobotDescription | None:
        return self._simulation.robot

    def watch(self) -> "RobotWatch":
        """Return what sees the robot, and never moves it, for a guard in a process of its own.

        It does not see what cameras of this machine film: who drives the robot has them.
        """
        from .watch import RobotWatch

        filmed = [source.gives for source in self._layout.used.values() if source.camera.device]
        return RobotWatch(self._config, self._layout, self.clock, ignored=filmed)

    def scored(self, topic: str) -> "ScoredRobot":
        """Return what sees the robot, and never moves it, and publishes below ``topic`` what it is told of rewards."""
        from .watch import ScoredRobot

        return ScoredRobot(self._config, self._layout, self.clock, topic)

    def connect(self) -> None:
        """Open topics, cameras and services, switch controllers, wait for everything. Done by the first ``reset``.

        Raises:
            DriverError: if something is missing, types or profiles do not fit, or controllers cannot be switched; all
                of it is named.
        """
        if self._node is not None:
            return
        config = self._config
        node = open_node(f"robo_rl_{config.name}", config.namespace, config.implementation)
        with ExitStack() as opened:
            opened.enter_context(node)
            self._controllers = ControllerSwitch(node, config.controllers)
            opened.callback(self._controllers.give_back)
            layout = self._layout
            self._listener = Listener(node, layout.used, layout.wanted, self.clock, self._assembler)
            self._subscriptions = self._listener.subscriptions
            opened.callback(self._close_cameras)
            self._cameras = open_cameras(self._layout, self.clock, self._assembler.put)
            self._body.open(node)
            opened.callback(self._body.close)
            self._reset = ResetService(node, config.reset, self.clock, config.name)
            self._tare = self._make_tare(node)
            self._await(node, self._controllers.missing)
            self._controllers.activate()  # before the rest: broadcasters may be among them
            self._await(node, self._missing)
            self._body.turn_on()
            opened.pop_all()
        self._node = node
        if reason := self._real_time.claim():
            print(f"The control loop has no real-time priority: {reason}; see docs/reference/robots.md", flush=True)

    def reset(self, seed: int | None = None) -> Step:
        """Have arm and scene reset and begin an episode. A robot takes no seed.

        Raises:
            DriverError: if the robot is not there at the first call.
            SafetyStop: if the reset fails, controllers cannot be activated, or no observation comes after it. A reset
                that did not answer in time may still be running: none is called until a person has looked and re-armed.
        """
        self.connect()
        if self._running:
            self.stop("another episode begins")
        self._await_listeners()
        self._body.settle()
        self.clock.sleep_until_ns(self.clock.now_ns() + UNDER_WAY_NS)
        self._reset.call()
        self._take_controllers()
        # Whatever is observed from now on comes from after the reset.
        self.clock.sleep_until_ns(self.clock.now_ns() + UNDER_WAY_NS)
        self._assembler.clear()
        selection = self._await_observation()
        if self._tare is not None:
            self._tare.begin()
            selection = self._observe()
        self._understood(partial(self._body.begin, selection.messages))
        self.rate.restart()
        self._steps = 0
        self._running = True
        return self._step_of(selection, rewarded=False)

    def step(self, action: NDArray[np.float32]) -> Step:
        """Execute ``action`` for one control period.

        Raises:
            SpecError: if the action does not fit the spec.
            RuntimeError: if no episode is running.
            SafetyStop: if a source becomes too old, or the robot says that it does not obey, refuses a command or sends
                what cannot be understood, or control periods begin too late again and again.
        """
        if not self._running:
            raise RuntimeError("the episode has ended or none was begun: call reset() before step()")
        self._spec.action.check("action", action)
        end_ns = self.rate.begin(self.clock.now_ns())
        if self.rate.overruns_in_row >= self._config.overruns:
            raise self._stopped(
                "overrun",
                f"{self.rate.overruns_in_row} control periods in a row began more than half a period "
                f"({500 * self._period:.0f} ms) too late: the policy or this machine is too slow for "
                f"{1 / self._period:g} Hz",
            )
        plan = self._understood(partial(self._body.plan, self._newest(), action))
        repeat_ns = round(1e9 / self._config.command.rate)
        commanded = False
        while (now_ns := self.clock.now_ns()) < end_ns:
            if stale := self._assembler.stale(now_ns):
                raise self._silent(stale)
            self._send(plan)
            if not commanded:
                self.rate.commanded(self.clock.now_ns(), self._complete_ns, self._stamp_ns)
                commanded = True
            self.clock.sleep_until_ns(min(now_ns + repeat_ns, end_ns))
        self.rate.ended(self.clock.now_ns())
        selection = self._observe()
        self._steps += 1
        return self._step_of(selection, rewarded=True)

    def render(self) -> NDArray[np.uint8]:
        """Return the newest picture of the first camera.

        Raises:
            RenderingError: if there is none, or none now: not before the first ``reset``, nor while a source is silent.
        """
        cameras, name = [key for key in self._spec.observation if key.startswith(IMAGES)], self._config.name
        if not cameras:
            raise RenderingError(f"robot {name!r} has no picture: observe a camera (task.observation.cameras)")
        if self._node is None:
            raise RenderingError(f"robot {name!r} has no picture yet: it is connected when the first episode begins")
        now_ns = self.clock.now_ns()
        selection = self._assembler.select(now_ns)
        if selection is None:
            ages = [self._told(source, age) for source, age in self._assembler.stale(now_ns).items()]
            why = ", ".join(ages) or "its sources have no messages of one time"
            raise RenderingError(f"robot {name!r} has no picture now: {why}")
        return self._layout.observation(selection.messages)[cameras[0]]

    def expert(self, seed: int) -> ScriptedExpert:
        raise ConfigError("a robot has no scripted expert: it is the simulation's, which has the same observations")

    def stop(self, reason: str) -> None:
        """Hold still and end the episode. A robot that was told so, and nothing since, is not told again."""
        if self._running:
            self._running = False
            self._hold()

    def close(self) -> None:
        if self._node is not None:
            self.stop("closed")
            if self.rate.periods:
                print(f"Robot {self._config.name}: {self.rate}", flush=True)
            self._real_time.release()
            self._body.close()
            self._close_cameras()
            self._controllers.give_back()
            self._node.close()
            self._node = None
        self._simulation.close()

    # --- topics and services -----------------------------------------------------------------------------------------

    def _make_tare(self, node: Node) -> WrenchTare | None:
        """Return what measures the bias of the wrist's sensor, where that is wanted."""
        wrench, source = self._layout.wrench, self._layout.by_kind.get("wrist_wrench")
        if wrench is None or source is None or not self._config.tare.seconds:
            return None
        return WrenchTare(node, self._config, wrench, partial(self._assembler.newest, source), self.clock)

    def _close_cameras(self) -> None:
        for camera in self._cameras.values():
            camera.close()
        self._cameras = {}

    def _await(self, node: Node, what: Callable[[], list[str]]) -> None:
        """Wait until ``what``, which says what is missing, says nothing."""
        deadline_ns = self.clock.now_ns() + round(self._config.start_timeout * 1e9)
        while True:
            missing = what()
            if node.problems:
                problems = "; ".join(problem.text for problem in node.problems)
                raise DriverError(f"robot {self._config.name!r} does not fit its configuration: {problems}")
            if not missing:
                return
            if self.clock.now_ns() >= deadline_ns:
                others = node.graph.unanswering
                if others:
                    missing = [*missing, f"services of {', '.join(others)} (Fast DDS) need rmw_cyclonedds_cpp there"]
                raise RobotAwayError(
                    f"robot {self._config.name!r} is not all there after {self._config.start_timeout:g} s: "
                    f"{'; '.join(missing)}. Is it on, in this ROS_DOMAIN_ID and namespace? The virtual one is started "
                    "by robo-rl robot task=..."
                )
            self.clock.sleep_until_ns(self.clock.now_ns() + 10 * POLL_NS)

    def _missing(self) -> list[str]:
        """Return the sources without a message, the commands that nobody listens to, and the reset where it lacks."""
        used = self._layout.used
        absent = self._assembler.missing()
        passed_over = self._listener.passed_over
        missing = [
            f"{self._subscriptions[name].topic} gives none of {', '.join(sorted(self._layout.wanted[name]))}, but "
            f"{', '.join(passed_over[name]) or 'no names'}"
            for name in absent
            if name in passed_over
        ]
        silent = {
            self._subscriptions[name]: name
            for name in absent
            if name in self._subscriptions and name not in passed_over
        }
        for subscription, name in silent.items():
            publishers = subscription.matched_count
            said = "nobody publishes" if publishers == 0 else f"{publishers} publisher(s) but no message on"
            hint = self._listener.advice(name)
            missing.append(f"{said} {subscription.topic} ({used[name].type}){hint and f': {hint}'}")
        missing += [
            f"{self._cameras[name].topic}: {self._cameras[name].problem}" for name in absent if name in self._cameras
        ]
        return [*missing, *self._body.missing(), *self._reset.missing()]

    def _await_listeners(self) -> None:
        """Wait a moment for what takes commands: a robot that does not obey is not reset.

        Raises:
            SafetyStop: if something is not there.
        """
        deadline_ns = self.clock.now_ns() + AWAY_NS
        while missing := self._body.missing():
            if self.clock.now_ns() >= deadline_ns:
                raise SafetyStop(ROBOT_AWAY, f"{'; '.join(missing)}: it is waited for")
            self.clock.sleep_until_ns(self.clock.now_ns() + 10 * POLL_NS)

    def _take_controllers(self) -> None:
        """Activate the controllers again, and MoveIt Servo: what resets the robot may have used others."""
        try:
            self._controllers.activate()
            self._body.turn_on()
        except DriverError as error:
            raise SafetyStop("controllers_inactive", str(error)) from error

    # --- observing ---------------------------------------------------------------------------------------------------

    def _await_observation(self) -> Selection:
        """Return the first messages of an episode; they, and word that the robot obeys again, may be on their way.

        Raises:
            SafetyStop: if they do not come.
        """
        longest = max(source.max_age for source in self._layout.used.values())
        deadline_ns = self.clock.now_ns() + round((longest + self._config.silence) * 1e9)
        while (now_ns := self.clock.now_ns()) < deadline_ns:
            selection = self._assembler.select(now_ns)
            if selection is not None and self._obeys(selection):
                return selection
            self.clock.sleep_until_ns(now_ns + POLL_NS)
        return self._observe()

    def _observe(self) -> Selection:
        """Return the messages of one observation.

        Raises:
            SafetyStop: if a source is too old, or the robot does not obey.
        """
        now_ns = self.clock.now_ns()
        stale = self._assembler.stale(now_ns)
        selection = None if stale else self._assembler.select(now_ns)
        if selection is None:
            raise self._silent(stale)
        if not self._obeys(selection):
            raise self._stopped("robot_stopped", "the robot says that it does not obey commands any more")
        return selection

    def _obeys(self, selection: Selection) -> bool:
        return bool(self._understood(partial(self._layout.ready, selection.messages)))

    def _silent(self, stale: Mapping[str, float]) -> SafetyStop:
        """Stop the robot because of sources that are too old, by their age [s], or have nothing that matches."""
        ages = [self._told(name, age) for name, age in stale.items()]
        unmatched = f"not every source has measured something when {self._config.align_to} did (robot.align_to)"
        return self._stopped("driver_silent", f"the robot has fallen silent: {', '.join(ages) or unmatched}")

    def _told(self, name: str, age: float) -> str:
        """Return what there is to say of a source that is ``age`` seconds old."""
        camera = self._cameras.get(name)
        topic = self._subscriptions[name].topic if camera is None else camera.topic
        old = "never came" if age == float("inf") else f"is {age:.2f} s old"
        problem = self._listener.advice(name) if camera is None else camera.problem
        why = f", {problem}" if problem else ""
        return f"{topic} {old} ({self._layout.used[name].max_age:g} s are allowed{why})"

    def _understood(self, decode: Callable[[], Any]) -> Any:
        try:
            return decode()
        except MismatchError as error:
            raise self._stopped("observation_mismatch", str(error)) from error
        except SpecError as error:
            raise self._stopped("observation_invalid", str(error)) from error

    def _step_of(self, selection: Selection, rewarded: bool) -> Step:
        messages = selection.messages
        self._complete_ns, self._stamp_ns = self.clock.now_ns(), selection.stamp_ns
        observation: Observation = self._understood(partial(self._layout.observation, messages))
        rewards: dict[str, float] = self._understood(partial(self._layout.rewards, messages))
        success = happened(rewards, ["success"]) if self._layout.reports_success else None
        config, limit = self._config, self._spec.max_episode_steps
        ends = (bool(success) and config.terminate_on_success) or happened(rewards, config.terminate_on)
        cut = (limit is not None and self._steps >= limit) or happened(rewards, config.truncate_on)
        terminated = rewarded and ends
        truncated = rewarded and cut and not ends
        self._running = not (terminated or truncated)
        if not self._running:
            self._hold()  # a base would drive on until the reset
        return Step(
            observation=observation,
            rewards=rewards if rewarded else dict.fromkeys(rewards, 0.0),
            terminated=terminated,
            truncated=truncated,
            stamp_ns=selection.stamp_ns,
            success=success,
            expires_ns=selection.expires_ns,
        )

    # --- commanding --------------------------------------------------------------------------------------------------

    def _newest(self) -> dict[str, Any]:
        """Return the newest message of each source; None where there was none."""
        return {name: self._assembler.newest(name) for name in self._layout.used}

    def _send(self, plan: Any) -> None:
        try:
            self._understood(partial(self._body.send, plan, self._newest()))
        except DriverError as error:
            raise self._stopped("command_refused", str(error)) from error

    def _hold(self) -> None:
        """Tell the robot to stay where it was seen last, unless that is long ago: it may be elsewhere by now."""
        if self._node is not None:
            old = self._assembler.stale(self.clock.now_ns() - round(self._config.silence * 1e9))
            self._body.hold(self._newest() | dict.fromkeys(old))

    def _stopped(self, reason: str, message: str) -> SafetyStop:
        self.stop(message)
        return SafetyStop(reason, message)
