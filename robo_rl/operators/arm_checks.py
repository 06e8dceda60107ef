"""Checks of an arm in motion: at rest, axis by axis, and all axes at once."""

import math
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from ..core import counted, generator
from .checks import FAIL, PASS, SKIP, WARN, BringUpConfig, Check
from .jogging import Jogger

REST_SECONDS = 2.0
GRIPPER_SECONDS = 1.5


class ArmChecks:
    """Checks of an arm. Each of them is a generator of results, which moves the arm in an episode that has begun.

    Args:
        jogger: the arm.
        settings: options.
        announce: shows a text to the person at the robot before it moves.
    """

    def __init__(self, jogger: Jogger, settings: BringUpConfig, announce: Callable[[str], object]) -> None:
        self._jogger, self._settings, self._announce = jogger, settings, announce

    def rest(self) -> Iterator[Check]:
        """Hold still for some seconds: drift, and the load at the wrist."""
        jogger, joints, loads = self._jogger, [self._jogger.state().joints], []
        self._announce(f"The arm holds still for {REST_SECONDS:g} s")
        for _ in range(round(REST_SECONDS * jogger.rate)):
            jogger.step(jogger.actions.hold(jogger.observation, jogger.still()))
            joints.append(jogger.state().joints)
            loads.append(jogger.reader.contact(jogger.observation))
        drift = float(np.abs(joints[-1] - joints[0]).max())
        noise = float(np.std(np.diff(joints, axis=0), axis=0).max() / math.sqrt(2))
        outcome = PASS if drift < 0.02 else WARN if drift < 0.1 else FAIL
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
        actions, spec = self._jogger.actions, self._jogger.spec
        for number, name in enumerate(spec.action.names[actions.moves]):
            yield self._axis(number, name)
        if actions.has_gripper:
            yield self._gripper()

    def _axis(self, number: int, name: str) -> Check:
        jogger = self._jogger
        motion, size, unit = jogger.motion(number)
        start = jogger.state()
        self._announce(f"{name}: {jogger.describe(motion, start)}, and back")
        jogger.move(number, size, start)
        end = jogger.state()
        jogger.move(number, -size, start)
        measured = end.joints - start.joints
        if not jogger.actions.moves_joints:
            part = slice(0, 3) if motion[:3].any() else slice(3, 6)
            motion, measured = motion[part], start.motion_to(end)[part]
        gain = float(measured.dot(motion) / motion.dot(motion))
        others = float(np.abs(measured - gain * motion).max())
        figures = {"commanded": size, "measured": gain * size, "others": others}
        return self._judged(f"axis {name}", gain, figures, unit)

    def _judged(self, name: str, gain: float, figures: dict[str, float], unit: str) -> Check:
        """Return the check of an axis that moved by ``gain`` times what was commanded."""
        text = f"{figures['measured']:.4f} of {figures['commanded']:g} {unit}"
        if gain < -0.2:
            return Check(name, FAIL, f"{text}: it moves the wrong way", figures)
        if figures["others"] > 0.5 * figures["commanded"]:
            return Check(name, FAIL, f"{text}, but others move by {figures['others']:.4f} {unit}", figures)
        if gain < 0.2:
            return Check(name, FAIL, f"{text}: it hardly moves", figures)
        if 0.4 < gain < 1.5:
            return Check(name, PASS, text, figures)
        advice = "robo-rl identify measures friction, gains and delay" if gain < 1 else "it overshoots"
        return Check(name, WARN, f"{text}: {advice}", figures)

    def _gripper(self) -> Check:
        jogger = self._jogger
        if jogger.reader.opening(jogger.observation) is None:
            return Check("gripper", SKIP, "its opening is not observed")
        self._announce("gripper: it closes and opens")
        openings = []
        for command in (1.0, -1.0):
            for _ in range(round(GRIPPER_SECONDS * jogger.rate)):
                action = jogger.still()
                action[-1] = command
                jogger.step(jogger.actions.hold(jogger.observation, action))
            openings.append(jogger.reader.opening(jogger.observation) or 0.0)
        closed, opened = openings
        figures, text = {"closed": closed, "open": opened}, f"opening {closed:.2f} closed, {opened:.2f} open"
        if opened - closed > 0.3:
            return Check("gripper", PASS, text, figures)
        direction = "the wrong way" if opened < closed - 0.1 else "hardly"
        return Check("gripper", FAIL, f"{text}: it moves {direction}", figures)

    def exercise(self) -> Iterator[Check]:
        """Move all axes at once, slowly and at random."""
        jogger, seconds = self._jogger, self._settings.exercise
        if not seconds:
            return
        self._announce(f"All axes move slowly around home for {seconds:g} s")
        jogger.begin()
        rng, count = generator(self._settings.seed), jogger.actions.moves.stop
        frequencies, phases = rng.uniform(0.1, 0.3, count), rng.uniform(0, 2 * math.pi, count)
        sizes = np.array([jogger.motion(number)[1] for number in range(count)])
        reasons: Counter[str] = Counter()
        start, offsets, steps = jogger.state(), np.zeros(count), round(seconds * jogger.rate)
        for number in range(steps):
            time = number / jogger.rate
            following = min(time, 1.0) * sizes * np.sin(2 * math.pi * frequencies * time + phases)
            step = jogger.step(jogger.action(following, following - offsets, start))
            offsets = following
            if step.verdict is not None and step.verdict.changed:
                reasons.update(set(step.verdict.reasons))
            if step.ended:
                jogger.begin()
                start, offsets = jogger.state(), np.zeros(count)
        shares = {reason: times / steps for reason, times in reasons.most_common()}
        changed = ", ".join(f"{reason} {100 * share:.0f} %" for reason, share in shares.items())
        outcome = WARN if any(share > 0.1 for share in shares.values()) else PASS
        text = f"{counted(steps, 'step')}, changed by safety filters: {changed or 'none'}"
        yield Check("exercise", outcome, text, shares)
