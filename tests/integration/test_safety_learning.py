"""robo-rl safety learn: from recorded episodes to a filter of the same task."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from robo_rl.safety import make_safe_backend
from robo_rl.safety.config import FeasibilityFilterConfig
from robo_rl.sim import make_backend


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "robo_rl.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_value_is_learned_from_a_data_set_and_used(tmp_path: Path) -> None:
    data, model = tmp_path / "data", tmp_path / "model"
    done = run("record", "task=reach", "record.source=expert", "record.episodes=12", f"record.path={data}")
    assert done.returncode == 0, done.stdout + done.stderr
    keep = "keep='end_effector_z > 15 cm'"
    done = run("safety", "learn", f"path={data}", keep, f"output={model}", "learning.steps=300", "threads=1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "steps of 12 episodes" in done.stdout
    assert f"safety.feasibility.model={model}" in done.stdout
    backend = make_safe_backend(make_backend("reach"), feasibility=FeasibilityFilterConfig(str(model)))
    step, reasons = backend.reset(0), set()
    while not step.ended:
        step = backend.step(np.array([0, 0, -1], np.float32))
        reasons |= set(step.verdict.reasons)
    assert "feasibility" in reasons, "going down is not let through all the way"

    done = run("safety", "learn", f"path={data}", keep, f"output={model}")
    assert done.returncode == 2
    assert "is there already" in done.stderr
    done = run("safety", "learn", f"path={data}", "keep='end_effector_z > -1 m'", f"output={tmp_path / 'other'}")
    assert done.returncode == 2
    assert "never breaks 'end_effector_z > -1 m'" in done.stderr
