"""Remote actors beside people: who take over, pause, stop and are told why the learner waits."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_module

from robo_rl.app import build_agent, build_backend, register_all_configs
from robo_rl.core import (
    Interruption,
    Intervention,
    ManualClock,
    SafetyStop,
    Source,
    Step,
    Transition,
)
from robo_rl.operators.panel import Panel
from robo_rl.operators.takeover import Takeover
from robo_rl.training import remote_actor
from robo_rl.transport.codec import RecordDecoder
from robo_rl.transport.received import read_record

from ..rigs.composition import composed_config
from .test_remote_actor import OVERRIDES, Link, act


def test_whoever_took_over_gives_control_back_when_the_robot_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = composed_config("actor", *OVERRIDES, f"safety.emergency_stop.file={tmp_path}/stop")
    backend = build_backend(config)
    happened: list[str] = []
    step = backend.step

    def step_or_stop(action: Any) -> Step:
        happened.append("step")
        if len(happened) == 4:
            raise SafetyStop("workspace", "somebody is in the way")
        return step(action)

    class Expert:
        def __call__(self, observation: Any, choice: Any, number: int) -> Any:
            return choice

        def note(self, transition: Any) -> None: ...

        def end_episode(self) -> None:
            happened.append("end")

    monkeypatch.setattr(backend, "step", step_or_stop)
    link = Link({0: (1, build_agent(config.agent, backend.spec, 0).policy_state())}, steps=3)
    with Interruption() as interruption:
        monkeypatch.setattr(remote_actor, "make_intervention", lambda *_: Expert())
        act(config, backend, interruption, link)
    assert happened == ["end", "step", "step", "step", "end", "step"]


class Person:
    """Buttons elsewhere, and a stick: what each read says."""

    def __init__(self, script: list[tuple[float, str]]) -> None:
        self.script = script
        self.displayed: list[str] = []

    def read(self) -> Intervention:
        x, button = self.script.pop(0) if self.script else (0.0, "")
        return Intervention(np.array([x, 0, 0], np.float32), x != 0, frozenset({button} if button else ()))

    def reset(self, closed: bool = False) -> None: ...

    def show(self, picture: Any, lines: list[str]) -> None:
        self.displayed.append(lines[0])

    def close(self) -> None: ...


def test_a_person_takes_over_pauses_and_ends_the_run(tmp_path: Path) -> None:
    register_all_configs()
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        words = [*OVERRIDES, f"safety.emergency_stop.file={tmp_path}/stop"]
        config = compose("actor", overrides=words)
    backend = build_backend(config)
    link = Link({0: (1, build_agent(config.agent, backend.spec, 0).policy_state())}, steps=6)
    first = [(0, ""), (0.5, ""), (0.25, ""), (0, "pause")]
    person = Person([(0, ""), *first, (0, ""), (0, "pause"), (0, ""), (0, ""), (0, "stop")])
    takeover = Takeover(Panel(backend, person, clock=ManualClock()))
    with Interruption() as interruption:
        act(config, backend, interruption, link, takeover)
    decoded = RecordDecoder(backend.spec, "actor", 1).decode(
        [read_record(record.SerializeToString(), has_images=False) for record in link.records]
    )
    steps = [step for step in decoded if isinstance(step, Transition)]
    assert [step.source for step in steps] == [
        Source.POLICY,
        Source.HUMAN,
        Source.HUMAN,
        Source.POLICY,
        Source.POLICY,
        Source.POLICY,
    ]
    assert steps[1].executed_action[0] == pytest.approx(0.5)
    assert [step.truncated for step in steps] == [False, False, False, True, False, True], "by pause and stop"
    assert [step.episode for step in steps] == [0, 0, 0, 0, 1, 1]
    assert person.displayed.count("paused") == 2
    assert link.ends == 1


def test_people_are_told_why_the_learner_takes_nothing_in_but_not_all_the_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = composed_config("actor", *OVERRIDES, f"safety.emergency_stop.file={tmp_path}/stop")
    backend = build_backend(config)
    link = Link({0: (1, build_agent(config.agent, backend.spec, 0).policy_state())}, steps=9)
    link.blocked = {1: "no space left", 2: "no space left", 4: "no space left"}
    with Interruption() as interruption:
        clock = ManualClock()
        monkeypatch.setattr(link, "wake", lambda: clock.advance_ns(2_500_000_000))
        act(config, backend, interruption, link, clock=clock)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("The learner accepts")]
    assert lines == [
        "The learner accepts no steps: no space left. They stay in the spool",
        "The learner accepts steps again",
    ]


@pytest.mark.parametrize("device", [False, True])
def test_what_is_said_while_the_robot_is_brought_back_is_not_about_the_next_episode(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device: bool
) -> None:
    config = composed_config("actor", *OVERRIDES, f"safety.emergency_stop.file={tmp_path}/stop")
    backend = build_backend(config)
    link = Link({0: (1, build_agent(config.agent, backend.spec, 0).policy_state())}, steps=6)
    person = Person([])
    reset, step, steps, messages = backend.reset, backend.step, itertools.count(1), list[str]()

    def take() -> list[str]:
        taken = messages.copy()
        messages.clear()
        return taken

    def late(seed: int) -> Step:
        messages.append("success")
        return reset(seed)

    def second_ends(action: Any) -> Step:
        return dataclasses.replace(step(action), success=None, truncated=next(steps) == 2)

    monkeypatch.setattr(backend, "reset", late)
    monkeypatch.setattr(backend, "step", second_ends)
    if device:
        still = np.zeros(3, np.float32)
        monkeypatch.setattr(person, "read", lambda: Intervention(still, False, frozenset(take())))
    else:
        monkeypatch.setattr(link, "take_orders", take)
    takeover = Takeover(Panel(backend, person, clock=ManualClock())) if device else None
    with Interruption() as interruption:
        act(config, backend, interruption, link, takeover)
    assert [record.episode for record in link.records] == [0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("button", ["pause", "stop", "emergency_stop"])
def test_a_person_who_pauses_or_stops_while_the_robot_is_brought_back_sees_no_step(tmp_path: Path, button: str) -> None:
    config = composed_config("actor", *OVERRIDES, f"safety.emergency_stop.file={tmp_path}/stop")
    backend = build_backend(config)
    link = Link({0: (1, build_agent(config.agent, backend.spec, 0).policy_state())}, steps=3)
    person = Person([(0, button), (0, ""), (0, "pause") if button != "stop" else (0, "")])
    takeover = Takeover(Panel(backend, person, clock=ManualClock()))
    with Interruption() as interruption:
        act(config, backend, interruption, link, takeover)
    assert [record.episode for record in link.records] == [1, 1, 1], "the first was left without a step"
    assert person.displayed.count("paused") == (0 if button == "stop" else 2)
    assert link.ends == (button == "stop")
