"""ros2 launch robo_rl virtual_robot.launch.py [ARGUMENT:=VALUE ...]: the simulator as a robot over ROS 2.

Starts ``robo-rl launch virtual_robot``, which needs robo-rl on the path and nothing of it in ROS 2's own Python.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, Shutdown
from launch.substitutions import LaunchConfiguration

ARGUMENTS = {
    "task": ("pick_cube", "name of the task"),
    "options": ("", "further options of robo-rl robot"),
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
        cmd=[LaunchConfiguration("program"), "launch", "virtual_robot", *words],
        output="screen",
        on_exit=Shutdown(),
        # A run that is ended saves what it has; robo-rl launch kills what takes longer than 30 s itself.
        sigterm_timeout="40",
        sigkill_timeout="10",
    )
    return LaunchDescription([*declared, program, process])
