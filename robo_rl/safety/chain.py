"""A chain of filters, and a budget of violations."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from robo_rl.core import PASSED, Observation, SafetyFilter, SafetyStop, Verdict, plain_text

from .motion import Action
from .own_filter import OwnFilter

ACTION_NOT_FINITE = "action_not_finite"
"""Reason of the verdict on an action with NaN or infinity: its source must not be asked for actions again."""
FILTER_FAULT = "filter_fault"
"""Reason of the verdict if a filter failed or returned no valid action."""


class FusedFilters(SafetyFilter, Protocol):
    """The first filters of a chain, as many as can be computed at once for an action.

    Attributes:
        applied: number of these filters in the last call; 0 if it failed.
    """

    applied: int


class FilterChain:
    """A chain of filters. Each filter receives the action as the one before it left it.

    An action that is not finite never reaches the filters: the robot holds still instead, and the episode stops. The
    same happens if a filter returns an invalid action; the filters after it receive the action that holds still. The
    gripper keeps its last command. In the first step of an episode, which has no last command, it is commanded to its
    measured opening, if that is observed.

    Args:
        filters: filters, in the order of application.
        hold: returns the action that holds still, with the gripper as in the given action.
        budget: number of changed actions in a row that ends the episode; 0 for no limit.
        learned: filters that guarantee nothing, so they come before those that do. They receive proposed actions only,
            never an action that holds still in place of one.
        measured: returns the given action with the gripper at its measured opening; None if the opening is not
            observed.
        together: takes the place of as many of the first ``filters`` as it can; None to call each of them.
    """

    def __init__(
        self,
        filters: Sequence[SafetyFilter],
        hold: Callable[[Observation, Action], Action],
        budget: int,
        learned: Sequence[SafetyFilter] = (),
        measured: Callable[[Observation, Action], Action] | None = None,
        together: FusedFilters | None = None,
    ) -> None:
        self._filters = tuple(filters)
        self._learned = tuple(learned)
        self._together = together
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
        for safety_filter in (*self._learned, *self._filters):
            try:
                safety_filter.reset()
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                message = plain_text(
                    f"the filter {_name(safety_filter)} failed in reset: {type(error).__name__}: {error}"
                )
                raise SafetyStop(FILTER_FAULT, message) from error

    def hold(self, observation: Observation, action: Action) -> Action:
        """Return the action that holds still, with the gripper as in ``action``.

        The position of joints that are not measured cannot be held by a command of positions: the last action is
        repeated, whose target is where they are.

        Raises:
            SafetyStop: if there is no last action either.
        """
        held = self._hold(observation, action)
        if np.isfinite(held).all():
            return held
        if self._last is None or self._begins:
            raise SafetyStop(FILTER_FAULT, "the observation says of no joint where it is, so that nothing can hold it")
        return self._last

    def __call__(
        self, observation: Observation, action: Action, now_ns: int, held: bool = False
    ) -> tuple[Action, Verdict]:
        """Return the action after all filters, and their combined verdict.

        ``held``: whether ``action`` holds still in place of a proposed action, so that the learned filters are skipped.
        """
        learned = () if held else self._learned
        values = action.tolist()
        if not math.isfinite(sum(values)):  # a sum with NaN or infinity is not finite
            index = next(number for number, value in enumerate(values) if not math.isfinite(value))
            message = f"the proposed action is not finite: {action[index]} at index [{index}]"
            base = np.zeros_like(action) if self._last is None else self._last
            if self._begins and self._measured is not None:  # otherwise the gripper would drop what it holds
                base = self._measured(observation, base)
            result, learned = self.hold(observation, base), ()
            verdicts = [Verdict(changed=True, stop=True, reasons=(ACTION_NOT_FINITE,), message=message)]
        else:
            result, verdicts = action, []
        for safety_filter in learned:
            result, verdict = self._filtered(safety_filter, observation, result, now_ns)
            if verdict is not PASSED:
                verdicts.append(verdict)
        filters = self._filters
        if self._together is not None:
            result, verdict = self._filtered(self._together, observation, result, now_ns)
            if verdict is not PASSED:
                verdicts.append(verdict)
            filters = filters[self._together.applied :]
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
        """Return the action and the verdict of one filter, checked: the action is valid, and every change is declared.

        If a filter raises, or returns anything other than an action and a verdict, the robot holds still and stops.
        """
        before = action.tobytes()
        result: object = None
        verdict: object = None
        try:
            result, verdict = safety_filter(observation, action, now_ns)
            if result is action and verdict is PASSED and action.tobytes() == before:
                return action, PASSED  # the usual result of nearly every filter
            if isinstance(result, np.ndarray) and action.tobytes() != before:
                # The filter wrote to its input, which is restored below: this copy is its result.
                result = result.copy()
            fault = _fault(result, verdict, action)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a user's filter may even raise asyncio.CancelledError
            fault = f"failed: {type(error).__name__}: {error}"
        if action.tobytes() != before:
            action[:] = np.frombuffer(before, action.dtype)
        if fault is not None:
            reasons: tuple[str, ...] = ()
            if isinstance(verdict, Verdict) and isinstance(verdict.reasons, tuple):
                reasons = tuple(map(str, verdict.reasons))
            held = self.hold(observation, action)
            message = plain_text(f"the filter {_name(safety_filter)} {fault}")
            return held, Verdict(changed=True, stop=True, reasons=(*reasons, FILTER_FAULT), message=message)
        assert isinstance(result, np.ndarray) and isinstance(verdict, Verdict)
        if not verdict.changed and result is not action and not np.array_equal(result, action):
            verdict = replace(verdict, changed=True, reasons=verdict.reasons or (_name(safety_filter),))
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
        return _verdict(
            changed, stops, reasons, "; ".join([verdict.message for verdict in verdicts if verdict.message])
        )


def _name(safety_filter: SafetyFilter) -> str:
    return type(safety_filter.inner if isinstance(safety_filter, OwnFilter) else safety_filter).__name__


_FIELDS = {"changed": bool | np.bool_, "stop": bool | np.bool_, "message": str}
_verdict = lru_cache(maxsize=256)(Verdict)  # most verdicts repeat


def _fault(result: object, verdict: object, action: Action) -> str | None:
    """Return what is wrong with the result of a filter for ``action``; None if nothing is."""
    if not isinstance(verdict, Verdict):
        return f"returned no verdict beside its action: {type(verdict).__name__}"
    if not isinstance(verdict.reasons, tuple) or not all(isinstance(name, str) for name in verdict.reasons):
        return f"returned a verdict whose reasons are no tuple of names: {verdict.reasons!r}"
    for field, kinds in _FIELDS.items():
        value = getattr(verdict, field)
        if not isinstance(value, kinds):
            return f"returned a verdict with {field} of the wrong type: {value!r}"
    if result is action:
        return None
    if not isinstance(result, np.ndarray) or result.shape != action.shape or result.dtype != action.dtype:
        return f"returned no action in [-1, 1]: {result}"
    for value in result.tolist():
        if not -1.0 <= value <= 1.0:  # false for NaN, too
            return f"returned no action in [-1, 1]: {result}"
    return None
