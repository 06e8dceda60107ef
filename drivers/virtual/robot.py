"""Virtual robot: a loop that advances the simulated arm with the clock, and its topics and services."""

import dataclasses
import math
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArmTarget, BaseTarget, Clock, MonotonicClock, derive_seed

from ..real_time import RealTime
from ..ros2 import open_node
from ..stop_topic import listen_for_rearm, listen_for_stop
from ..watchdog import Watch, Watchdog
from .config import VirtualRobotConfig
from .filming import CameraThread
from .simulated import SimulatedArm, SimulatedVehicle
from .topics import ArmTopics, CarTopics, Topics

Array = NDArray[np.float64]

LONGEST_CATCH_UP = 0.1
"""Largest simulated time that one iteration of the loop catches up with [s]. On a slow machine, longer delays slow the
robot's time.
"""
DIAGNOSTICS_SECONDS = 1.0
ANSWER_SECONDS = 5.0


class VirtualRobot:
    """Simulated arm or car that runs in real time, or at a multiple of it, and communicates over ROS 2.

    The robot executes commands from a reset until they stop for long or the emergency stop is pressed. While they stop
    for a moment, it holds still. Physics runs in the thread that calls :meth:`run`, and messages and service calls wait
    for its next iteration. Cameras run in a separate thread.

    Args:
        config: rates, names and watchdog.
        arm: simulated robot.
        clock: monotonic clock.
    """

    def __init__(
        self, config: VirtualRobotConfig, arm: SimulatedArm | SimulatedVehicle, clock: Clock | None = None
    ) -> None:
        self._config, self._arm = config, arm
        self._clock = clock or MonotonicClock()
        self._requests: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._targets: queue.SimpleQueue[ArmTarget | BaseTarget] = queue.SimpleQueue()
        self._watchdog = Watchdog(config.watchdog)
        self._emergency = ""
        self._is_holding = True
        self._episode = -1
        self._late_ticks = 0
        self._ticks = 0
        self._states = 0
        self._cameras: CameraThread | None = None
        self._diagnosed_ns = self._clock.now_ns()
        self.node = open_node(config.name, config.namespace, config.implementation)
        try:
            self._topics: Topics
            if hasattr(arm, "joints"):
                self._topics = ArmTopics(
                    self.node,
                    config,
                    cast(SimulatedArm, arm),
                    self._targets.put,
                    hold=lambda: self._requests.put(self._hold),
                )
            else:
                self._topics = CarTopics(self.node, config, arm, self._targets.put)
            services: Mapping[str, Callable[[], tuple[bool, str]]] = {
                "reset": self._reset,
                "emergency_stop": self._stop,
                "rearm": self._rearm,
            }
            listen_for_stop(self.node, "emergency_stop", lambda: self._requests.put(self._stop))
            listen_for_rearm(self.node, "rearm", lambda: self._requests.put(self._rearm))
            for name, action in services.items():
                self._serve(name, action)
            for field in dataclasses.fields(config):
                if isinstance(value := getattr(config, field.name), int | float | str):
                    self._declare(field.name, value)
            arm.reset(derive_seed(config.seed, "virtual robot", -1))
        except BaseException:
            self.node.close()
            raise

    def run(self, must_end: Callable[[], bool]) -> None:
        """Run the robot until ``must_end`` returns true."""
        if self._arm.cameras:
            self._cameras = CameraThread(self._config, self._arm, self._topics)
        real_time = RealTime(self._config.real_time_priority)
        real_time.claim_for("The robot")
        try:
            self._run(must_end)
        finally:
            real_time.release()
            if self._cameras is not None:
                self._cameras.close()

    def _run(self, must_end: Callable[[], bool]) -> None:
        config, clock = self._config, self._clock
        period_ns = round(1e9 / config.state_rate)
        began_ns = iteration_ns = clock.now_ns()
        advanced = 0.0  # simulated time that has been accounted for
        while not must_end():
            iteration_ns = max(iteration_ns + period_ns, clock.now_ns())
            clock.sleep_until_ns(iteration_ns)
            now_ns = clock.now_ns()
            self._obey(now_ns)
            due = (now_ns - began_ns) * 1e-9 * config.real_time_factor - advanced
            ticks = math.floor(due / self._arm.tick)
            advanced += ticks * self._arm.tick
            executed = min(ticks, round(LONGEST_CATCH_UP / self._arm.tick))
            self._late_ticks += ticks - executed
            self._ticks += executed
            if executed:
                self._arm.advance(executed)
            self._topics.publish_state()
            self._states += 1
            self._topics.publish_ready(self._is_ready(now_ns))
            if now_ns - self._diagnosed_ns >= DIAGNOSTICS_SECONDS * 1e9:
                self._topics.publish_diagnostics(*self._diagnosis(now_ns))
                self._states, self._diagnosed_ns = 0, now_ns
            if self._cameras is not None:
                self._cameras.turn(now_ns)

    def _declare(self, name: str, value: int | float | str) -> None:
        """Declare a configuration value as a parameter. Only the noise of the cameras can be changed at run time."""
        is_noise = name == "camera_noise"
        self.node.parameters.declare(name, value, self._change_noise if is_noise else None, read_only=not is_noise)

    def _change_noise(self, noise: float) -> None:
        self._config = dataclasses.replace(self._config, camera_noise=noise)
        if self._cameras is not None:
            self._cameras.noise = noise

    def close(self) -> None:
        """Leave ROS 2 and release the arm."""
        self.node.close()
        self._arm.close()

    # --- incoming messages and service calls -------------------------------------------------------------------------

    def _serve(self, name: str, action: Callable[[], tuple[bool, str]]) -> None:
        """Create a Trigger service; ``action`` runs in the thread of the loop."""

        def answer(_: Any) -> Any:
            done = threading.Event()
            outcome = [(False, "the robot's loop does not turn")]

            def act() -> None:
                outcome[0] = action()
                done.set()

            self._requests.put(act)
            done.wait(ANSWER_SECONDS)
            success, message = outcome[0]
            return self.node.types.make("std_srvs/srv/Trigger_Response", success=success, message=message)

        self.node.create_service("std_srvs/srv/Trigger", name, answer)

    def _obey(self, now_ns: int) -> None:
        """Process service calls and commands, and hold still if commands have stopped."""
        while not self._requests.empty():
            self._requests.get()()
        newest: ArmTarget | BaseTarget | None = None
        while not self._targets.empty():
            target = self._targets.get()
            if isinstance(target, BaseTarget) or target.opening is None:
                newest = target
            elif self._is_ready(now_ns):
                self._arm.command(target)
        if newest is not None:
            self._watchdog.feed(now_ns)
            if self._is_ready(now_ns):
                self._arm.command(newest)
                self._is_holding = False
        if self._watchdog.look(now_ns) is not Watch.RUN and not self._is_holding:
            self._arm.hold()
            self._is_holding = True

    def _is_ready(self, now_ns: int) -> bool:
        return not self._emergency and self._watchdog.look(now_ns) is not Watch.STOPPED

    def _reset(self) -> tuple[bool, str]:
        if self._emergency:
            return False, f"{self._emergency}; rearm takes it back"
        self._episode += 1
        self._topics.end_motion("the robot was reset")
        self._arm.reset(derive_seed(self._config.seed, "virtual robot", self._episode))
        self._is_holding = True
        self._drop_targets()
        self._watchdog.begin(self._clock.now_ns())
        self._topics.publish_state()
        self._topics.publish_ready(True)
        return True, f"episode {self._episode}"

    def _stop(self) -> tuple[bool, str]:
        self._emergency = "the emergency stop is pressed"
        self._topics.end_motion(self._emergency)
        self._watchdog.stop()
        self._arm.hold()
        self._is_holding = True
        self._topics.publish_ready(False)
        return True, self._emergency

    def _rearm(self) -> tuple[bool, str]:
        self._emergency = ""
        return True, "the next reset begins an episode"

    def _hold(self) -> None:
        """Hold the current posture, because another controller took over the arm."""
        self._arm.hold()
        self._is_holding = True
        self._drop_targets()

    def _drop_targets(self) -> None:
        """Discard commands of the previous episode or controller."""
        while not self._targets.empty():
            self._targets.get()

    # --- outgoing messages -------------------------------------------------------------------------------------------

    def _diagnosis(self, now_ns: int) -> tuple[int, str, dict[str, str]]:
        """Return level (0 good, 1 warning, 2 error), message and values of the diagnostics."""
        watch = self._watchdog.look(now_ns)
        total = self._ticks + self._late_ticks
        values = {
            "episode": str(self._episode),
            "watchdog": watch.name.lower(),
            "states_per_second": f"{self._states / max(1e-9 * (now_ns - self._diagnosed_ns), 1e-9):.1f}",
            "simulated_seconds": f"{self._ticks * self._arm.tick:.1f}",
            "simulated_seconds_lost": f"{self._late_ticks * self._arm.tick:.1f}",
        }
        if self._emergency:
            return 2, self._emergency, values
        if total and self._late_ticks > 0.01 * total:
            return 1, f"this machine is too slow for real_time_factor={self._config.real_time_factor:g}", values
        if watch is not Watch.RUN:
            return 1, "no commands: it holds still", values
        return 0, "running", values
