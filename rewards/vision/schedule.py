"""Learning rate schedule of a training run of fixed length."""

import math


def schedule(step: int, steps: int) -> float:
    """Return the learning rate of a step, as a share of the largest one."""
    warming = max(1, steps // 20)
    if step < warming:
        return (step + 1) / warming
    return 0.5 * (1 + math.cos(math.pi * (step - warming) / max(1, steps - warming)))
