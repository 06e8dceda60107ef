"""A ROS 2 node in a process of its own, which the tests of drivers/ros2 talk to over real DDS.

``python tests/rigs/ros2_rig.py`` is that process: it serves until its standard input closes.
"""

import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from robo_rl.core import ConfigError
from robo_rl.drivers.ros2 import LATCHED, Node, QoSProfile, ServerGoal, open_node

BEST_EFFORT = QoSProfile(depth=10, reliability="best_effort")
STREAM = QoSProfile(depth=2000)
STRING, JOINTS, IMAGE = "std_msgs/msg/String", "sensor_msgs/msg/JointState", "sensor_msgs/msg/Image"
TRIGGER, SET_BOOL = "std_srvs/srv/Trigger", "std_srvs/srv/SetBool"
GRIPPER = "control_msgs/action/GripperCommand"
JOINT_MESSAGES, IMAGES = 1000, 30
HEIGHT, WIDTH = 480, 640


@contextmanager
def peer(environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run this file as a process and end it after the block."""
    process = subprocess.Popen(
        [sys.executable, __file__, *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        finally:
            process.kill()
            process.stdout.close()


def call(node: Node, kind: str, name: str, **fields: Any) -> Any:
    return node.create_client(kind, name).call(node.types.make(f"{kind}_Request", **fields), 20.0)


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def image_bytes(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, HEIGHT * WIDTH * 3, dtype=np.uint8)


class Server:
    """What the process offers."""

    def __init__(self, node: Node) -> None:
        self.node = node
        make = node.types.make
        self.heard = node.create_publisher(JOINTS, "echo/out", STREAM)
        node.create_subscription(JOINTS, "echo/in", self.heard.publish, STREAM)
        self.rough = node.create_publisher(STRING, "rough", BEST_EFFORT)
        node.create_timer(0.02, lambda: self.rough.publish(make(STRING, data="again")))
        node.create_publisher(STRING, "description", LATCHED).publish(make(STRING, data="a robot"))
        self.joints = node.create_publisher(JOINTS, "joints", STREAM)
        self.images = node.create_publisher(IMAGE, "images", QoSProfile(depth=IMAGES))
        node.create_service(TRIGGER, "send_joints", self.send_joints)
        node.create_service(TRIGGER, "send_images", self.send_images)
        node.create_service(SET_BOOL, "set", self.set)
        node.create_service(TRIGGER, "fail", self.fail)
        node.create_service(TRIGGER, "hang", self.hang)
        node.create_action_server(GRIPPER, "grip", self.grip, lambda goal: goal.command.position >= 0)
        node.parameters.declare("rate", 10.0)
        node.parameters.declare("names", ["a", "b"])
        node.parameters.declare("limits.low", -1)
        node.parameters.declare("limits.high", 1)
        node.parameters.declare("fixed", 3, read_only=True)
        node.parameters.declare("even", 2, change=self.change)

    def send_joints(self, request: Any) -> Any:
        for number in range(JOINT_MESSAGES):
            stamp = time.monotonic()
            self.joints.publish(self.node.types.make(JOINTS, name=[str(number)], position=[stamp]))
            time.sleep(0.001)
        return self.node.types.make(f"{TRIGGER}_Response", success=True)

    def send_images(self, request: Any) -> Any:
        for number in range(IMAGES):
            data = image_bytes(number)
            checksum = str(zlib.crc32(data.tobytes()))
            header = {"frame_id": checksum}
            self.images.publish(
                self.node.types.make(
                    IMAGE, header=header, height=HEIGHT, width=WIDTH, encoding="rgb8", step=3 * WIDTH, data=data
                )
            )
            time.sleep(1 / 30)
        return self.node.types.make(f"{TRIGGER}_Response", success=True)

    def change(self, value: int) -> None:
        if value % 2:
            raise ConfigError(f"even must be even, got {value}")

    def set(self, request: Any) -> Any:
        return self.node.types.make(f"{SET_BOOL}_Response", success=request.data, message=f"set {request.data}")

    def fail(self, request: Any) -> Any:
        raise RuntimeError("as it should")

    def hang(self, request: Any) -> Any:
        time.sleep(60)

    def grip(self, goal: ServerGoal) -> Any:
        """Close step by step to the position asked for; above 1 it stalls, and at exactly 7 execution fails."""
        make, wanted = self.node.types.make, goal.request.command.position
        if wanted == 7:
            raise RuntimeError("as it should")
        for step in range(2000):
            position = step * 0.1
            if goal.cancel_requested:
                goal.canceled()
                return make(f"{GRIPPER}_Result", position=position)
            if wanted <= 1 and position >= wanted:
                goal.succeed()
                return make(f"{GRIPPER}_Result", position=wanted, reached_goal=True)
            goal.publish_feedback(make(f"{GRIPPER}_Feedback", position=position))
            time.sleep(0.01)
        goal.abort()
        return make(f"{GRIPPER}_Result", stalled=True)


def main() -> None:
    with open_node("peer", implementation="dds", parameters={"rate": 25.0}) as node:
        if "--bare" in sys.argv:  # only hears: to be stopped by a signal
            node.create_subscription(IMAGE, "images", None, QoSProfile(history="keep_all"))
        else:
            server = Server(node)
            assert server.node is node
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
