"""Simulated operator who watches the progress of a task and takes over when the policy goes wrong."""

import math

import numpy as np

from robo_rl.core import (
    CheckpointError,
    ConfigError,
    EnvSpec,
    Observation,
    ScriptedExpert,
    Source,
    State,
    Transition,
    generator,
    saved_counts,
)

from .actor import ActionChoice
from .human_like import HumanLikeChooser
from .intervention import InterventionConfig

PROGRESS = 0.02
"""Smallest increase of the progress that an operator notices."""
HOLD = (0.5, 1.5)
"""Shortest and longest intervention, as multiples of ``intervention.hold``."""


class SimulatedOperator:
    """Person-like operator of a simulated arm, for ``intervention.criterion=operator``.

    The progress is the sum of the task's reward terms other than ``success``, which grow as the task advances. The
    operator takes over when it has not grown for ``intervention.patience`` seconds, or has fallen by
    ``intervention.retreat`` below its highest value since the episode began or control was last given back. The
    operator then acts as :class:`HumanLikeChooser` does, without a reaction time, which is part of the patience, and
    gives control back after a random time.

    All random numbers depend only on the seed and the numbers of the steps.

    Args:
        config: when the operator takes over, and for how long.
        expert: expert of the backend that the policy acts on, which the operator imitates.
        spec: spec of that backend.
        seed: seed of the run.

    Raises:
        ConfigError: if the task measures no progress, or has no arm.
    """

    def __init__(self, config: InterventionConfig, expert: ScriptedExpert, spec: EnvSpec, seed: int) -> None:
        self._terms = [name for name in spec.reward_terms if name != "success"]
        if not self._terms or spec.action_space != "end_effector_delta":
            raise ConfigError(
                "intervention.criterion=operator judges the progress of an arm by reward terms besides success: task "
                f"{spec.task!r} has {', '.join(spec.reward_terms)} and actions of {spec.action_space}; choose "
                "another criterion"
            )
        self._config, self._expert, self._spec, self._seed = config, expert, spec, seed
        self._patience = max(1, round(config.patience * spec.control_rate))
        self._chooser: HumanLikeChooser | None = None
        self._begun = self._remaining = self._waited = 0
        self._progress, self._best = 0.0, -math.inf

    def __call__(self, observation: Observation, choice: ActionChoice, step: int) -> ActionChoice:
        """Return the action for environment step ``step``: the policy's ``choice``, or the operator's action."""
        if self._chooser is None:
            retreats = self._best - self._progress > self._config.retreat
            if self._waited < self._patience and not retreats:
                return choice
            self._begun, rng = step, generator(self._seed, "operator", step)
            self._chooser = HumanLikeChooser(self._expert, self._spec, rng, intervenes=True)
            self._remaining = max(1, round(self._config.hold * rng.uniform(*HOLD)))
        self._chooser.rng = generator(self._seed, "intervention", step)
        action = self._chooser(observation).action
        self._remaining -= 1
        if self._remaining == 0:
            self._chooser = None
            self._best, self._waited = -math.inf, 0
        return ActionChoice(action, Source.SCRIPT)

    def note(self, transition: Transition) -> None:
        """Register a step that was taken."""
        self._progress = sum(transition.rewards[name] for name in self._terms)
        if self._progress > self._best + PROGRESS:
            self._best, self._waited = self._progress, 0
        elif self._chooser is None:
            self._waited += 1

    def end_episode(self) -> None:
        """Give control back and forget the progress of the current episode, if there is one."""
        self._chooser = None
        self._begun = self._remaining = self._waited = 0
        self._progress, self._best = 0.0, -math.inf

    def state(self) -> State:
        """Return what the operator has observed, and the state of an intervention."""
        counts = [self._begun, self._remaining, self._waited]
        state: State = {
            "operator": np.array([self._progress, self._best]),
            "remaining": np.array(counts, dtype=np.int64),
        }
        return state if self._chooser is None else state | {f"hand/{k}": v for k, v in self._chooser.state().items()}

    def load(self, state: State) -> None:
        """Restore ``state``.

        Raises:
            CheckpointError: if ``state`` is of a run without a simulated operator.
        """
        if "operator" not in state:
            raise CheckpointError("the checkpoint is of a run without an operator; resume with its configuration")
        self._begun, self._remaining, self._waited = saved_counts(state["remaining"], 3)
        self._progress, self._best = (float(value) for value in state["operator"])
        hand = {key.removeprefix("hand/"): value for key, value in state.items() if key.startswith("hand/")}
        self._chooser = None
        if hand:
            rng = generator(self._seed, "operator", self._begun)
            self._chooser = HumanLikeChooser(self._expert, self._spec, rng, intervenes=True)
            self._chooser.load(hand)
