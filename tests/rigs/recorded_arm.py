"""Data sets of simulated arms, recorded by the scripted experts of their tasks."""

from pathlib import Path
from typing import Any

from robo_rl.recording.teleoperation import record_expert
from robo_rl.sim import make_backend


def record_arm(path: Path, task: str = "reach", episodes: int = 2, **metadata: Any) -> None:
    """Record episodes of a task, with the metadata of ``robo-rl record``, or with other ones."""
    backend: Any = make_backend(task)
    stored = metadata or {"task": {"_target_": "robo_rl.sim.make_backend", "name": task}}
    try:
        record_expert(backend, path, episodes, noise=0.0, seed=0, only_successful=False, metadata=stored)
    finally:
        backend.close()
