"""hydra/launcher=ray as far as it goes without Ray: what the runs are given, and what is told of them."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from robo_rl.cli import main
from robo_rl.telemetry import write_summary
from robo_rl.training import with_ray as ray_training

from ..rigs.command_line import exit_code

SWEEP = ["-m", "hydra/launcher=ray"]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the runs of a sweep are given; the first comes to its end, the others fail."""
    given: list[list[str]] = []

    def run_tasks(
        task: Callable[[list[str]], str], jobs: list[list[str]], cluster: str | None, resources: Mapping[str, float]
    ) -> tuple[list[str], int | None]:
        assert (cluster, dict(resources)) == ("head:6379", {"CPU": 2.0})
        given.extend(jobs)
        folder = Path(jobs[0][-1].partition("=")[2])
        folder.mkdir(parents=True)
        rate = {"value": 0.75, "low": 0.5, "high": 0.9, "episodes": 4}
        write_summary(folder, status="completed", env_steps=1200, success_rate=rate, return_mean=None)
        return ["", *("the worker died" for _ in jobs[1:])], None

    monkeypatch.setattr(ray_training, "run_tasks", run_tasks)
    return given


def test_each_run_has_a_folder_and_a_line_of_its_own(
    tmp_path: Path, given: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(tmp_path)
    settings = ["hydra.launcher.cluster=head:6379", "hydra.launcher.resources.CPU=2"]
    assert exit_code("train", "task=reach", "seed=3,4", *SWEEP, *settings) == 2
    output = capsys.readouterr()
    assert output.err == "robo-rl: 1 of 2 runs failed; the table gives the reasons\n"
    (sweep,) = (tmp_path / "runs").glob("*_sweep")
    assert given == [["task=reach", f"seed={n + 3}", f"run.dir={sweep}/{n}"] for n in range(2)]
    first, second = (line.split("\u2502")[1:-1] for line in output.out.splitlines() if "seed=" in line)
    assert [cell.strip() for cell in first] == ["seed=3", "completed", "1,200", "", "75 %", "", f"{sweep}/0"]
    assert [cell.strip() for cell in second] == ["seed=4", "the worker died", "0", "", "", "", f"{sweep}/1"]


def test_only_train_is_swept_and_folders_are_not_given(
    tmp_path: Path, given: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    for words, reason in (
        (["doctor"], "hydra/launcher=ray sweeps only robo-rl train"),
        (["train", "run.dir=runs/mine"], "a sweep on Ray gives each run a separate folder: set hydra.sweep.dir "),
        (
            ["train", "hydra.launcher.resources={CPU:-1}"],
            "hydra.launcher.resources must be 0, or 0.0001 or more, of each",
        ),
    ):
        assert exit_code(*words, *SWEEP, f"hydra.sweep.dir={tmp_path}") == 2
        assert capsys.readouterr().err.startswith(f"robo-rl: {reason}")
    assert not given


def test_runs_that_go_on_are_found_where_they_were(
    tmp_path: Path, given: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    settings = ["hydra.launcher.cluster=head:6379", "hydra.launcher.resources.CPU=2", f"hydra.sweep.dir={tmp_path}"]
    with pytest.raises(SystemExit) as ended:
        main(["train", f"resume={tmp_path}/a", *SWEEP, *settings])
    assert ended.value.code == 0 and given == [[f"resume={tmp_path}/a"]]
    assert "1,200" in capsys.readouterr().out
