"""ros2 launch robo_rl train.launch.py [ARGUMENT:=VALUE ...]: training on a robot.

Starts ``robo-rl launch train``, which must be on the path. ROS 2's own Python needs no part of robo-rl.
"""

import sys
from pathlib import Path

from launch import LaunchDescription

sys.path.append(str(Path(__file__).parent))

from robo_rl_launch import GUARD, ROBOT, TASK, describe

ARGUMENTS = {
    "task": TASK,
    "robot": ROBOT,
    "guard": GUARD,
    "options": ("", "further options of robo-rl train"),
}


def generate_launch_description() -> LaunchDescription:
    """Return the declared arguments and the process."""
    return describe("train", ARGUMENTS)
