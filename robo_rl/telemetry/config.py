"""Configuration of logging."""

from dataclasses import dataclass, field

from robo_rl.core import require

WANDB_MODES = ("online", "offline", "disabled")


@dataclass(frozen=True)
class WandbConfig:
    """Weights & Biases, used when ``project`` is set.

    Attributes:
        project: name of the project; null: no W&B.
        entity: user or team; null: the account's default.
        group: group of runs, for example the seeds of one experiment.
        mode: online, offline or disabled; null: as the environment variable WANDB_MODE says, else online.
    """

    project: str | None = None
    entity: str | None = None
    group: str | None = None
    mode: str | None = None

    def __post_init__(self) -> None:
        allowed = f"null or one of {', '.join(WANDB_MODES)}"
        require(self.mode is None or self.mode in WANDB_MODES, "logging.wandb.mode", allowed, self.mode)


@dataclass(frozen=True)
class LoggingConfig:
    """What a run tells while it goes on. ``metrics.jsonl`` and TensorBoard are always written.

    Attributes:
        train_interval: environment steps between records of the training metrics.
        progress: whether to show the progress line.
        progress_seconds: seconds between progress lines where the output is no terminal [s].
        wandb: Weights & Biases.
    """

    train_interval: int = 100
    progress: bool = True
    progress_seconds: float = 10.0
    wandb: WandbConfig = field(default_factory=WandbConfig)

    def __post_init__(self) -> None:
        require(self.train_interval >= 1, "logging.train_interval", "1 or more", self.train_interval)
        require(self.progress_seconds > 0, "logging.progress_seconds", "above 0", self.progress_seconds)
