"""Build script for colcon: installs launch files, nodes, manifest and marker of the ROS 2 package ``robo_rl``.

The Python package is installed with pip. This distribution has another name, so that it does not hide the entry points
of the Python package if both are on the path.
"""

from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent

setup(
    name="robo_rl_launch",
    version="0.1.0",
    packages=[],
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/robo_rl"]),
        ("share/robo_rl", ["package.xml"]),
        ("share/robo_rl/launch", ["robo_rl_launch.py", *sorted(file.name for file in HERE.glob("*.launch.py"))]),
        # Folder in which ros2 run searches.
        ("lib/robo_rl", sorted(f"nodes/{file.name}" for file in HERE.glob("nodes/*"))),
    ],
)
