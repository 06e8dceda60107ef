"""The actor's side of a run whose learner is elsewhere, on a fake link."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from omegaconf import open_dict

from robo_rl.actor import Spool
from robo_rl.agents.parts.policy import TanhGaussianPolicy
from robo_rl.app import build_agent, build_backend
from robo_rl.core import Clock, EnvBackend, Interruption, ManualClock, Source, State, Transition
from robo_rl.operators.takeover import Takeover
from robo_rl.training.remote_actor import ActingSession
from robo_rl.transport.codec import RecordDecoder
from robo_rl.transport.messages_pb2 import Record
from robo_rl.transport.received import read_record
from robo_rl.transport.views import LinkStatus

from ..rigs.composition import composed_config

OVERRIDES = ["task=reach", "agent.hidden=[8]", "agent.ensemble_size=2", "actor.spool=unused"]


class Link:
    """Gives policies and orders by the number of steps before them, and says stop after ``steps``.

    Attributes:
        blocked: why it takes nothing in, by the number of steps before.
        holds: how often it says yet that actors are held, by the number of steps before.
        used_up: the same of the steps that it wants from this actor.
    """

    session, run = 1, "abc"
    reports: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, policies: dict[int, tuple[int, State]], steps: int, orders: dict[int, str] | None = None
    ) -> None:
        self.policies, self.steps, self.orders = policies, steps, orders or {}
        self.holds: dict[int, int] = {}
        self.used_up: dict[int, int] = {}
        self.blocked: dict[int, str] = {}
        self.pictures: list[Mapping[str, bytes]] = []
        self.scenes: list[tuple[bytes, bytes]] = []
        self.words: list[str] = []
        self.records: list[Record] = []
        self.queries = self.ends = 0

    @property
    def status(self) -> LinkStatus:
        self.queries += 1
        assert self.queries < 1000, "the actor waits"
        steps = len(self.records)
        held, used_up = self.holds.get(steps, 0), self.used_up.get(steps, 0)
        self.holds[steps], self.used_up[steps] = held - 1, used_up - 1
        return LinkStatus(
            connected=True,
            hold=held > 0,
            stop=steps >= self.steps,
            watched=bool(self.orders),
            blocked=self.blocked.get(steps, ""),
            until=steps if used_up > 0 else steps + 1,
        )

    def take_policy(self) -> tuple[int, State] | None:
        return self.policies.pop(len(self.records), None)

    def append(self, sequence: int, record: bytes) -> None:
        assert sequence == len(self.records)
        self.records.append(Record.FromString(record))

    def wake(self) -> None: ...

    def receive(self, policy: State) -> None: ...

    def end_run(self) -> None:
        self.ends += 1

    def take_orders(self) -> list[str]:
        order = self.orders.get(len(self.records))
        return [] if order is None else [order]

    def notify(self, text: str) -> None:
        self.words.append(text)

    def show(self, pictures: Mapping[str, bytes], problem: str) -> None:
        self.pictures.append(pictures)

    def show_scene(self, geometry: bytes, frame: bytes) -> None:
        self.scenes.append((geometry, frame))

    def report(self, **values: Any) -> None:
        self.reports |= values


def act(
    config: Any,
    backend: EnvBackend,
    interruption: Interruption,
    link: Link,
    takeover: Takeover | None = None,
    clock: Clock | None = None,
) -> None:
    ActingSession(config, backend, interruption, link, link, takeover, clock).run()  # type: ignore[arg-type]


def test_a_policy_whose_actions_are_not_finite_gives_way_to_the_one_before(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Fault case 7: hold, reject that version, roll back. Its numbers are finite; those it computes are not."""
    config = composed_config("actor", *OVERRIDES, f"safety.emergency_stop.file={tmp_path}/stop")
    backend = build_backend(config)
    good = build_agent(config.agent, backend.spec, 0).policy_state()
    signs = np.where(np.arange(len(good["actor/output/weight"])) % 2, 10.0, -10.0)[:, np.newaxis]
    large = {"actor/0/weight": 0.0, "actor/0/bias": 3e38, "actor/output/weight": signs}  # inf - inf, in any order
    bad = {name: np.broadcast_to(large.get(name, good[name]), good[name].shape) for name in good}
    bad = {name: array.astype(good[name].dtype) for name, array in bad.items()}
    assert all(np.isfinite(array).all() for array in bad.values())
    link = Link({0: (1, good), 4: (2, bad)}, steps=9)
    with Interruption() as interruption:
        act(config, backend, interruption, link)
    assert [bool(record.refusal) for record in link.records] == [number == 4 for number in range(9)]
    assert "proposed action: expected finite values" in link.records[4].refusal
    assert link.records[5].observation, "another episode"
    assert "policy 2 is not used any more: the proposed action is not finite" in capsys.readouterr().out
    assert link.words[:1] == ["policy 2 is not used any more: the proposed action is not finite: nan at index [0]"], (
        "heard"
    )
    assert link.reports["refused_policies"] == 1 and link.reports["policy_version"] == 1


def test_an_order_ends_the_episode_and_pictures_are_shown_to_those_who_watch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = composed_config("actor", *OVERRIDES, f"safety.emergency_stop.file={tmp_path}/stop")
    backend = build_backend(config)
    monkeypatch.setattr(backend, "render", lambda: np.zeros((8, 8, 3), np.uint8))
    good = build_agent(config.agent, backend.spec, 0).policy_state()
    link = Link({0: (1, good)}, steps=6, orders={3: "reset"})
    with Interruption() as interruption:
        act(config, backend, interruption, link)
    assert [record.episode for record in link.records] == [0, 0, 0, 0, 1, 1]
    assert len(link.scenes) == 6 and b'"geoms"' in link.scenes[0][0] and b'"poses"' in link.scenes[0][1]
    assert len(link.pictures) == 6 and link.pictures[0]["scene"].startswith(b"\xff\xd8"), "a JPEG file"


def test_a_chunk_goes_on_when_another_policy_comes_and_ends_with_its_episode(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = [*OVERRIDES, "agent.action_chunk=3", f"safety.emergency_stop.file={tmp_path}/stop"]
    config = composed_config("actor", *words)
    backend = build_backend(config)
    first, second = (build_agent(config.agent, backend.spec, seed).policy_state() for seed in (0, 1))
    link = Link({0: (1, first), 4: (2, second)}, steps=10, orders={5: "reset"})
    decided, decide = [], TanhGaussianPolicy._decide

    def noted(policy: TanhGaussianPolicy, observation: Any, sample: bool) -> Any:
        if sample:  # and no probe of a new policy
            decided.append(len(link.records))
        return decide(policy, observation, sample)

    monkeypatch.setattr(TanhGaussianPolicy, "_decide", noted)
    with Interruption() as interruption:
        act(config, backend, interruption, link)
    assert [record.episode for record in link.records] == [0] * 6 + [1] * 4
    assert decided == [0, 3, 6, 9]
    link = Link({0: (1, first), 4: (2, second)}, steps=9, orders={4: "reset"})
    decided.clear()
    with Interruption() as interruption:
        act(config, backend, interruption, link)
    assert [record.episode for record in link.records] == [0] * 5 + [1] * 4
    assert decided == [0, 3, 5, 8]


@pytest.mark.parametrize("why", ["holds", "used_up"])
@pytest.mark.parametrize(("robot", "waits"), [(None, True), ({"name": "arm"}, False)])
def test_within_an_episode_a_simulator_waits_for_the_learner_and_a_robot_does_not(
    tmp_path: Path, robot: Any, waits: bool, why: str
) -> None:
    config = composed_config("actor", *OVERRIDES, f"safety.emergency_stop.file={tmp_path}/stop")
    backend = build_backend(config)
    with open_dict(config):
        config.robot = robot
    link = Link({0: (1, build_agent(config.agent, backend.spec, 0).policy_state())}, steps=6)
    controls = getattr(link, why)
    controls[3] = 50
    with Interruption() as interruption:
        act(config, backend, interruption, link)
    assert [record.episode for record in link.records] == [0] * 6
    assert (controls[3] <= 0) == waits
    assert (link.reports["held_seconds"] > 0) == waits


@pytest.mark.parametrize(
    ("factor", "robot", "seconds"),
    [(None, None, 0.0), (1.0, None, 0.6), (4.0, None, 0.15), (1.0, {"name": "arm"}, 0.0)],
)
def test_a_simulator_is_as_fast_as_it_was_told_to_be_at_most(
    tmp_path: Path, factor: float | None, robot: Any, seconds: float
) -> None:
    """Six steps of a task at 10 Hz, by a clock on which nothing else takes time; a robot has a pace of its own."""
    words = [*OVERRIDES, f"safety.emergency_stop.file={tmp_path}/stop", f"actor.real_time_factor={factor or 'null'}"]
    config = composed_config("actor", *words)
    backend = build_backend(config)
    with open_dict(config):
        config.robot = robot
    link = Link({0: (1, build_agent(config.agent, backend.spec, 0).policy_state())}, steps=6)
    with Interruption() as interruption:
        clock = ManualClock()
        began = clock.now_ns()
        act(config, backend, interruption, link, clock=clock)
    assert (clock.now_ns() - began) * 1e-9 == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("full", ["spool", "disk"])
def test_an_actor_that_ends_with_a_full_spool_keeps_the_step_in_hand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, full: str
) -> None:
    config = composed_config("actor", *OVERRIDES, f"safety.emergency_stop.file={tmp_path}/stop")
    backend = build_backend(config)
    link = Link({0: (1, build_agent(config.agent, backend.spec, 0).policy_state())}, steps=100)
    with Spool(tmp_path / "spool", 1000) as spool, Interruption() as interruption:
        spool.begin_session(1)

        def stop(reason: str) -> None:
            interruption.signal = 15
            if full == "disk":
                monkeypatch.setattr(os, "writev", lambda file, data: 0)

        def append(sequence: int, record: bytes) -> None:
            spool.append(sequence, record)
            link.records.append(Record.FromString(record))

        monkeypatch.setattr(backend, "stop", stop)
        monkeypatch.setattr(link, "append", append)
        monkeypatch.setattr(link, "append_last", spool.append_last, raising=False)
        act(config, backend, interruption, link)
        assert link.reports["produced"] == spool.extent(1)[1] == len(spool.read(1, 0, 10**6)) > 1


@pytest.mark.parametrize("words", [["agent.random_steps=100"], ["intervention.criterion=random"]])
def test_an_actor_that_was_started_again_does_other_random_things(tmp_path: Path, words: list[str]) -> None:
    config = composed_config("actor", *OVERRIDES, *words, f"safety.emergency_stop.file={tmp_path}/stop")
    backend = build_backend(config)
    good = build_agent(config.agent, backend.spec, 0).policy_state()
    done: dict[int, list[Any]] = {}
    for session in (1, 2, 1):
        link = Link({0: (1, good)}, steps=30)
        link.session = session  # type: ignore[misc]
        with Interruption() as interruption:
            act(config, backend, interruption, link)
        received = [read_record(record.SerializeToString(), has_images=False) for record in link.records]
        steps = RecordDecoder(backend.spec, "actor", session).decode(received)
        random = [
            (step.source, step.proposed_action.tolist() if step.source is Source.RANDOM else None)
            for step in steps
            if isinstance(step, Transition)
        ]
        assert done.setdefault(session, random) == random, "it follows from the session"
    assert done[1] != done[2] and len(done[1]) == 30
