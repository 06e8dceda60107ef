"""A backend with safety filters and guards around it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    PASSED,
    EnvBackend,
    Observation,
    ObservationGuard,
    SafetyStop,
    State,
    Step,
    StopButton,
    WrappedWorld,
)

from .age import AgeLimit


class SafeBackend(WrappedWorld):
    """An :class:`~robo_rl.core.EnvBackend` that lets no unsafe action and no false observation through.

    Everything that steps a robot steps it through this class: training, evaluation, recording. ``Step.executed_action``
    holds what the robot did, and ``Step.verdict`` why.

    - A filter whose verdict says ``stop`` ends the episode with the step just taken: the step is truncated and the
      robot is stopped.
    - An observation that a guard rejects is never returned: the robot is stopped and :class:`~robo_rl.core.SafetyStop`
      is raised.
    - If an observation has become too old, the robot is brought to rest within its limits, whatever the action. Too
      many such observations in a row stop it.

    Args:
        backend: the robot.
        filters: filters of actions, with the limit on the age of observations.
        guards: guards of observations, called in this order.
        button: the button with which a person stops the robot; checked before each step.
        check_start: returns the reason why the robot must not move from an episode's first observation, or None. The
            second argument: whether a load at the wrist is a reason. None for no check.
    """

    def __init__(
        self,
        backend: EnvBackend,
        filters: AgeLimit,
        guards: Sequence[ObservationGuard],
        button: StopButton,
        check_start: Callable[[Observation, bool], str | None] | None = None,
    ) -> None:
        super().__init__(backend)
        self._filters = filters
        self._guards = tuple(guards)
        self._button = button
        self._check_start = check_start
        self._last: Step | None = None

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode.

        Without ``seed``, an arm may begin while it presses on something: so begin the motions of a reset controller,
        which bring it back.

        Raises:
            SafetyStop: if a person has stopped the robot, a filter fails, a guard rejects the first observation, or the
                robot is where no episode may begin.
        """
        return self._begin(lambda: self.inner.reset(seed), checks_load=seed is not None)

    def restore(self, world: State) -> Step:
        """Begin an episode in a ``world`` that was returned by :meth:`world`.

        Raises:
            SafetyStop: as :meth:`reset`.
            CheckpointError: if this backend's world cannot be restored.
        """
        return self._begin(lambda: self._restore(world), checks_load=False)

    def step(self, action: NDArray[np.float32]) -> Step:
        """Execute ``action``, as changed by the filters, for one control period.

        Raises:
            SpecError: if the action has another shape or dtype, or is out of range.
            SafetyStop: if a person has stopped the robot, a guard rejects the new observation, too many observations in
                a row were too old, or the filters took too long.
            RuntimeError: if the episode has ended or none has begun.
        """
        last = self._last
        if last is None:
            raise RuntimeError("no episode is running; call reset() first")
        if action.shape != self.spec.action.shape or np.isfinite(action).all():  # the chain handles NaN
            self.spec.action.check("action", action)
        self._obey_button()
        try:
            began_ns = self.inner.clock.now_ns()
            executed, verdict = self._filters(last, action, began_ns)
            self._filters.check_duration(last, self.inner.clock.now_ns() - began_ns)
        except SafetyStop as stop:
            self.stop(str(stop))
            raise
        step = self.inner.step(executed)
        self._check_observation(step)
        if verdict is not PASSED:
            actual = executed if step.executed_action is None else step.executed_action
            step = replace(step, verdict=verdict, executed_action=actual)
        if verdict.stop and not step.ended:
            self.inner.stop(verdict.message)
            step = replace(step, truncated=True)
        self._last = None if step.ended else step
        return step

    def stop(self, reason: str) -> None:
        self._last = None
        self.inner.stop(reason)

    def close(self) -> None:
        self._last = None
        self.inner.close()

    def _begin(self, begin: Callable[[], Step], checks_load: bool) -> Step:
        self._obey_button()
        self._last = None
        self._filters.reset()
        for guard in self._guards:
            guard.reset()
        step = begin()
        self._check_observation(step)
        unsafe = None if self._check_start is None else self._check_start(step.observation, checks_load)
        if unsafe is not None:
            self.stop(unsafe)
            raise SafetyStop("start_unsafe", unsafe)
        self._last = step
        return step

    def _obey_button(self) -> None:
        reason = self._button.reason()
        if reason is None:
            return
        if self._last is not None:  # else it stands: an arm sinks if told repeatedly to hold its measured position
            self.stop(reason[1])
        raise SafetyStop(*reason)

    def _check_observation(self, step: Step) -> None:
        """Stop the robot if a guard rejects the observation."""
        now_ns = self.inner.clock.now_ns()
        for guard in self._guards:
            verdict = guard(step.observation, step.stamp_ns, now_ns)
            if verdict.stop:
                self.stop(verdict.message)
                raise SafetyStop(verdict.reasons[0], verdict.message)
