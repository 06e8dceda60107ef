"""Recordings for Rerun, a viewer of robot data. Rerun is an optional package, imported when a recording is made."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import Closing, ConfigError, DataError, read_bytes
from .runs import VIDEO_BYTES

_JPEG_QUALITY = 90
_SIGINT_SECONDS = 3
"""Time that the viewer is given to end on SIGINT [s]."""
_LAST_WRITE_SECONDS = 60
"""Timeout for Rerun's last writes [s]. On a full disk Rerun's writing thread may die, and waiting without a timeout
would never end."""


class Recording(Closing):
    """A Rerun recording in a ``.rrd`` file, with the timelines ``step`` and ``time`` [s]; a context manager.

    The file appears under its name when it is complete. After an error there is no file; a killed process leaves only
    ``<name>.partial``.

    Args:
        path: file to write.
        title: name of the recording in the viewer.

    Raises:
        ConfigError: if Rerun is not installed.
        DataError: if the file cannot be written; also raised by :meth:`close`.
    """

    def __init__(self, path: Path, title: str) -> None:
        self._rerun = import_rerun()
        self._path = path
        self._partial = path.with_name(f"{path.name}.partial")
        self._complete = False
        path.parent.mkdir(parents=True, exist_ok=True)
        self._partial.unlink(missing_ok=True)  # writing would follow a link of this name
        self._stream: Any = self._rerun.RecordingStream("robo-rl")
        try:
            self._stream.save(self._partial)
        except RuntimeError as error:
            raise self._unwritten(error) from error
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
            values: values to plot.
            steps: environment steps.
            seconds: time [s].
            stairs: hold each value until the next one, for quantities that are not measured.
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
        """Add an MP4 file, which plays on the timeline ``time`` from 0.

        Raises:
            DataError: if it cannot be read.
        """
        rr = self._rerun
        try:
            asset = rr.AssetVideo(contents=read_bytes(path, VIDEO_BYTES), media_type="video/mp4")
            stamps = asset.read_frame_timestamps_nanos()
        except (OSError, DataError, RuntimeError) as error:
            raise DataError(f"{path} cannot be shown ({error}); make it again") from error
        self._stream.log(entity, asset, static=True)
        columns = rr.VideoFrameReference.columns_nanos(stamps)
        self._stream.send_columns(entity, [rr.TimeColumn("time", duration=stamps * 1e-9)], columns=columns)

    def lay_out(self, pictures: Sequence[str], plots: Mapping[str, Sequence[str]], log: str) -> None:
        """Arrange the window: pictures at the left, plots at the right in rows, and the log below the plots.

        Args:
            pictures: entities of images and videos.
            plots: entities of scalars for each row; several entities of a row are tabs.
            log: entity of the log.
        """
        views = self._rerun.blueprint
        rows = []
        for row, entities in plots.items():
            tabs = [views.TimeSeriesView(origin=entity, name=entity.removeprefix(f"{row}/")) for entity in entities]
            rows.append(views.Tabs(*tabs, name=row) if len(tabs) > 1 else tabs[0])
        right = views.Vertical(*rows, views.TextLogView(origin=log, name=log))
        left = [views.Spatial2DView(origin=entity, name=entity) for entity in pictures]
        content = views.Horizontal(views.Vertical(*left), right, column_shares=[2, 3]) if left else right
        self._stream.send_blueprint(views.Blueprint(content, collapse_panels=True))

    def close(self) -> None:
        """Complete the file. May be called twice."""
        if self._complete:
            return
        try:
            self._stream.flush(timeout_sec=_LAST_WRITE_SECONDS)
            self._stream.disconnect()
            self._partial.replace(self._path)
        except (RuntimeError, OSError) as error:
            raise self._unwritten(error) from error
        self._complete = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._stream.disconnect()
            self._partial.unlink(missing_ok=True)

    def _unwritten(self, error: Exception) -> DataError:
        with suppress(OSError):
            self._partial.unlink()
        return DataError(f"{self._path}: the recording cannot be written ({error}); free space or give another path")

    def _times(self, steps: ArrayLike, seconds: ArrayLike) -> list[Any]:
        column = self._rerun.TimeColumn
        return [column("step", sequence=np.asarray(steps)), column("time", duration=np.asarray(seconds, dtype=float))]

    def _set_time(self, step: int, seconds: float) -> None:
        self._stream.set_time("step", sequence=step)
        self._stream.set_time("time", duration=seconds)


def viewer_command(path: Path, web: bool, port: int) -> list[str]:
    """Return the command that shows ``path`` in a window or, with ``web``, in a browser on this machine.

    Both viewers listen for data, but only on the loopback address; Rerun's default would be reachable from the network.
    The web viewer listens on ``port``, and on ``port + 1`` for the data.
    """
    serve = ["--serve-web", "--web-viewer-port", str(port), "--port", str(port + 1)]
    return [sys.executable, "-m", "rerun", str(path), "--bind", "127.0.0.1", *(serve if web else [])]


def check_viewer(web: bool, port: int) -> None:
    """Check that :func:`show` can start a viewer.

    Raises:
        ConfigError: if Rerun is not installed, there is no display for a window, or a port of ``web`` is taken.
    """
    import_rerun()
    if not web:
        if sys.platform == "linux" and not any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")):
            raise ConfigError(
                "there is no display for a window; use web=true for a browser, "
                "or save=FILE.rrd for a file to open on another machine"
            )
        return
    for number in (port, port + 1):
        try:
            socket.create_server(("127.0.0.1", number)).close()
        except OSError as error:
            reason = os.strerror(error.errno or 0)  # without the address that Python adds
            raise ConfigError(f"port: {number} of 127.0.0.1 cannot be used ({reason}); choose another port") from error


def web_address(port: int) -> str:
    """Return the address at which the web viewer of :func:`viewer_command` shows the recording."""
    return f"http://127.0.0.1:{port}?url=rerun%2Bhttp%3A%2F%2F127.0.0.1%3A{port + 1}%2Fproxy"


def show(path: Path, web: bool, port: int) -> int:
    """Show a recording until the viewer is closed, or until Ctrl-C or a signal; return the viewer's exit code.

    The viewer is in a process group of its own, so this command ends it, also when its terminal is closed.
    """
    earlier = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) != signal.SIG_IGN
    }
    viewer = subprocess.Popen(viewer_command(path, web, port), process_group=0)
    try:
        return viewer.wait()
    except KeyboardInterrupt:  # the way to end the web viewer
        _signal_group(viewer, signal.SIGINT)  # for Rerun's command and the program that it has started
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            viewer.wait(_SIGINT_SECONDS)
        return 0
    finally:
        _signal_group(viewer, signal.SIGTERM)  # processes that a shell starts in the background ignore SIGINT
        viewer.wait()
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _signal_group(process: "subprocess.Popen[bytes]", number: int) -> None:
    """Send a signal to the process group of ``process``, unless it has ended."""
    if process.poll() is None:
        os.killpg(process.pid, number)


def quantities(names: Sequence[str]) -> dict[str, list[int]]:
    """Group the elements of a vector by quantity, for one plot per quantity.

    Numbers, and a final letter w, x, y or z, only distinguish elements of the same quantity.

    >>> quantities(["joint1_position", "joint2_position", "tip_x", "tip_y", "tip_vx", "gripper"])
    {'joint_position': [0, 1], 'tip': [2, 3], 'tip_v': [4], 'gripper': [5]}
    """
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        head = re.sub(r"\d+", "", re.split(r"[/\[]", name)[0])
        head = re.sub(r"([._][a-z]?)[wxyz]$", r"\1", head).rstrip("._")
        groups.setdefault(head or name, []).append(index)
    return groups


def import_rerun() -> Any:
    """Import and return Rerun.

    Raises:
        ConfigError: if it is not installed.
    """
    try:
        import rerun
        import rerun.blueprint
    except ImportError as error:
        raise ConfigError(
            f"viewing needs Rerun, which is not installed ({error}): pip install 'robo-rl[viewer]' (490 MB). Without "
            "it, export=FILE.mp4 writes the images of a data set as a video"
        ) from error
    return rerun
