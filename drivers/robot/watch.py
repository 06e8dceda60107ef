"""Observation of a robot by a process that never moves it, such as a guard or a process that publishes rewards."""

from collections.abc import Container, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from robo_rl.core import Clock, DriverError, EnvSpec, Observation

from ..ros2 import QoSProfile, open_node
from ..stop_topic import STOP
from .config import IMAGES, RobotConfig
from .layout import SourceLayout
from .own_stop import rearm_facts
from .resetting import TRIGGER
from .sources import RobotSources
from .taring import ReceivedBias

ANSWER_SECONDS = 0.5


class Seen(NamedTuple):
    """Observation of a robot at one time.

    Attributes:
        observation: the task's observation, without images that are missing or too old; None while another source is
            missing or too old.
        stamp_ns: monotonic time at which its oldest message was measured [ns].
        silent: seconds since the last new message of each topic that is missing or too old; infinity if it has had
            none.
    """

    observation: Observation | None
    stamp_ns: int
    silent: Mapping[str, float]


class RobotWatch:
    """Observer of a robot's sources that can trigger the robot's own emergency stop.

    Args:
        config: topics and ages, and the service that stops the robot.
        layout: builds observations from messages.
        clock: monotonic clock.
        purpose: suffix of the node's name.
        ignored: kinds of sources to leave out.

    Attributes:
        spec: spec with the observation that is not ignored.
    """

    def __init__(
        self,
        config: RobotConfig,
        layout: SourceLayout,
        clock: Clock,
        purpose: str = "watch",
        ignored: Container[str] = (),
    ) -> None:
        self._config, self._layout, self._clock = config, layout, clock
        observation = {key: array for key, array in layout.spec.observation.items() if key not in ignored}
        self.spec: EnvSpec = replace(layout.spec, observation=observation)
        self._node = open_node(f"robo_rl_{config.name}_{purpose}", config.namespace, config.implementation)
        self._opened = ExitStack()
        self._opened.callback(self._node.close)
        try:
            if layout.wrench is not None and config.tare.seconds:
                ReceivedBias(self._node, config, layout.wrench)
            self._sources = RobotSources(self._node, layout, clock, ignored=ignored)
            self._opened.callback(self._sources.close)
            service = config.emergency_service
            self._client = self._node.create_client(TRIGGER, service) if service else None
            topic = config.emergency_topic
            self._topic = self._node.create_publisher(STOP, topic, QoSProfile()) if topic else None
        except BaseException:
            self.close()
            raise

    def look(self) -> Seen:
        """Return the newest observation.

        Raises:
            SpecError: if a message is not as expected.
        """
        now_ns, sources = self._clock.now_ns(), self._sources
        stale = sources.assembler.stale(now_ns)
        stale_images = [name for name in stale if sources.used[name].gives.startswith(IMAGES)]
        selection = sources.assembler.select(now_ns, stale_images)
        silent = {sources.topic(name): age for name, age in stale.items()}
        if selection is None:
            return Seen(None, now_ns, silent)
        return Seen(self._layout.observation(selection.messages), selection.stamp_ns, silent)

    def stop(self) -> tuple[bool, str]:
        """Trigger the robot's own emergency stop; return whether it was confirmed, and a text for people."""
        listeners = 0
        if self._topic is not None:
            self._topic.publish(self._node.types.make(STOP, data=True))
            listeners = self._topic.matched_count
        by_topic = f"told by {self._topic.topic}" if self._topic is not None and listeners else ""
        if self._client is None:
            if self._topic is None:
                return True, "the robot has no emergency stop of its own (robot.emergency_service, or emergency_topic)"
            return bool(listeners), f"the robot's own emergency stop: {by_topic or 'nobody listens to its topic'}"
        try:
            answer = self._client.call(self._node.types.make(f"{TRIGGER}_Request"), ANSWER_SECONDS)
        except DriverError as error:
            outcome = f"{by_topic}, while its service does not answer" if by_topic else "does not answer"
            return bool(listeners), f"the robot's own emergency stop {outcome}: {error}"
        return answer.success, f"the robot's own emergency stop: {answer.message}"

    def rearm_facts(self) -> dict[str, str] | None:
        """Return the arguments that re-arm the robot after its own stop; None if it has no stop of its own."""
        return None if self._client is None and self._topic is None else rearm_facts(self._config)

    def close(self) -> None:
        """Leave ROS 2 and release the cameras."""
        self._opened.close()


class ScoredRobot(RobotWatch):
    """Observer of a robot that publishes rewards on the topics ``TOPIC/terms`` and ``TOPIC/success``.

    The terms are named numbers (JointState: ``name``, ``position``), which ``robot.sources`` can receive as
    ``rewards``. The success is also published as a std_msgs/msg/Bool. The robot's own rewards and readiness are
    ignored.
    """

    def __init__(self, config: RobotConfig, layout: SourceLayout, clock: Clock, topic: str) -> None:
        super().__init__(config, layout, clock, "scores", ("rewards", "ready"))
        try:
            self._terms = self._node.create_publisher("sensor_msgs/msg/JointState", f"{topic}/terms")
            self._success = self._node.create_publisher("std_msgs/msg/Bool", f"{topic}/success")
        except BaseException:
            self.close()
            raise

    def publish(self, terms: Mapping[str, float], success: bool) -> None:
        """Publish the reward terms of the newest observation."""
        make, header = self._node.types.make, {"stamp": self._node.now()}
        names, values = list(terms), list(terms.values())
        self._terms.publish(make("sensor_msgs/msg/JointState", header=header, name=names, position=values))
        self._success.publish(make("std_msgs/msg/Bool", data=success))
