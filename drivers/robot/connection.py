"""Connection of a driver to its robot: topics, cameras, services and controllers."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from robo_rl.core import ROBOT_AWAY, Clock, DriverError, RobotAwayError, SafetyStop

from ..ros2 import open_node
from .bodies import Body
from .command_watch import CommandWatch
from .config import RobotConfig
from .controllers import ControllerSwitch
from .resetting import ResetService
from .sources import POLL_NS, RobotSources
from .taring import WrenchTare

UNDER_WAY_NS = 50_000_000
"""Time after which messages and commands that were sent before a reset have arrived [ns]."""
AWAY_NS = 2_000_000_000
"""Longest wait for a part of the robot before it counts as away [ns]."""


class RobotConnection:
    """Connection to the topics, cameras, services and controllers of a robot; its creation waits for all of them.

    Attributes:
        sources: the robot's topics and cameras.
        tare: measures the bias of the wrist sensor; None: the bias is not measured.
        watch: stops the robot if no command follows in time.

    Raises:
        DriverError: if something is missing, types or profiles do not match, or controllers cannot be switched. The
            message lists everything that is missing.
    """

    def __init__(self, config: RobotConfig, body: Body, clock: Clock) -> None:
        self._config, self._body, self._clock = config, body, clock
        self._node = open_node(f"robo_rl_{config.name}", config.namespace, config.implementation)
        with ExitStack() as opened:
            opened.enter_context(self._node)
            self._controllers = ControllerSwitch(self._node, config.controllers)
            opened.callback(self._controllers.give_back)
            self.sources = RobotSources(self._node, body.layout, clock, config.align_to)
            opened.callback(self.sources.close)
            body.open(self._node)
            opened.callback(body.close)
            self._reset = ResetService(self._node, config.reset, clock, config.name)
            self.tare = self._make_tare()
            self._await(self._controllers.missing)
            self._controllers.activate()  # first, because broadcasters may be among them
            self._await(lambda: [*self.sources.missing(), *body.missing(), *self._reset.missing()])
            body.turn_on()
            self.watch = CommandWatch(self._node, clock, config, body.stop_motion)
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Close everything and restore the earlier controllers."""
        self._opened.close()

    def hold(self) -> None:
        """Command the robot to stay where it was last measured, if that is not too long ago."""
        stale = self.sources.assembler.stale(self._clock.now_ns() - round(self._config.silence * 1e9))
        self._body.hold(self.sources.newest() | dict.fromkeys(stale))

    def reset_robot(self) -> None:
        """Reset arm and scene. Afterwards, every message in the sources is newer than the reset.

        Raises:
            SafetyStop: if a part of the robot is away, the reset fails, or controllers cannot be activated.
        """
        self._await_robot()
        try:
            self._controllers.activate()
        # repeated before each reset, because a robot that was restarted loads its controllers one by one
        except DriverError as error:
            raise SafetyStop(ROBOT_AWAY, f"{error}: they are waited for") from error
        self._body.settle()
        self._clock.sleep_until_ns(self._clock.now_ns() + UNDER_WAY_NS)
        self._reset.call()
        try:  # again, because the reset may have switched to other controllers
            self._controllers.activate()
            self._body.turn_on()
        except DriverError as error:
            raise SafetyStop("controllers_inactive", str(error)) from error
        self._clock.sleep_until_ns(self._clock.now_ns() + UNDER_WAY_NS)
        self.sources.assembler.clear()

    def _make_tare(self) -> WrenchTare | None:
        layout = self._body.layout
        wrench, source = layout.wrench, layout.by_kind.get("wrist_wrench")
        if wrench is None or source is None or not self._config.tare.seconds:
            return None
        return WrenchTare(self._node, self._config, wrench, partial(self.sources.assembler.newest, source), self._clock)

    def _await(self, find_missing: Callable[[], list[str]]) -> None:
        """Wait until ``find_missing`` returns nothing."""
        deadline_ns = self._clock.now_ns() + round(self._config.start_timeout * 1e9)
        while True:
            missing = find_missing()
            if self._node.problems:
                problems = "; ".join(problem.text for problem in self._node.problems)
                raise DriverError(f"robot {self._config.name!r} does not fit its configuration: {problems}")
            if not missing:
                return
            if self._clock.now_ns() >= deadline_ns:
                silent = self._node.graph.unanswering
                if silent:
                    missing = [*missing, f"services of {', '.join(silent)} (Fast DDS) need rmw_cyclonedds_cpp there"]
                raise RobotAwayError(
                    f"robot {self._config.name!r} is not all there after {self._config.start_timeout:g} s: "
                    f"{'; '.join(missing)}. Is it on, in this ROS_DOMAIN_ID and namespace? The virtual one is started "
                    "by robo-rl robot task=..."
                )
            self._clock.sleep_until_ns(self._clock.now_ns() + 10 * POLL_NS)

    def _await_robot(self) -> None:
        """Wait briefly for the receivers of commands and the providers of sources. No reset is called without them.

        Otherwise a restarted robot could be moved by one reset after another until its last camera is back.

        Raises:
            SafetyStop: if one of them is missing.
        """
        deadline_ns = self._clock.now_ns() + AWAY_NS
        while missing := [*self._body.missing(), *self.sources.lost()]:
            if self._clock.now_ns() >= deadline_ns:
                raise SafetyStop(ROBOT_AWAY, f"{'; '.join(missing)}: it is waited for")
            self._clock.sleep_until_ns(self._clock.now_ns() + 10 * POLL_NS)
