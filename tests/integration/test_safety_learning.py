"""robo-rl safety learn: from recorded episodes to a filter of the same task."""

from pathlib import Path

import numpy as np

from robo_rl.safety import make_safe_backend
from robo_rl.safety.config import FeasibilityFilterConfig
from robo_rl.sim import make_backend

from ..rigs.command_line import robo_rl


def test_a_value_is_learned_from_a_data_set_and_used(tmp_path: Path) -> None:
    data, model = tmp_path / "data", tmp_path / "model"
    robo_rl("record", "task=reach", "record.source=expert", "record.episodes=12", f"record.output={data}")
    keep = "keep='end_effector_z > 15 cm'"
    output = robo_rl("safety", "learn", f"path={data}", keep, f"output={model}", "learning.steps=300", "threads=1")
    assert "steps of 12 episodes" in output
    assert f"safety.feasibility.model={model}" in output
    backend = make_safe_backend(make_backend("reach"), feasibility=FeasibilityFilterConfig(str(model)))
    step, reasons = backend.reset(0), set()
    while not step.ended:
        step = backend.step(np.array([0, 0, -1], np.float32))
        reasons |= set(step.verdict.reasons)
    assert "feasibility" in reasons, "going down is not let through all the way"

    # Nobody says what is dangerous: near to the two newest episodes is safe, and the others are not all near.
    options, stay = (
        [f"demonstrated.paths=[{data}]", "demonstrated.remember=2", "demonstrated.reach=1"],
        tmp_path / "stay",
    )
    output = robo_rl("safety", "learn", f"path={data}", *options, f"output={stay}", "learning.steps=300", "threads=1")
    assert "steps of 14 episodes" in output
    assert "break 'to stay near what was demonstrated'" in output

    loose, other = "keep='end_effector_z > -1 m'", f"output={tmp_path / 'other'}"
    both = robo_rl("safety", "learn", f"path={data}", keep, *options, other, code=2)
    assert "either keep, a specification, or demonstrated.paths" in both
    assert "already exists" in robo_rl("safety", "learn", f"path={data}", keep, f"output={model}", code=2)
    assert "never breaks 'end_effector_z > -1 m'" in robo_rl("safety", "learn", f"path={data}", loose, other, code=2)
