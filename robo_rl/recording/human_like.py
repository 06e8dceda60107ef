"""A scripted stand-in for a person who teleoperates: slow to react, smoothed, quantised and sometimes wrong.

Scripts that know the whole state give demonstrations that no person can give. This one turns what such a script wants
into commands as a hand on a SpaceMouse gives them. What it commands is what is stored: there are no hidden labels.

A person foresees the effect of their own motion, so smooth approaches are not delayed. What they do not foresee takes
a reaction time, in which the hand goes on as before: it starts late, overshoots where the direction changes, and
presses buttons late. Sources: Fitts 1954 (speed falls near a target), Harris and Wolpert 1998 (noise in proportion to
the command), Crossman and Goodeve 1983 (corrections of what was overshot).
"""

import math

import numpy as np
from numpy.typing import NDArray

from ..actor import ActionChoice, Actor
from ..core import EnvSpec, Observation, ScriptedExpert, Source

REACTION = (0.2, 0.3)
"""Time until a person reacts to what they did not foresee [s]."""
SURPRISE = 0.7
"""Change of the wanted command between two steps that is not foreseen."""
SMOOTHING = (0.06, 0.12)
"""Time constant of the hand [s]."""
SPEED = (0.5, 1.0)
"""Speed of an episode, as share of the greatest command."""
CAUTION = (1.0, 1.4)
"""Exponent on what is wanted: above 1, small motions become smaller still, as near a target."""
NOISE = 0.15
"""Standard deviation of the command's error, as share of the command."""
NOISE_SECONDS = 0.3
"""Time constant of that error [s]."""
DETOUR = (0.1, 0.5)
"""Angle between the way of fast motions and the straight line, to the left or to the right [rad]."""
PAUSES_PER_SECOND = 0.1
PAUSE = (0.3, 1.0)
"""Length of a pause [s]."""
LEVELS = 20
"""Steps of a command from 0 to 1."""
FAILURE_SHARE = 0.1
"""Share of episodes that the person fails."""
FAILURE_ONSET = (0.3, 2.0)
"""Time into the episode at which such a person begins to err [s]."""
GIVING_UP = (1.0, 2.0)
"""Time after which they end the episode as a failure [s]."""


class HumanLikeChooser:
    """Commands of one episode as a person gives them who follows ``expert``.

    Args:
        expert: of the backend; asked once a step.
        spec: of the backend. Of its actions' elements ``gripper`` is a button, ``x`` and ``y`` are horizontal motions.
        rng: for the traits of this episode and for what happens in it.
    """

    def __init__(self, expert: ScriptedExpert, spec: EnvSpec, rng: np.random.Generator) -> None:
        rate, size = spec.control_rate, spec.action.shape[0]
        names = list(spec.action.names or ("",) * size)
        self._expert = expert
        self._rate = rate
        self._rng = rng
        self._buttons = np.array([name == "gripper" for name in names])
        self._horizontal = [names.index("x"), names.index("y")] if {"x", "y"} <= {*names} else None
        self._share = 1 - math.exp(-1 / (rate * rng.uniform(*SMOOTHING)))
        self._speed = rng.uniform(*SPEED)
        self._caution = rng.uniform(*CAUTION)
        self._detour = rng.choice((-1, 1)) * rng.uniform(*DETOUR)
        self._reaction = max(1, round(rate * rng.uniform(*REACTION)))
        self._wanted = self._intention = self._hand = self._error = np.zeros(size)
        self._waits = self._reaction
        self._pause_left = 0
        self._step = 0
        onset, patience = rng.uniform(*FAILURE_ONSET), rng.uniform(*GIVING_UP)
        fails = rng.random() < FAILURE_SHARE
        self._onset = round(rate * onset) if fails else math.inf
        self._end = round(rate * (onset + patience)) if fails else math.inf
        mistake = rng.standard_normal(size)
        self._mistake = mistake / np.linalg.norm(mistake)

    def begin(self, actor: Actor) -> None:
        actor.begin_episode()

    def __call__(self, observation: Observation) -> ActionChoice:
        if self._step == 0:  # the backend is reset by now
            self._expert.reset()
        wanted = np.asarray(self._expert.act(observation), np.float64)
        self._react(wanted)
        self._move()
        self._step += 1
        return ActionChoice(self._hand.astype(np.float32), Source.SCRIPT)

    def _react(self, wanted: NDArray[np.float64]) -> None:
        """Take up what is wanted now, or go on as before until the reaction time is over."""
        if self._step == 0:
            self._intention = np.where(self._buttons, wanted, 0.0)
        elif self._waits == 0 and np.abs(wanted - self._wanted).max() > SURPRISE:
            self._waits = self._reaction
        self._wanted = wanted
        if self._waits > 0:
            self._waits -= 1
        else:
            self._intention = wanted

    def _move(self) -> None:
        """Move the hand towards the intention."""
        intention = self._intention
        motion = self._speed * np.sign(intention) * np.abs(intention) ** self._caution
        if self._horizontal is not None:
            motion[self._horizontal] = self._turn(motion[self._horizontal])
        if self._step >= self._onset:
            motion = motion + self._mistake
        if self._pause_left == 0 and self._rng.random() < PAUSES_PER_SECOND / self._rate:
            self._pause_left = round(self._rate * self._rng.uniform(*PAUSE))
        if self._pause_left > 0:
            self._pause_left -= 1
            motion = np.zeros_like(motion)
        kept = math.exp(-1 / (self._rate * NOISE_SECONDS))
        self._error = kept * self._error + math.sqrt(1 - kept**2) * NOISE * self._rng.standard_normal(motion.size)
        hand = self._hand + self._share * (motion * (1 + self._error) - self._hand)
        hand = np.clip(np.round(hand * LEVELS) / LEVELS, -1, 1)
        self._hand = np.where(self._buttons, intention, hand)

    def _turn(self, motion: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a horizontal motion (2,) turned by the detour, which fades with its speed."""
        angle = self._detour * min(1.0, float(np.linalg.norm(motion))) ** 2
        cosine, sine = math.cos(angle), math.sin(angle)
        turned: NDArray[np.float64] = np.array([[cosine, -sine], [sine, cosine]]) @ motion
        return turned

    def button(self) -> str | None:
        return "failure" if self._step >= self._end else None
