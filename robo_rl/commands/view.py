"""``robo-rl view path=...``: a data set, an episode or a run in Rerun, and images as MP4 files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..command_line.destination import output_file
from ..core import ConfigError, DataError, nearest, require, scratch_folder, typed
from ..evaluation.runs import is_run, load_run
from ..evaluation.viewer import Recording, check_viewer, import_rerun, show, web_address
from ..monitoring.viewer import ViewConfig, export_video, record_episodes, record_run
from ..replay import EpisodeStore
from ..telemetry import Console


def run(config: DictConfig) -> int:
    """Display or export data as configured in configs/view.yaml; return 0, or the viewer's exit code."""
    settings = typed(ViewConfig, config)
    for option, value in (("save", settings.save), ("export", settings.export)):
        if value is not None:
            output_file(option, value)
    path = Path(settings.path)
    if is_run(path):
        if settings.export is not None:
            videos = ", ".join(str(video) for video in load_run(path).videos) or "none"
            raise ConfigError(f"export: {path} is a run, but only data sets are exported. Its videos: {videos}")
        require(settings.episodes is None, "episodes", f"null, as {path} is a run", settings.episodes)
        return _show(settings, path.resolve().name, lambda recording: record_run(recording, load_run(path)))
    with _dataset(path) as store:
        episodes = _chosen(settings.episodes, store)
        if settings.save is not None or settings.opens_viewer:
            import_rerun()  # raises, before a video is made, if Rerun is missing
        if settings.export is not None:
            export_video(store, episodes, Path(settings.export))
            Console(highlight=False).print(f"video: {settings.export}", markup=False, soft_wrap=True)
            if settings.save is None and not settings.opens_viewer:
                return 0
        chosen = ((number, store.arrays(number)) for number in episodes)
        return _show(settings, path.resolve().name, lambda recording: record_episodes(recording, store.spec, chosen))


def _show(settings: ViewConfig, title: str, fill: Callable[[Recording], None]) -> int:
    """Write a recording with ``fill``, and display it unless it is only to be saved."""
    console = Console(highlight=False)
    if settings.opens_viewer:
        check_viewer(settings.web, settings.port)
    with scratch_folder() as folder:
        file = folder / "view.rrd" if settings.save is None else Path(settings.save)
        with Recording(file, title) as recording:
            fill(recording)
        if settings.save is not None:
            console.print(f"recording: {file}\nshow it:   rerun {file}", markup=False, soft_wrap=True)
        if not settings.opens_viewer:
            return 0
        if settings.web:
            console.print(f"open {web_address(settings.port)} (Ctrl-C ends)", markup=False, soft_wrap=True)
        return show(file, settings.web, settings.port)


def _dataset(path: Path) -> EpisodeStore:
    """Open the data set at ``path``; if it does not exist, the error names similar folders beside it."""
    if not path.exists() and path.parent.is_dir():
        names = [entry.name for entry in path.parent.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
        raise ConfigError(f"path: there is no {path}; in {path.parent}: {nearest(path.name, names)}")
    return EpisodeStore.open(path)


def _chosen(episodes: object, store: EpisodeStore) -> list[int]:
    """Return the numbers of the selected episodes, by default all."""
    count = len(store)
    if count == 0:
        raise DataError(f"{store.path} holds no episodes; record some with `robo-rl record`")
    if episodes is None:
        return list(range(count))
    numbers: list[Any] = episodes if isinstance(episodes, list) and episodes else [episodes]
    for number in numbers:
        valid = type(number) is int and 0 <= number < count  # compared by type, because isinstance accepts True
        require(valid, "episodes", f"numbers of episodes, 0 to {count - 1}", number)
    return numbers
