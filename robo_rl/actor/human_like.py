"""Scripted model of a person who teleoperates: slow to react, smoothed, quantised and sometimes wrong.

Scripts with access to the whole state give demonstrations that no person could give. This model turns the actions of
such a script into commands like those of a hand on a SpaceMouse. The commands are stored as the actions; there are no
hidden labels.

A person foresees the effect of their own motion, so smooth approaches are not delayed. Unforeseen changes take a
reaction time, during which the hand continues its motion: it starts late, overshoots when the direction changes, and
presses buttons late. Sources: Fitts 1954 (speed falls near a target), Harris and Wolpert 1998 (noise is proportional to
the command), Crossman and Goodeve 1983 (overshoot is corrected).
"""

import math

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import EnvSpec, Observation, ScriptedExpert, Source, State, saved_counts, saved_numbers

from .actor import ActionChoice, Actor

REACTION = (0.2, 0.3)
"""Time until a person reacts to an unforeseen change [s]."""
SURPRISE = 0.7
"""Change of the expert's action between two steps above which the person did not foresee it."""
SMOOTHING = (0.06, 0.12)
"""Time constant of the hand [s]."""
SPEED = (0.5, 1.0)
"""Speed of an episode, as a fraction of the greatest command."""
CAUTION = (1.0, 1.4)
"""Exponent of the intended motion. Above 1, small motions become even smaller, as near a target."""
NOISE = 0.15
"""Standard deviation of the command's error, as a fraction of the command."""
NOISE_SECONDS = 0.3
"""Time constant of this error [s]."""
DETOUR = (0.1, 0.5)
"""Angle between the direction of fast motions and the straight line, to either side [rad]."""
PAUSES_PER_SECOND = 0.1
PAUSE = (0.3, 1.0)
"""Length of a pause [s]."""
LEVELS = 20
"""Number of quantisation steps of a command from 0 to 1."""
FAILURE_SHARE = 0.1
"""Fraction of episodes in which the person fails."""
FAILURE_ONSET = (0.3, 2.0)
"""Time from the start of such an episode to the first mistake [s]."""
GIVING_UP = (1.0, 2.0)
"""Time from the first mistake until the person ends the episode as a failure [s]."""


class HumanLikeChooser:
    """Chooser of the commands of one episode, like those of a person who intends the actions of ``expert``.

    Args:
        expert: scripted expert of the backend, called once per step.
        spec: spec of the backend. The element ``gripper`` of its actions is a button; ``x`` and ``y`` are horizontal
            motions.
        rng: random generator of the traits and the events of this episode.
        intervenes: whether the person takes over from a policy that they have watched. They have then already reacted,
            and make no mistake.

    Attributes:
        rng: random generator of the events from now on.
    """

    def __init__(
        self, expert: ScriptedExpert, spec: EnvSpec, rng: np.random.Generator, intervenes: bool = False
    ) -> None:
        rate, size = spec.control_rate, spec.action.shape[0]
        names = list(spec.action.names or ("",) * size)
        self._expert = expert
        self._rate = rate
        self.rng = rng
        self._buttons = np.array([name == "gripper" for name in names])
        self._horizontal = [names.index("x"), names.index("y")] if {"x", "y"} <= {*names} else None
        self._smoothing_factor = 1 - math.exp(-1 / (rate * rng.uniform(*SMOOTHING)))
        self._speed = rng.uniform(*SPEED)
        self._caution = rng.uniform(*CAUTION)
        self._detour = rng.choice((-1, 1)) * rng.uniform(*DETOUR)
        self._reaction = max(1, round(rate * rng.uniform(*REACTION)))
        self._expert_action = self._intention = self._command = self._error = np.zeros(size)
        self._reaction_steps_left = 0 if intervenes else self._reaction
        self._pause_steps_left = 0
        self._step = 0
        onset, patience = rng.uniform(*FAILURE_ONSET), rng.uniform(*GIVING_UP)
        fails = rng.random() < FAILURE_SHARE and not intervenes
        self._onset = round(rate * onset) if fails else math.inf
        self._end = round(rate * (onset + patience)) if fails else math.inf
        mistake = rng.standard_normal(size)
        self._mistake = mistake / np.linalg.norm(mistake)

    def begin(self, actor: Actor) -> None:
        actor.begin_episode()

    def __call__(self, observation: Observation) -> ActionChoice:
        if self._step == 0:  # not earlier, because the backend has been reset by now
            self._expert.reset()
        expert_action = np.asarray(self._expert.act(observation), np.float64)
        self._react(expert_action)
        self._move()
        self._step += 1
        return ActionChoice(self._command.astype(np.float32), Source.SCRIPT)

    def _react(self, expert_action: NDArray[np.float64]) -> None:
        """Intend ``expert_action`` (A,), or keep the earlier intention until the reaction time is over."""
        if self._step == 0:
            self._intention = np.where(self._buttons, expert_action, 0.0)
        elif self._reaction_steps_left == 0 and np.abs(expert_action - self._expert_action).max() > SURPRISE:
            self._reaction_steps_left = self._reaction
        self._expert_action = expert_action
        if self._reaction_steps_left > 0:
            self._reaction_steps_left -= 1
        else:
            self._intention = expert_action

    def _move(self) -> None:
        """Move the command towards the intention."""
        intention = self._intention
        motion = self._speed * np.sign(intention) * np.abs(intention) ** self._caution
        if self._horizontal is not None:
            motion[self._horizontal] = self._turn(motion[self._horizontal])
        if self._step >= self._onset:
            motion = motion + self._mistake
        if self._pause_steps_left == 0 and self.rng.random() < PAUSES_PER_SECOND / self._rate:
            self._pause_steps_left = round(self._rate * self.rng.uniform(*PAUSE))
        if self._pause_steps_left > 0:
            self._pause_steps_left -= 1
            motion = np.zeros_like(motion)
        decay = math.exp(-1 / (self._rate * NOISE_SECONDS))
        self._error = decay * self._error + math.sqrt(1 - decay**2) * NOISE * self.rng.standard_normal(motion.size)
        command = self._command + self._smoothing_factor * (motion * (1 + self._error) - self._command)
        command = np.clip(np.round(command * LEVELS) / LEVELS, -1, 1)
        self._command = np.where(self._buttons, intention, command)

    def _turn(self, motion: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a horizontal motion (2,) rotated by the detour angle, which vanishes at low speed."""
        angle = self._detour * min(1.0, float(np.linalg.norm(motion))) ** 2
        cosine, sine = math.cos(angle), math.sin(angle)
        turned: NDArray[np.float64] = np.array([[cosine, -sine], [sine, cosine]]) @ motion
        return turned

    def button(self) -> str | None:
        return "failure" if self._step >= self._end else None

    def state(self) -> State:
        """Return the current state of the hand; the traits follow from the random generator."""
        hand = [self._expert_action, self._intention, self._command, self._error]
        counts = [self._reaction_steps_left, self._pause_steps_left, self._step]
        return {"motion": np.array(hand, np.float64), "counts": np.array(counts, np.int64)}

    def load(self, state: State) -> None:
        """Restore ``state``."""
        self._expert_action, self._intention, self._command, self._error = saved_numbers(
            state["motion"], (4, self._command.size)
        )
        self._reaction_steps_left, self._pause_steps_left, self._step = saved_counts(state["counts"], 3)
