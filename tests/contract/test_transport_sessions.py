"""Actors that begin sessions without end: they take neither disk nor memory, and no number is given twice."""

import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from robo_rl.core import DataError
from robo_rl.replay import Intake, session_numbers
from robo_rl.replay import intake as intake_module
from robo_rl.replay.session_numbers import MOST_RANGES, MOST_RESERVED, SessionNumbers
from robo_rl.transport import LearnerServer
from robo_rl.transport.receiving import MOST_OPEN
from robo_rl.transport.service import EXCHANGE

from ..rigs.replay_episodes import SPEC, assert_same
from ..rigs.transport_rig import steps_of, stored_steps
from .test_transport_requests import Wire, encoded, exchange_of

SESSIONS = 3600
"""Restarts of an actor once a second for an hour."""


class Joins(Wire):
    """Requests to join by hand, some of which are refused."""

    def refused_join(self, **fields: object) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.RpcError) as caught:
            self.join(**fields)
        return caught.value.code(), caught.value.details()


@pytest.fixture
def wire(server: LearnerServer) -> Iterator[Joins]:
    made = Joins(server)
    yield made
    made.channel.close()


def ledger_lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]


def test_an_hour_of_restarts_takes_few_lines_and_an_early_session_still_sends_its_steps(
    wire: Joins, intake: Intake, tmp_path: Path
) -> None:
    records, early = encoded(3, [5]), None
    for number in range(1, SESSIONS + 1):
        joined = wire.join(newest_session=number - 1, held_sessions=[3] if number > 3 else [])
        assert joined.session == number
        if number == 3:
            early = joined
            assert wire.call(EXCHANGE, exchange_of(joined, records[:2])).wanted == 2
    assert early is not None and len(ledger_lines(tmp_path / "replay")) < 100
    assert len(intake._sessions) == 1 and len(intake._numbers["robot"]._ranges) == 1
    # What has been received is not counted again.
    reply = wire.call(EXCHANGE, exchange_of(joined, records, record_session=3, session_ended=True))
    assert reply.wanted == 5 and intake.flush(60)
    assert intake.totals().stored == 5 and intake.totals().duplicates == 0
    assert_same(stored_steps(tmp_path / "replay")["robot", 3], steps_of(3, [5]))


@pytest.mark.parametrize("sessions", [1, 9, 10, 25, 500])
def test_no_number_is_given_twice_over_restarts_of_the_learner(sessions: int, tmp_path: Path) -> None:
    given: list[int] = []
    for _ in range(4):
        intake = Intake(tmp_path, SPEC)
        assert all(intake.has_session("robot", number) for number in given)
        assert intake.newest_session("robot") >= max(given, default=0)
        given += [intake.open_session("robot", 0) for _ in range(sessions)]
        assert not intake.has_session("robot", given[-1] + 1), "it is only reserved"
        intake.close()  # writes nothing about numbers, so that a killed learner leaves the same
    assert given == sorted(set(given)) and given[-1] < 1.5 * len(given) + 1


def test_numbers_are_reserved_on_disk_before_they_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    intake = Intake(tmp_path, SPEC)
    numbers = [intake.open_session("robot", 0) for _ in range(40)]

    def full(*lines: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(intake._ledger, "append", full)
    with pytest.raises(DataError, match="cannot write the ledger"):
        for _ in range(MOST_RESERVED):
            numbers.append(intake.open_session("robot", 0))
    end = max(int(str(line["session"])) + int(str(line["reserved"])) for line in ledger_lines(tmp_path))
    assert numbers == list(range(1, end)) and intake.newest_session("robot") == end - 1
    intake.close()


@pytest.mark.parametrize("step", [2, 3, 1000, 999_999])
def test_numbers_that_skip_some_end_after_a_hundred_times(step: int, wire: Joins, tmp_path: Path) -> None:
    newest = 0
    for _ in range(MOST_RANGES):
        newest = wire.join(newest_session=newest + step).session
    code, text = wire.refused_join(newest_session=newest + step)
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "no session of robot can begin: its sessions left numbers out 100 times; use another actor.spool" in text
    assert wire.join(newest_session=newest).session == newest + 1, "no number is left out"
    assert len(ledger_lines(tmp_path / "replay")) <= MOST_RANGES + 2


def test_numbers_of_a_replaced_replay_buffer_are_not_known(tmp_path: Path) -> None:
    intake = Intake(tmp_path, SPEC)
    assert intake.open_session("robot", 20) == 21
    for _ in range(2):
        assert not any(intake.has_session("robot", number) for number in (0, 1, 20, 22))
        assert intake.has_session("robot", 21)
        intake.close()
        intake = Intake(tmp_path, SPEC)
    intake.close()


def test_names_without_end_are_refused(wire: Joins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MOST_ACTORS", 20)
    for number in range(20):
        joined = wire.join(actor=f"name{number}")
        wire.call(EXCHANGE, exchange_of(joined, actor=f"name{number}", session_ended=True))
    code, text = wire.refused_join(actor="another")
    assert code is grpc.StatusCode.UNAVAILABLE and "holds sessions of 20 actors; use one of their names" in text
    assert wire.join(actor="name3").session == 2


def test_open_sessions_that_an_actor_claims_to_hold_are_few(wire: Joins, server: LearnerServer, intake: Intake) -> None:
    held: list[int] = []
    for number in range(1, 31):
        joined = wire.join(held_sessions=held)
        held.append(joined.session)
        wire.call(EXCHANGE, exchange_of(joined, encoded(number, [2])[:1]))
        assert len(server._calls._receiver._decoders) <= MOST_OPEN + 1
    reply = wire.call(EXCHANGE, exchange_of(joined, encoded(1, [2])[1:], record_session=1, session_ended=True))
    assert reply.wanted == 2, "the next step of a closed one is counted all the same"
    assert intake.flush(60)


def test_ranges_of_a_foreign_ledger_are_few(tmp_path: Path) -> None:
    Intake(tmp_path, SPEC).close()
    lines = [json.dumps({"actor": "robot", "session": 3 * number}) for number in range(1, 20_000)]
    (tmp_path / "ledger.jsonl").write_text("\n".join(lines) + "\n")
    intake = Intake(tmp_path, SPEC)
    assert len(intake._numbers["robot"]._ranges) == MOST_RANGES and intake.newest_session("robot") == 59_997
    assert intake.open_session("robot", 0) == 59_998
    intake.close()


def test_blocks_of_numbers_grow_with_the_sessions() -> None:
    numbers, lines = SessionNumbers(), 0
    for number in range(1, 100_001):
        reservation = numbers.reserve(number)
        lines += reservation is not None
        numbers.give(number, reservation)
    assert 90 < lines < 200 and numbers.newest == 100_000 and 0 not in numbers and 100_001 not in numbers
    assert session_numbers.SESSIONS_PER_RESERVED == 10, "an actor that restarts seldom has one line for each session"
