"""The tasks, one module each: configuration, world, success, scripted expert."""

from .base import Task
from .bin_relocate import BinRelocate
from .cable_route import CableRoute
from .drive import Drive
from .open_door import OpenDoor
from .peg_insert import PegInsert
from .pick_cube import PickCube
from .push_cube import PushCube
from .reach import Reach

TASKS: dict[str, type[Task] | type[Drive]] = {
    "reach": Reach,
    "pick_cube": PickCube,
    "push_cube": PushCube,
    "peg_insert": PegInsert,
    "open_door": OpenDoor,
    "cable_route": CableRoute,
    "bin_relocate": BinRelocate,
    "drive": Drive,
}
"""Every task by name. A new task is a line here."""
