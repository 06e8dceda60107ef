"""Configuration of logging."""

from dataclasses import dataclass, field

from robo_rl.core import MAX_SECONDS, Options, option

WANDB_MODES = ("online", "offline", "disabled")


@dataclass(frozen=True)
class WandbConfig(Options, section="logging.wandb"):
    """Weights & Biases, used when ``project`` is set.

    Attributes:
        project: name of the project; null: no W&B.
        entity: user or team; null: the account's default.
        group: group of runs, for example the seeds of one experiment.
        mode: online, offline or disabled; null: the environment variable WANDB_MODE, else online.
    """

    project: str | None = None
    entity: str | None = None
    group: str | None = None
    mode: str | None = option(None, choices=WANDB_MODES)


@dataclass(frozen=True)
class LoggingConfig(Options, section="logging"):
    """Logs and output of a run. ``metrics.jsonl`` and TensorBoard are always written.

    Attributes:
        train_interval: environment steps between records of the training metrics.
        progress: whether to show the progress line.
        progress_seconds: time between progress lines if the output is not a terminal [s].
        wandb: Weights & Biases.
    """

    train_interval: int = option(100, low=1)
    progress: bool = True
    progress_seconds: float = option(10.0, above=0, high=MAX_SECONDS)
    wandb: WandbConfig = field(default_factory=WandbConfig)
