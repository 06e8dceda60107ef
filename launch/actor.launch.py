"""ros2 launch robo_rl actor.launch.py [ARGUMENT:=VALUE ...]: an actor on a robot, for a learner elsewhere.

Starts ``robo-rl launch actor``, which must be on the path. ROS 2's own Python needs no part of robo-rl.
"""

import sys
from pathlib import Path

from launch import LaunchDescription

sys.path.append(str(Path(__file__).parent))

from robo_rl_launch import GUARD, ROBOT, TASK, describe

ARGUMENTS = {
    "task": TASK,
    "robot": ROBOT,
    "address": ("unix:", "address of the learner"),
    "name": ("actor", "the actor's own name"),
    "guard": GUARD,
    "options": ("", "further options of robo-rl actor"),
}


def generate_launch_description() -> LaunchDescription:
    """Return the declared arguments and the process."""
    return describe("actor", ARGUMENTS)
