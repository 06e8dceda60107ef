"""The shared work of commands that make a model: progress, Ctrl-C, a data card, and a folder that appears whole."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from ..core import Interruption, draft_of
from ..telemetry import git_commit, versions

REPORT_INTERVAL = 100
"""Steps between two lines of progress."""

Report = Callable[[int, float], bool]
"""Function of the number and the loss of a step that returns whether to continue."""


def make_model(
    output: Path,
    config: DictConfig,
    facts: Mapping[str, Any],
    train: Callable[[Report], None],
    save: Callable[[Path, dict[str, Any]], None],
    judge: Callable[[Path], Mapping[str, Any]],
    console: Console,
) -> int | None:
    """Train a model and save it with a data card; return the signal that ended the training early, or None.

    Ctrl-C or SIGTERM ends the training and keeps the model in its current state. A second signal discards it.

    Args:
        output: folder to create.
        config: configuration of the command, with a ``seed``.
        facts: further entries of the card.
        train: trains the model.
        save: writes the model and a card into a folder.
        judge: returns further entries of the card about the model in a folder.
        console: console for the progress.
    """
    losses: list[float] = []
    with Interruption() as interruption:

        def report(step: int, loss: float) -> bool:
            losses.append(loss)
            if (step + 1) % REPORT_INTERVAL == 0:
                console.print(f"step {step + 1:,}: loss {np.mean(losses[-REPORT_INTERVAL:]):.4f}")
            return interruption.signal is None

        train(report)
        if interruption.signal is not None:
            console.print(f"Stopped at step {len(losses):,}: the model is kept as it is", soft_wrap=True)
        card = {
            "command": [*sys.argv[0].split(), *sys.argv[1:]],
            "seed": config.seed,
            **facts,
            "steps": len(losses),
            "final_loss": float(np.mean(losses[-REPORT_INTERVAL:])),
            "config": OmegaConf.to_container(config, resolve=True),
            "versions": versions(),
            "git_commit": git_commit(),
        }
        with draft_of(output) as draft:
            save(draft, card)
            save(draft, card | dict(judge(draft)))
            draft.replace(output)
    return interruption.signal
