"""How a guard has the robot itself stop: by a service, by a topic, or by both."""

from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.core import DriverError

from ..rigs.robot_rig import Recorder, composed, driver


class Robot(Recorder):
    """A robot with an emergency stop that answers, or does not, and listens to its topic, or does not."""

    def __init__(self, answers: bool, listens: bool) -> None:
        super().__init__()
        self.answers, self.listens = answers, listens

    def create_client(self, kind: str, name: str) -> Any:
        def call(request: Any, timeout: float) -> Any:
            if not self.answers:
                raise DriverError(f"{name} is served by Fast DDS and cannot be called")
            return SimpleNamespace(success=True, message="stands still")

        return SimpleNamespace(call=call)

    def create_publisher(self, kind: str, topic: str, qos: Any) -> Any:
        made = super().create_publisher(kind, topic, qos)
        made.matched_count = int(self.listens)
        return made


@pytest.mark.parametrize(
    ("service", "topic", "answers", "listens", "stopped", "said"),
    [
        ("halt", "halted", True, True, True, "the robot's own emergency stop: stands still"),
        ("halt", "halted", False, True, True, "told by halted, while its service does not answer: halt is served by"),
        ("halt", "halted", False, False, False, "the robot's own emergency stop does not answer: halt is served by"),
        ("halt", "", False, True, False, "the robot's own emergency stop does not answer: halt is served by"),
        ("", "halted", False, True, True, "the robot's own emergency stop: told by halted"),
        ("", "halted", False, False, False, "nobody listens to its topic"),
        ("", "", False, False, True, "the robot has no emergency stop of its own"),
    ],
)
def test_a_guard_stops_the_robot_itself_by_what_reaches_it(
    monkeypatch: pytest.MonkeyPatch, service: str, topic: str, answers: bool, listens: bool, stopped: bool, said: str
) -> None:
    node = Robot(answers, listens)
    monkeypatch.setattr("robo_rl.drivers.robot.watch.open_node", lambda *arguments: node)
    words = [f"robot.emergency_service='{service}'", f"robot.emergency_topic='{topic}'"]
    words += [] if service or topic else ["robot.rearm_service=''"]
    watch = driver(composed(*words)).watch()
    outcome, text = watch.stop()
    assert outcome == stopped and said in text, text
    assert [message.data for message in node.published.get(topic, [])] == ([True] if topic else [])
    # A person takes the stop back with robo-rl rearm, by whatever it reached the robot.
    facts = watch.rearm_facts()
    assert (facts is not None) == bool(service or topic)
    assert facts is None or (facts["service"], facts["name"]) == ("rearm", "virtual")
    watch.close()
