"""What the commands that make a model share: progress, Ctrl-C, a data card, and a folder that appears whole."""

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
"""Steps between two lines on the progress."""

Report = Callable[[int, float], bool]
"""Called with the number of each step and its loss; returns whether to go on."""


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

    Ctrl-C or SIGTERM ends the training; the model is then kept as it is. A second one keeps nothing.

    Args:
        output: folder to be made.
        config: of the command, with a ``seed``.
        facts: for the card.
        train: trains.
        save: writes the model and a card into a folder.
        judge: returns further facts for the card about the model in a folder.
        console: where to tell how it goes.
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
