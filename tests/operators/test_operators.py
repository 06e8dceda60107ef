"""People at a training in one process: when their commands count, and when they do not."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from robo_rl.actor import Actor, marked
from robo_rl.core import (
    Agent,
    EmergencyStop,
    EnvBackend,
    Interruption,
    SafetyStop,
    Source,
    StopButton,
    Transition,
)
from robo_rl.monitoring.run_table import describe_live
from robo_rl.telemetry import Command, LiveStatus
from robo_rl.training.collector import Collector
from robo_rl.training.operators import LocalOperators

VECTOR = np.zeros(1, np.float32)
STEP = Transition(
    observation={"state": VECTOR},
    proposed_action=VECTOR,
    executed_action=VECTOR,
    rewards={"success": 0.0},
    next_observation={"state": VECTOR},
    terminated=False,
    truncated=False,
    source=Source.POLICY,
    actor="local",
    session=0,
    episode=0,
    sequence=0,
    policy_version=0,
    stamp_ns=0,
    success=None,
)


class Rig:
    """Operators of an actor within an episode, without a person at the robot."""

    def __init__(self, takeover: Any = None, button: Any = None) -> None:
        self.reported: list[LiveStatus] = []
        self.actor: Any = SimpleNamespace(
            is_between_episodes=False, episode=0, episode_length=1, end_episode=marked, abandon_episode=self._abandon
        )
        self.abandoned = 0
        self.asked: list[Command] = []
        live: Any = SimpleNamespace(take_commands=self._take, watched=False)
        backend: Any = SimpleNamespace(robot=None)
        self.interruption = Interruption()
        live.report = self.reported.append
        self.operators = LocalOperators(live, self.interruption, backend, self.actor, takeover, button)

    def ask(self, *names: str) -> None:
        self.asked = [Command(name) for name in names]
        assert self.operators.take_commands() == [Command(name) for name in names]

    def _abandon(self) -> None:
        self.abandoned += 1

    def _take(self) -> list[Command]:
        asked, self.asked = self.asked, []
        return asked


@pytest.mark.parametrize(("name", "success"), [("reset", None), ("success", True), ("failure", False)])
def test_a_command_ends_the_episode_with_its_next_step_once(name: str, success: bool | None) -> None:
    rig = Rig()
    rig.ask(name)
    ended = rig.operators.mark(STEP)
    assert (ended.terminated, ended.truncated, ended.success) == (name == "success", name != "success", success)
    assert rig.operators.mark(STEP) is STEP


def test_a_stop_that_is_latched_in_any_state_is_reported_to_those_who_watch(tmp_path: Path) -> None:
    emergency = EmergencyStop(tmp_path / "stop")
    rig = Rig(button=StopButton(emergency))
    for pressed in (False, True, False):
        if pressed:
            emergency.press("a person")
        else:
            emergency.rearm()
        for state, shown in (("paused", "paused and stopped"), ("training", "stopped"), ("evaluating", "evaluating")):
            rig.operators.report(state, {})
            status = rig.reported[-1]
            assert status.state == (shown if pressed else state)
            assert ("a person" in status.robots[0].facts.get("stopped", "")) == pressed
            assert describe_live(dataclasses.replace(status, paused=state == "paused")) == status.state


def test_between_two_episodes_there_is_none_to_end() -> None:
    rig = Rig()
    rig.actor.is_between_episodes = True
    rig.ask("failure")
    assert rig.operators.mark(STEP) is STEP


def test_before_its_first_step_there_is_nothing_to_say_of_an_episode() -> None:
    rig = Rig()
    rig.actor.episode_length = 0
    rig.ask("success")
    assert rig.operators.mark(STEP) is STEP


@pytest.mark.parametrize("goes_on", [False, True])
def test_an_episode_is_left_before_its_first_step_where_the_person_paused_meanwhile(goes_on: bool) -> None:
    rig = Rig(SimpleNamespace(begin_episode=lambda: goes_on))
    assert rig.operators.begin_episode() == goes_on
    collector = Collector(
        cast(Actor, SimpleNamespace(begin_episode=lambda: None, abandon_episode=rig.actor.abandon_episode)),
        cast(EnvBackend, SimpleNamespace(spec=SimpleNamespace(action=SimpleNamespace(shape=(1,))))),
        cast(Agent, SimpleNamespace(forget_plan=lambda explore: None)),
        rig.operators,
        None,
        seed=0,
    )
    collector.begin_episode()
    assert rig.abandoned == (not goes_on)


def test_a_command_goes_with_the_episode_that_was_stopped() -> None:
    rig = Rig()
    rig.ask("failure")
    rig.operators.report_stop(SafetyStop("test", "stopped"))
    assert rig.operators.mark(STEP) is STEP, "it is the first step of the next episode"


def test_a_pause_begins_where_the_episode_ends() -> None:
    rig = Rig()
    rig.ask("pause")
    assert not rig.operators.paused
    rig.actor.is_between_episodes = True
    assert rig.operators.paused
    rig.ask("resume")
    assert not rig.operators.paused


def test_who_ends_the_run_and_how() -> None:
    page = Rig()
    page.ask("checkpoint")
    assert not page.operators.stop_requested
    page.ask("stop", "checkpoint")
    assert page.operators.stop_requested and page.interruption.signal is None
    person = Rig(SimpleNamespace(stops=True))
    person.ask()
    assert person.interruption.signal is not None and not person.operators.stop_requested
