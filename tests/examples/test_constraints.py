"""docs/guide/constraints.md: its commands train and evaluate, its program prints the course of a multiplier."""

import re
from pathlib import Path

from ..rigs.guide import SMALL, Reader

RUN = [*SMALL, "run.env_steps=60", "task.max_episode_steps=10"]


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    reader = Reader("constraints.md", tmp_path)
    output = reader.follow("robo-rl train task=reach run.dir=runs/free", *RUN)
    assert re.search(r"Constraint slow kept: speed, mean [\d.]+ m/s; limit 10 m/s", output)
    assert re.search(r"Constraint smooth kept: acceleration, mean [\d.]+ m/s2; limit 100 m/s2", output)
    output = reader.follow("robo-rl train task=reach run.dir=runs/limited", *RUN)
    assert re.search(r"Constraint smooth (not )?kept: acceleration < 3 m/s2, violated in [\d.]+ % of the steps", output)
    assert re.search(r"Constraint solved (not )?kept: success, [\d.]+ % of the episodes", output)
    assert "Constraint slow" in reader.follow("robo-rl eval", "episodes=2")
    numbers = [[float(word) for word in line.split()] for line in reader.run_python().splitlines()]
    assert numbers and all(len(line) == 3 for line in numbers)
    assert "Constraint slow" in reader.follow("robo-rl train task=reach run.dir=runs/weighted", *RUN)
