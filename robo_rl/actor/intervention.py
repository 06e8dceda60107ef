"""Simulated interventions by the task's scripted expert or by the policy of another run."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    MAX_SECONDS,
    CheckpointError,
    Critic,
    Observation,
    Options,
    ScriptedExpert,
    Source,
    State,
    Transition,
    generator,
    option,
    require,
    saved_counts,
)

from .actor import ActionChoice

Action = NDArray[np.float32]

CRITERIA = ("never", "random", "disagreement", "value", "operator")


@dataclass(frozen=True)
class InterventionConfig(Options, section="intervention"):
    """Use of interventions in training, and interventions of a simulated expert; by default there are none.

    Attributes:
        as_demonstrations: sample and imitate interventions of a person or of this expert like demonstrations (HIL-SERL,
            Luo et al. 2024); false: interventions are only online experience (RLIF, Luo et al. 2024).
        criterion: when the expert intervenes. ``never``; ``random``: at any step, with ``probability``;
            ``disagreement``: with ``probability`` if the policy's action is further than ``threshold`` from the
            expert's, otherwise with ``false_alarm``; ``value``: with ``probability`` if the reference's critics value
            the policy's action at less than ``value_share`` of the value of the reference's own action, otherwise with
            ``false_alarm`` (RLIF, Luo et al. 2024); ``operator``: when the task makes no progress for ``patience``, or
            the policy has undone ``retreat`` of it. The expert then corrects like a person
            (:class:`~robo_rl.actor.SimulatedOperator`); ``reaction`` and ``noise`` are part of that model.
        probability: see ``criterion``.
        false_alarm: see ``criterion``.
        threshold: root mean square difference of two actions, whose elements are in [-1, 1].
        value_share: see ``criterion``, in [0, 1]. If the value of the reference's own action is negative, the value of
            the policy's action may be lower by the fraction 1 - ``value_share`` of its magnitude.
        reference: folder of a run of the same task whose policy is the expert; null: the task's scripted expert.
        reference_checkpoint: checkpoint of that run: ``best``, ``newest`` or the number of a step.
        reaction: number of steps that the policy still takes after the expert has decided to intervene, including the
            action that the expert objects to. With 0, this action is never executed; with 1, it is the policy's last.
        hold: number of steps that the expert stays in control; for ``operator`` the mean, from half to one and a half
            times as many.
        patience: see ``criterion`` [s].
        retreat: see ``criterion``: a difference of the sum of the task's reward terms, each of which is in [0, 1].
        noise: standard deviation of Gaussian noise on the expert's actions, which makes the expert worse. The noisy
            actions are the ones to imitate; the actions without noise are not stored.
    """

    as_demonstrations: bool = True
    criterion: str = option("never", choices=CRITERIA)
    probability: float = option(0.95, low=0, high=1)
    false_alarm: float = option(0.05, low=0, high=1)
    threshold: float = option(0.5, low=0)
    value_share: float = option(0.97, low=0, high=1)
    reference: str | None = None
    reference_checkpoint: str = "best"
    reaction: int = option(0, low=0)
    hold: int = option(4, low=1)
    noise: float = option(0.0, low=0, high=1)
    patience: float = option(1.5, above=0, high=MAX_SECONDS)
    retreat: float = option(0.2, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        has_values = self.criterion != "value" or self.reference is not None
        require(has_values, "intervention.reference", "a run folder for intervention.criterion=value", self.reference)
        has_script = self.criterion != "operator" or self.reference is None
        require(has_script, "intervention.reference", "null for intervention.criterion=operator", self.reference)


class Interventions(Protocol):
    """Simulated person or expert who acts instead of the policy at times."""

    def __call__(self, observation: Observation, choice: ActionChoice, step: int) -> ActionChoice:
        """Return the action for environment step ``step``: the policy's ``choice``, or another one."""
        ...

    def note(self, transition: Transition) -> None:
        """Register a step that was taken."""
        ...

    def end_episode(self) -> None:
        """End the intervention of the current episode, if there is one."""
        ...

    def state(self) -> State: ...

    def load(self, state: State) -> None: ...


class SimulatedIntervention:
    """Replaces actions of the policy by those of an expert; see :class:`InterventionConfig`.

    The random decisions of a step depend only on the seed and the number of the step.

    Args:
        config: when the expert intervenes, and for how long.
        expert: expert of the backend that the policy acts on. It must not depend on its earlier actions.
        seed: seed of the run.
        critic: estimates the values of actions; needed for ``criterion=value``.
    """

    def __init__(
        self, config: InterventionConfig, expert: ScriptedExpert, seed: int, critic: Critic | None = None
    ) -> None:
        self._config = config
        self._expert = expert
        self._critic = critic
        self._seed = seed
        self._remaining = 0

    def __call__(self, observation: Observation, choice: ActionChoice, step: int) -> ActionChoice:
        """Return the action for environment step ``step``: the policy's ``choice``, or the expert's action."""
        config, rng = self._config, generator(self._seed, "intervention", step)
        expert_action = np.asarray(self._expert.act(observation), dtype=np.float32)
        if self._remaining == 0:
            likelihood = (
                config.probability if self._rejects(observation, choice.action, expert_action) else config.false_alarm
            )
            if rng.uniform() >= likelihood:
                return choice
            self._remaining = config.reaction + config.hold
        self._remaining -= 1
        if self._remaining >= config.hold:
            return choice
        noise = config.noise * rng.standard_normal(expert_action.shape)
        return ActionChoice(np.clip(expert_action + noise, -1, 1).astype(np.float32), Source.SCRIPT)

    def _rejects(self, observation: Observation, action: Action, expert_action: Action) -> bool:
        """Return whether the policy's ``action`` (A,) meets the criterion, given the ``expert_action`` (A,)."""
        if self._config.criterion == "random":
            return True
        if self._config.criterion == "disagreement":
            return float(np.sqrt(np.mean((expert_action - action) ** 2))) > self._config.threshold
        assert self._critic is not None
        best = self._critic.value(observation, expert_action)
        return self._critic.value(observation, action) < best - (1 - self._config.value_share) * abs(best)

    def note(self, transition: Transition) -> None:
        """Do nothing, because the expert judges actions and not their results."""

    def end_episode(self) -> None:
        """End the intervention of the current episode, if there is one."""
        self._remaining = 0

    def state(self) -> State:
        """Return the remaining number of steps of the intervention, including the reaction time."""
        return {"remaining": np.array([self._remaining], dtype=np.int64)}

    def load(self, state: State) -> None:
        """Restore ``state``.

        Raises:
            CheckpointError: if ``state`` is of a run without interventions.
        """
        if "remaining" not in state:
            raise CheckpointError("the checkpoint is of a run without interventions; resume with its configuration")
        (self._remaining,) = saved_counts(state["remaining"], 1)
