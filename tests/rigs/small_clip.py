"""A CLIP model that takes a second to make and has learned next to nothing."""

from pathlib import Path

import numpy as np

from robo_rl.rewards.vision.config import PretrainingConfig
from robo_rl.rewards.vision.pretraining import ClipTrainer

CONFIG = PretrainingConfig(
    image_size=32, vision_width=16, text_width=16, text_layers=1, embedding=8, steps=2, batch_size=4
)
CAPTIONS = ("the red cube is lifted", "the door is open", "a robot")


def frames(n, size=32, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, size, size, 3), dtype=np.uint8)


def make_small_clip(folder: Path, seed: int = 0) -> str:
    """Save one in ``folder`` and return its name."""
    trainer = ClipTrainer(CONFIG, seed)
    trainer.train(frames(8), CAPTIONS, np.random.default_rng(1).random((8, 3)) < 0.5)
    trainer.save(folder, {"description": "for tests"})
    return f"local-dir:{folder}"
