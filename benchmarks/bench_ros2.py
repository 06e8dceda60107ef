"""Latency and loss of drivers/ros2 between two processes over DDS on loopback.

python benchmarks/bench_ros2.py [--output FILE.json]

One-way latencies are from just before a message is published to when the callback has it decoded, on the monotonic
clock that processes of a machine share. Services and actions are measured there and back. Prints the figures and writes
them as JSON.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from table_runs import machine, make_parser, write_json

from robo_rl.drivers.ros2 import Node, QoSProfile, open_node

JOINTS, IMAGE = "sensor_msgs/msg/JointState", "sensor_msgs/msg/Image"
TRIGGER, GRIPPER = "std_srvs/srv/Trigger", "control_msgs/action/GripperCommand"
NAMES = [f"joint{i}" for i in range(1, 8)]
JOINT_MESSAGES, IMAGES, CALLS, GOALS = 5_000, 150, 500, 50
DEPTH = {"joints": QoSProfile(depth=100), "images": QoSProfile(depth=10)}


def paced(count: int, rate: float, publish: Callable[[int], None]) -> None:
    """Call ``publish`` with 0 ... count - 1 at ``rate`` Hz."""
    due = time.monotonic()
    for number in range(count):
        publish(number)
        due += 1 / rate
        time.sleep(max(0.0, due - time.monotonic()))


def serve() -> None:
    """Be the other process: publish what is asked for, answer services and goals, until standard input closes."""
    with open_node("bench_server", implementation="dds") as node:
        make = node.types.make
        joints = node.create_publisher(JOINTS, "joints", DEPTH["joints"])
        images = node.create_publisher(IMAGE, "images", DEPTH["images"])
        pixels = np.random.default_rng(0).integers(0, 256, (480, 640, 3), dtype=np.uint8)

        def joint_state(number: int) -> None:
            position = np.full(7, time.monotonic())
            joints.publish(make(JOINTS, name=NAMES, position=position, velocity=position, effort=position))

        def image(number: int) -> None:
            stamp = {"frame_id": repr(time.monotonic())}
            fields = {"height": 480, "width": 640, "encoding": "rgb8", "step": 1920}
            images.publish(make(IMAGE, header=stamp, data=pixels, **fields))

        def start(target: Callable[[], None]) -> Any:
            threading.Thread(target=target, daemon=True).start()
            return make(f"{TRIGGER}_Response", success=True)

        node.create_service(TRIGGER, "joints_start", lambda _: start(lambda: paced(JOINT_MESSAGES, 1000, joint_state)))
        node.create_service(TRIGGER, "images_start", lambda _: start(lambda: paced(IMAGES, 30, image)))
        node.create_service(TRIGGER, "nothing", lambda _: make(f"{TRIGGER}_Response", success=True))
        node.create_action_server(GRIPPER, "grip", lambda goal: make(f"{GRIPPER}_Result", reached_goal=True))
        print("ready", flush=True)
        sys.stdin.read()


def summary(seconds: list[float], expected: int | None = None) -> dict[str, float]:
    values = np.array(seconds) * 1e6
    found = {"count": len(seconds)} | {f"p{q}_us": float(np.percentile(values, q)) for q in (50, 99)}
    return found if expected is None else found | {"lost": expected - len(seconds)}


def stream(node: Node, kind: str, topic: str, count: int, stamp: Callable[[Any], float]) -> dict[str, float]:
    latencies: list[float] = []
    subscription = node.create_subscription(
        kind, topic, lambda message: latencies.append(time.monotonic() - stamp(message)), DEPTH[topic]
    )
    client = node.create_client(TRIGGER, f"{topic}_start")
    while not subscription.matched_count:
        time.sleep(0.01)
    client.call(node.types.make(f"{TRIGGER}_Request"), 20.0)
    silent, seen = time.monotonic(), 0
    while len(latencies) < count and time.monotonic() - silent < 5.0:
        time.sleep(0.1)
        if len(latencies) != seen:
            silent, seen = time.monotonic(), len(latencies)
    return summary(latencies, count)


def repeat(count: int, once: Callable[[], object]) -> dict[str, float]:
    durations = []
    for _ in range(count):
        began = time.perf_counter()
        once()
        durations.append(time.perf_counter() - began)
    return summary(durations)


def measure(node: Node) -> dict[str, dict[str, float]]:
    make = node.types.make
    trigger = node.create_client(TRIGGER, "nothing")
    grip = node.create_action_client(GRIPPER, "grip")
    request, goal = make(f"{TRIGGER}_Request"), make(f"{GRIPPER}_Goal")
    position = np.ones(7)
    trigger.call(request, 20.0)
    grip.send_goal(goal, timeout_s=20.0).result(20.0)
    return {
        "joint_states_1_khz": stream(node, JOINTS, "joints", JOINT_MESSAGES, lambda m: m.position[0]),
        "images_640x480_30_hz": stream(node, IMAGE, "images", IMAGES, lambda m: float(m.header.frame_id)),
        "service": repeat(CALLS, lambda: trigger.call(request, 20.0)),
        "action": repeat(GOALS, lambda: grip.send_goal(goal, timeout_s=20.0).result(20.0)),
        "make_joint_state": repeat(
            2000, lambda: make(JOINTS, name=NAMES, position=position, velocity=position, effort=position)
        ),
    }


def main() -> None:
    parser = make_parser(__doc__, "--output")
    parser.add_argument("--serve", action="store_true", help="be the other process, until standard input closes")
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    os.environ.setdefault("ROS_DOMAIN_ID", "100")
    os.environ["ROS_LOCALHOST_ONLY"] = "1"
    results = machine()
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        with open_node("bench_client", implementation="dds") as node:
            results |= measure(node)
        server.stdin.close()
    for name, found in results.items():
        if isinstance(found, dict):
            print(f"{name:22}" + "  ".join(f"{key} {value:,.0f}" for key, value in found.items()), flush=True)
    write_json(options.output, results)


if __name__ == "__main__":
    main()
