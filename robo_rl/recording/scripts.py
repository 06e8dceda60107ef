"""Scripts that choose the actions of an episode: the task's expert, a stand-in for a person, and play."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ..actor import ActionChoice, Actor
from ..core import EnvSpec, Observation, ScriptedExpert, Source
from .episodes import Chooser, explored
from .human_like import HumanLikeChooser

PLAY_STEPS = (3, 12)
"""Length of what a script that plays does at a time [control periods]."""
PLAY_WANDERING = 0.4
"""Share of the turns in which it moves without purpose."""


class ExpertChooser:
    """The scripted expert, with Gaussian noise on what is executed: the data shows how to recover.

    What the expert wanted is stored beside it, as the proposed action (DART, Laskey et al. 2017).

    Args:
        expert: of the backend.
        noise: standard deviation, in units of the action.
        rng: for the noise.
    """

    def __init__(self, expert: ScriptedExpert, noise: float, rng: np.random.Generator) -> None:
        self._expert = expert
        self._noise = noise
        self._rng = rng
        self._begun = False

    def begin(self, actor: Actor) -> None:
        actor.begin_episode()

    def __call__(self, observation: Observation) -> ActionChoice:
        if not self._begun:  # the backend is reset by now
            self._expert.reset()
            self._begun = True
        action = np.asarray(self._expert.act(observation), np.float32)
        return ActionChoice(explored(action, self._noise, self._rng), Source.SCRIPT, proposed=action)

    def button(self) -> str | None:
        return None


class PlayChooser:
    """A script that plays: by turns it does what the expert does and moves some way without purpose, both with noise.

    So things are touched, moved and left, and states are seen from many sides (play data, Lynch et al. 2019).

    Args:
        expert: of the backend.
        noise: standard deviation, in units of the action.
        rng: for turns and noise.
    """

    def __init__(self, expert: ScriptedExpert, noise: float, rng: np.random.Generator) -> None:
        self._expert = ExpertChooser(expert, noise, rng)
        self._noise = noise
        self._rng = rng
        self._left = 0
        self._direction: NDArray[np.float32] | None = None

    def begin(self, actor: Actor) -> None:
        self._expert.begin(actor)

    def __call__(self, observation: Observation) -> ActionChoice:
        wanted = self._expert(observation)
        if self._left == 0:
            self._left = int(self._rng.integers(*PLAY_STEPS, endpoint=True))
            wanders = self._rng.random() < PLAY_WANDERING
            self._direction = self._rng.uniform(-1, 1, wanted.action.shape).astype(np.float32) if wanders else None
        self._left -= 1
        if self._direction is None:
            return wanted
        return ActionChoice(explored(self._direction, self._noise, self._rng), Source.SCRIPT, proposed=wanted.proposed)

    def button(self) -> str | None:
        return None


SCRIPTS: Mapping[str, Callable[[EnvSpec, ScriptedExpert, float, np.random.Generator], Chooser]] = {
    "human_like": lambda spec, expert, _, rng: HumanLikeChooser(expert, spec, rng),
    "expert": lambda _, expert, noise, rng: ExpertChooser(expert, noise, rng),
    "play": lambda _, expert, noise, rng: PlayChooser(expert, noise, rng),
}
"""By name: from the spec, the backend's expert, the deviation of the noise (not for ``human_like``) and a generator."""


def noise_of(source: str, noise: float) -> dict[str, float]:
    """Return the fact ``noise`` of a data set, where ``source`` is a script that has noise."""
    return {} if source == "human_like" else {"noise": noise}
