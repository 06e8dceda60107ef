"""Scripts that choose the actions of an episode: the task's expert, a model of a person, and play."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ..actor import ActionChoice, Actor, HumanLikeChooser
from ..core import EnvSpec, Observation, ScriptedExpert, Source
from .episodes import Chooser, explored

PLAY_STEPS = (3, 12)
"""Shortest and longest phase of a script that plays [control periods]."""
PLAY_WANDERING = 0.4
"""Fraction of the phases in which a script that plays moves in a random direction."""


class ExpertChooser:
    """Chooser of the scripted expert's actions, executed with Gaussian noise so that the data show how to recover.

    The expert's action without noise is stored as the proposed action (DART, Laskey et al. 2017).

    Args:
        expert: scripted expert of the backend.
        noise: standard deviation, in units of the action.
        rng: random generator of the noise.
    """

    def __init__(self, expert: ScriptedExpert, noise: float, rng: np.random.Generator) -> None:
        self._expert = expert
        self._noise = noise
        self._rng = rng
        self._has_begun = False

    def begin(self, actor: Actor) -> None:
        actor.begin_episode()

    def __call__(self, observation: Observation) -> ActionChoice:
        if not self._has_begun:  # not earlier, because the backend has been reset by now
            self._expert.reset()
            self._has_begun = True
        action = np.asarray(self._expert.act(observation), np.float32)
        return ActionChoice(explored(action, self._noise, self._rng), Source.SCRIPT, proposed=action)

    def button(self) -> str | None:
        return None


class PlayChooser:
    """Chooser that plays: random phases of the expert's actions and of motion in a random direction, with noise.

    The robot touches, moves and releases objects, and visits many different states (play data, Lynch et al. 2019).

    Args:
        expert: scripted expert of the backend.
        noise: standard deviation, in units of the action.
        rng: random generator of phases and noise.
    """

    def __init__(self, expert: ScriptedExpert, noise: float, rng: np.random.Generator) -> None:
        self._expert = ExpertChooser(expert, noise, rng)
        self._noise = noise
        self._rng = rng
        self._phase_steps_left = 0
        self._direction: NDArray[np.float32] | None = None

    def begin(self, actor: Actor) -> None:
        self._expert.begin(actor)

    def __call__(self, observation: Observation) -> ActionChoice:
        choice = self._expert(observation)
        if self._phase_steps_left == 0:
            self._phase_steps_left = int(self._rng.integers(*PLAY_STEPS, endpoint=True))
            wanders = self._rng.random() < PLAY_WANDERING
            self._direction = self._rng.uniform(-1, 1, choice.action.shape).astype(np.float32) if wanders else None
        self._phase_steps_left -= 1
        if self._direction is None:
            return choice
        return ActionChoice(explored(self._direction, self._noise, self._rng), Source.SCRIPT, proposed=choice.proposed)

    def button(self) -> str | None:
        return None


SCRIPTS: Mapping[str, Callable[[EnvSpec, ScriptedExpert, float, np.random.Generator], Chooser]] = {
    "human_like": lambda spec, expert, _, rng: HumanLikeChooser(expert, spec, rng),
    "expert": lambda _, expert, noise, rng: ExpertChooser(expert, noise, rng),
    "play": lambda _, expert, noise, rng: PlayChooser(expert, noise, rng),
    "planner": lambda _, expert, __, rng: ExpertChooser(expert, 0.0, rng),
}
"""Makers of choosers by name. Their arguments are the spec, the backend's expert, the standard deviation of the noise
(ignored by ``human_like`` and ``planner``) and a random generator. With ``planner``, the expert is a planner."""


def noise_of(source: str, noise: float) -> dict[str, float]:
    """Return the metadata ``noise`` of a data set, or nothing if the script ``source`` ignores the noise."""
    return {} if source in ("human_like", "planner") else {"noise": noise}
