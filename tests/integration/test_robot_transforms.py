"""tf: the virtual robot publishes the frames of its links, and a driver observes one in another, over real DDS."""

import numpy as np
import pytest

from robo_rl.core import DriverError
from robo_rl.drivers.ros2 import open_node

from ..rigs.robot_rig import begin, patient_driver, towards_goal, virtual_robot, wait_until
from ..rigs.ros2_domain import free_domain

PATIENT = ("virtual.watchdog.hold_after=1", "virtual.watchdog.stop_after=20")


def observing(frame: str, *options: str):
    """Return a driver whose pose of the end effector is that of a frame."""
    pose = {"topic": "/tf", "type": "tf2_msgs/msg/TFMessage", "frame": frame, "parent": "base", "max_age": 1}
    words = [f"robot.sources.pose.{key}={value}" for key, value in pose.items()]
    return patient_driver("robot.terminate_on_success=false", *words, *options)


def test_the_end_effector_is_observed_by_way_of_transforms(monkeypatch):
    with free_domain() as environment, virtual_robot(environment, *PATIENT):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        backend, nowhere = observing("end_effector"), observing("gripper", "robot.start_timeout=3")
        watch = backend.watch()
        try:
            with open_node("lab") as node:
                pose = node.create_subscription("geometry_msgs/msg/PoseStamped", "cartesian_pose_broadcaster/pose")
                step = begin(backend)
                for _ in range(4):
                    step = backend.step(towards_goal(step.observation))
                for _ in range(10):  # at rest the two, which are not of one instant, are the same
                    step = backend.step(np.zeros(3, np.float32))
                wait_until(pose.latest)
                position = pose.latest()[0].pose.position
                np.testing.assert_allclose(
                    step.observation["state"][14:17], [position.x, position.y, position.z], atol=0.003
                )
                wait_until(lambda: watch.look().observation)
                np.testing.assert_allclose(
                    watch.look().observation["state"][14:23], step.observation["state"][14:23], atol=0.01
                )
            with pytest.raises(
                DriverError, match=r"no message on /tf \(of gripper in base; frames there: base, end_eff"
            ):
                nowhere.reset(0)
        finally:
            watch.close()
            backend.close()
            nowhere.close()
