"""ros2 launch robo_rl record.launch.py [ARGUMENT:=VALUE ...]: demonstrations by a person, in a window.

Starts ``robo-rl launch record``, which must be on the path. ROS 2's own Python needs no part of robo-rl.
"""

import sys
from pathlib import Path

from launch import LaunchDescription

sys.path.append(str(Path(__file__).parent))

from robo_rl_launch import ROBOT, TASK, describe

ARGUMENTS = {
    "task": TASK,
    "robot": ROBOT,
    "path": ("datasets/demonstrations", "folder of the data set"),
    "episodes": ("20", "how many to record"),
    "options": ("", "further options of robo-rl record"),
}


def generate_launch_description() -> LaunchDescription:
    """Return the declared arguments and the process."""
    return describe("record", ARGUMENTS)
