"""Tasks, one module each: configuration, world, success, scripted expert."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..episode import SimulatedTask


class TaskTable(Mapping[str, "type[SimulatedTask]"]):
    """Classes of tasks by name. A module is imported when its task is looked up, as MuJoCo takes long to import.

    Args:
        built_in: names of the classes in the modules of this package, by name of the task.
    """

    def __init__(self, **built_in: str) -> None:
        self.built_in = built_in
        self._added: dict[str, type[SimulatedTask]] = {}

    def __getitem__(self, name: str) -> "type[SimulatedTask]":
        if name not in self.built_in:
            return self._added[name]
        task_class: type[SimulatedTask] = getattr(import_module(f".{name}", __name__), self.built_in[name])
        return task_class

    def __iter__(self) -> Iterator[str]:
        return iter([*self.built_in, *self._added])

    def __len__(self) -> int:
        return len(self.built_in) + len(self._added)

    def add(self, name: str, task_class: "type[SimulatedTask]") -> None:
        """Add a task of another package."""
        self._added[name] = task_class


TASKS = TaskTable(
    reach="Reach",
    pick_cube="PickCube",
    push_cube="PushCube",
    peg_insert="PegInsert",
    open_door="OpenDoor",
    cable_route="CableRoute",
    bin_relocate="BinRelocate",
    stack_cubes="StackCubes",
    plug_insert="PlugInsert",
    regrasp="Regrasp",
    wipe="Wipe",
    drive="Drive",
)
"""Every task by name. To add a task, add a line with its class, from the module of the task's name."""
