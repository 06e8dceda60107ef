"""Filters one after another, and a budget of violations."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from robo_rl.core import PASSED, Observation, SafetyFilter, SafetyStop, Verdict, plain_text

from .motion import Action

ACTION_NOT_FINITE = "action_not_finite"
"""Reason of the verdict on an action with NaN or infinity: whoever proposed it is not to be asked again."""
FILTER_FAULT = "filter_fault"
"""Reason of the verdict where a filter failed, or returned no action."""


class FilterChain:
    """Filters one after another; each sees the action as the one before it left it.

    An action that is not finite never reaches them: the robot is to hold still instead, and the episode stops. So it
    does where a filter returns what is no action; the filters after it see the robot held still. The gripper stays as
    it was told last; in an episode's first step, as nothing was told in it, where it is measured, if that is observed.

    Args:
        filters: in this order.
        hold: returns the action that stands still, with the gripper as in the action given.
        budget: so many actions in a row that had to be changed end the episode; 0: no end.
        learned: filters that guarantee nothing, so they come before those that do. They see what was proposed, never
            standing still in its place.
        measured: returns an action given with the gripper where it is measured; None: that is not observed.
    """

    def __init__(
        self,
        filters: Sequence[SafetyFilter],
        hold: Callable[[Observation, Action], Action],
        budget: int,
        learned: Sequence[SafetyFilter] = (),
        measured: Callable[[Observation, Action], Action] | None = None,
    ) -> None:
        self._filters = tuple(filters)
        self._with_learned = (*learned, *filters)
        self._hold = hold
        self._budget = budget
        self._measured = measured
        self._last: Action | None = None
        self.reset()

    def reset(self) -> None:
        """Begin an episode.

        Raises:
            SafetyStop: if a filter fails.
        """
        self._violations = 0
        self._begins = True
        for safety_filter in self._with_learned:
            try:
                safety_filter.reset()
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                name = type(safety_filter).__name__
                message = plain_text(f"the filter {name} failed in reset: {type(error).__name__}: {error}")
                raise SafetyStop(FILTER_FAULT, message) from error

    def hold(self, observation: Observation, action: Action) -> Action:
        """Return the action that stands still, with the gripper as in ``action``."""
        return self._hold(observation, action)

    def __call__(
        self, observation: Observation, action: Action, now_ns: int, held: bool = False
    ) -> tuple[Action, Verdict]:
        """Return the action that every filter agrees to, and what they said.

        ``held``: ``action`` is to stand still in the place of what was proposed, so the learned filters are not asked.
        """
        filters = self._filters if held else self._with_learned
        values = action.tolist()
        if not math.isfinite(sum(values)):  # neither NaN nor infinity goes away by adding
            index = next(number for number, value in enumerate(values) if not math.isfinite(value))
            message = f"the proposed action is not finite: {action[index]} at index [{index}]"
            base = np.zeros_like(action) if self._last is None else self._last
            if self._begins and self._measured is not None:  # else it would drop what it holds
                base = self._measured(observation, base)
            result, filters = self._hold(observation, base), self._filters
            verdicts = [Verdict(changed=True, stop=True, reasons=(ACTION_NOT_FINITE,), message=message)]
        else:
            result, verdicts = action, []
        for safety_filter in filters:
            result, verdict = self._filtered(safety_filter, observation, result, now_ns)
            if verdict is not PASSED:
                verdicts.append(verdict)
        self._last, self._begins = result, False
        if not verdicts:
            self._violations = 0
            return action, PASSED
        return result, self._combined(verdicts)

    def _filtered(
        self, safety_filter: SafetyFilter, observation: Observation, action: Action, now_ns: int
    ) -> tuple[Action, Verdict]:
        """Return what a filter makes of ``action``; never more than an action, nor a change that it does not own up.

        A filter that raises, or returns anything else than an action and a verdict, has the robot hold still and stop.
        """
        before = action.tobytes()
        result: object = None
        verdict: object = None
        try:
            result, verdict = safety_filter(observation, action, now_ns)
            if result is action and verdict is PASSED and action.tobytes() == before:
                return action, PASSED  # what nearly every filter does nearly always
            if action.tobytes() != before and isinstance(result, np.ndarray):
                result = (
                    result.copy()
                )  # it wrote to what was proposed: that is put back below, this is what it returned
            fault = _fault(result, verdict, action)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a filter of the user's own may raise asyncio.CancelledError, too
            fault = f"failed: {type(error).__name__}: {error}"
        if action.tobytes() != before:
            action[:] = np.frombuffer(before, action.dtype)
        if fault is not None:
            reasons: tuple[str, ...] = ()
            if isinstance(verdict, Verdict) and isinstance(verdict.reasons, tuple):
                reasons = tuple(map(str, verdict.reasons))
            held = self._hold(observation, action)
            message = plain_text(f"the filter {type(safety_filter).__name__} {fault}")
            return held, Verdict(changed=True, stop=True, reasons=(*reasons, FILTER_FAULT), message=message)
        assert isinstance(result, np.ndarray) and isinstance(verdict, Verdict)
        if not verdict.changed and result is not action and not np.array_equal(result, action):
            verdict = replace(verdict, changed=True, reasons=verdict.reasons or (type(safety_filter).__name__,))
        return result, verdict

    def _combined(self, verdicts: list[Verdict]) -> Verdict:
        changed = stops = False
        for verdict in verdicts:
            changed, stops = changed or verdict.changed, stops or verdict.stop
        self._violations = self._violations + 1 if changed else 0
        if self._budget and self._violations >= self._budget:
            message = f"{self._violations} actions in a row had to be changed"
            verdicts, stops = [*verdicts, Verdict(stop=True, reasons=("violation_budget",), message=message)], True
        if len(verdicts) == 1:
            return verdicts[0]
        reasons = tuple([reason for verdict in verdicts for reason in verdict.reasons])
        return _verdict(changed, stops, reasons, "; ".join([each.message for each in verdicts if each.message]))


_verdict = lru_cache(maxsize=256)(Verdict)  # most are the same again and again


def _fault(result: object, verdict: object, action: Action) -> str | None:
    """Return what is wrong with what a filter returned for ``action``; None: nothing is."""
    if not isinstance(verdict, Verdict):
        return f"returned no verdict beside its action: {type(verdict).__name__}"
    if not isinstance(verdict.reasons, tuple) or not all(isinstance(name, str) for name in verdict.reasons):
        return f"returned a verdict whose reasons are no tuple of names: {verdict.reasons!r}"
    if result is action:
        return None
    if not isinstance(result, np.ndarray) or result.shape != action.shape or result.dtype != action.dtype:
        return f"returned no action in [-1, 1]: {result}"
    for value in result.tolist():
        if not -1.0 <= value <= 1.0:  # NaN is not, either
            return f"returned no action in [-1, 1]: {result}"
    return None
