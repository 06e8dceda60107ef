"""ros2 launch robo_rl reward.launch.py [ARGUMENT:=VALUE ...]: a node that scores a robot with reward modules.

Starts ``robo-rl launch reward``, which must be on the path. ROS 2's own Python needs no part of robo-rl.
"""

import sys
from pathlib import Path

from launch import LaunchDescription

sys.path.append(str(Path(__file__).parent))

from robo_rl_launch import ROBOT, TASK, describe

ARGUMENTS = {
    "task": TASK,
    "robot": ROBOT,
    "reward": ("classifier", "name of the reward: classifier, vice, clip, ..."),
    "path": ("datasets/demonstrations", "data set that its modules are made from"),
    "options": ("", "further options of robo-rl reward publish"),
}


def generate_launch_description() -> LaunchDescription:
    """Return the declared arguments and the process."""
    return describe("reward", ARGUMENTS)
