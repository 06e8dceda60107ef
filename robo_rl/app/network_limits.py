"""Limits on the networks of a run: its configuration may request no larger ones than its checkpoints hold."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ..core import CheckpointError, networks_within

NO_NETWORKS = ("demonstrations", "intervention", "prior", "replay", "run")
"""Parts of a checkpoint without networks."""
CRITICS = 64
"""Largest ratio of an agent's parameters to those of its policy, for a checkpoint that holds the policy alone."""


NUMBER = 4
"""Bytes of a parameter in a checkpoint."""


@contextlib.contextmanager
def networks_of(checkpoint: Path, part: str) -> Iterator[None]:
    """Reject, within a block, networks that are larger than those in a checkpoint.

    checkpoint: folder of the checkpoint.
    part: ``agent``, ``reward`` or ``policy``: the part with the networks. A policy is made with its critics, which
        are in the part ``agent``.

    Raises:
        CheckpointError: within the block, before such a network is made.
    """
    sizes = _sizes(checkpoint)
    size = sizes.get("agent", CRITICS * sizes.get(part, 0)) if part == "policy" else sizes.get(part, 0)
    with networks_within(size // NUMBER, checkpoint, CheckpointError):
        yield


@contextlib.contextmanager
def networks_of_run(run: Path | None) -> Iterator[None]:
    """Reject, within a block, networks that are larger than those in any checkpoint of a run.

    Args:
        run: folder of the run. None, or a run without checkpoints, sets no limit.

    Raises:
        CheckpointError: within the block, before such a network is made.
    """
    steps = [] if run is None else sorted((run / "checkpoints").glob("step_*"))
    held = [sum(size for part, size in _sizes(step).items() if part not in NO_NETWORKS) for step in steps]
    with networks_within(max(held) // NUMBER, run, CheckpointError) if held else contextlib.nullcontext():
        yield


def _sizes(checkpoint: Path) -> dict[str, int]:
    """Return the sizes of the files of a checkpoint [B], by part."""
    return {file.stem: file.stat().st_size for file in checkpoint.glob("*.safetensors") if file.is_file()}
