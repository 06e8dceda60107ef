"""Video of an evaluation, whose problems do not end the evaluation."""

import contextlib
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ..core import Closing, EnvBackend, RenderingError, RoboRLError

if TYPE_CHECKING:
    from .video import VideoWriter


class Film(Closing):
    """A video that is abandoned on an error; a context manager.

    Args:
        path: MP4 file to write; None: no video is made.
        frame_rate: frame rate of the video [Hz].

    Attributes:
        path: the file; None if there is no video, or it was abandoned.
        problem: reason why the video was abandoned; empty if it was not.
    """

    def __init__(self, path: Path | None, frame_rate: float) -> None:
        self.path = path
        self.problem = ""
        self._rate = frame_rate
        self._writer: VideoWriter | None = None

    def add(self, backend: EnvBackend, caption: str, success: bool | None = None, count: int = 1) -> None:
        """Add the current view of ``backend`` as ``count`` frames; see :class:`VideoWriter` for the caption.

        Raises:
            RenderingError: if this is the first frame and it cannot be rendered or written.
        """
        if self.path is None:
            return
        is_first = self._writer is None
        try:
            frame = backend.render()
            writer = self._writer = self._writer or self._open(self.path)
            for _ in range(count):
                writer.add(frame, caption, success)
        except Exception as error:  # a renderer or an encoder raises many kinds of errors
            self._abandon(error)
            if is_first:
                raise error if isinstance(error, RoboRLError) else RenderingError(self.problem) from error

    def close(self) -> None:
        """Complete the file."""
        if self._writer is not None:
            try:
                self._writer.close()
            except Exception as error:  # see add()
                self.path, self.problem = None, _describe(error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif self._writer is not None:
            self._writer.__exit__(kind, error, trace)

    def _open(self, path: Path) -> "VideoWriter":
        from .video import VideoWriter  # imported here because it loads codecs

        return VideoWriter(path, self._rate)

    def _abandon(self, error: Exception) -> None:
        self.path, self.problem = None, _describe(error)
        if self._writer is not None:
            self._writer.__exit__(type(error), error, error.__traceback__)
            self._writer = None


def film_problem(backend: EnvBackend, path: Path) -> str:
    """Write a video of one frame of ``backend`` beside ``path``; return the problem, or an empty string if it works."""
    trial = path.with_name(f".trial_{path.name}")
    try:
        with Film(trial, backend.spec.control_rate) as film:
            film.add(backend, "")
    except Exception as error:  # see Film.add()
        return _describe(error)
    finally:
        with contextlib.suppress(OSError):
            trial.unlink(missing_ok=True)
    return film.problem


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, RoboRLError) else f"{type(error).__name__}: {error}"
