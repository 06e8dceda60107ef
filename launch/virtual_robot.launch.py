"""ros2 launch robo_rl virtual_robot.launch.py [ARGUMENT:=VALUE ...]: the simulator as a robot over ROS 2.

Starts ``robo-rl launch virtual_robot``, which must be on the path. ROS 2's own Python needs no part of robo-rl.
"""

import sys
from pathlib import Path

from launch import LaunchDescription

sys.path.append(str(Path(__file__).parent))

from robo_rl_launch import TASK, describe

ARGUMENTS = {
    "task": TASK,
    "options": ("", "further options of robo-rl robot"),
}


def generate_launch_description() -> LaunchDescription:
    """Return the declared arguments and the process."""
    return describe("virtual_robot", ARGUMENTS)
