"""Files that a run leaves in its folder."""

from pathlib import Path
from typing import Any

import numpy as np

from robo_rl.learner import CheckpointFolder
from robo_rl.telemetry.metrics_file import METRICS_FILE, read_metrics


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Return the records of one kind in the metrics of a run, which may be going on, or not have begun yet."""
    file = folder / METRICS_FILE
    return [record for record in read_metrics(file) if record["kind"] == kind] if file.exists() else []


def newest_state(folder: Path) -> dict[str, np.ndarray]:
    """Return all arrays of the newest checkpoint of a run."""
    parts = CheckpointFolder(folder / "checkpoints").load_newest().parts
    return {f"{part}/{key}": value for part, arrays in parts.items() for key, value in arrays.items()}
