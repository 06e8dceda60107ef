"""Sweeps (-m) in one process, with runs that are played."""

import gc
import json
from pathlib import Path

import pytest
from omegaconf import DictConfig

from robo_rl.cli import main
from robo_rl.commands import train
from robo_rl.core import ConfigError


@pytest.mark.parametrize(
    ("codes", "begun", "end"),
    [([0, 0], [0, 1], 0), ([1, 0], [0, 1], 1), ([130, 0], [0], 130), ([0, 143], [0, 1], 143), ([143, 0], [0], 143)],
)
def test_no_run_begins_after_one_that_was_interrupted(
    codes: list[int], begun: list[int], end: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that diverged (1) stops no other."""
    seeds: list[int] = []

    def run(config: DictConfig) -> int:
        seeds.append(config.seed)
        return codes[config.seed]

    monkeypatch.setattr(train, "run", run)
    with pytest.raises(SystemExit) as ended:
        main(["train", "task=reach", "seed=0,1", "-m", f"hydra.sweep.dir={tmp_path}"])
    assert (seeds, ended.value.code) == (begun, end)


def test_garbage_is_collected_while_commands_run_and_after_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not while they start. What the first run of a sweep leaves is garbage to the second."""
    collected, frozen = [], []

    def run(config: DictConfig) -> int:
        collected.append(gc.isenabled())
        frozen.append(gc.get_freeze_count())
        return 0

    monkeypatch.setattr(train, "run", run)
    with pytest.raises(SystemExit):
        main(["train", "task=reach", "seed=0,1", "-m", f"hydra.sweep.dir={tmp_path}"])
    with pytest.raises(SystemExit):
        main(["train", "task=no_such_task"])
    assert collected == [True, True] and gc.isenabled()
    assert frozen[0] >= frozen[1] > 0  # a few of them went meanwhile


def test_a_sweep_ends_with_a_table_of_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    def run(config: DictConfig) -> int:
        folder = Path(config.run.dir)
        folder.mkdir()
        (folder / "metrics.jsonl").touch()
        (folder / "config.yaml").write_text("{}")
        if config.seed == 1:
            raise ConfigError("no robot answers")
        success = {"value": 0.96, "low": 0.9, "high": 0.99, "episodes": 100}
        facts = {"status": "completed", "env_steps": 1_500, "wall_seconds": 90.0, "success_rate": success}
        (folder / "summary.json").write_text(json.dumps(facts | {"return_mean": 0.96}))
        return 0

    monkeypatch.setattr(train, "run", run)
    with pytest.raises(SystemExit) as ended:
        main(["train", "task=reach", "run.dir=run_${seed}", "seed=0,1", "-m", f"hydra.sweep.dir={tmp_path}"])
    captured = capsys.readouterr()
    assert ended.value.code == 2 and captured.err == "robo-rl: no robot answers\n"
    *begun, title, columns, first, second = (
        line for line in captured.out.splitlines() if any(c.isalnum() for c in line)
    )
    assert begun == ["Run 1 of 2: seed=0", "Run 2 of 2: seed=1"]
    words = [line.replace("│", " ").replace("┃", " ").split() for line in (title, columns, first, second)]
    assert words[0] == ["2", "runs"]
    assert words[1] == ["values", "ended", "steps", "minutes", "success", "return", "folder"]
    assert words[2] == ["seed=0", "completed", "1,500", "1.5", "96", "%", "0.96", "run_0"]
    assert words[3] == ["seed=1", "no", "robot", "answers", "0", "run_1"]


def test_a_value_out_of_range_ends_its_own_run_and_no_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(train, "run", lambda config: 0)
    with pytest.raises(SystemExit) as ended:
        main(["train", "task=reach", "run.dir=${seed}", "agent.gamma=0.9,2", "-m", f"hydra.sweep.dir={tmp_path}"])
    captured = capsys.readouterr()
    assert ended.value.code == 2 and "agent.gamma" in captured.err
    rows = [line for line in captured.out.splitlines() if "agent.gamma=" in line and "Run" not in line]
    assert ["must be" in row for row in rows] == [False, True]


def test_a_single_run_ends_without_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(train, "run", lambda config: 0)
    with pytest.raises(SystemExit):
        main(["train", "task=reach", f"run.dir={tmp_path / 'run'}"])
    assert capsys.readouterr().out == ""
