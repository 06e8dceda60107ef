"""The logger of a run's metrics: ``metrics.jsonl``, TensorBoard and, if configured, W&B."""

import importlib
import json
import math
import os
import secrets
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from rich.console import Console

from robo_rl.core import Clock, Closing, ConfigError, MonotonicClock, importing_extra, write_durably

from .config import LoggingConfig, WandbConfig
from .interventions import WINDOW
from .metrics_file import METRICS_FILE, MetricsFile, read_metrics
from .progress import ProgressLine
from .tensorboard import TensorBoardCurves

Kind = Literal["train", "episode", "evaluation", "reward", "runtime"]
Value = float | int | bool | str | None


class _Record(NamedTuple):
    """A record to be written: its line of metrics.jsonl, its environment step, and its numbers by curve."""

    line: str
    step: int
    curves: dict[str, float]


class RunLogger(Closing):
    """The writer of the records of a run.

    Each record is one line of ``metrics.jsonl``: ``{"step": 100, "wall_seconds": 3.2, "kind": "train", ...}``. It is
    written at once, so that a killed run loses none. If the disk is full, records are kept in memory and the run
    continues. ``wall_seconds`` is the time that the run was active, over all its resumptions.

    Args:
        folder: run folder, created if it does not exist.
        config: what to log and where.
        label: name at the beginning of the progress line; the name of the folder by default.
        run_config: configuration of the run as plain dicts and lists, stored by W&B.
        resume_step: environment step after which the run is resumed; later records are removed. None: a new run.
        resume_episodes: number of records of the kind ``episode`` at that time. It is needed because an episode that
            ended without a further step was logged at the same step, and will end again. None: keep all of that step.
        resume_seconds: active time of the run at that time, if it exceeds that of the records [s].
        console: console of the progress line; standard output by default.
        clock: monotonic clock.

    Attributes:
        episodes: number of records of the kind ``episode`` so far, over all resumptions.
        recent_episodes: the newest of these records, for :func:`intervention_rate`.

    Raises:
        ConfigError: if W&B is configured but not installed, or the folder of a new run holds metrics of an earlier run.
        DataError: if the metrics to be resumed are damaged.
    """

    def __init__(
        self,
        folder: Path,
        config: LoggingConfig,
        label: str | None = None,
        run_config: Any = None,
        resume_step: int | None = None,
        resume_episodes: int | None = None,
        resume_seconds: float = 0.0,
        console: Console | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._config = config
        self._clock = clock or MonotonicClock()
        self._progress = ProgressLine(label or folder.name, config.progress_seconds, console, self._clock)
        self._wandb = _start_wandb(config.wandb, folder, run_config) if config.wandb.project else None
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / METRICS_FILE
        self.episodes = 0
        self.recent_episodes: deque[Mapping[str, Any]] = deque(maxlen=2 * WINDOW)
        self._seconds_before = resume_seconds
        if file.exists():
            self._restore(file, resume_step, resume_episodes)
        self._start_ns = self._clock.now_ns()
        self._file = MetricsFile(file)
        self._waiting: list[_Record] = []
        self._is_late = False  # a message about waiting records was printed
        self._curves = TensorBoardCurves(folder / "tensorboard", None if resume_step is None else resume_step + 1)

    @property
    def wall_seconds(self) -> float:
        """Active time of the run [s], over all its resumptions."""
        return self._seconds_before + (self._clock.now_ns() - self._start_ns) * 1e-9

    def due(self, step: int) -> bool:
        """Return whether to log the training metrics of environment step ``step``."""
        return step % self._config.train_interval == 0

    def log(self, kind: Kind, step: int, *, wall_seconds: float | None = None, **values: Value) -> None:
        """Write one record.

        The progress line shows ``episode_return``, ``success`` and ``intervention_share`` of records of the kind
        ``episode``.

        Args:
            kind: ``train`` (an update), ``episode`` (the end of an episode), ``evaluation``, ``reward`` (an update of a
                learned reward) or ``runtime`` (metrics of separate processes).
            step: number of environment steps so far.
            wall_seconds: time of the values on the clock of :attr:`wall_seconds` [s]; None: now.
            values: values to log, which may be NumPy scalars. Numbers that are not finite become null in the file.
        """
        plain = {name: _plain(value) for name, value in values.items()}
        seconds = self.wall_seconds if wall_seconds is None else wall_seconds
        record = {"step": int(step), "wall_seconds": round(seconds, 3), "kind": kind, **plain}
        finite = {name: _finite(value) for name, value in record.items()}
        numbers = {name: float(value) for name, value in plain.items() if isinstance(value, bool | int | float)}
        curves = {f"{kind}/{name}": number for name, number in numbers.items()}
        self._waiting.append(_Record(json.dumps(finite, allow_nan=False), int(step), curves))
        self._write()
        if self._wandb is not None:
            self._wandb.log({**curves, "env_step": int(step)})
        self._note(kind, plain)

    def progress(self, step: int, total: int, updates: int) -> None:
        """Update the progress line; see :meth:`ProgressLine.update`. It is cheap enough for every environment step."""
        if self._config.progress:
            self._progress.update(step, total, updates)

    def show_progress(self) -> None:
        """Show the newest progress in the progress line."""
        self._progress.show_newest()

    def status(self, text: str) -> None:
        """Show the status of the robot, in one word, in the progress line."""
        if self._config.progress:
            self._progress.status(text)

    def message(self, text: str) -> None:
        """Print ``text`` for the operator, above the progress line if there is one."""
        self._progress.message(text)

    def close(self) -> None:
        """Finish all writers. May be called twice."""
        self._progress.close()
        self._write()
        if self._waiting:
            self.message(f"{len(self._waiting)} records of {METRICS_FILE} are lost: the disk does not take them")
            self._waiting.clear()
        self._file.close()
        self._curves.close()
        if self._wandb is not None:
            self._wandb.finish()
            self._wandb = None

    def _restore(self, file: Path, resume_step: int | None, resume_episodes: int | None) -> None:
        """Remove the records of ``file`` after the step of the resumption, and restore the counts from the others."""
        if resume_step is None:
            raise ConfigError(
                f"{file} contains an earlier run; choose another folder, or continue that run with resume=FOLDER"
            )
        partial = file.with_name(f".partial_{file.name}")
        partial.unlink(missing_ok=True)
        with partial.open("x", encoding="utf-8") as stream:  # "x" does not write through a link
            for record in _until(file, resume_step, resume_episodes):
                stream.write(json.dumps(record) + "\n")
                self._seconds_before = max(self._seconds_before, float(record["wall_seconds"]))
                self._note(record["kind"], record)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)

    def _write(self) -> None:
        """Write the waiting records, if the disk accepts them."""
        if not self._waiting:
            return
        try:
            self._file.append([record.line for record in self._waiting])
        except OSError as error:
            if not self._is_late:
                self.message(f"{METRICS_FILE} cannot be written ({error.strerror}): its records wait in memory")
            self._is_late = True
            return
        for record in self._waiting:
            self._curves.add(record.curves, record.step)
        self._waiting.clear()
        self._is_late = False

    def _note(self, kind: str, values: Mapping[str, Any]) -> None:
        if kind == "episode":
            self.episodes += 1
            self.recent_episodes.append(values)
            share = values.get("intervention_share")
            self._progress.episode(values.get("episode_return"), values.get("success"), share)


def _until(file: Path, step: int, most_episodes: int | None) -> Iterator[dict[str, Any]]:
    """Yield the records up to environment step ``step``, with at most ``most_episodes`` episodes."""
    episodes = 0
    for record in read_metrics(file):
        if record["step"] > step:
            continue
        if record["kind"] == "episode":
            episodes += 1
            if most_episodes is not None and episodes > most_episodes:
                continue
        yield record


def _plain(value: Any) -> Value:
    """Return a NumPy or torch scalar as a Python scalar."""
    return cast(Value, value.item() if hasattr(value, "item") else value)


def _finite(value: Value) -> Value:
    """Return ``value``, or None for NaN and infinities, which JSON does not support."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_logging(config: LoggingConfig) -> None:
    """Check that the packages for logging are installed.

    Raises:
        ConfigError: if W&B is configured but not installed.
    """
    if config.wandb.project:
        _import_wandb(config.wandb)


def _import_wandb(config: WandbConfig) -> Any:
    with importing_extra("wandb", f"logging.wandb.project={config.project!r} needs the package wandb"):
        wandb = importlib.import_module("wandb")
    return wandb


def _start_wandb(config: WandbConfig, folder: Path, run_config: Any) -> Any:
    wandb = _import_wandb(config)
    folder.mkdir(parents=True, exist_ok=True)
    id_file = folder / "wandb_id"  # a resumed run continues the same W&B run
    if not id_file.exists():
        write_durably(id_file, secrets.token_hex(4).encode())
    run = wandb.init(
        project=config.project,
        entity=config.entity,
        group=config.group,
        mode=config.mode,
        name=folder.name,
        id=id_file.read_text(),
        resume="allow",
        dir=str(folder),
        config=run_config,
    )
    run.define_metric("*", step_metric="env_step")
    return run
