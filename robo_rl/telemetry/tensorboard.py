"""The curves of a run for TensorBoard."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from robo_rl.core import Closing

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoardCurves(Closing):
    """Event files in ``folder``. If the disk is full, the curves lose points, but metrics.jsonl keeps them.

    Args:
        folder: folder, created if it does not exist.
        purge_step: first step whose earlier points TensorBoard hides; None: it shows all.
    """

    def __init__(self, folder: Path, purge_step: int | None) -> None:
        self._folder = folder
        self._purge_step = purge_step
        self._writer: SummaryWriter | None = None
        self._open()

    def _open(self) -> "SummaryWriter":
        from torch.utils.tensorboard import SummaryWriter  # deferred: the import takes a quarter of a second

        if self._writer is None:
            self._writer = SummaryWriter(str(self._folder), purge_step=self._purge_step)
            self._purge_step = None
        return self._writer

    def add(self, values: Mapping[str, float], step: int) -> None:
        """Add a point to each curve in ``values``."""
        try:
            for name, value in values.items():
                self._open().add_scalar(name, value, step)
        except OSError:  # the thread of the writer has ended: the next point goes to a new file
            self.close()

    def close(self) -> None:
        """Finish the file. May be called twice."""
        if self._writer is not None:
            with contextlib.suppress(OSError):
                self._writer.close()
            self._writer = None
