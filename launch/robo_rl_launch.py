"""Shared parts of the launch files, which import it from their own folder because it is not an installed package."""

import shutil

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration

TASK = ("pick_cube", "name of the task")
ROBOT = ("virtual", "name of the robot: virtual, franka, ur, ...")
GUARD = ("no", "yes: a safety guard watches the robot")


def describe(name: str, arguments: dict[str, tuple[str, str]]) -> LaunchDescription:
    """Return the declared arguments and the process ``robo-rl launch NAME``; the launch ends with the process.

    Args:
        name: name of a launch file of robo-rl.
        arguments: default value and description of each argument, by name.
    """
    declared = [
        DeclareLaunchArgument(argument, default_value=default, description=text)
        for argument, (default, text) in arguments.items()
    ]
    program = DeclareLaunchArgument(
        "program", default_value="robo-rl", description="robo-rl, where it is not on the path"
    )
    words = [[f"{argument}=", LaunchConfiguration(argument)] for argument in arguments]
    process = ExecuteProcess(
        cmd=[LaunchConfiguration("program"), "launch", name, *words],
        output="screen",
        on_exit=Shutdown(),
        # A stopped run saves its state first. robo-rl launch itself kills a process that takes longer than 30 s.
        sigterm_timeout="40",
        sigkill_timeout="10",
    )
    return LaunchDescription([*declared, program, OpaqueFunction(function=_check_program), process])


def _check_program(context: LaunchContext) -> None:
    """Raise an error with advice if robo-rl is not found. Starting the process would only print a traceback."""
    program = LaunchConfiguration("program").perform(context)
    if shutil.which(program) is None:
        raise RuntimeError(
            f"the program {program!r} is not on the path. Activate the environment in which robo-rl is installed "
            "(pip install robo-rl), or give its place: program:=/path/to/bin/robo-rl"
        )
