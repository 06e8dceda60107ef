"""A robot observed by a process that never moves it: a safety guard, or one that scores it."""

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
from .taring import HeardBias

ANSWER_SECONDS = 0.5


class Seen(NamedTuple):
    """The observation of a robot at one time.

    Attributes:
        observation: as the task has it, without images that are missing or too old; None while another source is.
        stamp_ns: monotonic time at which the oldest message of it was measured [ns].
        silent: seconds since its last message that repeated none, infinity where none came, of each topic that is too
            old or missing.
    """

    observation: Observation | None
    stamp_ns: int
    silent: Mapping[str, float]


class RobotWatch:
    """Observes a robot's sources, and triggers its own emergency stop.

    Args:
        config: topics and ages, and the service that stops the robot.
        layout: makes observations of messages.
        clock: monotonic time.
        purpose: end of the node's name.
        ignored: kinds of sources that are left out.

    Attributes:
        spec: of the observation.
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
        kept = {key: array for key, array in layout.spec.observation.items() if key not in ignored}
        self.spec: EnvSpec = replace(layout.spec, observation=kept)
        self._node = open_node(f"robo_rl_{config.name}_{purpose}", config.namespace, config.implementation)
        self._opened = ExitStack()
        self._opened.callback(self._node.close)
        try:
            if layout.wrench is not None and config.tare.seconds:
                HeardBias(self._node, config, layout.wrench)
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
            SpecError: if a message has not what is expected.
        """
        now_ns, sources = self._clock.now_ns(), self._sources
        stale = sources.assembler.stale(now_ns)
        unseen = [name for name in stale if sources.used[name].gives.startswith(IMAGES)]
        selection = sources.assembler.select(now_ns, unseen)
        silent = {sources.topic(name): age for name, age in stale.items()}
        if selection is None:
            return Seen(None, now_ns, silent)
        return Seen(self._layout.observation(selection.messages), selection.stamp_ns, silent)

    def stop(self) -> tuple[bool, str]:
        """Trigger the robot's own emergency stop; return whether it confirmed, and a text for people."""
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
        """Return how the robot's own stop is taken back; None where it has none."""
        return None if self._client is None else rearm_facts(self._config)

    def close(self) -> None:
        """Leave ROS 2 and release the cameras."""
        self._opened.close()


class ScoredRobot(RobotWatch):
    """A robot that is observed, and the topics of its rewards: ``TOPIC/terms`` and ``TOPIC/success``.

    Terms are the named numbers (JointState: ``name``, ``position``) that ``robot.sources`` take as ``rewards``, success
    is a std_msgs/msg/Bool too. The robot's own rewards and readiness are ignored.

    Args:
        config: of the robot.
        layout: makes observations of messages.
        clock: monotonic time.
        topic: see above.
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
