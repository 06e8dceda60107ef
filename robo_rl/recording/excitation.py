"""Recording of actions that are known beforehand, such as those that excite an arm's joints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from ..actor import ActionChoice, Actor
from ..core import EnvBackend, Interruption, Observation, SafetyStop, Source
from .episodes import Outcome, RecordingStopped, open_data_set, record_episodes

Actions = NDArray[np.float32]


class Ending(NamedTuple):
    """End of a recording.

    Attributes:
        stored: number of episodes in the data set; without any it does not exist.
        signal: signal that ended the recording, or None.
        stopped: reason why the robot was stopped, which ended the recording; empty if it was not.
    """

    stored: int
    signal: int | None
    stopped: str


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
        if self._interruption.signal is not None:  # during the reset: nothing has moved yet
            raise RecordingStopped

    def __call__(self, observation: Observation) -> ActionChoice:
        return ActionChoice(next(self._actions), Source.SCRIPT)

    def button(self) -> str | None:
        return "end" if self._interruption.signal is not None else None


def record_planned(
    backend: EnvBackend,
    path: Path,
    plans: Sequence[Actions],
    *,
    seed: int,
    metadata: dict[str, Any],
    console: Console,
) -> Ending:
    """Record an episode for each plan; return how the recording ended.

    A stop of the robot ends the recording, so that nothing moves again before a person has looked. What was recorded
    before remains.

    Args:
        backend: robot or simulator.
        path: folder of the new data set.
        plans: actions (T, A) of each episode.
        seed: seed of start states.
        metadata: how the data set is made, as JSON values.
        console: where to print.
    """
    stops: list[str] = []

    def report(stored: int, outcome: Outcome) -> None:
        stops.extend([outcome.stopped] if outcome.stopped else [])
        console.print(f"{stored}/{len(plans)} stored: {outcome.describe()}", soft_wrap=True)

    with Interruption() as interruption, open_data_set(path, backend.spec, "fail", metadata) as store:

        def choose(_: np.random.Generator) -> PlannedChooser:
            if stops or interruption.signal is not None:
                raise RecordingStopped
            return PlannedChooser(plans[len(store)], interruption)

        try:
            record_episodes(
                backend, store, len(plans), choose, actor="excitation", seed=seed, only_successful=False, report=report
            )
        except SafetyStop as stop:  # one that waits for a person
            stops.append(str(stop))
        return Ending(len(store), interruption.signal, "".join(stops))
