"""Steps that a run learns from, and the computation of their rewards."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..app import Components
from ..core import (
    BEFORE,
    HISTORY,
    MACHINE,
    PROGRESS,
    ConfigError,
    GoalTask,
    Metrics,
    State,
    Transition,
    find_constraints,
    find_machine,
    machine_states,
)
from ..replay import Counterfactual, Hindsight, MixedSampler, ReplayRing
from ..residual import BASE_POLICY
from .earnings import Earnings

MACHINE_TERMS = frozenset(("success", MACHINE, PROGRESS, PROGRESS + BEFORE))
"""Reward terms that depend on the state of the task's machine."""


class Experience:
    """Demonstrations, prior data and steps of the run, with the rewards of all of them.

    Args:
        components: components of the run.
        online: replay buffer for the steps of the run.
        demonstrations: replay buffer of the demonstrations; None if the agent does not learn from any.
        sampler: draws batches from all buffers.
        relabel_rows: number of stored rewards that may be updated for each step.
        hindsight: copies episodes with other goals; None: no copies.
        prior: replay buffer of the prior data; None if there is none.

    Attributes:
        hindsight: the argument.
        scorer: computes rewards; None if the task's own rewards are used.
    """

    def __init__(
        self,
        components: Components,
        online: ReplayRing,
        demonstrations: ReplayRing | None,
        sampler: MixedSampler,
        relabel_rows: int,
        hindsight: Hindsight | None = None,
        prior: ReplayRing | None = None,
    ) -> None:
        self.hindsight = hindsight
        self.online, self.demonstrations, self.prior, self.sampler = online, demonstrations, prior, sampler
        self.scorer = components.reward.scorer
        self._reward, self._gamma = components.reward, components.agent.config.gamma
        self._relabel_rows = relabel_rows

    @property
    def is_ready(self) -> bool:
        """Whether there are rows to sample, of demonstrations, prior data or episodes whose reward is known."""
        return bool(len(self.online)) or bool(self.fixed)

    @property
    def fixed(self) -> dict[str, ReplayRing]:
        """The buffers of demonstrations and prior data, by the name of their part of a checkpoint."""
        rings = {"demonstrations": self.demonstrations, "prior": self.prior}
        return {name: ring for name, ring in rings.items() if ring is not None}

    def score_fixed(self) -> None:
        """Compute the rewards of demonstrations and prior data, before the first step of the run."""
        if self.scorer is not None:
            for ring in self.fixed.values():
                ring.score_held(self.scorer, online=False)

    def new_earnings(self) -> Earnings:
        """Return an empty sum of rewards for a new episode."""
        return Earnings(self._reward, self.online.terms, machine_states(self.online.spec))

    def insert(self, transition: Transition) -> NDArray[np.float32]:
        """Store a step; return the reward terms, of shape (n, terms), of the n steps whose rewards became known."""
        self.online.append([transition])
        if self.hindsight is not None:
            self.hindsight.add(transition)
        if self.scorer is None:
            return np.array([[transition.rewards[name] for name in self.online.terms]], dtype=np.float32)
        return self.score()

    def recover(self, episode: Sequence[Transition]) -> int:
        """Store the steps of an earlier episode again; return their number."""
        if self.hindsight is None:
            return self.online.append(episode)
        for transition in episode:
            self.online.append([transition])
            self.hindsight.add(transition)
        self.hindsight.end()
        return len(episode)

    def score(self) -> NDArray[np.float32]:
        """Compute the rewards that are due; return their terms, of shape (n, terms)."""
        if self.scorer is None:
            return self.online.rows.values(np.zeros(0, np.intp))
        return self.online.rows.values(self.online.score_held(self.scorer, online=True))

    def cut_episode(self, actor: str | None = None) -> NDArray[np.float32]:
        """End an episode with the last stored step; return the reward terms (n, terms) that became known."""
        self.online.end_episodes(actor)
        if self.hindsight is not None:
            self.hindsight.end(actor)
        return self.score()

    def update_rewards(self) -> Metrics:
        """Update the reward modules, and recompute up to ``relabel_rows`` of the stored rewards."""
        if self.scorer is None:
            return {}
        metrics = self.scorer.update(self.online.rows)
        remaining = self._relabel_rows
        for ring in (self.online, *self.fixed.values()):
            if remaining:
                remaining -= ring.computed.relabel(self.scorer, remaining)
        self.follow_discount()
        return metrics

    def follow_discount(self) -> None:
        """Use the discount that the reward module requests, if it requests one."""
        discount = self.scorer.discount if self.scorer else None
        self.sampler.gamma = self._gamma if discount is None else discount

    def save(self, parts: dict[str, State]) -> None:
        """Add the state of the reward modules, and the rewards of demonstrations and prior data, to a checkpoint."""
        if self.scorer is not None:
            parts["reward"] = self.scorer.state()
            parts |= {name: ring.computed.state() for name, ring in self.fixed.items()}

    def load(self, parts: Mapping[str, State]) -> None:
        """Restore the parts of a checkpoint; the steps of the run are loaded elsewhere."""
        if self.scorer is not None:
            self.scorer.load(parts["reward"])
            for name, ring in self.fixed.items():
                ring.computed.load(parts[name])
        self.sampler.load({"generator": parts["run"]["sampler"]})
        self.follow_discount()


def make_hindsight(components: Components, online: ReplayRing, copies: int, seed: int) -> Hindsight | None:
    """Return the part that adds ``copies`` of each episode with another goal to ``online``; None for no copies.

    Raises:
        ConfigError: if the rewards for another goal cannot be computed, or images may show the goal to the agent.
    """
    if not copies:
        return None
    task, agent = components.evaluation_backend(), components.agent
    relabel = task.relabel if isinstance(task, GoalTask) else None
    if relabel is None:
        raise ConfigError(
            f"run.hindsight={copies} needs a task that observes its goal and can compute the reward for others: reach "
            "and push_cube with task.observation.object=true, without task.observation.delay and task.machine, or an "
            "environment "
            "with achieved_goal, desired_goal and a sparse compute_reward, as those of Gymnasium-Robotics; task "
            f"{online.spec.task!r} cannot"
        )
    if images := [key for key in agent.observed if key not in ("state", "object", HISTORY)]:
        raise ConfigError(
            f"run.hindsight={copies} changes the goal in the observations 'state' and 'object' only, but the agent "
            f"also learns from {', '.join(images)}, which may show the goal: choose an agent that learns from states"
        )
    if components.reward.scorer is not None:
        raise ConfigError(
            f"run.hindsight={copies} needs the task's own rewards, and reward modules or constraints compute "
            f"{', '.join(components.reward.scorer.terms)}: choose one of the two"
        )
    return Hindsight(online, relabel, copies, seed)


def make_counterfactual(components: Components, share: float) -> Counterfactual | None:
    """Return the part that changes the state of the task's machine in a ``share`` of the rows; None for none.

    Raises:
        ConfigError: if there is no machine, or something else depends on its state.
    """
    if not share:
        return None
    option, machine = f"run.counterfactual={share:g}", find_machine(components.backend)
    if machine is None:
        raise ConfigError(f"{option} changes the state of a machine, and the task has none: set task.machine=FILE")
    if MACHINE not in components.agent.observed:
        raise ConfigError(f"{option} needs an agent that observes {MACHINE!r}: add it to agent.observation_keys")
    scorer, constraints = components.reward.scorer, find_constraints(components.reward)
    if scorer is not None and scorer.modules:
        raise ConfigError(
            f"{option} needs the task's own rewards, and the reward modules {', '.join(scorer.modules)} compute "
            "others: choose one of the two"
        )
    changed = {*MACHINE_TERMS, *components.backend.spec.observation[MACHINE].names}
    if constraints is not None and (read := sorted(constraints.reads & changed)):
        raise ConfigError(
            f"{option} changes {', '.join(read)}, which reward.constraints limits: limit something else, or choose one "
            "of the two"
        )
    if BASE_POLICY in components.backend.spec.extra:
        raise ConfigError(
            f"{option}: the base policy may have acted on the state of the machine: choose one of the two"
        )
    return Counterfactual(machine.steps, share)
