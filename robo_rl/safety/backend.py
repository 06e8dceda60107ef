"""A robot with safety around it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    PASSED,
    CheckpointError,
    Clock,
    EnvBackend,
    EnvSpec,
    Observation,
    ObservationGuard,
    PersistentWorld,
    RobotDescription,
    SafetyStop,
    ScriptedExpert,
    State,
    Step,
    StopButton,
    Verdict,
)

from .chain import FilterChain

MAX_AGE = 0.1
"""Of an observation of a robot that does not say how old it may be, when it is acted on [s]."""


class SafeBackend:
    """An :class:`~robo_rl.core.EnvBackend` that lets no unsafe action and no false observation through.

    Everything that steps a robot steps it through this: training, evaluation, recording. What the robot did is in
    ``Step.executed_action``, why in ``Step.verdict``.

    - A filter that says ``stop`` ends the episode with the step just taken: it is truncated, the robot stopped.
    - An observation that a guard does not believe is never returned: the robot is stopped and
      :class:`~robo_rl.core.SafetyStop` raised.
    - On an observation that has become too old the robot is brought to rest, within its limits, whatever was asked
      for; too many of those in a row stop it.

    Args:
        backend: the robot.
        chain: filters of actions.
        guards: of observations, asked in this order.
        button: what a person stops the robot with, looked at before each step.
        max_age: of the observation that is acted on [s]; None: as the robot says (``Step.expires_ns``), or 0.1 s;
            infinite: any age will do.
        stale_steps: so many steps in a row on older ones stop the robot.
        check_start: says of an episode's first observation why the robot must not move from there; None: nobody does.
    """

    def __init__(
        self,
        backend: EnvBackend,
        chain: FilterChain,
        guards: Sequence[ObservationGuard],
        button: StopButton,
        max_age: float | None,
        stale_steps: int,
        check_start: Callable[[Observation], str | None] | None = None,
    ) -> None:
        self._backend = backend
        self._chain = chain
        self._guards = tuple(guards)
        self._button = button
        self._max_age = max_age
        self._stale_steps = stale_steps
        self._check_start = check_start
        self._stale = 0
        self._last: Step | None = None

    @property
    def spec(self) -> EnvSpec:
        return self._backend.spec

    @property
    def clock(self) -> Clock:
        return self._backend.clock

    @property
    def robot(self) -> RobotDescription | None:
        return self._backend.robot

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode.

        Raises:
            SafetyStop: if a person has stopped the robot, a filter fails, the first observation is not believed, or the
                robot is where no episode may begin.
        """
        return self._begin(lambda: self._backend.reset(seed))

    def world(self) -> State | None:
        """Return all that the next episode depends on if it begins where the robot is; None if that cannot be told."""
        return self._backend.world() if isinstance(self._backend, PersistentWorld) else None

    def restore(self, world: State) -> Step:
        """Begin an episode in a ``world`` that was returned by :meth:`world`.

        Raises:
            SafetyStop: as :meth:`reset`.
            CheckpointError: if this backend's world cannot be restored.
        """
        backend = self._backend
        if not isinstance(backend, PersistentWorld):
            raise CheckpointError(f"the world of task {self.spec.task!r} cannot be restored: resume on its simulator")
        return self._begin(lambda: backend.restore(world))

    def step(self, action: NDArray[np.float32]) -> Step:
        """Execute what the filters make of ``action`` for one control period.

        Raises:
            SpecError: if the action has another shape or dtype, or is out of range.
            SafetyStop: if a person has stopped the robot, the observation that followed is not believed, or the ones
                before were too old too often.
            RuntimeError: if the episode has ended or none was begun.
        """
        last = self._last
        if last is None:
            raise RuntimeError("no episode is running; call reset() first")
        if action.shape != self.spec.action.shape or np.isfinite(action).all():  # the chain answers NaN
            self.spec.action.check("action", action)
        self._obey_person()
        executed, verdict = self._filtered(last, action, self._backend.clock.now_ns())
        step = self._backend.step(executed)
        self._believe(step)
        if verdict is not PASSED:
            done = executed if step.executed_action is None else step.executed_action
            step = replace(step, verdict=verdict, executed_action=done)
        if verdict.stop and not step.ended:
            self._backend.stop(verdict.message)
            step = replace(step, truncated=True)
        self._last = None if step.ended else step
        return step

    def render(self) -> NDArray[np.uint8]:
        return self._backend.render()

    def expert(self, seed: int) -> ScriptedExpert:
        return self._backend.expert(seed)

    def stop(self, reason: str) -> None:
        self._last = None
        self._backend.stop(reason)

    def close(self) -> None:
        self._last = None
        self._backend.close()

    def _begin(self, begin: Callable[[], Step]) -> Step:
        self._obey_person()
        self._last = None
        self._stale = 0
        self._chain.reset()
        for guard in self._guards:
            guard.reset()
        step = begin()
        self._believe(step)
        problem = None if self._check_start is None else self._check_start(step.observation)
        if problem is not None:
            self._stop("start_unsafe", problem)
        self._last = step
        return step

    def _obey_person(self) -> None:
        reason = self._button.reason()
        if reason is None:
            return
        if self._last is not None:  # else it stands: told again and again to stay where it is measured, an arm sinks
            self.stop(reason[1])
        raise SafetyStop(*reason)

    def _believe(self, step: Step) -> None:
        now_ns = self._backend.clock.now_ns()
        for guard in self._guards:
            verdict = guard(step.observation, step.stamp_ns, now_ns)
            if verdict.stop:
                self._stop(verdict.reasons[0], verdict.message)

    def _filtered(self, last: Step, action: NDArray[np.float32], now_ns: int) -> tuple[NDArray[np.float32], Verdict]:
        """Return what the filters make of ``action`` or, where ``last`` has become too old, of holding still."""
        age_ns, allowed_ns = now_ns - last.stamp_ns, self._allowed_age_ns(last)
        if age_ns <= allowed_ns:
            self._stale = 0
            return self._chain(last.observation, action, now_ns)
        self._stale += 1
        message = f"the observation is {age_ns * 1e-9:.3f} s old, {allowed_ns * 1e-9:.3g} s are allowed"
        if self._stale >= self._stale_steps:
            self._stop("observation_stale", f"{message}, for {self._stale} steps in a row")
        if np.isfinite(action).all():  # the chain answers NaN
            action = self._chain.hold(last.observation, action)
        # Through the filters as well: joints brake within their limits, and what they do next is compared with this.
        executed, verdict = self._chain(last.observation, action, now_ns, held=True)
        return executed, Verdict(
            changed=True,
            stop=verdict.stop,
            reasons=(*verdict.reasons, "observation_stale"),
            message="; ".join(text for text in (verdict.message, message) if text),
        )

    def _allowed_age_ns(self, step: Step) -> float:
        """Return how old an observation may be when it is acted on [ns]."""
        if self._max_age is None and step.expires_ns is not None:
            return step.expires_ns - step.stamp_ns
        return 1e9 * (MAX_AGE if self._max_age is None else self._max_age)

    def _stop(self, reason: str, message: str) -> None:
        self.stop(message)
        raise SafetyStop(reason, message)
