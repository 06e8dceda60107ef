"""Scenes of recorded episodes for the data page, which a process of its own computes."""

import asyncio
import json
import os
import select
import subprocess
import time
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ..core import DataError, own_command
from ..web.reading import Readers
from .live_scenes import checked_frame, checked_geometry
from .run_table import clip
from .watched_data import POINTS, stamp_of_set

PROCESS = "robo_rl.command_line.data_scene"
SCENE_SECONDS = 120.0
"""Longest time that a scene may take [s]: its process imports MuJoCo first."""
SCENE_BYTES = 8 << 20
"""Largest scene of an episode, as JSON [bytes]."""
MOST_KEPT = 16
"""Largest number of scenes that are kept."""


class RecordedScenes:
    """Scenes of recorded episodes. One object serves all pages.

    One process computes the scenes of one data set, one after another; it ends when another data set is asked for, or
    when nothing is asked for long. The newest scenes are kept, until the data set changes.
    """

    def __init__(self) -> None:
        self._readers, self._turn, self._process = Readers(SCENE_SECONDS + 5.0), asyncio.Lock(), _SceneProcess()
        self._scenes: OrderedDict[tuple[object, int], asyncio.Task[dict[str, Any]]] = OrderedDict()

    async def scene(self, path: Path, number: int) -> dict[str, Any]:
        """Return the scene of an episode, see :class:`~robo_rl.command_line.data_scene.DataScenes`, checked.

        One that has begun goes on if the page leaves.

        Raises:
            DataError: if there is none, gives the reason.
        """
        subject = path, await self._readers.call(f"stamp {path}", partial(stamp_of_set, path))
        key, scenes = (subject, number), self._scenes
        if (known := scenes.get(key)) is None or (known.done() and known.exception()):
            scenes[key] = asyncio.create_task(self._compute(path, subject, number))
            scenes[key].add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # pages report it
        scenes.move_to_end(key)
        for old in [each for each, task in scenes.items() if task.done()][:-MOST_KEPT]:
            del scenes[old]
        return await asyncio.shield(scenes[key])

    async def _compute(self, path: Path, subject: object, number: int) -> dict[str, Any]:
        async with self._turn:
            name = f"scene {time.monotonic_ns()}"
            scene: dict[str, Any] = await self._readers.call(name, partial(self._process.ask, path, subject, number))
        return scene


class _SceneProcess:
    """Process that computes the scenes of one data set; used by one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._subject: object = None

    def ask(self, path: Path, subject: object, number: int) -> dict[str, Any]:
        """Return the scene of an episode; ``subject`` identifies the data set and its state."""
        process = self._process
        if process is None or process.poll() is not None or self._subject != subject:
            self._end()
            process = self._process = subprocess.Popen(
                [*own_command(PROCESS), str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # it ends with its input, not by Ctrl-C in the terminal of the server
            )
            self._subject = subject
        try:
            answer = json.loads(_answer_line(process, number))
        except (OSError, ValueError, DataError) as error:
            self._end()
            reason = str(error) if isinstance(error, DataError) else f"its process failed ({type(error).__name__})"
            raise DataError(f"the 3D scene cannot be computed: {reason}") from error
        if "error" in answer:
            raise DataError(clip(str(answer["error"])))
        return checked_scene(answer)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError), process:  # closes its streams and waits
            process.kill()


def _answer_line(process: subprocess.Popen[bytes], number: int) -> bytes:
    """Return the line that the process prints for an episode, within limits of time and size."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{number}\n".encode())
    parts: list[bytes] = []
    size, until = 0, time.monotonic() + SCENE_SECONDS
    while not (parts and parts[-1].endswith(b"\n")):
        if not select.select([process.stdout], [], [], max(until - time.monotonic(), 0.0))[0]:
            raise DataError(f"it has not come within {SCENE_SECONDS:g} s")
        part = os.read(process.stdout.fileno(), 1 << 16)
        size += len(part)
        if not part or size > SCENE_BYTES:
            raise DataError(f"it has more than {SCENE_BYTES >> 20} MiB" if part else "its process has ended")
        parts.append(part)
    return b"".join(parts)


def checked_scene(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a scene of the process with its known fields alone.

    Raises:
        DataError: if a field has another form; see :func:`.checked_geometry`.
    """
    frames, stride = answer.get("frames"), answer.get("stride")
    if not isinstance(frames, list) or len(frames) > POINTS + 1 or not isinstance(stride, int) or stride < 1:
        raise DataError(f"expected at most {POINTS} frames and their stride")
    return {
        "geometry": checked_geometry(answer.get("geometry")),
        "frames": [checked_frame(frame) for frame in frames],
        "stride": stride,
        "note": clip(str(answer.get("note"))),
    }
