"""Guard, a separate process that watches a robot and stops it, whichever process drives it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..app import press_emergency_stop
from ..core import (
    MAX_RATE,
    MAX_SECONDS,
    MIN_RATE,
    Clock,
    EmergencyStop,
    EnvSpec,
    GuardBeat,
    Observation,
    OwnStop,
    SpecError,
    Verdict,
    option,
)
from ..safety import WatchConfig
from .panel import Steering
from .pulse import SILENT_SECONDS, Pulse

RETRY_SECONDS = 1.0
BEAT_SECONDS = 0.1


@dataclass(frozen=True)
class GuardConfig(WatchConfig):
    """The section ``guard`` of configs/guard.yaml; the options are documented there and in :class:`WatchConfig`."""

    rate: float = option(50.0, low=MIN_RATE, high=MAX_RATE)
    silence: float = option(1.0, above=0, high=MAX_SECONDS)


class Seen(Protocol):
    """Observed state of a robot; see :class:`robo_rl.drivers.robot.watch.Seen`."""

    @property
    def observation(self) -> Observation | None: ...

    @property
    def stamp_ns(self) -> int: ...

    @property
    def silent(self) -> Mapping[str, float]: ...


class Watch(Protocol):
    """Observer of a robot that can stop it, such as :class:`robo_rl.drivers.robot.watch.RobotWatch`."""

    @property
    def spec(self) -> EnvSpec: ...

    def look(self) -> Seen: ...

    def stop(self) -> tuple[bool, str]: ...

    def rearm_facts(self) -> Mapping[str, str] | None:
        """Return the facts for releasing the robot's own stop; None if it has none."""
        ...


class Guard:
    """Repeated check of a robot. If the robot exceeds a limit, the guard presses the emergency stop, which is latched.

    The guard is *inactive* until every source has sent data once, and while a person pauses it. It also passes a stop
    that was pressed elsewhere on to the robot. After a person has re-armed the robot, it watches again.

    Each look is a heartbeat for the process that drives the robot, so the robot is stopped if the guard hangs or is
    killed. If ``robo-rl launch`` started the guard, the two monitor each other, and the robot is also stopped if the
    launch hangs or is killed.

    Args:
        settings: rate and longest silence.
        watch: observes the robot.
        judge: decides from an observation whether the robot has to be stopped.
        button: the emergency stop.
        steering: receives buttons of operators and publishes the state of the guard.
        clock: monotonic time.
        robot: name of the robot.
        pulse: heartbeat of ``robo-rl launch``; None if it did not start this guard.
    """

    def __init__(
        self,
        settings: GuardConfig,
        watch: Watch,
        judge: Callable[[Observation, int, int], Verdict],
        button: EmergencyStop,
        steering: Steering,
        clock: Clock,
        robot: str = "robot",
        pulse: Pulse | None = None,
    ) -> None:
        self._settings, self._watch, self._judge = settings, watch, judge
        self._button, self._steering, self._clock = button, steering, clock
        self._paused = self._active = self._robot_stops = False
        self._reason: str | None = None
        self._retry_ns = 0
        self._looks = self._stops = 0
        self._beat, self._own, self._pulse = GuardBeat(robot, clock=clock), OwnStop(robot), pulse
        self._beat_ns = 0
        self._looked_ns = self._late_ns = clock.now_ns()
        self._settled_ns = 0

    def close(self) -> None:
        """End the watch in an orderly way, so that the robot may move without a guard again."""
        self._beat.end()

    def turn(self) -> None:
        """Look once, stop the robot if necessary, and report."""
        self._give_sign_of_life()
        self._paused ^= "pause" in self._steering.take_buttons()
        if self._reason is not None and self._button.pressed() is None:
            print("Re-armed: watching again", flush=True)
            self._reason, self._active = None, False
        state = "paused" if self._paused else self._look()
        reason = self._button.pressed()
        if reason is not None:
            self._pass_on(reason)
            state = f"stopped: {reason}"
        inactive = self._paused or not self._active
        facts = {"looks": str(self._looks), "stops": str(self._stops)}
        self._steering.report(state, inactive, reason is not None, facts)

    def _give_sign_of_life(self) -> None:
        """Send a heartbeat to the driving process and to ``robo-rl launch``; stop the robot if the latter is gone."""
        now_ns = self._clock.now_ns()
        if now_ns >= self._beat_ns:
            self._beat_ns = now_ns + round(BEAT_SECONDS * 1e9)
            self._beat.beat()
        if self._pulse is None:
            return
        self._pulse.turn()
        if self._pulse.gone:
            self._pulse = None
            self._press("robo-rl launch has ended, so the guard is not monitored any more")
        elif self._pulse.is_silent:
            self._press(f"robo-rl launch has been silent for {SILENT_SECONDS:g} s")

    def _look(self) -> str:
        """Look once; return the state to report."""
        self._looks += 1
        self._note_delay()
        try:
            seen = self._watch.look()
        except SpecError as error:
            return self._press(str(error))
        self._active |= not seen.silent
        if not self._active:
            return f"waits for {', '.join(seen.silent)}"
        longest = max(seen.silent.values(), default=0.0)
        if longest > self._settings.silence and self._looked_ns >= self._settled_ns:
            topic = next(topic for topic, age in seen.silent.items() if age == longest)
            return self._press(f"{topic} has been silent for {longest:.2f} s")
        if seen.observation is None:
            return "watching"
        verdict = self._judge(seen.observation, seen.stamp_ns, self._clock.now_ns())
        return self._press(verdict.message) if verdict.stop else "watching"

    def _note_delay(self) -> None:
        """Allow sources time to send again if this process was suspended since the last look.

        Messages of that time may not have been received yet. Only a single delay is excused: if the guard is late
        repeatedly, it judges silence as usual.
        """
        silence_ns = round(1e9 * self._settings.silence)
        now_ns, last_ns = self._clock.now_ns(), self._looked_ns
        self._looked_ns = now_ns
        if now_ns - last_ns > silence_ns // 2:
            if last_ns - self._late_ns > 2 * silence_ns:
                self._settled_ns = now_ns + silence_ns
            self._late_ns = now_ns

    def _press(self, reason: str) -> str:
        if self._button.pressed() is None:
            self._stops += 1
            press_emergency_stop(self._button, f"safety guard: {reason}")
        return reason

    def _pass_on(self, reason: str) -> None:
        """Stop the robot's own controller once, and retry while it does not answer."""
        if reason != self._reason:
            self._reason, self._robot_stops, self._retry_ns = reason, False, 0
            print(f"Stopped: {reason}", flush=True)
        if self._robot_stops or self._clock.now_ns() < self._retry_ns:
            return
        self._robot_stops, answer = self._watch.stop()
        facts = self._watch.rearm_facts()
        if facts is not None:
            self._own.note(facts)
        self._retry_ns = self._clock.now_ns() + round(RETRY_SECONDS * 1e9)
        print(answer, flush=True)
