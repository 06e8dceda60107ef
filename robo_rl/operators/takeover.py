"""Intervention of a person, who takes over from the policy and gives control back."""

import importlib.util

from omegaconf import DictConfig

from ..actor import ActionChoice, marked
from ..core import EMERGENCY_STOP, ConfigError, EnvBackend, Intervention, Observation, SafetyStop, Source, Transition
from .panel import Panel, open_panel

ENDING = ("emergency_stop", "discard", "failure", "success", "pause", "stop")
"""Buttons that end the episode; if several were pressed in one period, the first one counts."""
PACKAGES = {"window": "pygame", "gamepad": "pygame", "spacemouse": "pyspacemouse"}
"""Packages that devices need and that a plain installation lacks."""


class Takeover:
    """Replaces actions of the policy by those of a person in control, and ends episodes by buttons.

    Training then runs in real time. While it is paused, no episode begins; a second press of the button resumes it.

    Args:
        panel: device and display of the person.

    Attributes:
        stops: whether the person has requested the end of the run.
    """

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        names = panel.backend.spec.action.names
        self._gripper = names.index("gripper") if "gripper" in names else None
        self.stops = False
        self._steps = self._human_steps = 0
        self._policy_version = -1
        panel.begin()

    @property
    def paused(self) -> bool:
        """Whether no episode may begin."""
        return self._panel.paused

    def __call__(self, observation: Observation, choice: ActionChoice) -> ActionChoice:
        """Return the action to execute, given the policy's ``choice``, in the frame of the robot's actions."""
        self._policy_version = choice.policy_version
        state = "a person has control" if self._panel.input.in_control else "the policy has control"
        reading = self._turn(state, observation=observation)
        self._steps += 1
        if not reading.in_control:
            # When a person takes over, the gripper command starts as the policy's, so that objects are not dropped.
            if self._gripper is not None and self._panel.device is not None:
                self._panel.device.reset(closed=bool(choice.action[self._gripper] > 0))
            return choice
        self._human_steps += 1
        return ActionChoice(self._panel.action(observation), Source.HUMAN)

    def begin_episode(self) -> bool:
        """Discard buttons pressed before the first step, because they do not concern this episode.

        Return whether that step may be taken, because the person has neither paused nor stopped anything meanwhile.
        """
        reading = self._panel.look()
        self.stops |= "stop" in reading.buttons
        stopped = EMERGENCY_STOP in reading.buttons
        if stopped:
            self._panel.backend.stop(EMERGENCY_STOP)
            self._pause_unless_latched()
        self._panel.forget_buttons()
        return not (self.paused or self.stops or stopped)

    def heed(self) -> None:
        """Read the device while the robot returns to the start by itself; buttons do not concern the next episode.

        Raises:
            SafetyStop: if the person pressed the emergency stop.
        """
        reading = self._panel.look()
        self.stops |= "stop" in reading.buttons
        self._panel.forget_buttons()
        if EMERGENCY_STOP in reading.buttons:
            self._panel.backend.stop(EMERGENCY_STOP)
            self._pause_unless_latched()
            raise SafetyStop(EMERGENCY_STOP, "a person pressed it while the robot was brought back")

    def mark(self, transition: Transition) -> Transition:
        """Return the step that was just taken with the person's marks; they may make it the last of its episode."""
        button = next((name for name in ENDING if name in self._panel.input.buttons), None)
        self._panel.forget_buttons()
        if button is None:
            return transition
        self._panel.backend.stop(button)
        if button == EMERGENCY_STOP:  # unlatched, because a latched stop would have raised SafetyStop earlier
            self._panel.paused = True
        return marked(transition, button)

    def wait(self, state: str, alarm: bool = False) -> None:
        """Wait for one control period between episodes; ``alarm``: the robot was stopped."""
        reading = self._turn(state, alarm, waits=True)
        if EMERGENCY_STOP in reading.buttons:
            self._pause_unless_latched()
        self._panel.forget_buttons()

    def close(self) -> None:
        """Release the device."""
        self._panel.close()

    def _pause_unless_latched(self) -> None:
        """Pause after an emergency stop that is not latched.

        A latched stop holds the robot by itself. A pause would only hide the reason of the stop, and would last after
        the robot was re-armed.
        """
        if not self._panel.latches:
            self._panel.paused = True

    def _turn(
        self, state: str, alarm: bool = False, waits: bool = False, observation: Observation | None = None
    ) -> Intervention:
        facts = {
            "steps": str(self._steps),
            "steps_by_a_person": str(self._human_steps),
            "policy_version": str(self._policy_version),
        }
        line = f"step {self._steps}, {self._human_steps} by a person"
        reading = self._panel.turn(state, line, facts=facts, alarm=alarm, waits=waits, observation=observation)
        self.stops |= "stop" in reading.buttons
        return reading


def has_person(config: DictConfig) -> bool:
    """Return whether ``config`` lets a person take over or steer, so that a person has to be present."""
    return config.teleop.device is not None or config.get("steering") is not None


def check_device(config: DictConfig, why_no_terminal: str) -> None:
    """Check that the device that ``config.teleop`` names for a training is usable, before it is opened.

    Raises:
        ConfigError: if it draws in the terminal, which is not possible for the reason ``why_no_terminal``, or a package
            that it needs is not installed.
    """
    teleop = config.teleop
    screen = teleop.device if teleop.device in ("keyboard", "window") else teleop.screen
    if teleop.device is not None and screen == "keyboard":
        raise ConfigError(
            f"teleop.device={teleop.device} draws in a terminal, but {why_no_terminal}: choose teleop.device=window or "
            "teleop.screen=window, or runtime=async runtime.actors=0 and robo-rl actor in a separate terminal"
        )
    for used in (teleop.device, screen) if teleop.device is not None else ():
        package = PACKAGES.get(used)
        if package is not None and importlib.util.find_spec(package) is None:
            raise ConfigError(f"teleop.device={teleop.device} needs {package}: pip install 'robo-rl[teleop]'")


def open_takeover(config: DictConfig, backend: EnvBackend) -> Takeover | None:
    """Return the takeover of a person, or None if ``config`` names neither a device nor steering.

    Args:
        config: configuration with the sections ``teleop``, ``steering`` and ``safety``.
        backend: backend of the policy.

    Raises:
        ConfigError: if the device cannot control the robot.
        DriverError: if the device is not connected.
    """
    if not has_person(config):
        return None
    device = config.teleop.device
    return Takeover(open_panel(config, backend, device, f"{device or 'steering'} of the training"))
