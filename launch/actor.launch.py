"""ros2 launch robo_rl actor.launch.py [ARGUMENT:=VALUE ...]: an actor on a robot, for a learner elsewhere.

Starts ``robo-rl launch actor``, which needs robo-rl on the path and nothing of it in ROS 2's own Python.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, Shutdown
from launch.substitutions import LaunchConfiguration

ARGUMENTS = {
    "task": ("pick_cube", "name of the task"),
    "robot": ("virtual", "name of the robot: virtual, franka, ur, ..."),
    "address": ("127.0.0.1:50551", "address of the learner"),
    "name": ("actor", "the actor's own name"),
    "options": ("", "further options of robo-rl actor"),
}


def generate_launch_description() -> LaunchDescription:
    """Return the declared arguments and the one process; all ends when it does."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in ARGUMENTS.items()
    ]
    program = DeclareLaunchArgument(
        "program", default_value="robo-rl", description="robo-rl, where it is not on the path"
    )
    words = [[f"{name}=", LaunchConfiguration(name)] for name in ARGUMENTS]
    process = ExecuteProcess(
        cmd=[LaunchConfiguration("program"), "launch", "actor", *words],
        output="screen",
        on_exit=Shutdown(),
        # A run that is ended saves what it has; robo-rl launch kills what takes longer than 30 s itself.
        sigterm_timeout="40",
        sigkill_timeout="10",
    )
    return LaunchDescription([*declared, program, process])
