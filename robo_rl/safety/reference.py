"""The stop planner in Python, for machines without a compiler and as a reference for tests of the one in C++."""

import math

import numpy as np
from numpy.typing import NDArray

from .stopping import (
    BRAKING_SHARE,
    CLEAR,
    END_EFFECTOR,
    JOINTS,
    LENGTH_SLACK,
    REST,
    SLACK,
    NearestControls,
    Plan,
    StopProblem,
    halvings,
    slower,
    strongest_deceleration,
)

Array = NDArray[np.float64]


class PythonStopPlanner:
    """The :class:`~.stopping.StopPlanner` in Python.

    Args:
        problem: arm and limits. Its ``stride`` is treated as 1.
    """

    def __init__(self, problem: StopProblem) -> None:
        self._problem = problem
        self.fine = problem.fine
        self._jolt = problem.jerk * problem.period
        self._braking = problem.braking_acceleration, problem.braking_jerk
        self._steps = problem.steps

    def plan(self, state: Array, measured: Array, controls: Array) -> Plan:
        n, problem = self._problem.joints, self._problem
        joints = state[:n]
        if problem.control is None:
            velocity, after = controls, controls
        else:
            after, velocity = self._cut_off(joints, measured, controls)
        outcome, postures = self._simulate(state, after, velocity)
        path = np.array(postures).reshape(-1, n)
        travel = np.abs(np.diff(path, axis=0, prepend=joints[None])).sum(axis=0)
        acceleration = (velocity - state[n : 2 * n]) / problem.period
        rates = (after - state[3 * n : 3 * n + problem.controls]) / problem.period
        next_state = np.concatenate([joints + velocity * problem.period, velocity, acceleration, after, rates])
        return Plan(outcome, path, travel, next_state)

    def nearest(self, state: Array, measured: Array, wanted: Array) -> NearestControls:
        stop = self._slower(state, self._map(state[: self._problem.joints], measured)[2])
        plan = self.plan(state, measured, wanted)
        reasons = plan.outcome
        if reasons == CLEAR:
            return NearestControls(CLEAR, wanted, stop, plan)
        far = self._limit(state, measured, stop, wanted)
        controls = self._rounded(far)
        plan = self.plan(state, measured, controls)
        reasons |= plan.outcome
        if plan.outcome != CLEAR:
            share, half = 0.0, 0.5
            for _ in range(halvings(float((np.abs(far - stop) / self.fine).max()))):
                if self.plan(state, measured, self._rounded(stop + (share + half) * (far - stop))).outcome == CLEAR:
                    share += half
                half /= 2
            controls = self._rounded(stop + share * (far - stop))
            plan = self.plan(state, measured, controls)
        return NearestControls(reasons, controls, stop, plan)

    def _rounded(self, controls: Array) -> Array:
        """Return ``controls`` as they will be sent. The limits of joint velocities leave room for rounding."""
        if self._problem.control is None:
            return controls
        rounded: Array = controls.astype(np.float32).astype(np.float64)
        return rounded

    def _simulate(self, state: Array, after: Array, wanted: Array) -> tuple[int, list[Array]]:
        """Return the outcome and the postures of a period with controls ``after`` (k,), velocities ``wanted`` (n,)."""
        problem, control, period = self._problem, self._problem.control, self._problem.period
        n, k = problem.joints, problem.controls
        joints, velocity, acceleration = (state[i * n : (i + 1) * n].copy() for i in range(3))
        before = state[3 * n : 3 * n + k]
        position, rotation, _ = self._map(joints)
        low, high = self._box_around(position)
        most_lean = max(problem.cone_angle + SLACK, self._lean(rotation))
        path: list[Array] = []
        for _ in range(self._steps):
            if control is not None and not (np.abs(after) <= 1 + SLACK).all():
                return JOINTS, path
            if not self._within(joints, velocity, acceleration, wanted):
                return JOINTS, path
            rates, before = (after - before) / period, after
            acceleration, velocity = (wanted - velocity) / period, wanted
            joints = joints + velocity * period
            reached, turned, matrix = self._map(joints)
            if problem.looks and not self._may_go((position, rotation), (reached, turned), low, high, most_lean):
                return END_EFFECTOR, path
            position, rotation = reached, turned
            path.append(joints)
            if (np.abs(velocity) <= REST).all() and (np.abs(acceleration) <= self._jolt * (1 + SLACK)).all():
                return CLEAR, path
            after = self._slower(np.concatenate([joints, velocity, acceleration, before, rates]), matrix)
            wanted = after if control is None else matrix @ after
            if control is not None and self._is_cut_off(position, rotation, after):
                return END_EFFECTOR, path
        return JOINTS, path

    def _limit(self, state: Array, measured: Array, stop: Array, wanted: Array) -> Array:
        """Return controls (k,) that are nearer to ``stop`` than ``wanted``, as far as single joints require.

        If controls are joint velocities, each is limited separately, so that its joint can stop after it. Otherwise the
        result is the point on the way from ``stop`` to ``wanted`` up to which the next period is within the limits of
        all joints.
        """
        n, problem = self._problem.joints, self._problem
        if problem.control is not None:
            velocity, acceleration = state[n : 2 * n], state[2 * n : 3 * n]
            matrix = self._map(state[:n], measured)[2]
            low = np.maximum(acceleration - self._jolt, -problem.acceleration)
            high = np.minimum(acceleration + self._jolt, problem.acceleration)
            start, slope = matrix @ stop, matrix @ (wanted - stop)
            low = np.maximum(velocity + low * problem.period, -problem.velocity)
            high = np.minimum(velocity + high * problem.period, problem.velocity)
            room = np.where(slope > 0, high - start, start - low) / np.maximum(np.abs(slope), 1e-12)
            share = min(max(float(room.min()), 0.0), 1.0)
            limited: Array = stop + share * (wanted - stop)
            return limited
        rows = state[: 3 * n].reshape(3, n).T.tolist()
        return np.array(
            [self._limit_joint(i, place, speed, change, wanted[i]) for i, (place, speed, change) in enumerate(rows)]
        )

    def _limit_joint(self, i: int, place: float, velocity: float, acceleration: float, wanted: float) -> float:
        problem, period, jolt = self._problem, self._problem.period, float(self._jolt[i])
        limit, jerk = (float(limits[i]) for limits in self._braking)
        top_speed = float(problem.velocity[i])
        upper, lower = float(problem.upper[i]) + LENGTH_SLACK, float(problem.lower[i]) - LENGTH_SLACK

        def stops(speed: float) -> bool:
            position, before = place, velocity
            for _ in range(self._steps):
                change = (speed - before) / period
                reached = position + speed * period
                too_far = reached > max(upper, position) or reached < min(lower, position)
                if too_far or abs(speed) > top_speed * (1 + SLACK):
                    return False
                position = reached
                if abs(speed) <= REST and abs(change) <= jolt * (1 + SLACK):
                    return True
                before, speed = speed, slower(speed, change, limit, jerk, period)
            return False

        low = min(max(acceleration - jerk * period, -limit), limit)
        high = min(max(acceleration + jerk * period, -limit), limit)
        fastest = min(max(wanted, -top_speed), top_speed)
        fastest = min(max(fastest, velocity + low * period), velocity + high * period)
        if stops(fastest):
            return fastest
        slowest, share, half = slower(velocity, acceleration, limit, jerk, period), 0.0, 0.5
        for _ in range(halvings(abs(fastest - slowest) / self.fine[i])):
            if stops(slowest + (share + half) * (fastest - slowest)):
                share += half
            half /= 2
        return slowest + share * (fastest - slowest)

    def _slower(self, state: Array, matrix: Array) -> Array:
        """Return the next controls of an arm that stops, if joint velocities are ``matrix`` (n, k) @ controls."""
        problem, period, n, k = self._problem, self._problem.period, self._problem.joints, self._problem.controls
        velocity, acceleration = state[n : 2 * n], state[2 * n : 3 * n]
        controls, rates = state[3 * n : 3 * n + k], state[3 * n + k :]
        limit, jerk = self._braking
        if problem.control is None:
            rows = zip(velocity.tolist(), acceleration.tolist(), limit.tolist(), jerk.tolist(), strict=True)
            return np.array([slower(*row, period) for row in rows])
        # Whole limits: standing still does not depend on the Jacobian, so a change of it does not matter.
        whole, needed = self._jolt * (1 + SLACK), -velocity / period
        at_once = (np.abs(needed) <= np.minimum(problem.acceleration, whole)).all()
        if at_once and (np.abs(needed - acceleration) <= whole).all():
            return np.zeros(k)
        jolt = jerk * period
        speed = np.abs(matrix @ controls) + 1e-12
        eased = strongest_deceleration(1 / BRAKING_SHARE, float((jerk / speed).min()), period)
        strength = BRAKING_SHARE * min(float((limit / speed).min()), eased)
        continued = controls + rates * period
        change = (-strength * controls - rates) * period
        # The share of the change that keeps every joint within its acceleration and jerk; 1 if that is possible.
        low = np.maximum(acceleration - jolt, -limit) * period
        high = np.minimum(acceleration + jolt, limit) * period
        start, slope = matrix @ continued - velocity, matrix @ change
        moves = np.abs(slope) >= 1e-12
        ends = np.sort([(low - start)[moves] / slope[moves], (high - start)[moves] / slope[moves]], axis=0)
        least, most = ends[0].max(initial=-np.inf), ends[1].min(initial=np.inf)
        share = min(max(1.0, least), most) if least <= most else min(max((least + most) / 2, 0.0), 1.0)
        return continued + float(share) * change

    def _map(self, joints: Array, measured: Array | None = None) -> tuple[Array, Array, Array]:
        """Return the end effector's position and rotation, and the matrix (n, k) from controls to joint velocities."""
        position, rotation, jacobian = self._problem.chain.forward(joints)
        if self._problem.control is None:
            return position, rotation, np.eye(len(joints))
        directions = self._directions(rotation if measured is None else measured[3:].reshape(3, 3))
        return position, rotation, self._inverse(jacobian) @ directions / self._problem.period

    def _inverse(self, jacobian: Array) -> Array:
        assert self._problem.control is not None
        gram = jacobian @ jacobian.T + self._problem.control.damping**2 * np.eye(6)
        return np.asarray(np.linalg.solve(gram, jacobian).T, np.float64)

    def _directions(self, rotation: Array) -> Array:
        control = self._problem.control
        assert control is not None
        if not control.local:
            return control.directions
        return np.concatenate([rotation @ control.directions[:3], rotation @ control.directions[3:]])

    def _cut_off(self, joints: Array, measured: Array, controls: Array) -> tuple[Array, Array]:
        """Return the controls that are left at the controller's own box, and the joint velocities (n,) they command."""
        control = self._problem.control
        assert control is not None
        jacobian = self._problem.chain.forward(joints)[2]
        displacement: Array = self._directions(measured[3:].reshape(3, 3)) @ controls
        remaining: Array = controls.copy()
        if control.box is not None:
            for axis in range(3):
                start, size = measured[axis], abs(displacement[axis])
                # From outside the box, the way back is no longer than the action.
                low, high = min(control.box[0][axis], start + size), max(control.box[1][axis], start - size)
                limited = min(max(start + displacement[axis], low), high) - start
                if limited == displacement[axis]:
                    continue
                displacement[axis] = limited
                if not control.local:
                    moved = control.directions[axis] != 0
                    remaining[moved] = limited / control.directions[axis][moved]
        return remaining, self._inverse(jacobian) @ displacement / self._problem.period

    def _is_cut_off(self, position: Array, rotation: Array, controls: Array) -> bool:
        """Return whether the robot's own controller would cut off some of ``controls``, which then cannot be a stop."""
        control = self._problem.control
        if control is None or control.box is None:
            return False
        target = position + self._directions(rotation)[:3] @ controls
        low, high = np.minimum(control.box[0], position), np.maximum(control.box[1], position)
        return bool((target > high).any() or (target < low).any())

    def _within(self, joints: Array, velocity: Array, acceleration: Array, wanted: Array) -> bool:
        problem = self._problem
        change = (wanted - velocity) / problem.period
        reached = joints + wanted * problem.period
        return bool(
            (np.abs(wanted) <= problem.velocity * (1 + SLACK)).all()
            and (np.abs(change) <= problem.acceleration * (1 + SLACK)).all()
            and (np.abs(change - acceleration) <= self._jolt * (1 + SLACK)).all()
            # Outside its range a joint goes no further out in any period, so what is left of a stop remains allowed.
            and (reached <= np.maximum(problem.upper + LENGTH_SLACK, joints)).all()
            and (reached >= np.minimum(problem.lower - LENGTH_SLACK, joints)).all()
        )

    def _box_around(self, position: Array) -> tuple[Array, Array]:
        """Return the corners (3,) of the box that the end effector may not leave, as far as it is in it now."""
        problem = self._problem
        low = np.minimum(problem.low - LENGTH_SLACK, position)
        return low, np.maximum(problem.high + LENGTH_SLACK, position)

    def _lean(self, rotation: Array) -> float:
        return math.acos(min(max(float(rotation[:, 2] @ self._problem.cone_axis), -1.0), 1.0))

    def _may_go(
        self, before: tuple[Array, Array], after: tuple[Array, Array], low: Array, high: Array, most_lean: float
    ) -> bool:
        problem, (position, rotation) = self._problem, after
        shift = problem.linear * problem.period * (1 + SLACK)
        angle = problem.angular * problem.period * (1 + SLACK)
        trace = float(np.vdot(rotation, before[1]))
        return (
            bool((position >= low).all() and (position <= high).all())
            and math.dist(position, before[0]) <= shift
            and (angle >= math.pi or trace >= 1 + 2 * math.cos(angle))
            and (problem.cone_angle >= math.pi or self._lean(rotation) <= most_lean)
        )
