"""Cameras of this machine that a robot observes."""

from collections.abc import Callable, Container
from functools import partial
from typing import Any

from robo_rl.core import Clock

from ..cameras.reader import CameraReader
from .layout import SourceLayout


def open_cameras(
    layout: SourceLayout,
    clock: Clock,
    take: Callable[[str, Any, int], None],
    ignored: Container[str] = (),
) -> dict[str, CameraReader]:
    """Begin to read the cameras of this machine that give what is observed; return them by source.

    Args:
        layout: says which, and how large pictures are.
        clock: monotonic time.
        take: called with the source, each of its pictures and their stamp [ns], in threads of their own.
        ignored: what sources give that is not wanted.
    """
    readers = {}
    for name, source in layout.used.items():
        if source.camera.device and source.gives not in ignored:
            height, width, _ = layout.spec.observation[source.gives].shape
            readers[name] = CameraReader(name, source.camera, (width, height), clock, partial(take, name))
    return readers
