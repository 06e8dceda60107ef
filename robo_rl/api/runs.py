"""Training runs from Python: started, loaded and resumed."""

import dataclasses
import os
import re
import signal
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from ..app import allow_packages, run_config
from ..command_line.application import EXIT_SIGNAL, run_command
from ..commands import train as train_command
from ..core import ConfigError, DivergenceError, override_word
from ..core.search_path import inner_hydra
from ..evaluation import runs
from ..training.ending import EXIT_DIVERGED
from .environments import Environment, environment_words, provide_environment, require_reachable
from .policies import Policy


class Curve(NamedTuple):
    """Evaluations of a run.

    Attributes:
        steps: environment steps after which the policy was evaluated (n,).
        success_rate: success rate of each evaluation, from 0 to 1 (n,); NaN where success is unknown.
        return_mean: mean return of each evaluation (n,).
    """

    steps: NDArray[np.int64]
    success_rate: NDArray[np.float64]
    return_mean: NDArray[np.float64]


@dataclasses.dataclass(frozen=True, repr=False)
class Run(runs.Run):
    """Training run and its folder, as they were when the run ended or was loaded."""

    def __repr__(self) -> str:
        rate = "" if self.success_rate is None else f", success {self.success_rate}"
        return (
            f"Run({str(self.path)!r}: task {self.task}, agent {self.agent}, seed {self.seed}, {self.status} after "
            f"{self.env_steps:,} steps{rate})"
        )

    @property
    def curve(self) -> Curve:
        """Evaluations of the run, for its learning curve."""
        lines = self.evaluations.lines
        rates, returns = (
            np.array([line[measure] if line.get(measure) is not None else np.nan for line in lines], np.float64)
            for measure in ("success_rate", "return_mean")
        )
        return Curve(np.array([line["step"] for line in lines], np.int64), rates, returns)

    @cached_property
    def policy(self) -> Policy:
        """The policy with the best evaluation.

        Raises:
            CheckpointError: if the run has no checkpoint, or it is damaged.
        """
        return self.load_policy("best")

    def load_policy(self, checkpoint: str = "newest") -> Policy:
        """Return a policy of the run: ``best``, ``newest`` or the number of a step.

        Raises:
            CheckpointError: if there is no such checkpoint, or it is damaged.
        """
        return Policy(self.path, str(checkpoint))

    def resume(self, *, steps: int | None = None, overrides: Sequence[str] = ()) -> "Run":
        """Continue the run exactly where it stopped; return its new state.

        Args:
            steps: new total number of environment steps; None: unchanged.
            overrides: other options of the sections ``run`` and ``logging``, as in :func:`train`.

        Raises:
            KeyboardInterrupt, RoboRLError: as in :func:`train`.
        """
        chosen = [] if steps is None else [f"run.env_steps={steps}"]
        return _run([override_word("resume", self.path), *chosen, *_options(overrides)])


def train(
    task: Environment,
    *,
    agent: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    overrides: Sequence[str] = (),
) -> Run:
    """Train an agent, as ``robo-rl train`` does, and return the run.

    ::

        run = robo_rl.train("pick_cube", seed=1)
        run = robo_rl.train("Hopper-v5", agent="crossq", steps=50_000)
        run = robo_rl.train(lambda: MyEnv(size=3), overrides=["agent.gamma=0.98", "task.max_episode_steps=100"])

    Args:
        task: name of a task (``pick_cube``), id of a Gymnasium environment (``Hopper-v5``), such an environment made by
            ``gymnasium.make``, or a class or function that makes one. Its actions must be a bounded ``Box``.
            The run makes its own environments for training and evaluation; an instance is neither stepped nor closed.
        agent: name of the agent, as in ``agent=``; None: that of the task.
        steps: total number of environment steps; None: that of the task.
        seed: seed of all random numbers of the run.
        folder: run folder; None: ``runs/<date>_<task>_<agent>_<seed>``.
        overrides: other options, as on the command line: ``["agent.gamma=0.98", "demonstrations.path=datasets/mine"]``.

    Raises:
        RoboRLError: for what a user can cause or fix, with the message of the command line: ConfigError if an option
            is wrong, DriverError if the environment fails, and so on.
        DivergenceError: if training diverged. The last good checkpoint remains: :func:`load`.
        KeyboardInterrupt: after Ctrl-C. The run has written a checkpoint, from which ``load(folder).resume()``
            continues, unless it had not begun to act.
    """
    words = [*environment_words(task), f"seed={seed}"]
    if agent is not None:
        words.append(override_word("agent", agent))
    if steps is not None:
        words.append(f"run.env_steps={steps}")
    if folder is not None:
        words.append(override_word("run.dir", Path(folder)))
    return _run([*words, *_options(overrides)])


def load(
    folder: str | os.PathLike[str],
    *,
    environment: Callable[..., gymnasium.Env[Any, Any]] | None = None,
    allow: Iterable[str] = (),
) -> Run:
    """Return the run in a folder, which may have been trained from Python or from the command line.

    Args:
        folder: run folder.
        environment: the class or function that made the environment, if the run was trained on one that only the
            program of its training could make.
        allow: packages whose code the run's configuration may name, besides those that are registered, as in ``allow=``
            on the command line.

    Raises:
        ConfigError: if the folder is not a run, or the configuration names code that is not allowed.
        DataError: if the run cannot be read.
    """
    path = Path(folder)
    allow_packages(allow)
    if environment is not None:
        saved = runs.flatten(runs.load_run(path).config)
        provide_environment(environment, str(saved.get("task.env_id", "")))
    run_config(path)
    return _read(path)


def _read(path: Path) -> Run:
    loaded = runs.load_run(path)
    return Run(**{field.name: getattr(loaded, field.name) for field in dataclasses.fields(loaded)})


def _options(overrides: Sequence[str]) -> Sequence[str]:
    """Return ``overrides`` after checking that they are options of a single run, not flags or settings of Hydra.

    Raises:
        ConfigError: if they are not.
    """
    is_list = isinstance(overrides, Sequence) and not isinstance(overrides, str)
    if not is_list or not all(isinstance(word, str) and not re.match(r"-|[+~]*hydra\b", word) for word in overrides):
        raise ConfigError(f"overrides: expected a list of options, as ['agent.gamma=0.98'], got {overrides!r}")
    return overrides


def _run(words: Sequence[str]) -> Run:
    """Run ``robo-rl train`` with these options in this process; return the run."""
    folder = None

    def run(config: DictConfig) -> int:
        nonlocal folder
        folder = Path(str(OmegaConf.select(config, "run.dir") if config.resume is None else config.resume))
        require_reachable(config)
        return train_command.run(config)

    threads = torch.get_num_threads()
    try:
        with inner_hydra():
            status = run_command("train", list(words), run)
    except SystemExit as end:  # the run was interrupted before its first step
        if end.code == EXIT_SIGNAL + signal.SIGINT:
            raise KeyboardInterrupt("ended before the first checkpoint") from None
        raise
    finally:
        torch.set_num_threads(threads)  # restores the setting, because runtime.threads applies to the run alone
    assert folder is not None
    if status == EXIT_DIVERGED:
        raise DivergenceError(
            f"{folder}: training diverged: robo_rl.load({str(folder)!r}) has the last good checkpoint"
        )
    if status == EXIT_SIGNAL + signal.SIGINT:
        raise KeyboardInterrupt(f"stopped; robo_rl.load({str(folder)!r}).resume() continues")
    if status > EXIT_SIGNAL:
        raise SystemExit(status)
    return _read(folder)
