"""Sweeps (-m) in one process, with runs that are played."""

import gc
from pathlib import Path

import pytest
from omegaconf import DictConfig

from robo_rl.cli import main
from robo_rl.commands import train


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
