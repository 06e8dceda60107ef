"""Recording of planned actions, such as those that excite an arm's joints, and of their times."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from ..actor import ActionChoice, Actor
from ..core import ArraySpec, EnvBackend, EnvSpec, Interruption, Observation, SafetyStop, Source, Step, WrappedBackend
from ..replay import EpisodeStore
from .episodes import Outcome, RecordingStopped, open_data_set, record_episodes

Actions = NDArray[np.float32]

TIMES = "times"
"""Observation key of :class:`TimedBackend`."""


class Ending(NamedTuple):
    """End of a recording.

    Attributes:
        stored: number of episodes in the data set, which does not exist without any.
        signal: signal that ended the recording, or None.
        stopped: reason why the robot was stopped, which ended the recording; empty if it was not.
    """

    stored: int
    signal: int | None
    stopped: str


class TimedBackend(WrappedBackend):
    """Robot whose observations also contain the times of measurements and commands.

    ``times`` contains the time at which the joints were measured, and the time at which the previous command was sent,
    in seconds of the robot's time since the first measurement of the episode, by the monotonic clock.

    Args:
        backend: robot.
        factor: speed of its time.
    """

    def __init__(self, backend: EnvBackend, factor: float) -> None:
        super().__init__(backend)
        times = ArraySpec((2,), names=("measured", "commanded"))
        self._spec = replace(backend.spec, observation={**backend.spec.observation, TIMES: times})
        self._factor, self._first_ns = factor, 0

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    def reset(self, seed: int | None = None) -> Step:
        step = self.inner.reset(seed)
        self._first_ns = step.info.get("measured_ns", step.stamp_ns)
        return self._timed(step, step.stamp_ns)

    def step(self, action: NDArray[np.float32]) -> Step:
        begin_ns = self.clock.now_ns()
        step = self.inner.step(action)
        return self._timed(step, step.info.get("commanded_ns", begin_ns))

    def _timed(self, step: Step, commanded_ns: int) -> Step:
        measured_ns = step.info.get("measured_ns", step.stamp_ns)  # other sources of the robot may be older
        moments = np.array([measured_ns - self._first_ns, commanded_ns - self._first_ns])
        times = (1e-9 * self._factor * moments).astype(np.float32)
        return replace(step, observation={**step.observation, TIMES: times})


class PlannedChooser:
    """Chooser of planned actions. A request to end the recording ends the episode, which is kept.

    Args:
        actions: actions (T, A) of the episode.
        interruption: request to end the recording.
        backend: robot or simulator, which that request stops.
    """

    def __init__(self, actions: Actions, interruption: Interruption, backend: EnvBackend) -> None:
        self._actions, self._interruption, self._backend = iter(actions), interruption, backend

    def begin(self, actor: Actor) -> None:
        actor.begin_episode()
        if self._interruption.signal is not None:  # requested during the reset, before any motion
            raise RecordingStopped

    def __call__(self, observation: Observation) -> ActionChoice:
        return ActionChoice(next(self._actions), Source.SCRIPT)

    def button(self) -> str | None:
        if self._interruption.signal is None:
            return None
        self._backend.stop("interrupted")
        return "end"


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

    A stop of the robot ends the recording, so that nothing moves again before a person has looked. Everything that was
    recorded before the stop is kept, including the steps of the stopped episode.

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
            return PlannedChooser(plans[len(store)], interruption, backend)

        try:
            record_episodes(
                backend,
                store,
                len(plans),
                choose,
                actor="excitation",
                seed=seed,
                only_successful=False,
                report=report,
                keeps_stopped=True,
            )
        except SafetyStop as stop:  # a stop that waits for a person
            stops.append(str(stop))
        return Ending(len(store), interruption.signal, "".join(stops))


def read_recordings(store: EpisodeStore, identification: Any) -> list[Any]:
    """Return the episodes of a data set as recordings of an arm.

    Args:
        store: the data set.
        identification: the :class:`sim.identification.ArmIdentification`.

    Raises:
        DataError: if they were recorded with another arm, or their times are not those of such a recording.
    """
    names = store.spec.observation["state"].names
    keys = [key for key in ("state", TIMES) if key in store.spec.observation]
    episodes = [store.arrays(number, keys) for number in range(len(store))]
    return [
        identification.recording(names, each.observation["state"], each.executed_action, each.observation.get(TIMES))
        for each in episodes
    ]
