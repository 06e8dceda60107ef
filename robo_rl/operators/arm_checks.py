"""Checks of an arm in motion: at rest, axis by axis, and all axes at once."""

import math
from collections.abc import Callable, Iterator

import numpy as np

from ..core import counted, generator
from .checks import FAIL, PASS, SKIP, WARN, BringUpConfig, Check
from .jogging import Jog, Jogger, pose_motion

REST_SECONDS = 2.0
GRIPPER_SECONDS = 4.0
"""Longest duration of a motion of the gripper [s]."""
TURN = 0.1
"""Rotation of the end effector that counts as wrong while it is commanded to translate [rad]."""
SHIFT = 0.03
"""Translation that counts as wrong while it is commanded to rotate [m]."""


class ArmChecks:
    """Checks of an arm. Each of them is a generator of results, which moves the arm in an episode that has begun.

    They raise :class:`~robo_rl.core.SafetyStop` if the robot is stopped, also because it moves too far.

    Args:
        jogger: the arm.
        settings: options.
        announce: shows a text to the operator before the arm moves.
    """

    def __init__(self, jogger: Jogger, settings: BringUpConfig, announce: Callable[[str], object]) -> None:
        self._jogger, self._settings, self._announce = jogger, settings, announce

    def rest(self) -> Iterator[Check]:
        """Hold still for some seconds: drift, and the load at the wrist."""
        jogger, start = self._jogger, self._jogger.state()
        moved, loads = [np.zeros(len(start.joints))], []
        still = np.zeros(jogger.actions.moves.stop)
        self._announce(f"The arm holds still for {REST_SECONDS:g} s")
        for _ in range(max(round(REST_SECONDS * jogger.rate), 2)):
            jogger.step(jogger.towards(still, start), start)
            moved.append(jogger.joint_motion(start, jogger.state()))
            loads.append(jogger.reader.contact(jogger.observation))
        drift = float(np.abs(moved[-1]).max())
        noise = float(np.std(np.diff(moved, axis=0), axis=0).max() / math.sqrt(2))
        outcome = PASS if drift < 0.03 else WARN if drift < 0.1 else FAIL
        text = f"drift {drift:.4f} rad in {REST_SECONDS:g} s, noise of joint positions {noise:.5f} rad"
        text += "" if outcome == PASS else ". Does its controller hold it against gravity?"
        yield Check("rest", outcome, text, {"drift": drift, "noise": noise})
        yield self._wrist(*np.mean(loads, axis=0).tolist())

    def _wrist(self, force: float, torque: float) -> Check:
        if not force and not torque:
            return Check("wrist", SKIP, "no force or torque is measured")
        robot, text = self._jogger.robot, f"mean load at the wrist {force:.1f} N, {torque:.2f} Nm"
        figures = {"force": force, "torque": torque}
        if force > 0.1 * robot.force or torque > 0.1 * robot.torque:
            return Check("wrist", WARN, f"{text}. Tare the sensor in each reset: robot.tare.seconds=0.5", figures)
        return Check("wrist", PASS, text, figures)

    def axes(self) -> Iterator[Check]:
        """Move each axis out and back, slowly, and the gripper."""
        jogger = self._jogger
        for number, name in enumerate(jogger.spec.action.names[jogger.actions.moves]):
            yield self._axis(number, name)
        if jogger.actions.has_gripper:
            yield self._gripper()

    def _axis(self, number: int, name: str) -> Check:
        jogger, jog = self._jogger, self._jogger.jog(number)
        self._announce(f"{name}: {jogger.describe(jog)}, and back")
        start = jogger.state()
        jogger.reasons.clear()
        jogger.move(jog, start)
        end = jogger.state()
        jogger.move(jog, start, back=True)
        returned = jogger.state()
        expected, strays = jog.motion, False
        if jogger.actions.moves_joints:
            measured, left = jogger.joint_motion(start, end), jogger.joint_motion(start, returned)
        else:
            shifts = bool(expected[:3].any())
            part, other = (slice(0, 3), slice(3, 6)) if shifts else (slice(3, 6), slice(0, 3))
            motion = pose_motion(start, end)
            strays = float(np.linalg.norm(motion[other])) > (TURN if shifts else SHIFT)
            expected, measured, left = expected[part], motion[part], pose_motion(start, returned)[part]
        gain = float(measured.dot(expected) / expected.dot(expected))
        others = float(np.abs(measured - gain * expected).max())
        figures = {"commanded": jog.size, "measured": gain * jog.size, "others": others}
        figures["left"] = float(np.linalg.norm(left))
        return self._judge(name, jog, figures, strays or others > 0.5 * abs(jog.size))

    def _judge(self, name: str, jog: Jog, figures: dict[str, float], strays: bool) -> Check:
        """Return the check of an axis.

        Args:
            name: name of the axis.
            jog: its motion.
            figures: commanded and measured motion, motion of others, and distance that was left after the return.
            strays: whether others moved too far.
        """
        gain, reasons = figures["measured"] / jog.size, ", ".join(sorted(self._jogger.reasons))
        text = f"{figures['measured']:.4f} of {jog.size:g} {jog.unit}"
        text += f", limited by the safety filters {reasons}" if reasons else ""
        result = WARN
        if gain < -0.2:
            result, text = FAIL, f"{text}: it moves the wrong way"
        elif strays:
            result, text = FAIL, f"{text}, but others move, too, by {figures['others']:.4f} {jog.unit} or more"
        elif gain < 0.2 and not reasons:
            result, text = FAIL, f"{text}: it hardly moves"
        elif gain > 1.5:
            text += ": it overshoots"
        elif figures["left"] > 0.8 * abs(jog.size):
            text += f": it does not come back, {figures['left']:.4f} {jog.unit} are left"
        elif gain < 0.4:
            text += "" if reasons else ": robo-rl identify measures friction, gains and delay"
        else:
            result = PASS
        return Check(f"axis {name}", result, text, figures)

    def _gripper(self) -> Check:
        jogger = self._jogger
        if not self._settings.gripper:
            return Check("gripper", SKIP, "it does not move (gripper=false)")
        if jogger.reader.opening(jogger.observation) is None:
            return Check("gripper", SKIP, "its opening is not observed")
        self._announce("gripper: it closes and opens")
        closed, opened = (self._grip(command) for command in (1.0, -1.0))
        figures, text = {"closed": closed, "open": opened}, f"opening {closed:.2f} closed, {opened:.2f} open"
        if opened - closed > 0.3:
            return Check("gripper", PASS, text, figures)
        direction = "the wrong way" if opened < closed - 0.1 else "hardly"
        return Check("gripper", FAIL, f"{text}: it moves {direction}", figures)

    def _grip(self, command: float) -> float:
        """Send a command to the gripper until its opening is constant for half a second; return the opening."""
        jogger, openings = self._jogger, [math.inf]
        start, window = jogger.state(), max(round(0.5 * jogger.rate), 2)
        for _ in range(round(GRIPPER_SECONDS * jogger.rate)):
            action = jogger.towards(np.zeros(jogger.actions.moves.stop), start)
            action[-1] = command
            jogger.step(action, start)
            openings.append(jogger.reader.opening(jogger.observation) or 0.0)
            if np.ptp(openings[-window:]) < 0.005:
                break
        return openings[-1]

    def exercise(self) -> Iterator[Check]:
        """Move all axes at once, slowly and at random, and come to rest."""
        jogger, seconds = self._jogger, self._settings.exercise
        if not seconds:
            return
        self._announce(f"All axes move slowly around this posture for {seconds:g} s")
        rng, count = generator(self._settings.seed), jogger.actions.moves.stop
        frequencies, phases = rng.uniform(0.1, 0.3, count), rng.uniform(0, 2 * math.pi, count)
        sizes = np.array([jogger.size(number) for number in range(count)])
        start, steps, ramp = jogger.state(), max(round(seconds * jogger.rate), 2), min(2.0, seconds / 4)
        jogger.reasons.clear()
        furthest = 0.0
        for number in range(1, steps + 1):
            time = number / jogger.rate
            envelope = min(time / ramp, (steps - number) / jogger.rate / ramp, 1.0)
            offset = envelope * sizes * np.sin(2 * math.pi * frequencies * time + phases)
            jogger.step(jogger.towards(offset, start), start)
            furthest = max(furthest, float(np.abs(jogger.joint_motion(start, jogger.state())).max()))
        shares = {reason: times / steps for reason, times in jogger.reasons.most_common()}
        changed = ", ".join(f"{reason} {100 * share:.0f} %" for reason, share in shares.items())
        outcome = WARN if any(share > 0.1 for share in shares.values()) else PASS
        text = f"{counted(steps, 'step')}, joints up to {furthest:.2f} from the start, changed by safety filters: "
        figures = {"furthest": furthest} | shares
        if furthest < 0.1 * float(sizes.min()):
            outcome = FAIL
        yield Check("exercise", outcome, f"{text}{changed or 'none'}", figures)
