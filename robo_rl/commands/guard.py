"""robo-rl guard: a separate process that watches a robot and stops it, whichever process drives it."""

import functools

from omegaconf import DictConfig

from ..app import build, find_emergency_stop, press_emergency_stop, robot_name
from ..core import ConfigError, Interruption, MonotonicClock, typed
from ..operators.guard import Guard, GuardConfig
from ..operators.panel import offer_settings
from ..operators.pulse import Pulse
from ..safety import SafetyWatch


def run(config: DictConfig) -> int:
    """Guard as configured in configs/guard.yaml until a signal ends it; return the exit code (130 or 143).

    Raises:
        ConfigError: if there is no robot, or no emergency stop to press.
    """
    settings = typed(GuardConfig, config, "guard")
    robot, button = robot_name(config), find_emergency_stop(config)
    if robot is None:
        raise ConfigError("robo-rl guard watches a robot over ROS 2: choose one, such as robot=virtual")
    if button is None:
        raise ConfigError("robo-rl guard presses the emergency stop, which safety=none lacks: choose safety=default")
    clock, pulse = MonotonicClock(), Pulse.inherited()
    press = functools.partial(press_emergency_stop, button, "a person, by the emergency stop of the safety guard")
    backend = build(config.robot, simulation=build(config.task))
    try:
        with Interruption(press) as interruption:
            watch = backend.watch()
            try:
                judge = SafetyWatch(watch.spec, backend.robot, settings)
                steering = build(config.steering, emergency_stop=press, marks=False)
                # Read-only, because a process that can reach the node must not be able to loosen a guard.
                offer_settings(steering, config, "task", "guard")
                try:
                    guard = Guard(settings, watch, judge, button, steering, clock, robot, pulse)
                    print(f"Guards robot {robot}; Ctrl-C ends it", flush=True)
                    due_ns = clock.now_ns()
                    while interruption.signal is None:
                        guard.turn()
                        due_ns = max(due_ns + round(1e9 / settings.rate), clock.now_ns())
                        clock.sleep_until_ns(due_ns)
                    guard.close()
                finally:
                    steering.close()
            finally:
                watch.close()
    finally:
        backend.close()
    return 128 + interruption.signal
