"""A person who takes over in training, and ends episodes by buttons."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.actor import ActionChoice, Actor, marked
from robo_rl.core import (
    ConfigError,
    DeadmanSwitch,
    EmergencyStop,
    Intervention,
    ManualClock,
    SafetyStop,
    Source,
    StopButton,
    Transition,
)
from robo_rl.operators.panel import Panel
from robo_rl.operators.takeover import Takeover, check_device, open_takeover
from robo_rl.sim import make_backend

from ..rigs.command_line import exit_code
from ..rigs.composition import composed_config

QUICK = ["demonstrations.episodes=0", "agent.hidden=[8]", "agent.ensemble_size=2", "agent.implementation=torch"]


def make_transition(success: bool | None, **fields: Any) -> Transition:
    state = {"state": np.zeros(1, np.float32)}
    action = np.zeros(1, np.float32)
    facts: dict[str, Any] = {
        "observation": state,
        "proposed_action": action,
        "executed_action": action,
        "rewards": {"success": 0.0, "reach": 0.5},
        "next_observation": state,
        "terminated": False,
        "truncated": False,
        "source": Source.POLICY,
        "actor": "a",
        "session": 0,
        "episode": 0,
        "sequence": 0,
        "policy_version": 0,
        "stamp_ns": 0,
        "success": success,
    }
    return Transition(**(facts | fields))


@pytest.mark.parametrize(
    ("button", "told", "terminated", "truncated", "success", "reward"),
    [
        ("success", None, True, False, True, 1.0),
        ("success", False, False, True, False, 0.0),  # the task itself tells success
        ("failure", None, False, True, False, 0.0),
        ("failure", True, False, True, True, 0.0),
        ("discard", None, False, True, None, 0.0),
    ],
)
def test_marks(
    button: str, told: bool | None, terminated: bool, truncated: bool, success: bool | None, reward: float
) -> None:
    after = marked(make_transition(told), button)
    assert (after.terminated, after.truncated, after.success) == (terminated, truncated, success)
    assert after.rewards == {"success": reward, "reach": 0.5}


def test_an_episode_that_has_ended_stays_as_it_is() -> None:
    ended = make_transition(None, terminated=True)
    assert marked(ended, "failure") is ended


class Device:
    """A person who says what the script holds: x, gripper, control, button."""

    def __init__(self, script: list[tuple[float, float, bool, str]]) -> None:
        self.script = script
        self.followed: list[bool] = []

    def read(self) -> Intervention:
        x, gripper, in_control, button = self.script.pop(0)
        action = np.array([x, 0, 0, gripper], np.float32)
        return Intervention(action, in_control, frozenset({button} if button else ()), "unplugged" if x < 0 else "")

    def reset(self, closed: bool = False) -> None:
        self.followed.append(closed)

    def show(self, picture: np.ndarray | None, lines: list[str]) -> None: ...

    def close(self) -> None: ...


class Steering:
    """Buttons elsewhere."""

    def __init__(self) -> None:
        self.buttons: set[str] = set()
        self.told: list[tuple[str, bool, bool]] = []
        self.facts: dict[str, str] = {}

    def take_buttons(self) -> frozenset[str]:
        taken, self.buttons = frozenset(self.buttons), set()
        return taken

    def report(self, state: str, paused: bool, alarm: bool, facts: Any) -> None:
        self.told.append((state, paused, alarm))
        self.facts = dict(facts)

    def close(self) -> None: ...


def test_a_person_takes_over_and_hands_back(capsys: pytest.CaptureFixture[str]) -> None:
    rest = (0.0, -1.0, False, "")
    device, steering, clock = (
        Device([rest, (0.5, 1.0, True, ""), (-0.2, 1.0, True, ""), rest]),
        Steering(),
        ManualClock(),
    )
    backend = make_backend("pick_cube")
    takeover = Takeover(Panel(backend, device, steering, clock=clock))
    actor = Actor(backend, seed=0)
    policy = np.array([0.1, 0.2, 0.3, 1.0], np.float32)
    steps = []
    for _ in range(4):
        step = actor.take_step(lambda seen: takeover(seen, ActionChoice(policy, Source.POLICY, 7)))
        steps.append(takeover.mark(step))
    assert [step.source for step in steps] == [Source.POLICY, Source.HUMAN, Source.HUMAN, Source.POLICY]
    np.testing.assert_allclose(steps[1].executed_action, [0.5, 0, 0, 1])
    np.testing.assert_allclose(steps[3].executed_action, policy)
    assert [step.policy_version for step in steps] == [7, -1, -1, 7]
    assert device.followed == [True, True], "while the policy acts the person's gripper follows it"
    assert clock.now_ns() == 4 * round(1e9 / backend.spec.control_rate), "one control period a step"
    assert steering.told[1:3] == [("the policy has control", False, False), ("a person has control", False, False)]
    assert steering.facts == {"steps": "3", "steps_by_a_person": "2", "policy_version": "7"}
    assert capsys.readouterr().out == "unplugged\n", "said once"
    backend.close()


def test_buttons_end_episodes_and_pause(tmp_path: Path) -> None:
    steering, clock = Steering(), ManualClock()
    backend = make_backend("pick_cube")
    pressed: list[str] = []
    takeover = Takeover(Panel(backend, None, steering, lambda: pressed.append("stop") or "", clock))
    actor = Actor(backend, seed=0)

    def step(*buttons: str) -> Transition:
        steering.buttons |= set(buttons)
        policy = ActionChoice(np.zeros(4, np.float32), Source.POLICY)
        transition = takeover.mark(actor.take_step(lambda seen: takeover(seen, policy)))
        if transition.truncated:
            actor.abandon_episode()
        return transition

    assert not step().truncated
    assert step("discard").truncated and not takeover.paused
    assert step("pause").truncated and takeover.paused
    takeover.wait("paused")
    assert takeover.paused
    steering.buttons.add("pause")
    takeover.wait("paused")
    assert not takeover.paused
    assert not step().truncated, "the press that ended the pause does not end the next episode"
    assert step("emergency_stop").truncated and pressed == ["stop"] and takeover.paused
    assert not takeover.stops
    assert step("stop").truncated and takeover.stops
    backend.close()


@pytest.mark.parametrize("other", ["success", "discard", "failure", "stop"])
def test_an_emergency_stop_that_is_not_latched_pauses_whatever_else_was_pressed(other: str) -> None:
    steering, backend = Steering(), make_backend("pick_cube")
    takeover = Takeover(Panel(backend, None, steering, clock=ManualClock()))
    policy = ActionChoice(np.zeros(4, np.float32), Source.POLICY)
    steering.buttons |= {"emergency_stop", other}
    transition = takeover.mark(Actor(backend, seed=0).take_step(lambda seen: takeover(seen, policy)))
    assert transition.truncated and takeover.paused
    backend.close()


def test_an_emergency_stop_between_episodes_pauses() -> None:
    steering, backend = Steering(), make_backend("pick_cube")
    takeover = Takeover(Panel(backend, None, steering, clock=ManualClock()))
    steering.buttons.add("emergency_stop")
    takeover.wait("waiting for the learner")
    assert takeover.paused
    takeover.wait("paused")
    assert takeover.paused and not takeover.begin_episode()
    steering.buttons.add("pause")
    takeover.wait("paused")
    assert not takeover.paused
    backend.close()


@pytest.mark.parametrize("problem", ["", "the file cannot be written"])
def test_an_emergency_stop_that_is_latched_between_episodes_does_not_pause_as_well(problem: str) -> None:
    steering, backend = Steering(), make_backend("pick_cube")
    takeover = Takeover(Panel(backend, None, steering, lambda: problem, ManualClock()))
    steering.buttons.add("emergency_stop")
    assert not takeover.begin_episode(), "no step after it"
    assert takeover.paused == bool(problem)
    steering.buttons.add("emergency_stop")
    with pytest.raises(SafetyStop):
        takeover.heed()
    steering.buttons.add("emergency_stop")
    takeover.wait("stopped", alarm=True)
    assert takeover.paused == bool(problem), "the reason of the stop is reported, and start is not needed afterwards"
    backend.close()


@pytest.mark.parametrize("state", ["paused", "waiting for the learner", "episode 1 of 3: let go"])
def test_a_stop_that_is_latched_while_the_robot_waits_is_shown(state: str, tmp_path: Path) -> None:
    steering, backend, emergency = Steering(), make_backend("pick_cube"), EmergencyStop(tmp_path / "stop")
    button = StopButton(emergency, DeadmanSwitch(tmp_path / "deadman", 0.8))
    takeover = Takeover(Panel(backend, None, steering, clock=ManualClock(), button=button))
    takeover.wait(state)
    assert steering.told[-1] == (state, False, False), "nobody has to hold the deadman switch meanwhile"
    emergency.press("a person at the page")
    takeover.wait(state)
    shown, _, alarm = steering.told[-1]
    assert alarm and shown.startswith("stopped: emergency stop (") and shown.endswith(f"robo-rl rearm ({state})")
    assert "a person at the page" in shown
    emergency.rearm()
    takeover.wait(state)
    assert steering.told[-1] == (state, False, False)
    backend.close()


@pytest.mark.parametrize(
    ("device", "screen", "allowed"),
    [
        (None, "keyboard", True),
        ("keyboard", None, False),
        ("gamepad", "keyboard", False),
        ("gamepad", None, True),
        ("window", "keyboard", True),
        ("spacemouse", "window", True),
    ],
)
def test_nothing_is_drawn_over_the_progress(
    device: str | None, screen: str | None, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omegaconf import OmegaConf

    monkeypatch.setattr("robo_rl.operators.takeover.PACKAGES", {})
    config = OmegaConf.create({"teleop": {"device": device, "screen": screen}})
    if allowed:
        check_device(config, "none")
    else:
        with pytest.raises(ConfigError, match=r"draws in a terminal, but none: choose teleop\.device=window"):
            check_device(config, "none")


@pytest.mark.parametrize(
    ("device", "screen", "package"),
    [("gamepad", None, "pygame"), ("spacemouse", None, "pyspacemouse"), ("spacemouse", "window", "pygame")],
)
def test_a_package_that_a_device_needs_is_missed_before_the_run_begins(
    device: str, screen: str | None, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omegaconf import OmegaConf

    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"teleop\.device={device} needs {package}: pip install"):
        check_device(OmegaConf.create({"teleop": {"device": device, "screen": screen}}), "none")


@pytest.mark.parametrize("command", ["actor", "train"])
def test_nobody_takes_over_unless_a_device_or_steering_is_chosen(command: str) -> None:
    config = composed_config(command, "task=reach")
    assert open_takeover(config, SimpleNamespace()) is None  # type: ignore[arg-type]


def test_there_is_one_device_for_one_actor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for runtime, said in (
        (
            ["runtime=async", "runtime.actors=2"],
            "must be 0 or 1 with a person (there is only one), got 2",
        ),
        (["runtime=async", "teleop.screen=keyboard"], "actors that the learner starts have none"),
        (["runtime=local", "teleop.device=keyboard"], "teleop.device=keyboard draws in a terminal"),
    ):
        assert (
            exit_code("train", "task=reach", "teleop.device=gamepad", f"run.dir={tmp_path}/run", *QUICK, *runtime) == 2
        )
        assert said in capsys.readouterr().err
