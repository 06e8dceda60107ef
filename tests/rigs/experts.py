"""Episodes of the scripted experts of simulated tasks."""

from robo_rl.core import Step
from robo_rl.sim import ArmBackend


def play_expert(backend: ArmBackend, seed: int) -> list[Step]:
    """Return every step of an episode."""
    expert = backend.expert(0)
    steps = [backend.reset(seed)]
    while not steps[-1].ended:
        steps.append(backend.step(expert.act(steps[-1].observation)))
    return steps
