"""A point in a plane with a task of several stages, for tests of reward machines."""

from dataclasses import replace
from pathlib import Path

from robo_rl.core import EnvSpec, MachineBackend, Step

from .pit_world import SPEC, PitWorld

STAGES = """
states:
  left:
    - {when: x < -0.1, to: right, reward: 0.25}
    - {when: far > 0.4, to: lost}
  right:
    - {when: x > 0.1 and not task_success, to: goal}
    - {when: y > 0.2 and y < 0.3, to: left, reward: -0.5}
  goal:
    - {when: task_success, to: done, reward: 2}
    - {when: x < -0.4, to: left}
success: [done]
failure: [lost]
"""


class StageWorld(PitWorld):
    """The plane of ``PitWorld``; its own task is solved at y above 0.25, and ends in the pit."""

    spec: EnvSpec = replace(SPEC, reward_terms=("success", "far"), reports_success=True)

    def __init__(self) -> None:
        super().__init__()
        self.stops: list[str] = []

    def _step(self, truncated: bool, info: dict[str, object]) -> Step:
        step = super()._step(truncated, info)
        solved = bool(self.place[1] > 0.25)
        rewards = {"success": float(solved), **step.rewards}
        return replace(step, rewards=rewards, success=solved, terminated=self.is_lost and not truncated)

    def stop(self, reason: str) -> None:
        self.stops.append(reason)


def staged(folder: Path, text: str = STAGES, ends: bool = True, world: StageWorld | None = None) -> MachineBackend:
    """Return the world with the machine of ``text``."""
    file = folder / "stages.yaml"
    file.write_text(text)
    return MachineBackend(StageWorld() if world is None else world, str(file), ends)  # type: ignore[arg-type]
