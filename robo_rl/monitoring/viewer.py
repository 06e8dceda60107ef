"""Command ``robo-rl view path=...``: replay of a data set, an episode or a run in Rerun, and export as MP4."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import ArraySpec, ConfigError, DataError, EnvSpec, Source, counted, require
from ..evaluation.runs import Run
from ..evaluation.video import VideoWriter, tile
from ..evaluation.viewer import Recording, quantities
from ..replay import EpisodeArrays, EpisodeStore

_IMAGES = "images/"
_EVENTS = "events"


@dataclass(frozen=True)
class ViewConfig:
    """Options of configs/view.yaml, which documents them and holds their defaults."""

    path: str
    episodes: Any
    web: bool
    port: int
    save: str | None
    export: str | None

    def __post_init__(self) -> None:
        for option, value, suffix in (("save", self.save, ".rrd"), ("export", self.export, ".mp4")):
            is_valid = value is None or Path(value).suffix == suffix
            require(is_valid, option, f"a file name that ends in {suffix}", value)
        require(1024 <= self.port <= 65534, "port", "in [1024, 65534]", self.port)

    @property
    def opens_viewer(self) -> bool:
        """Whether a viewer window is opened; otherwise only files are written."""
        return self.web or (self.save is None and self.export is None)


def record_episodes(recording: Recording, spec: EnvSpec, episodes: Iterable[tuple[int, EpisodeArrays]]) -> None:
    """Record numbered episodes one after another: observations, actions, rewards, source of the actions, success."""
    cameras = [key for key in spec.observation if key.startswith(_IMAGES)]
    plots = {
        f"observation/{key}": [f"observation/{key}/{quantity}" for quantity in quantities(_names(key, array))]
        for key, array in spec.observation.items()
        if key not in cameras
    }
    recording.lay_out(cameras, plots | {name: [name] for name in ("action", "rewards", "source")}, _EVENTS)
    offset = 0
    for number, data in episodes:
        _record_episode(recording, spec, number, data, offset)
        offset += data.record.steps + 1


def _record_episode(recording: Recording, spec: EnvSpec, number: int, data: EpisodeArrays, offset: int) -> None:
    count = data.record.steps
    rows = offset + np.arange(count + 1)  # There is one more observation than actions.
    times = rows / spec.control_rate
    steps, seconds = rows[:-1], times[:-1]
    for key, values in data.observation.items():
        if key.startswith(_IMAGES):
            recording.images(key, _newest(values), rows, times)
            continue
        flat = values.reshape(count + 1, -1)
        names = _names(key, spec.observation[key])
        for quantity, columns in quantities(names).items():
            labels = [names[column] for column in columns]
            recording.scalars(f"observation/{key}/{quantity}", labels, flat[:, columns], rows, times)
    actions = spec.action.names or tuple(str(index) for index in range(spec.action.shape[0]))
    recording.scalars("action/executed", actions, data.executed_action, steps, seconds, stairs=True)
    if not np.array_equal(data.executed_action, data.proposed_action):
        proposed = [f"{name} (proposed)" for name in actions]
        recording.scalars("action/proposed", proposed, data.proposed_action, steps, seconds, stairs=True)
    if data.rewards:
        # A reward is known only after its step.
        rewards = np.stack(list(data.rewards.values()), axis=-1)
        recording.scalars("rewards", list(data.rewards), rewards, rows[1:], times[1:], stairs=True)
    for source in Source:
        acting = data.source == source
        if acting.any():
            recording.scalars(
                f"source/{source.name.lower()}", [source.name.lower()], acting, steps, seconds, stairs=True
            )
    _record_events(recording, number, data, rows, times)


def _names(key: str, array: ArraySpec) -> tuple[str, ...]:
    return array.names or tuple(f"{key}[{index}]" for index in range(math.prod(array.shape)))


def _record_events(
    recording: Recording, number: int, data: EpisodeArrays, rows: NDArray[np.int64], times: NDArray[np.float64]
) -> None:
    """Record the beginning, changes of the source of actions, and the end of the episode."""
    first = Source(int(data.source[0])).name.lower()
    text = f"episode {number} begins, actions by {first} ({data.record.actor}, session {data.record.session})"
    recording.text(_EVENTS, text, int(rows[0]), float(times[0]))
    for step, (previous, current) in enumerate(pairwise(data.source), start=1):
        if previous != current:
            text = f"{Source(int(current)).name.lower()} takes over from {Source(int(previous)).name.lower()}"
            recording.text(_EVENTS, text, int(rows[step]), float(times[step]))
    outcome = {True: "success", False: "failure", None: "success unknown"}[data.record.success]
    ending = "terminated" if data.terminated[-1] else "truncated" if data.truncated[-1] else "not ended"
    text = f"episode {number}: {outcome}, {ending} after {counted(data.record.steps, 'step')}"
    recording.text(_EVENTS, text, int(rows[-1]), float(times[-1]), warning=data.record.success is False)


def record_run(recording: Recording, run: Run) -> None:
    """Record the metrics of a run over its steps and wall-clock time, and its videos."""
    lines: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for line in run.metrics:
        for name, value in line.items():
            if name not in ("step", "wall_seconds") and isinstance(value, bool | int | float):
                lines.setdefault(f"metrics/{line['kind']}", {}).setdefault(name, []).append(line)
    plots = {kind: [f"{kind}/{name}" for name in names] for kind, names in lines.items()}
    recording.lay_out([f"videos/{video.stem}" for video in run.videos], plots, _EVENTS)
    for kind, names in lines.items():
        for name, records in names.items():
            steps, seconds = [int(line["step"]) for line in records], [float(line["wall_seconds"]) for line in records]
            recording.scalars(f"{kind}/{name}", [name], [float(line[name]) for line in records], steps, seconds)
    problems = list(run.problems)
    for video in run.videos:
        try:
            recording.video(f"videos/{video.stem}", video)
        except DataError as error:
            problems.append(str(error))
    for problem in problems:
        recording.text(_EVENTS, problem, run.env_steps, run.wall_seconds, warning=True)


def _newest(images: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the newest frame of each image; ``images`` is (n, height, width, 3 * frames)."""
    return images[..., -3:]


def export_video(store: EpisodeStore, episodes: Sequence[int], path: Path) -> None:
    """Write the stored images of ``episodes`` as an MP4 at the control rate, with all cameras side by side.

    Raises:
        ConfigError: if the data set has no images, or its cameras have different image sizes.
    """
    cameras = [key for key in store.spec.observation if key.startswith(_IMAGES)]
    if not cameras:
        keys = ", ".join(sorted(store.spec.observation))
        raise ConfigError(
            f"{store.path} holds no images, only {keys}, so there is nothing to export; record it again with cameras, "
            "or film a policy with `robo-rl eval run=RUN video=FILE.mp4`"
        )
    sizes = {store.spec.observation[key].shape for key in cameras}
    if len(sizes) > 1:
        raise ConfigError(f"{store.path}: cameras of one size can be exported side by side, these have {sorted(sizes)}")
    with VideoWriter(path, store.spec.control_rate) as writer:
        for number in episodes:
            data = store.arrays(number, cameras)
            outcome = {True: "  success", False: "  failure", None: ""}[data.record.success]
            for row, frame in enumerate(tile([list(_newest(data.observation[key])) for key in cameras], len(cameras))):
                is_last = row == data.record.steps
                writer.add(
                    frame, f"episode {number}{outcome if is_last else ''}", data.record.success if is_last else None
                )
