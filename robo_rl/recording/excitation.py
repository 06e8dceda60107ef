"""Recording of actions that are known beforehand, such as those that excite an arm's joints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from ..actor import ActionChoice, Actor
from ..core import EnvBackend, Interruption, Observation, Source
from .episodes import Outcome, RecordingStopped, open_data_set, record_episodes

Actions = NDArray[np.float32]


class PlannedChooser:
    """Chooser of actions that are known beforehand. A request to end the recording ends the episode, which is kept.

    Args:
        actions: actions (T, A) of the episode.
        interruption: request to end the recording.
    """

    def __init__(self, actions: Actions, interruption: Interruption) -> None:
        self._actions, self._interruption = iter(actions), interruption

    def begin(self, actor: Actor) -> None:
        actor.begin_episode()

    def __call__(self, observation: Observation) -> ActionChoice:
        return ActionChoice(next(self._actions), Source.SCRIPT)

    def button(self) -> str | None:
        return "end" if self._interruption.signal is not None else None


def record_planned(
    backend: EnvBackend,
    path: Path,
    episodes: int,
    plan: Callable[[np.random.Generator], Actions],
    *,
    seed: int,
    metadata: dict[str, Any],
    console: Console,
) -> int | None:
    """Record episodes of planned actions; return the signal that ended the recording, or None.

    A stop of the robot ends the recording, so that nothing moves again before a person has looked. What was recorded
    before remains.

    Args:
        backend: robot or simulator.
        path: folder of the new data set.
        episodes: number of episodes.
        plan: returns the actions (T, A) of an episode.
        seed: seed of start states and plans.
        metadata: how the data set is made, as JSON values.
        console: where to print.
    """
    stops: list[str] = []

    def report(stored: int, outcome: Outcome) -> None:
        stops.extend([outcome.stopped] if outcome.stopped else [])
        console.print(f"{stored}/{episodes} stored: {outcome.describe()}", soft_wrap=True)

    with Interruption() as interruption, open_data_set(path, backend.spec, "fail", metadata) as store:

        def choose(rng: np.random.Generator) -> PlannedChooser:
            if stops or interruption.signal is not None:
                raise RecordingStopped
            return PlannedChooser(plan(rng), interruption)

        record_episodes(
            backend, store, episodes, choose, actor="excitation", seed=seed, only_successful=False, report=report
        )
        return interruption.signal
