"""Run folders named on the command line: overwritten, resumed, commanded, or left alone."""

from pathlib import Path

import pytest

from robo_rl.cli import main
from robo_rl.telemetry import Command, LiveRun, LiveStatus

from .test_cli_errors import CONFIG, fails


def test_a_run_is_not_overwritten_by_accident(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    line = fails(["train", "task=reach", f"run.dir={tmp_path}"], capsys)
    assert line == (
        f"robo-rl: {tmp_path} already holds a run: resume it with resume={tmp_path}, choose another run.dir, or "
        "replace it with run.overwrite=true"
    )


def test_a_run_is_replaced_only_once_the_other_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    (folder / "demonstrations").mkdir(parents=True)
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "thesis.tex").touch()
    again = ["train", "task=reach", f"run.dir={folder}", "run.overwrite=true"]
    assert "agent.gamma must be in [0, 1], got 1.5" in fails([*again, "agent.gamma=1.5"], capsys)
    inside = f"demonstrations.path={folder}/demonstrations"
    assert f"{inside} lies in the run that run.overwrite=true replaces" in fails([*again, inside], capsys)
    assert (folder / "config.yaml").read_text() == CONFIG and (folder / "demonstrations").is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    with pytest.raises(SystemExit) as ended:
        main([*again, "agent=bc", "agent.pretrain_steps=1", "demonstrations.episodes=1", "run.video_episodes=0",
              "run.final_evaluation_episodes=1"])  # fmt: skip
    assert ended.value.code == 0 and "seed: 0" in (folder / "config.yaml").read_text()
    assert (folder / "thesis.tex").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_without_its_data_set_does_not_begin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = fails(["train", "task=reach", f"run.dir={tmp_path}/run", f"demonstrations.path={tmp_path}/none"], capsys)
    assert line.startswith(f"robo-rl: demonstrations.path: {tmp_path}/none: there is no data set; correct the path")
    assert not [*tmp_path.iterdir()]


def test_files_that_are_no_run_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text("seed: 5\n")
    (tmp_path / "thesis.tex").touch()
    for more in ([], ["run.overwrite=true"]):
        line = fails(["train", "task=reach", f"run.dir={tmp_path}", *more], capsys)
        assert line.startswith(f"robo-rl: {tmp_path} holds files but no run of robo-rl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "thesis.tex"]


@pytest.mark.parametrize("folder", [".", "reach"])
def test_words_that_could_be_paths_do_not_lie_in_a_run(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(folder).mkdir(exist_ok=True)
    (Path(folder) / "config.yaml").write_text(CONFIG)
    line = fails(["train", "task=reach", f"run.dir={folder}", "run.overwrite=true", "agent.gamma=2"], capsys)
    assert "agent.gamma" in line and (Path(folder) / "config.yaml").read_text() == CONFIG


def test_a_resumed_run_stays_in_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    line = fails(["train", f"resume={tmp_path}", "run.dir=elsewhere"], capsys)
    assert line == "robo-rl: a resumed run stays in its folder: leave out run.dir"


def test_a_run_that_goes_on_is_not_overwritten_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    with LiveRun(tmp_path):
        line = fails(["train", "task=reach", f"run.dir={tmp_path}", "run.overwrite=true"], capsys)
    assert line == f"robo-rl: another process is using the run in {tmp_path}: end it before you replace the run"
    assert (tmp_path / "config.yaml").exists()


def test_a_run_on_this_machine_is_commanded_by_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LiveRun(tmp_path) as live:
        live.report(LiveStatus("training"))
        with pytest.raises(SystemExit) as caught:
            main(["control", "send=pause", f"run={tmp_path}"])
        assert caught.value.code == 0 and live.take_commands() == [Command("pause")]
    assert capsys.readouterr().out == f"{tmp_path}: pause: sent; the run executes it between two steps\n"


@pytest.mark.parametrize("data", [b"\x00\xff\xae", b"run:\n  env_steps: 5\n  over", b"[1, 2]", b""])
@pytest.mark.parametrize("words", [["eval", "run="], ["train", "resume="]])
def test_a_damaged_configuration_is_named(
    data: bytes, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, option = words
    (tmp_path / "config.yaml").write_bytes(data)
    line = fails([command, f"{option}{tmp_path}"], capsys)
    assert line.startswith((f"robo-rl: {tmp_path}/config.yaml ", f"robo-rl: {tmp_path}/config.yaml:"))
