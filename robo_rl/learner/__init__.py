"""Learner: updates from sampled batches, handling of divergence, checkpoints."""

from .checkpoint import Checkpoint, CheckpointFolder, load_checkpoint, not_finite
from .learner import Learner

__all__ = ["Checkpoint", "CheckpointFolder", "Learner", "load_checkpoint", "not_finite"]
