"""ros2 launch robo_rl teleop.launch.py [ARGUMENT:=VALUE ...]: a person drives the robot, in a window.

Starts ``robo-rl launch teleop``, which must be on the path. ROS 2's own Python needs no part of robo-rl.
"""

import sys
from pathlib import Path

from launch import LaunchDescription

sys.path.append(str(Path(__file__).parent))

from robo_rl_launch import ROBOT, TASK, describe

ARGUMENTS = {
    "task": TASK,
    "robot": ROBOT,
    "path": ("datasets/teleoperation", "folder of the data set"),
    "options": ("", "further options of robo-rl record"),
}


def generate_launch_description() -> LaunchDescription:
    """Return the declared arguments and the process."""
    return describe("teleop", ARGUMENTS)
