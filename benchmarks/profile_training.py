"""Time of the parts of an environment step in local training.

python benchmarks/profile_training.py task=pick_cube run.env_steps=400

Trains as `robo-rl train` with these overrides does, in a temporary folder and without evaluations on the way, and
prints how long each part of an environment step took [ms] from the first update to the last.
"""

import functools
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from robo_rl.agents.sac import SAC
from robo_rl.cli import main as robo_rl
from robo_rl.learner import Learner
from robo_rl.replay import MixedSampler, ReplayRing
from robo_rl.sim.backend import ArmBackend
from robo_rl.telemetry import RunLogger

OVERRIDES = ("run.evaluation_interval=0", "run.final_evaluation_episodes=1", "run.video_episodes=0")
PARTS: dict[str, tuple[type, tuple[str, ...]]] = {
    "simulation, resets included": (ArmBackend, ("reset", "step")),
    "policy": (SAC, ("act",)),
    "replay: store the transition": (ReplayRing, ("append",)),
    "replay: draw the rows of the update": (MixedSampler, ("sample",)),
    "update": (SAC, ("update",)),
    "log": (RunLogger, ("log",)),
}


class Stopwatch:
    """Seconds of each part, between the first update's beginning and the last one's end."""

    def __init__(self) -> None:
        self._totals: dict[str, float] = defaultdict(float)
        self._begin = 0.0
        self.steps = 0
        self.seconds = 0.0
        self.parts: dict[str, float] = {}

    def time(self, part: str, owner: type, name: str) -> None:
        """Have the calls of a method count as ``part``."""
        method = getattr(owner, name)

        @functools.wraps(method)
        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return method(*arguments, **options)
            finally:
                self._totals[part] += time.perf_counter() - start

        setattr(owner, name, timed)

    def bound(self, owner: type, name: str) -> None:
        """Have the calls of a method be what is measured in between: the first begins, each may be the last."""
        method: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(method)
        def bounded(*arguments: Any, **options: Any) -> Any:
            if not self.steps:
                self._totals.clear()
                self._begin = time.perf_counter()
            result = method(*arguments, **options)
            self.steps += 1
            self.seconds = time.perf_counter() - self._begin
            self.parts = dict(self._totals)
            return result

        setattr(owner, name, bounded)


def main() -> None:
    stopwatch = Stopwatch()
    for part, (owner, names) in PARTS.items():
        for name in names:
            stopwatch.time(part, owner, name)
    stopwatch.bound(Learner, "step")
    with tempfile.TemporaryDirectory() as folder:
        try:
            robo_rl(["train", *OVERRIDES, f"run.dir={folder}/run", *sys.argv[1:]])
        except SystemExit as stop:
            if stop.code:
                raise
        summary = json.loads((Path(folder) / "run" / "summary.json").read_text())
    print(f"{summary['task']}, {summary['learner']}: {stopwatch.steps} steps in {stopwatch.seconds:.1f} s")
    rest = stopwatch.seconds - sum(stopwatch.parts.values())
    for part, seconds in (*stopwatch.parts.items(), ("everything else", rest)):
        print(f"  {part:<36} {1e3 * seconds / stopwatch.steps:8.2f} ms {seconds / stopwatch.seconds:6.1%}")


if __name__ == "__main__":
    main()
