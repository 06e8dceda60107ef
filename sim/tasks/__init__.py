"""The tasks, one module each: configuration, world, success, scripted expert."""

from .base import Task
from .pick_cube import PickCube
from .reach import Reach

TASKS: dict[str, type[Task]] = {
    "reach": Reach,
    "pick_cube": PickCube,
}
"""Every task by name. A new task is a line here."""
