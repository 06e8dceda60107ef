"""The last filter of a chain, which allows a motion only if the arm can stop after it within all limits."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import PASSED, Observation, Verdict

from .actions import ActionMap
from .motion import Action, ArmReader
from .stopping import CLEAR, END_EFFECTOR, JOINTS, NearestControls, Plan, StopPlanner, halvings

Array = NDArray[np.float64]

_LIMITS = {"joint_limits": "a limit of the joints", "end_effector": "a limit of the end effector"}
BARRIER_STOP = "barrier_stop"
"""Reason of the verdict if the arm is too near to something, and no stop within its limits is left."""

_VERDICTS = {
    CLEAR: PASSED,
    JOINTS: Verdict(changed=True, reasons=("joint_limits",)),
    END_EFFECTOR: Verdict(changed=True, reasons=("end_effector",)),
    JOINTS | END_EFFECTOR: Verdict(changed=True, reasons=("joint_limits", "end_effector")),
}


class JointLimits:
    """Keeps the limits of joints and end effector, in the next period and in the stop after it.

    The invariant: after every action that this filter returned, the stop that its planner simulates breaks no limit. An
    action that would violate the invariant is blended with the stop, with as large a share of the action as leaves a
    stop. With no share left, the result is the stop itself, whose remaining part was checked one period before. Joint
    actions are first limited joint by joint. The next motion is compared with what this filter returns, so it comes
    last.

    If a robot does not follow exactly, the commanded motion determines velocity, acceleration and jerk, and the
    measured posture everything else. A joint that has slipped out of its range goes no further out in any period, and
    returns within the other limits. A robot that was pushed may have no stop within its limits. It then executes the
    stop all the same, unless it is too near to something, or would be after the next period: it holds still, and the
    episode ends.

    Args:
        planner: planner of stops.
        actions: map between actions and motion.
        reader: reads the arm's part of observations.
        keeps_clear: whether the arm may go from joint positions (n,) through postures (m, n), on which joints travel
            (n,), without coming too near to itself or to a keep-out volume; None if that is not checked.

    Attributes:
        state: state of the arm after the last action, as in :class:`~.stopping.StopPlanner`, always the same array.
    """

    def __init__(
        self,
        planner: StopPlanner,
        actions: ActionMap,
        reader: ArmReader,
        keeps_clear: Callable[[Array, Array, Array], bool] | None = None,
    ) -> None:
        self._planner = planner
        self._actions = actions
        self._reader = reader
        self._keeps_clear = keeps_clear
        self._joints = actions.joint_count
        self._controls = actions.moves.stop
        self.state = np.zeros(3 * self._joints + 2 * self._controls)
        self._pose = np.zeros(12)

    def reset(self) -> None:
        """Assume that the arm is at rest."""
        self.state.fill(0.0)
        self._pose.fill(0.0)

    def __call__(self, observation: Observation, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return ``action``, changed to keep the limits."""
        joints, measured = self._reader.joint_positions(observation), self._measured(observation)
        wanted = self._actions.controls(observation, action)
        if not math.isfinite(sum(joints.tolist()) + sum(measured.tolist()) + sum(wanted.tolist())):
            # NaN is not a valid action: the chain holds still and stops.
            return np.full_like(action, np.nan), _VERDICTS[JOINTS]
        self.state[: self._joints] = joints
        return self.conclude(observation, action, self._planner.nearest(self.state, measured, wanted))

    def conclude(self, observation: Observation, action: Action, nearest: NearestControls) -> tuple[Action, Verdict]:
        """Return ``action`` with the ``nearest`` controls, or with others if the arm would come too near to something.

        Args:
            observation: observation that the action is based on.
            action: action, as the filters before this one left it.
            nearest: result of the planner for this action.
        """
        joints = self._reader.joint_positions(observation)
        controls, plan, verdict = nearest.controls, nearest.plan, _VERDICTS[nearest.reasons]
        if self._keeps_clear is not None and not self._stays_clear(joints, plan):
            if not len(plan.path):  # even the stop breaks a limit at once, so nothing is known of where it leads
                self.state.fill(0.0)
                return self._actions.hold(observation, action), _stopped(verdict)
            self.state[: self._joints] = joints  # which a search in C++ does not write to it
            controls, plan = self._clear(joints, self._measured(observation), nearest)
            verdict = Verdict(changed=True, reasons=(*verdict.reasons, "barrier"))
        # Joint velocities are stored as they were before rounding, so that rounding errors do not add up.
        self.state[:] = plan.state
        if verdict is PASSED:
            return action, PASSED
        return self._actions.with_controls(observation, action, controls), verdict

    def _measured(self, observation: Observation) -> Array:
        """Return the end effector's position and, if actions are in its own frame, its rotation (12,)."""
        if self._actions.own_frame:
            self._pose[3:] = self._reader.rotation(observation).ravel()
        self._pose[0], self._pose[1], self._pose[2] = self._reader.coordinates(observation)
        return self._pose

    def _stays_clear(self, joints: Array, plan: Plan) -> bool:
        """Return whether the arm keeps clear along a plan; of one that breaks a limit at once, in the next period."""
        assert self._keeps_clear is not None
        if not self._keeps_clear(joints, plan.path, plan.travel):
            return False
        following = plan.state[: self._joints]
        return len(plan.path) > 0 or self._keeps_clear(joints, following[None], np.abs(following - joints))

    def _clear(self, joints: Array, measured: Array, nearest: NearestControls) -> tuple[Array, Plan]:
        """Return the nearest controls (k,) on the way from the stop whose own stop keeps clear, and their plan."""
        assert self._keeps_clear is not None
        stop, far = self._rounded(nearest.stop), nearest.controls
        controls, plan = stop, self._planner.plan(self.state, measured, stop)
        share, half = 0.0, 0.5
        for _ in range(halvings(float((np.abs(far - stop) / self._planner.fine).max()))):
            option = self._rounded(nearest.stop + (share + half) * (far - nearest.stop))
            candidate = self._planner.plan(self.state, measured, option)
            if candidate.outcome == CLEAR and self._keeps_clear(joints, candidate.path, candidate.travel):
                controls, plan, share = option, candidate, share + half
            half /= 2
        return controls, plan

    def _rounded(self, controls: Array) -> Array:
        """Return ``controls`` as they will be sent. The limits of joint velocities leave room for rounding."""
        if self._actions.moves_joints:
            return controls
        rounded: Array = controls.astype(np.float32).astype(np.float64)
        return rounded


def _stopped(verdict: Verdict) -> Verdict:
    """Return the verdict on an arm that has no stop within its limits, whose reasons are those of ``verdict``."""
    broken = " and ".join(_LIMITS[name] for name in verdict.reasons)
    message = f"the arm is too near to itself or a keep-out volume, and a stop would break {broken} at once"
    return Verdict(changed=True, stop=True, reasons=(*verdict.reasons, BARRIER_STOP), message=message)
