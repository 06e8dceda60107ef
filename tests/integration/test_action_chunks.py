"""Runs whose policy decides three actions at once: resumed in mid-chunk, evaluated at other periods."""

import json
from pathlib import Path

import numpy as np
import pytest

from ..rigs.command_line import SMALL_AGENT, exit_code
from ..rigs.run_folder import newest_state

STEPS = 50
TRAIN = [
    "task=reach",
    *SMALL_AGENT,
    "agent.action_chunk=3",
    "agent.implementation=torch",
    "demonstrations.episodes=2",
    "intervention.criterion=random",
    "intervention.false_alarm=0.05",
    "intervention.probability=0.05",
    "run.evaluation_interval=7",
    "run.evaluation_episodes=1",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
    "logging.progress=false",
]


def robo_rl(*words: str) -> None:
    assert not exit_code(*words)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    robo_rl("train", *TRAIN, f"run.dir={folder}", f"run.env_steps={STEPS}")
    return folder


def test_a_run_goes_on_in_mid_chunk_bit_for_bit(unbroken: Path, tmp_path: Path) -> None:
    robo_rl("train", *TRAIN, f"run.dir={tmp_path}/run", "run.env_steps=31")
    assert newest_state(tmp_path / "run")["agent/exploring_plan/left"][0] > 0
    robo_rl("train", f"resume={tmp_path}/run", f"run.env_steps={STEPS}")
    first, second = newest_state(unbroken), newest_state(tmp_path / "run")
    assert first.keys() == second.keys()
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key], err_msg=key, strict=True)


def test_it_is_evaluated_at_other_decision_periods(
    unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "result.json"
    robo_rl("eval", f"run={unbroken}", "checkpoint=newest", "episodes=2", "decision_periods=[1,3,6]", f"output={file}")
    data = json.loads(file.read_text())
    slow = data["decision_periods"]
    assert [row["period"] for row in slow["periods"]] == [1, 3, 6]
    assert slow["periods"][1]["return_mean"] == data["return_mean"], "every third step is how it was trained"
    one, three, six = (row["success_rate"]["value"] for row in slow["periods"])
    assert slow["score"] == "success_rate"
    assert slow["frequency_averaged_score"] == pytest.approx(((one + three) / 2 * 2 + (three + six) / 2 * 3) / 5)
    printed = capsys.readouterr().out
    assert "6 steps" in printed
    assert "Frequency-averaged score" in printed
