"""Recordings for Rerun, the viewer of robot data: an optional package, imported when a recording is made."""

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import Closing, ConfigError

_JPEG_QUALITY = 90


class Recording(Closing):
    """A Rerun recording in a ``.rrd`` file, with the timelines ``step`` and ``time`` [s]; a context manager.

    Args:
        path: file to write.
        title: name of the recording in the viewer.

    Raises:
        ConfigError: if Rerun is not installed.
    """

    def __init__(self, path: Path, title: str) -> None:
        self._rerun = _import_rerun()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._stream: Any = self._rerun.RecordingStream("robo-rl")
        self._stream.save(path)
        self._stream.send_recording_name(title)

    def scalars(
        self,
        entity: str,
        names: Sequence[str],
        values: ArrayLike,
        steps: ArrayLike,
        seconds: ArrayLike,
        stairs: bool = False,
    ) -> None:
        """Add one line of a plot for each column of ``values`` (n, k), at ``steps`` (n,) and ``seconds`` (n,).

        Args:
            entity: path of the plot's part, for example ``action``.
            names: name of each column.
            values: what is plotted.
            steps: environment steps.
            seconds: time [s].
            stairs: hold a value until the next one: for what is no measured quantity.
        """
        rr = self._rerun
        interpolation = rr.components.InterpolationMode.StepAfter if stairs else None
        style = rr.SeriesLines(names=list(names), interpolation_mode=interpolation)
        self._stream.log(entity, style, static=True)
        rows = np.asarray(values, dtype=np.float64).reshape(-1, len(names))
        self._stream.send_columns(entity, self._times(steps, seconds), columns=rr.Scalars.columns(scalars=rows))

    def images(self, entity: str, frames: NDArray[np.uint8], steps: ArrayLike, seconds: ArrayLike) -> None:
        """Add pictures (n, height, width, 3), stored as JPEG."""
        for frame, step, second in zip(frames, np.asarray(steps), np.asarray(seconds), strict=True):
            self._set_time(int(step), float(second))
            self._stream.log(entity, self._rerun.Image(frame).compress(jpeg_quality=_JPEG_QUALITY))

    def text(self, entity: str, text: str, step: int, seconds: float, warning: bool = False) -> None:
        """Add a line to the log at ``step`` and ``seconds``."""
        self._set_time(step, seconds)
        self._stream.log(entity, self._rerun.TextLog(text, level="WARN" if warning else "INFO"))

    def video(self, entity: str, path: Path) -> None:
        """Add an MP4 file; it plays on ``time``, from 0."""
        rr = self._rerun
        asset = rr.AssetVideo(path=path)
        self._stream.log(entity, asset, static=True)
        stamps = asset.read_frame_timestamps_nanos()
        columns = rr.VideoFrameReference.columns_nanos(stamps)
        self._stream.send_columns(entity, [rr.TimeColumn("time", duration=stamps * 1e-9)], columns=columns)

    def lay_out(self, pictures: Sequence[str], plots: Mapping[str, Sequence[str]], log: str) -> None:
        """Arrange the window: pictures to the left, plots below one another to the right, the log beneath.

        Args:
            pictures: entities of images and videos.
            plots: entities of scalars for each row; several share it as tabs.
            log: entity of the log.
        """
        views = self._rerun.blueprint
        rows = []
        for row, entities in plots.items():
            tabs = [views.TimeSeriesView(origin=each, name=each.removeprefix(f"{row}/")) for each in entities]
            rows.append(views.Tabs(*tabs, name=row) if len(tabs) > 1 else tabs[0])
        right = views.Vertical(*rows, views.TextLogView(origin=log, name=log))
        left = [views.Spatial2DView(origin=entity, name=entity) for entity in pictures]
        content = views.Horizontal(views.Vertical(*left), right, column_shares=[2, 3]) if left else right
        self._stream.send_blueprint(views.Blueprint(content, collapse_panels=True))

    def close(self) -> None:
        """Finish the file. May be called twice."""
        self._stream.flush()
        self._stream.disconnect()

    def _times(self, steps: ArrayLike, seconds: ArrayLike) -> list[Any]:
        column = self._rerun.TimeColumn
        return [column("step", sequence=np.asarray(steps)), column("time", duration=np.asarray(seconds, dtype=float))]

    def _set_time(self, step: int, seconds: float) -> None:
        self._stream.set_time("step", sequence=step)
        self._stream.set_time("time", duration=seconds)


def viewer_command(path: Path, web: bool, port: int) -> list[str]:
    """Return the command that shows ``path``: in a window or, with ``web``, in a browser of this machine.

    The web viewer listens on the loopback address alone (``port``, and ``port + 1`` for the data): Rerun's own
    default would offer the recording to the network.
    """
    serve = ["--serve-web", "--bind", "127.0.0.1", "--web-viewer-port", str(port), "--port", str(port + 1)]
    return [sys.executable, "-m", "rerun", str(path), *(serve if web else [])]


def web_address(port: int) -> str:
    """Return the address at which the web viewer of :func:`viewer_command` shows the recording."""
    return f"http://127.0.0.1:{port}?url=rerun%2Bhttp%3A%2F%2F127.0.0.1%3A{port + 1}%2Fproxy"


def show(path: Path, web: bool, port: int) -> int:
    """Show a recording until the viewer is closed or Ctrl-C; return the viewer's exit code."""
    _import_rerun()
    try:
        return subprocess.run(viewer_command(path, web, port), check=False).returncode
    except KeyboardInterrupt:  # The way to end the web viewer.
        return 0


def quantities(names: Sequence[str]) -> dict[str, list[int]]:
    """Group the elements of a vector by the quantity that they belong to, for one plot each.

    Numbers and a last letter w, x, y or z only count elements.

    >>> quantities(["joint1_position", "joint2_position", "tip_x", "tip_y", "tip_vx", "gripper"])
    {'joint_position': [0, 1], 'tip': [2, 3], 'tip_v': [4], 'gripper': [5]}
    """
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        head = re.sub(r"\d+", "", re.split(r"[/\[]", name)[0])
        head = re.sub(r"([._][a-z]?)[wxyz]$", r"\1", head).rstrip("._")
        groups.setdefault(head or name, []).append(index)
    return groups


def _import_rerun() -> Any:
    try:
        import rerun
        import rerun.blueprint
    except ImportError as error:
        raise ConfigError(
            "viewing needs Rerun, which is not installed: pip install robo-rl[viewer] (490 MB). Without it, "
            "export=FILE.mp4 writes the images of a data set as a video"
        ) from error
    return rerun
