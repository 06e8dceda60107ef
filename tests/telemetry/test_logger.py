"""RunLogger: what stands in metrics.jsonl and TensorBoard, and what resuming does to it."""

import errno
import io
import json
import os
import resource
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from robo_rl.core import ConfigError, DataError, ManualClock
from robo_rl.telemetry import LoggingConfig, RunLogger, register_configs
from robo_rl.telemetry.config import WandbConfig
from robo_rl.telemetry.metrics_file import read_metrics

SECOND = 1_000_000_000


def make_logger(
    folder: Path, clock: ManualClock, resume_step: int | None = None, resume_episodes: int | None = None
) -> tuple[RunLogger, io.StringIO]:
    if resume_step is not None:
        # TensorBoard reads files in the order of their names: the second, then a count as text, where 10 is before 9.
        files = (folder / "tensorboard").glob("events.*")
        newest = max((int(file.name.split(".")[3]) for file in files), default=0)
        while time.time() < newest + 1:
            time.sleep(0.01)
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=False)
    resumed = {"resume_step": resume_step, "resume_episodes": resume_episodes}
    return RunLogger(folder, LoggingConfig(), **resumed, console=console, clock=clock), stream


def test_records_are_strict_json_with_monotonic_seconds(tmp_path: Path) -> None:
    clock = ManualClock(start_ns=77 * SECOND)
    with make_logger(tmp_path, clock)[0] as logger:
        clock.advance_ns(1500_000_000)
        logger.log("train", 100, critic_loss=np.float32(0.5), entropy=float("nan"), updates=np.int64(2000))
        lines = (tmp_path / "metrics.jsonl").read_text().splitlines()  # while the run goes on
    assert [json.loads(line, parse_constant=pytest.fail) for line in lines] == [
        {
            "step": 100,
            "wall_seconds": 1.5,
            "kind": "train",
            "critic_loss": 0.5,
            "entropy": None,
            "updates": 2000,
        }
    ]


def test_tensorboard_holds_the_same_numbers(tmp_path: Path) -> None:
    with make_logger(tmp_path, ManualClock())[0] as logger:
        logger.log("episode", 10, episode_return=1.5, success=True, length=10)
        logger.log("episode", 20, episode_return=2.5, success=None, length=10)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("episode/episode_return")] == [(10, 1.5), (20, 2.5)]
    assert [(event.step, event.value) for event in events.Scalars("episode/success")] == [(10, 1.0)]


def test_resuming_removes_what_lies_beyond_and_keeps_counting_seconds(tmp_path: Path) -> None:
    clock = ManualClock()
    with make_logger(tmp_path, clock)[0] as logger:
        for step in (10, 20, 30):
            clock.advance_ns(2 * SECOND)
            logger.log("episode", step, episode_return=float(step), success=step == 20)
    with (tmp_path / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 40, "wall_sec')  # killed while it wrote
    clock.advance_ns(1000 * SECOND)  # the time between the two runs is not counted
    logger, stream = make_logger(tmp_path, clock, resume_step=20)
    with logger:
        assert logger.wall_seconds == 4.0
        clock.advance_ns(SECOND)
        logger.log("train", 21, critic_loss=1.0)
        logger.progress(21, 1000, 420)
    records = list(read_metrics(tmp_path / "metrics.jsonl"))
    assert [(record["step"], record["wall_seconds"]) for record in records] == [(10, 2.0), (20, 4.0), (21, 5.0)]
    assert "return 20.00  success 50 % of 2" in stream.getvalue()
    assert _points(tmp_path, "episode/episode_return") == [10, 20]


@pytest.mark.parametrize("name", [".partial_metrics.jsonl", "metrics.jsonl"])
def test_resuming_writes_through_no_link(tmp_path: Path, name: str) -> None:
    folder, own = tmp_path / "run", tmp_path / "own"
    with make_logger(folder, ManualClock())[0] as logger:
        logger.log("train", 10, critic_loss=1.0)
    own.write_bytes((folder / "metrics.jsonl").read_bytes())
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(own)
    with make_logger(folder, ManualClock(), resume_step=10)[0] as logger:
        logger.log("train", 20, critic_loss=1.0)
    assert [record["step"] for record in read_metrics(folder / "metrics.jsonl")] == [10, 20]
    assert [record["step"] for record in read_metrics(own)] == [10]


def test_an_episode_that_ended_at_the_step_of_the_checkpoint_after_it_is_told_once(tmp_path: Path) -> None:
    """One that is ended before its next step, as too far from where it can be brought back, ends again."""
    clock = ManualClock()
    with make_logger(tmp_path, clock)[0] as logger:
        logger.log("episode", 10, stopped=None)
        logger.log("episode", 20, stopped=None)
        saved = logger.episodes
        logger.log("episode", 20, stopped="irreversible")
        logger.log("evaluation", 20, success_rate=1.0)
    with make_logger(tmp_path, clock, resume_step=20, resume_episodes=saved)[0] as logger:
        assert logger.episodes == saved == 2
        logger.log("episode", 20, stopped="irreversible")
    records = [(each["step"], each["kind"], each.get("stopped")) for each in read_metrics(tmp_path / "metrics.jsonl")]
    assert records == [
        (10, "episode", None),
        (20, "episode", None),
        (20, "evaluation", None),
        (20, "episode", "irreversible"),
    ]
    with make_logger(tmp_path, clock, resume_step=20)[0] as logger:  # a checkpoint that does not say how many
        assert logger.episodes == 3


def test_what_is_told_late_keeps_its_second_and_the_run_goes_on_from_the_latest(tmp_path: Path) -> None:
    clock = ManualClock()
    with make_logger(tmp_path, clock)[0] as logger:
        clock.advance_ns(6 * SECOND)
        logger.log("train", 30, critic_loss=1.0)
        logger.log("evaluation", 20, wall_seconds=4.0, success_rate=0.5)
    records = list(read_metrics(tmp_path / "metrics.jsonl"))
    assert [(record["step"], record["wall_seconds"]) for record in records] == [(30, 6.0), (20, 4.0)]
    assert _points(tmp_path, "evaluation/success_rate") == [20]
    with make_logger(tmp_path, clock, resume_step=30)[0] as logger:
        assert logger.wall_seconds == 6.0


def test_what_a_full_disk_refuses_is_written_later_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logger, stream = make_logger(tmp_path, ManualClock())
    file = tmp_path / "metrics.jsonl"
    with logger:
        logger.log("episode", 10, episode_return=1.0, success=True)
        before = file.read_bytes()
        deadline = time.monotonic() + 60
        while not _points(tmp_path, "episode/success"):  # the limit is of all threads, TensorBoard's too
            assert time.monotonic() < deadline, "TensorBoard has not written its first points"
            time.sleep(0.01)
        largest = resource.getrlimit(resource.RLIMIT_FSIZE)
        with monkeypatch.context() as patched:
            patched.setattr(SummaryWriter, "add_scalar", lambda *_: pytest.fail("before the disk has its record"))
            try:
                resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 30, largest[1]))  # half of a record fits
                logger.log("episode", 20, episode_return=2.0, success=True)
                logger.log("episode", 30, episode_return=3.0, success=True)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, largest)
        assert file.read_bytes() == before, "no half of a record"
        logger.log("episode", 40, episode_return=4.0, success=True)
    assert [record["step"] for record in read_metrics(file)] == [10, 20, 30, 40]
    assert _points(tmp_path, "episode/episode_return") == [10, 20, 30, 40]
    assert stream.getvalue().count("metrics.jsonl cannot be written") == 1


def test_a_run_that_goes_on_does_not_keep_what_it_told(tmp_path: Path) -> None:
    logger, _ = make_logger(tmp_path, ManualClock())
    logger.close()
    record = {"step": 1, "wall_seconds": 2.0, "kind": "episode", "episode_return": 1.0, "success": True}
    (tmp_path / "metrics.jsonl").write_text((json.dumps(record) + "\n") * 5000)
    tracemalloc.start()
    try:
        logger, _ = make_logger(tmp_path, ManualClock(), resume_step=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    with logger:
        assert (logger.episodes, logger.wall_seconds) == (5000, 2.0)
    assert peak < 5000 * 100, "a record of five values takes more"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_of_tensorboard_that_died_costs_points_not_the_run(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    logger, _ = make_logger(tmp_path, ManualClock())
    with logger:
        logger.log("train", 1, critic_loss=1.0)
        (worker,) = set(threading.enumerate()) - before
        worker._record_writer.write = worker._record_writer.flush = _refuse  # type: ignore[attr-defined]
        logger.log("train", 2, critic_loss=1.0)
        worker.join(10)
        for step in (3, 4, 5):
            logger.log("train", step, critic_loss=1.0)
    files = {path for path in (tmp_path / "tensorboard").iterdir() if path.stat().st_size}
    assert len(files) == 2, "a new one was begun"
    assert [record["step"] for record in read_metrics(tmp_path / "metrics.jsonl")] == [1, 2, 3, 4, 5]


def _points(folder: Path, curve: str) -> list[int]:
    """Return the steps of the points of a curve in TensorBoard's files."""
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [event.step for event in events.Scalars(curve)] if curve in events.Tags()["scalars"] else []


def _refuse(*_: bytes) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 1, "wall_seconds": 0.1, "kind": "train"}\n{"step": 2}\n')
    with pytest.raises(DataError, match=r"metrics.jsonl, line 2: expected a JSON object"):
        make_logger(tmp_path, ManualClock(), resume_step=1)


def test_a_new_run_does_not_mix_with_an_earlier_one(tmp_path: Path) -> None:
    make_logger(tmp_path, ManualClock())[0].close()
    with pytest.raises(
        ConfigError, match="contains an earlier run; choose another folder, or continue that run with resume=FOLDER"
    ):
        make_logger(tmp_path, ManualClock())


def test_progress_can_be_switched_off(tmp_path: Path) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=False)
    with RunLogger(tmp_path, LoggingConfig(progress=False), console=console) as logger:
        logger.progress(10, 10, 10)
        logger.message("evaluation [20 episodes]: 95 %")
    assert stream.getvalue() == "evaluation [20 episodes]: 95 %\n"


def test_training_metrics_are_due_at_the_interval(tmp_path: Path) -> None:
    with RunLogger(tmp_path, LoggingConfig(train_interval=50)) as logger:
        assert [step for step in range(1, 201) if logger.due(step)] == [50, 100, 150, 200]


def test_wandb_missing_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    config = LoggingConfig(wandb=WandbConfig(project="arm"))
    with pytest.raises(ConfigError, match=r"pip install 'robo-rl\[wandb\]'"):
        RunLogger(tmp_path, config)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("logging.train_interval=0", "logging.train_interval must be 1 or more, got 0"),
        ("logging.progress_seconds=0", "logging.progress_seconds must be in (0, 604800], got 0.0"),
        (
            "logging.wandb.mode=loud",
            "logging.wandb.mode must be null or one of online, offline, disabled, got 'loud'",
        ),
    ],
)
def test_values_out_of_range_name_the_key(override: str, message: str) -> None:
    register_configs()
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        config = compose(overrides=["+logging=default", override])
    with pytest.raises(ConfigError) as caught:
        OmegaConf.to_object(config.logging)
    assert str(caught.value) == message


def test_wandb_offline_goes_on_in_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="the extra 'wandb' is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    config = LoggingConfig(wandb=WandbConfig(project="arm", mode="offline"))
    for resume_step in (None, 1):
        with RunLogger(tmp_path, config, run_config={"agent": {"gamma": 0.99}}, resume_step=resume_step) as logger:
            logger.log("train", 2, critic_loss=1.0)
    name = (tmp_path / "wandb_id").read_text()
    written = list(tmp_path.glob(f"wandb/offline-run-*-{name}/run-{name}.wandb"))
    assert written and all(file.stat().st_size > 0 for file in written)
