"""SIGKILL while a robot resets and steps; benchmarks/bench_restarts.py tries every process in every phase."""

from pathlib import Path

import pytest

from ..rigs.restart_rig import SILENT_SECONDS, restart_rig


def test_whoever_is_killed_no_two_motions_come_at_once_and_people_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with restart_rig(tmp_path) as rig:
        outcomes = [rig.attempt("actor", "reset"), rig.attempt("robot", "step")]
        output = "\n".join(line for _, line in rig.lines)
    for outcome in outcomes:
        assert outcome.resets_at_once == outcome.commands_in_resets == 0, outcome
        assert outcome.silent_seconds <= SILENT_SECONDS, (outcome, output)
    assert outcomes[0].person and not outcomes[1].person
    assert "actor_0 ended with exit code -9 and is restarted (restart 1 of 1000)" in output
    assert "actor_0: Stopped: a reset of robot 'virtual' that process" in output
    assert "restart 2 of" not in output, "a robot that crashed costs none"
