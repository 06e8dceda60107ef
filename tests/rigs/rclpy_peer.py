"""A node of real ROS 2, which knows nothing of robo-rl, for the tests of the matrix of middlewares.

``python tests/rigs/rclpy_peer.py peer`` does what it is told on /go and answers on /said; ``... resetter [--hangs]``
serves /reset and no more.
"""

import contextlib
import sys
import threading
import time
from array import array

import rclpy
from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionClient, ActionServer
from rclpy.executors import ExternalShutdownException
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

JOINTS, JOINT_RATE = 5000, 500.0
IMAGES, IMAGE_RATE = 40, 10.0
HEIGHT, WIDTH = 720, 960
"""Of images of 2.1 MB."""
PROFILES = {
    "best_effort": QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT),
    "volatile": QoSProfile(depth=1),
    "latched": QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL),
}


def paced(count, rate, send):
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        send(number)


class Peer:
    def __init__(self, node):
        self.node = node
        self.reports = node.create_publisher(String, "/said", 10)
        self.joints = node.create_publisher(JointState, "/joints", 1000)
        self.images = node.create_publisher(Image, "/front/image_raw", 5)
        self.stops = {name: node.create_publisher(Bool, "/subject/stop", qos) for name, qos in PROFILES.items()}
        self.stop_client = node.create_client(Trigger, "/subject/stop")
        self.grip = ActionClient(node, FollowJointTrajectory, "/subject/move")
        node.create_subscription(String, "/go", self.go, 10)
        ActionServer(node, FollowJointTrajectory, "/peer/move", self.move)

    def go(self, message):
        threading.Thread(target=self.obey, args=message.data.split(), daemon=True).start()

    def obey(self, what, *arguments):
        self.reports.publish(String(data=f"{what} {getattr(self, f'do_{what}')(*arguments)}"))

    def do_joints(self):
        position = array("d", [0.1] * 7)
        paced(JOINTS, JOINT_RATE, lambda n: self.joints.publish(JointState(name=[str(n)], position=position)))
        return JOINTS

    def do_images(self):
        data = array("B", bytes(HEIGHT * WIDTH * 3))
        image = Image(height=HEIGHT, width=WIDTH, encoding="rgb8", step=3 * WIDTH, data=data)
        paced(IMAGES, IMAGE_RATE, lambda _: self.images.publish(image))
        return IMAGES

    def do_publish(self, profile):
        self.stops[profile].publish(Bool(data=True))
        return profile

    def do_call(self):
        if not self.stop_client.wait_for_service(timeout_sec=1.0):
            return "unavailable"
        return self.value(self.stop_client.call_async(Trigger.Request()), lambda answer: answer.message)

    def do_act(self):
        if not self.grip.wait_for_server(timeout_sec=1.0):
            return "unavailable"
        accepted = []
        self.value(self.grip.send_goal_async(FollowJointTrajectory.Goal()), accepted.append)
        return self.value(accepted[0].get_result_async(), lambda answer: answer.result.error_string)

    def value(self, future, read):
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        return read(future.result()) if done.wait(5.0) else "hung"

    def move(self, goal):
        for _ in range(3):
            goal.publish_feedback(FollowJointTrajectory.Feedback(joint_names=["a"]))
            time.sleep(0.2)  # rclpy's client drops feedback that comes together with the result
        goal.succeed()
        return FollowJointTrajectory.Result(error_string="moved")


def main():
    rclpy.init()
    node = rclpy.create_node(sys.argv[1])
    if sys.argv[1] == "peer":
        kept = Peer(node)
        assert kept.node is node
    else:

        def reset(request, response):
            while "--hangs" in sys.argv:
                time.sleep(1.0)
            response.success = True
            return response

        node.create_service(Trigger, "/reset", reset)
    threading.Thread(target=lambda: (sys.stdin.read(), rclpy.try_shutdown()), daemon=True).start()
    print("ready", flush=True)
    with contextlib.suppress(ExternalShutdownException):
        rclpy.spin(node)


if __name__ == "__main__":
    main()
