"""A process of robo-rl beside real ROS 2.

``python tests/rigs/rclpy_subject.py IMPLEMENTATION`` prints what it saw as JSON.

Where it prints ``restart``, whoever started it kills the server of /reset and starts another.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from robo_rl.core import DriverError, MonotonicClock
from robo_rl.drivers.real_time import RealTime
from robo_rl.drivers.robot.assembly import ObservationAssembler
from robo_rl.drivers.robot.config import SourceConfig
from robo_rl.drivers.robot.listening import Listener, timings_of
from robo_rl.drivers.ros2 import Node, QoSProfile, open_node
from robo_rl.drivers.stop_topic import listen_for_stop

STRING, JOINTS, TRIGGER = "std_msgs/msg/String", "sensor_msgs/msg/JointState", "std_srvs/srv/Trigger"
MOVE = "control_msgs/action/FollowJointTrajectory"
STEPS, PERIOD = 100, 0.1


class Subject:
    """Tells the peer what to do, and notes down what comes of it."""

    def __init__(self, node: Node) -> None:
        self.node, self.make = node, node.types.make
        self.go = node.create_publisher(STRING, "/go")
        self.reports: list[str] = []
        node.create_subscription(STRING, "/said", lambda message: self.reports.append(message.data))
        self.stops = 0
        listen_for_stop(node, "/subject/stop", self.stop)
        node.create_service(TRIGGER, "/subject/stop", self.answer)
        node.create_action_server(MOVE, "/subject/move", self.move)
        self.joints: list[int] = []
        node.create_subscription(JOINTS, "/joints", lambda m: self.joints.append(int(m.name[0])), QoSProfile(depth=200))
        self.reset = node.create_client(TRIGGER, "/reset")
        self.mover = node.create_action_client(MOVE, "/peer/move")
        self.command = node.create_publisher(JOINTS, "/command", QoSProfile(depth=1))

    def stop(self) -> None:
        self.stops += 1

    def answer(self, request: Any) -> Any:
        self.stop()
        return self.make(f"{TRIGGER}_Response", success=True, message="stopped")

    def move(self, goal: Any) -> Any:
        time.sleep(0.3)
        goal.succeed()
        return self.make(f"{MOVE}_Result", error_string="moved")

    def instruct(self, what: str, seconds: float = 20.0, meanwhile: Callable[[], None] = lambda: None) -> str:
        """Have the peer do something; return what it says of it."""
        heard = len(self.reports)
        self.go.publish(self.make(STRING, data=what))
        meanwhile()
        deadline = time.monotonic() + seconds
        while len(self.reports) == heard and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.reports[-1].partition(" ")[2] if len(self.reports) > heard else "nothing"

    def steps(self) -> dict[str, float]:
        """Run a control loop of 100 ms while joint states come; return how late its periods were, and the load."""
        late: list[float] = []
        used, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        due = began
        for _ in range(STEPS):
            for _ in range(5):
                self.command.publish(self.make(JOINTS, name=["a"], position=[0.1]))
                time.sleep(max(0.0, due + PERIOD / 5 - time.monotonic()))
                due += PERIOD / 5
            late.append(time.monotonic() - due)
        now, wall = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - began
        cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        return {"late_ms": 1e3 * max(late), "median_ms": 1e3 * sorted(late)[STEPS // 2], "cores": cpu / wall}

    def images(self) -> dict[str, Any]:
        """Listen to images as a driver does; return what came."""
        sources = {"front": SourceConfig("front/image_raw", "sensor_msgs/msg/Image", "images/front")}
        clock = MonotonicClock()
        assembler = ObservationAssembler(timings_of(sources))
        listener = Listener(self.node, sources, {}, clock, assembler)
        self.instruct("images")
        seen = listener.images["front"]
        return {"reliability": seen.reliability, "count": seen.count, "told": listener.advice("front")}

    def actions(self) -> dict[str, Any]:
        """Have the peer execute a goal, and execute one of its own."""
        feedback: list[Any] = []
        goal = self.mover.send_goal(self.make(f"{MOVE}_Goal"), feedback.append)
        status, result = goal.result(5.0)
        time.sleep(0.2)
        return {"status": status.name, "result": result.error_string, "feedback": len(feedback)}

    def ask_reset(self, seconds: float) -> dict[str, Any]:
        """Call /reset; return what came of it, and after how long."""
        began = time.monotonic()
        try:
            outcome = str(self.reset.call(self.make(f"{TRIGGER}_Request"), seconds).success)
        except DriverError as error:
            outcome = f"{type(error).__name__}: {error}"
        return {"outcome": outcome, "seconds": time.monotonic() - began}


def attempt(look: Callable[[], Any]) -> Any:
    """Return what ``look`` does, or the error as text: one that fails leaves the others to be looked at."""
    try:
        return look()
    except DriverError as error:
        return f"{type(error).__name__}: {error}"


def main() -> None:
    seen: dict[str, Any] = {}
    with open_node("subject", implementation=sys.argv[1]) as node:
        subject = Subject(node)
        deadline = time.monotonic() + 20.0
        while not (subject.go.matched_count and "/peer" in node.graph.nodes) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1.0)
        seen["call"] = subject.instruct("call")
        for profile in ("best_effort", "volatile", "latched"):
            before = subject.stops
            subject.instruct(f"publish {profile}")
            time.sleep(0.5)
            seen[profile] = subject.stops - before
        seen["act"] = subject.instruct("act")
        seen["goal"] = attempt(subject.actions)
        real_time = RealTime(20)
        seen["priority"] = real_time.claim() or "SCHED_FIFO"
        seen["sent"] = subject.instruct("joints", meanwhile=lambda: seen.update(steps=subject.steps()))
        real_time.release()
        seen["joints"], seen["in_order"] = len(subject.joints), subject.joints == sorted(subject.joints)
        seen["images"] = subject.images()
        print("restart", flush=True)
        seen["restart"] = [subject.ask_reset(30.0)]
        if seen["restart"][0]["outcome"].startswith("ServerLostError"):
            seen["restart"].append(subject.ask_reset(30.0))
        seen["problems"] = [problem.text for problem in node.problems]
        seen["unanswering"] = list(node.graph.unanswering)
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
