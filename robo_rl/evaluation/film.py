"""The video of an evaluation, whose failure costs no result."""

import contextlib
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ..core import Closing, EnvBackend, RenderingError, RoboRLError

if TYPE_CHECKING:
    from .video import VideoWriter


class Film(Closing):
    """A video that is given up where something goes wrong with it; a context manager.

    Args:
        path: MP4 file to write; None: nothing is filmed.
        frame_rate: [Hz].

    Attributes:
        path: the file; None where there is none, or no more.
        problem: why it was given up; empty: it was not.
    """

    def __init__(self, path: Path | None, frame_rate: float) -> None:
        self.path = path
        self.problem = ""
        self._rate = frame_rate
        self._writer: VideoWriter | None = None

    def add(self, backend: EnvBackend, caption: str, success: bool | None = None, count: int = 1) -> None:
        """Film ``backend`` as it is now, for ``count`` frames; see :class:`VideoWriter` for the caption.

        Raises:
            RenderingError: if that is the first frame, and it cannot be made.
        """
        if self.path is None:
            return
        is_first = self._writer is None
        try:
            frame = backend.render()
            writer = self._writer = self._writer or self._open(self.path)
            for _ in range(count):
                writer.add(frame, caption, success)
        except Exception as error:
            self._give_up(error)
            if is_first:
                raise error if isinstance(error, RoboRLError) else RenderingError(self.problem) from error

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            try:
                self._writer.close()
            except Exception as error:
                self.path, self.problem = None, _told(error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif self._writer is not None:
            self._writer.__exit__(kind, error, trace)

    def _open(self, path: Path) -> "VideoWriter":
        from .video import VideoWriter  # Codecs are loaded only where a video is made.

        return VideoWriter(path, self._rate)

    def _give_up(self, error: Exception) -> None:
        self.path, self.problem = None, _told(error)
        if self._writer is not None:
            self._writer.__exit__(type(error), error, error.__traceback__)
            self._writer = None


def film_problem(backend: EnvBackend, path: Path) -> str:
    """Film one frame of ``backend`` beside ``path``; return why that cannot be done, an empty string if it can."""
    trial = path.with_name(f".trial_{path.name}")
    try:
        with Film(trial, backend.spec.control_rate) as film:
            film.add(backend, "")
    except Exception as error:
        return _told(error)
    finally:
        with contextlib.suppress(OSError):
            trial.unlink(missing_ok=True)
    return film.problem


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, RoboRLError) else f"{type(error).__name__}: {error}"
