"""A training on a machine without a C++ compiler says what that costs and what to install."""

from pathlib import Path

import pytest

from ..rigs.command_line import exit_code

WORDS = (
    "train task=reach agent=sac run.env_steps=0 run.evaluation_interval=0 run.final_evaluation_episodes=1 "
    "run.video_episodes=0 demonstrations.episodes=0"
)


@pytest.mark.parametrize("exists", [True, False])
def test_a_missing_compiler_is_reported_once(
    exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not exists:
        monkeypatch.setenv("CXX", "no_such_compiler")
    assert not exit_code(*WORDS.split(), f"run.dir={tmp_path / 'run'}")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Training will take")]
    expected = (
        "Training will take many times as long as with compiled updates: no C++ compiler found (looked for "
        "no_such_compiler); install g++ or clang++, or set CXX"
    )
    assert lines == ([] if exists else [expected])
