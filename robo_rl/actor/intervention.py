"""Somebody who takes over from the policy: simulated by the task's scripted expert, or by a policy of another run."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    CheckpointError,
    Critic,
    Observation,
    Options,
    ScriptedExpert,
    Source,
    State,
    generator,
    option,
    require,
)

from .actor import ActionChoice

Action = NDArray[np.float32]

CRITERIA = ("never", "random", "disagreement", "value")


@dataclass(frozen=True)
class InterventionConfig(Options, section="intervention"):
    """What becomes of interventions in training, and when a simulated expert makes some; by default it makes none.

    Attributes:
        as_demonstrations: what a person, or this expert, does is sampled with the demonstrations too, and imitated as
            they are (HIL-SERL, Luo et al. 2024); false: it is experience like any other (RLIF, Luo et al. 2024).
        criterion: ``never``; ``random``: after any step, with ``probability``; ``disagreement``: with ``probability``
            where the policy's action is further than ``threshold`` from the expert's, else with ``false_alarm``;
            ``value``: with ``probability`` where the reference's critics give the policy's action less than
            ``value_share`` of what they give its own, else with ``false_alarm`` (RLIF, Luo et al. 2024).
        probability: see ``criterion``.
        false_alarm: see ``criterion``.
        threshold: root of the mean squared difference of two actions, whose elements range over [-1, 1].
        value_share: see ``criterion``, in [0, 1]. Where the value of the reference's own action is below 0, that of the
            policy's may be below it by 1 - ``value_share`` of its magnitude.
        reference: folder of a run of the same task whose policy is the expert; null: the task's script is.
        reference_checkpoint: of that run: ``best``, ``newest`` or the number of a step.
        reaction: how many steps the policy still takes once the expert wants to take over, the one that it objects to
            among them: with 1 a wrong action is seen before it ends the policy's turn, with 0 it is never taken.
        hold: how many steps the expert stays in control.
        noise: standard deviation of Gaussian noise on the expert's actions, which makes it a worse one. Who imitates it
            sees the noisy actions: it is not known what it would rather have done.
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

    def __post_init__(self) -> None:
        super().__post_init__()
        has_values = self.criterion != "value" or self.reference is not None
        require(has_values, "intervention.reference", "a run folder for intervention.criterion=value", self.reference)


class SimulatedIntervention:
    """Replaces actions of the policy by those of an expert; see :class:`InterventionConfig`.

    What is random in a step follows from the seed and the step's number alone.

    Args:
        config: when, and how long.
        expert: of the backend that the policy acts on. It has no memory of its earlier actions.
        seed: of the run.
        critic: says what actions are worth to the expert; needed for ``criterion=value``.
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
        """Return what is to be done in environment step ``step``, where the policy would do ``choice``."""
        config, rng = self._config, generator(self._seed, "intervention", step)
        wanted = np.asarray(self._expert.act(observation), dtype=np.float32)
        if self._remaining == 0:
            likely = config.probability if self._objects(observation, choice.action, wanted) else config.false_alarm
            if rng.uniform() >= likely:
                return choice
            self._remaining = config.reaction + config.hold
        self._remaining -= 1
        if self._remaining >= config.hold:
            return choice
        noise = config.noise * rng.standard_normal(wanted.shape)
        return ActionChoice(np.clip(wanted + noise, -1, 1).astype(np.float32), Source.SCRIPT)

    def _objects(self, observation: Observation, action: Action, wanted: Action) -> bool:
        """Whether the policy's ``action`` (A,) is wrong to an expert who would do ``wanted`` (A,)."""
        if self._config.criterion == "random":
            return True
        if self._config.criterion == "disagreement":
            return float(np.sqrt(np.mean((wanted - action) ** 2))) > self._config.threshold
        assert self._critic is not None
        best = self._critic.value(observation, wanted)
        return self._critic.value(observation, action) < best - (1 - self._config.value_share) * abs(best)

    def end_episode(self) -> None:
        """Give control back."""
        self._remaining = 0

    def state(self) -> State:
        """Return how long the expert stays in control, its reaction included."""
        return {"remaining": np.array([self._remaining], dtype=np.int64)}

    def load(self, state: State) -> None:
        """Go on from ``state``.

        Raises:
            CheckpointError: if there is none.
        """
        if "remaining" not in state:
            raise CheckpointError("the checkpoint is of a run without interventions; resume with its configuration")
        self._remaining = int(state["remaining"][0])
