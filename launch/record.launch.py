"""ros2 launch robo_rl record.launch.py [ARGUMENT:=VALUE ...]: demonstrations by a person, in a window.

Starts ``robo-rl launch record``, which needs robo-rl on the path and nothing of it in ROS 2's own Python.
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
    """Return the declared arguments and the one process."""
    return describe("record", ARGUMENTS)
