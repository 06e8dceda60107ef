"""A backend whose task is that of a reward machine, with the state of the machine in its observations."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .errors import ConfigError
from .machine import RewardMachine, States
from .machine_file import read_machine
from .protocols import EnvBackend
from .reward import BEFORE
from .signals import ObservationSignals
from .specs import ArraySpec, EnvSpec
from .types import Batch, Observation, State, Step
from .wrapped_backend import WrappedBackend, WrappedWorld

MACHINE = "machine"
"""Observation key of the machine's state (one-hot), key of its fingerprint in ``EnvSpec.extra``, and reward term of its
edges."""
PROGRESS = "machine_progress"
"""Reward term that may be a potential: the progress of the machine's state, 0 after a termination."""
TASK_SUCCESS = "task_success"
"""Reward term ``success`` of the task without the machine."""
TASK_TERMINATED = "task_terminated"
"""Reward term that is 1 where the task without the machine terminated the episode."""


@runtime_checkable
class PartlyMeasured(Protocol):
    """A backend of a robot, which may not measure everything that its simulation does.

    Attributes:
        unmeasured: names of the elements of observations, and of the reward terms, that are always 0.
    """

    unmeasured: frozenset[str]


class MachineOutcome(NamedTuple):
    """The outcome of n steps for the machine.

    Attributes:
        states: states after the steps (n,).
        terms: reward terms (n,) float32 by name that depend on the machine.
        terminated: whether the episode terminated (n,), because of the machine or of the task.
    """

    states: States
    terms: Mapping[str, NDArray[np.float32]]
    terminated: NDArray[np.bool_]


class MachineSteps:
    """Steps of a machine in an environment: the states, rewards and ends that follow from what was observed.

    Args:
        machine: the machine.
        spec: spec of the environment without the machine.
        ends: whether success ends an episode.

    Attributes:
        machine: the argument.
        continuing: states in which an episode goes on.
        keys: observation keys that are read.
        terms: names of the reward terms that are read.
    """

    def __init__(self, machine: RewardMachine, spec: EnvSpec, ends: bool) -> None:
        self.machine = machine
        self._signals = ObservationSignals(spec)
        self._ending = np.zeros(len(machine.states), np.bool_)
        self._ending[sorted(machine.failure | (machine.success if ends else frozenset()))] = True
        self._solved = np.zeros(len(machine.states), np.float32)
        self._solved[sorted(machine.success)] = 1.0
        self.continuing: States = np.flatnonzero(~self._ending)
        self.keys = frozenset(key for name in machine.signals for key, _ in self._signals.places(name))
        observed = self._signals.units
        self.terms = (*sorted(machine.signals - observed.keys()), TASK_TERMINATED)

    def __call__(self, states: States, rows: Batch) -> MachineOutcome:
        """Return the outcome of n steps from the ``states`` (n,).

        Args:
            states: numbers of states.
            rows: ``next_observation/<key>`` (n, ...) of :attr:`keys` and ``term/<name>`` (n,) of :attr:`terms`.
        """
        observed = {key: rows[f"next_observation/{key}"] for key in self.keys}
        signals = {
            # float32, as it is stored, so that stored steps have the same outcome
            name: self._signals.values(name, observed)
            if name in self._signals.units
            else np.asarray(rows[f"term/{name}"], np.float32).astype(np.float64)
            for name in self.machine.signals
        }
        targets, rewards = self.machine.advance(states, signals)
        terminated = self._ending[targets] | (rows[f"term/{TASK_TERMINATED}"] > 0)
        progress = self.machine.progress
        terms = {
            "success": self._solved[targets],
            MACHINE: rewards,
            PROGRESS: np.where(terminated, np.float32(0), progress[targets]),
            PROGRESS + BEFORE: progress[states],
        }
        return MachineOutcome(targets, terms, terminated)

    def one_hot(self, states: States) -> NDArray[np.float32]:
        """Return the observations (n, states) of ``states`` (n,)."""
        return np.eye(len(self.machine.states), dtype=np.float32)[states]


class MachineBackend(WrappedWorld):
    """An :class:`EnvBackend` with the task of a machine, whose state is observed under the key ``machine``.

    The machine reads what is observed after each step, and takes at most one edge. It decides about success: the task's
    own is renamed to ``task_success``. An episode terminates in a failure, in a success if ``ends``, and where the task
    itself terminates.

    Args:
        backend: backend of the task, whose success does not end its episodes.
        file: file of the machine.
        ends: whether success ends an episode.

    Attributes:
        steps: the steps of the machine.
        relabel: None, as the machine of other goals is unknown; see :class:`~robo_rl.core.GoalTask`.

    Raises:
        ConfigError: if the file cannot be read, or its machine does not match the environment.
    """

    def __init__(self, backend: EnvBackend, file: str, ends: bool) -> None:
        super().__init__(backend)
        self.relabel = None
        spec = backend.spec
        added = (MACHINE, PROGRESS, PROGRESS + BEFORE, TASK_SUCCESS, TASK_TERMINATED)
        if taken := [name for name in added if name in (*spec.reward_terms, *spec.observation)]:
            raise ConfigError(f"task.machine: task {spec.task!r} has {', '.join(taken)} already: rename it")
        self._names = {name: TASK_SUCCESS if name == "success" else name for name in spec.reward_terms}
        units, simulated = _quantities(backend, self._names)
        machine = read_machine(Path(file), units, simulated)
        self.steps = MachineSteps(machine, spec, ends)
        self._state: States = np.zeros(1, np.intp)
        self._running = False
        observed = ArraySpec((len(machine.states),), low=0, high=1, names=tuple(f"machine_{s}" for s in machine.states))
        terms = ("success", MACHINE, PROGRESS, PROGRESS + BEFORE, TASK_TERMINATED)
        self._spec = replace(
            spec,
            observation={**spec.observation, MACHINE: observed},
            reward_terms=(*self._names.values(), *terms),
            reports_success=True,
            extra={**spec.extra, MACHINE: machine.fingerprint},
        )

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode, with the machine in its first state."""
        return self._begin(self.inner.reset(seed))

    def restore(self, world: State) -> Step:
        """Begin an episode as :meth:`WrappedWorld._restore` does, with the machine in its first state."""
        return self._begin(self._restore(world))

    def step(self, action: NDArray[np.float32]) -> Step:
        if not self._running:
            raise RuntimeError("no episode is running; call reset() first")
        step = self.inner.step(action)
        terms = self._terms(step)
        rows: Batch = {f"next_observation/{key}": step.observation[key][None] for key in self.steps.keys}
        rows |= {f"term/{name}": np.array([terms[name]]) for name in self.steps.terms}
        outcome = self.steps(self._state, rows)
        terms |= {name: float(values[0]) for name, values in outcome.terms.items()}
        self._state = outcome.states
        terminated = bool(outcome.terminated[0])
        if terminated and not step.ended:
            self.inner.stop("the machine has ended the episode")
        self._running = not (terminated or step.truncated)
        return replace(
            step,
            observation=self._observed(step),
            rewards={name: terms[name] for name in self._spec.reward_terms},
            terminated=terminated,
            truncated=step.truncated and not terminated,
            success=bool(outcome.terms["success"][0]),
        )

    def stop(self, reason: str) -> None:
        self._running = False
        self.inner.stop(reason)

    def _begin(self, step: Step) -> Step:
        self._state = np.zeros(1, np.intp)
        self._running = True
        rewards = dict.fromkeys(self._spec.reward_terms, 0.0)
        return replace(step, observation=self._observed(step), rewards=rewards, success=False)

    def _terms(self, step: Step) -> dict[str, float]:
        """Return the terms of the task without the machine."""
        return {self._names[name]: value for name, value in step.rewards.items()} | {
            TASK_TERMINATED: float(step.terminated)
        }

    def _observed(self, step: Step) -> Observation:
        return {**step.observation, MACHINE: self.steps.one_hot(self._state)[0]}


def find_machine(backend: EnvBackend) -> MachineBackend | None:
    """Return the backend with a machine that ``backend`` is or contains; None if there is none."""
    inner: object = backend
    while isinstance(inner, WrappedBackend):
        if isinstance(inner, MachineBackend):
            return inner
        inner = inner.inner
    return None


def unmeasured(backend: EnvBackend) -> frozenset[str]:
    """Return the names of the elements of observations, and of the reward terms, that a robot does not measure."""
    inner: object = backend
    while isinstance(inner, WrappedBackend):
        inner = inner.inner
    return inner.unmeasured if isinstance(inner, PartlyMeasured) else frozenset()


def machine_states(spec: EnvSpec) -> tuple[str, ...]:
    """Return the names of the states of the machine in an environment of ``spec``; empty if there is none."""
    names = spec.observation[MACHINE].names if MACHINE in spec.extra else ()
    return tuple(name.removeprefix("machine_") for name in names)


def _quantities(backend: EnvBackend, names: Mapping[str, str]) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Return the quantities that the conditions of a machine may name.

    Args:
        backend: backend of the task.
        names: name of the quantity for each reward term.

    Returns:
        The unit, or None, of each quantity that is measured, and of those that exist only in simulation.
    """
    missing, spec = unmeasured(backend), backend.spec
    signals = ObservationSignals(spec)
    units = dict.fromkeys(names.values()) | signals.units
    simulated = {quantity for term, quantity in names.items() if term in missing} - signals.units.keys()
    for name in signals.units:
        if missing & {spec.observation[key].names[place] for key, place in signals.places(name)}:
            simulated.add(name)
    measured = {name: unit for name, unit in units.items() if name not in simulated}
    return measured, {name: units[name] for name in simulated}
