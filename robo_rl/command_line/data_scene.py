"""Scenes of recorded episodes for the data page, computed in a process of its own, which imports MuJoCo.

``python -m robo_rl.command_line.data_scene FOLDER`` reads numbers of episodes, one a line, and prints a line of JSON
for each: the scene, or ``error`` with the reason why there is none. It ends with its input, or if nothing comes for
long.
"""

import json
import os
import resource
import select
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from ..actor import RecordedPoses
from ..app.recorded_task import recorded_backend
from ..core import RoboRLError, printable
from ..monitoring.watched_data import POINTS, check_number, check_size, open_data_set, stride_of
from ..replay import EpisodeStore

IDLE_SECONDS = 300.0
MEMORY_BYTES = 16 << 30
"""Largest address space of the process: a data set may come from anywhere."""


class DataScenes:
    """Scenes of the episodes of a data set.

    Args:
        path: the data set.

    Raises:
        DataError: if the data set cannot be read, or there is no arm to pose.
    """

    def __init__(self, path: Path) -> None:
        self._store: EpisodeStore = open_data_set(path)[0]
        self._poses = RecordedPoses(recorded_backend(self._store), self._store.spec)

    def scene(self, number: int) -> dict[str, Any]:
        """Return the scene of an episode as JSON values.

        - ``geometry`` and ``frames``: see :class:`.SceneNews`.
        - ``stride``: distance of the rows that have a frame.
        - ``note``: see :attr:`.EpisodePoses.note`.

        Raises:
            DataError: if there is no such episode, it is too large, or the data is damaged.
        """
        store, poses = self._store, self._poses
        check_number(store, number)
        rows = store.records[number].steps + 1
        check_size(store, rows, poses.keys)
        stride = stride_of(rows, POINTS)
        episode = poses.find(store.arrays(number, poses.keys).observation, list(range(0, rows, stride)))
        scene = poses.scene(episode)
        return {
            "geometry": json.loads(scene.geometry),
            "frames": [scene.frame(place) for place in range(len(episode.rows))],
            "stride": stride,
            "note": printable(episode.note),
        }


def main() -> int:
    """Answer the lines of the standard input; return the exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    scenes: DataScenes | None = None
    answers, lines = sys.stdout, os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    with redirect_stdout(sys.stderr), lines:  # nothing else is printed between the answers
        while select.select([lines], [], [], IDLE_SECONDS)[0] and (line := lines.readline()):
            try:
                scenes = scenes or DataScenes(Path(sys.argv[1]))
                answer = scenes.scene(int(line))
            except (RoboRLError, OSError) as error:
                answer = {"error": printable(str(error))}
            except Exception as error:  # of any kind: damaged files may raise it anywhere
                answer = {"error": f"{type(error).__name__} in its files"}
            print(json.dumps(answer, separators=(",", ":")), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
