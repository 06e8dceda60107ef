"""What an actor that is allowed in may say is bounded: it fills no memory, no log and no counter, and no terminal."""

import dataclasses
import io
import itertools
import json
from types import SimpleNamespace

import grpc
import pytest

from robo_rl.core import PASSED, ManualClock, Verdict
from robo_rl.replay import EpisodeStore, Intake
from robo_rl.replay import intake as intake_module
from robo_rl.telemetry import Console
from robo_rl.transport import RecordDecoder, RecordEncoder
from robo_rl.transport import messages_pb2 as messages
from robo_rl.transport.admission import MOST_NOTES, NOTE_INTERVAL_NS, Admission
from robo_rl.transport.received import LAST_NUMBER, MOST_LOST, MOST_SKIPPED, read_record, trusted_statistics
from robo_rl.transport.service import EXCHANGE, JOIN, PROTOCOL

from ..rigs.replay_episodes import SPEC, make_episode
from ..rigs.transport_rig import steps_of
from .conftest import LOCAL
from .test_transport_requests import Wire, encoded, exchange_of

FACTS = json.dumps({"spec": SPEC.to_json()})
CLEAR = "\x1b[2J\x1b]0;title\x07\x9b2J"


@pytest.fixture
def wire(server):
    made = Wire(server)
    yield made
    made.channel.close()


@pytest.mark.parametrize("first", [MOST_LOST + 1, LAST_NUMBER + 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_steps_that_nobody_can_have_lost_are_not_counted(wire, intake, first: int, tmp_path) -> None:
    joined = wire.join()
    code, text = wire.refused(EXCHANGE, exchange_of(joined, first_available=first))
    assert code is grpc.StatusCode.INVALID_ARGUMENT and "the spool is damaged" in text
    assert intake.totals().refused == 0
    # The session goes on, and nothing of it is on the disk.
    reply = wire.call(EXCHANGE, exchange_of(joined, encoded(joined.session, [4])))
    assert (reply.wanted, reply.refused) == (4, 0)
    assert "count" not in (tmp_path / "replay" / "ledger.jsonl").read_text()


@pytest.mark.parametrize("number", [2**64 - 5, 2**63 - 1, LAST_NUMBER])
def test_records_with_sequence_numbers_without_end_are_refused(wire, intake, number: int) -> None:
    joined = wire.join()
    steps = [dataclasses.replace(step, sequence=number + n) for n, step in enumerate(steps_of(joined.session, [3]))]
    encoder = RecordEncoder(SPEC)
    code, _ = wire.refused(EXCHANGE, exchange_of(joined, [encoder.encode(step) for step in steps]))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert intake.totals() == (0, 0, 0, 0)


@pytest.mark.parametrize("episode", [2**64 - 1, 2**63, LAST_NUMBER + 1])
def test_an_episode_number_that_no_file_holds_is_refused(episode: int) -> None:
    (step,) = make_episode(0, 1)
    record = RecordEncoder(SPEC).encode(dataclasses.replace(step, episode=episode, sequence=0))
    (item,) = RecordDecoder(SPEC, "robot", 1).decode([read_record(record, True)])
    assert "numbers of episodes end" in item.reason


@pytest.mark.parametrize("newest", [2**64 - 1, 2**63, LAST_NUMBER, MOST_SKIPPED + 1])
def test_a_session_number_that_nobody_reached_is_refused_and_spoils_no_name(wire, newest: int) -> None:
    code, text = wire.refused(
        JOIN, messages.JoinRequest(protocol=PROTOCOL, actor="robot", facts=FACTS, newest_session=newest)
    )
    assert code is grpc.StatusCode.INVALID_ARGUMENT and "the spool is damaged" in text
    sessions = [wire.join(newest_session=known).session for known in (0, MOST_SKIPPED)]
    sessions += [wire.join(newest_session=sessions[-1]).session for _ in range(2)]
    assert sessions == [1, MOST_SKIPPED + 1, MOST_SKIPPED + 2, MOST_SKIPPED + 3]


def test_a_hundred_thousand_cameras_are_sixteen(wire, server) -> None:
    joined = wire.join()
    pictures = {f"camera {number}": b"x" for number in range(100_000)} | {CLEAR: b"x", "n" * 1000: b"x", "": b"x"}
    statistics = messages.ActorStatistics(pictures=pictures)
    wire.call(EXCHANGE, exchange_of(joined, statistics=statistics))
    kept = server.actors()["robot"].pictures
    assert len(kept) == 16 and all(name.startswith("camera ") for name in kept)


@pytest.mark.parametrize(
    ("field", "kept"),
    [
        ({"practice": {f"practice/{'x' * (n % 90)}": float(n) for n in range(100_000)}}, lambda actor: actor.practice),
        ({"practice": {f"reset {n}": 1.0 for n in range(100_000)}}, lambda actor: actor.practice),
        ({"pictures": {"n" * n: b"x" for n in range(3000)}}, lambda actor: actor.pictures),
        ({"words": ["w"] * 1_000_000, "words_said": 2**64 - 1}, lambda actor: ()),
    ],
    ids=["practice", "other names", "long names", "words"],
)
def test_so_is_whatever_else_is_listed(wire, server, field, kept) -> None:
    joined = wire.join()
    wire.call(EXCHANGE, exchange_of(joined, statistics=messages.ActorStatistics(**field)))
    assert len(kept(server.actors()["robot"])) <= 64 and len(server.take_words()) <= 11


@pytest.mark.parametrize("facts", [{str(n): n for n in range(100_000)}, {CLEAR * 10_000: 1}, {"spec": "x" * 2_000_000}])
def test_facts_that_differ_without_end_are_refused_in_a_few_words(wire, server, facts) -> None:
    spec = SPEC.to_json() | {"extra": facts}
    code, text = wire.refused(
        JOIN, messages.JoinRequest(protocol=PROTOCOL, actor="robot", facts=json.dumps({"spec": spec}))
    )
    assert code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)
    assert len(text) <= 4000 and all(len(note) <= 1000 and note.isprintable() for note in server.take_notes())


def test_statistics_are_numbers_that_a_robot_can_reach() -> None:
    most = 2**64 - 1
    for held in (float("nan"), float("inf"), -1.0, 1e300):
        counts = dict.fromkeys(("produced", "spooled", "refused_policies"), most)
        problem = CLEAR + "x" * 9000
        statistics = trusted_statistics(messages.ActorStatistics(**counts, held_seconds=held, picture_problem=problem))
        assert (statistics.produced, statistics.spooled, statistics.refused_policies, statistics.held_seconds) == (
            0,
            0,
            0,
            0.0,
        )
        assert statistics.picture_problem.isprintable() and len(statistics.picture_problem) <= 200
    good = trusted_statistics(messages.ActorStatistics(produced=7, spooled=3, held_seconds=1.5))
    assert (good.produced, good.spooled, good.held_seconds) == (7, 3, 1.5)


def test_an_episode_that_never_ends_is_stored_in_pieces(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "OPEN_STEPS", 10)
    intake = Intake(tmp_path, SPEC)
    session = intake.open_session("robot", 0)
    for number, step in enumerate(make_episode(0, 35, end="")):
        intake.offer("robot", session, [dataclasses.replace(step, session=session, episode=0, sequence=number)])
        assert len(intake._sessions["robot", session].open) < 10
    assert intake.flush(60)
    assert intake.progress("robot", session).settled == 30
    intake.close_session("robot", session)
    intake.close()
    with EpisodeStore.open(tmp_path / "episodes") as store:
        assert [record.steps for record in store.records] == [10, 10, 10, 5]
        assert [record.sequence for record in store.records] == [0, 10, 20, 30]
        states = [store.arrays(number).observation["state"] for number in range(4)]
        assert all((a[-1] == b[0]).all() for a, b in itertools.pairwise(states))  # no observation is lost at a seam


@pytest.mark.parametrize(
    ("verdict", "most"),
    [
        (Verdict(changed=True, message="x" * 500), 40),
        (Verdict(changed=True, reasons=("r" * 64,) * 16), 12),
        (Verdict(changed=True, reasons=("",) * 16), 21),
        (PASSED, 100),
    ],
)
def test_texts_of_verdicts_count_as_memory(tmp_path, monkeypatch: pytest.MonkeyPatch, verdict: Verdict, most) -> None:
    monkeypatch.setattr(intake_module, "OPEN_BYTES", 28_000)
    intake = Intake(tmp_path, SPEC)
    monkeypatch.setattr(intake, "_step_bytes", 280)
    session = intake.open_session("robot", 0)
    longest = 0
    for number, step in enumerate(make_episode(0, 110, end="")):
        taken = dataclasses.replace(step, session=session, episode=0, sequence=number, verdict=verdict)
        intake.offer("robot", session, [taken])
        longest = max(longest, len(intake._sessions["robot", session].open) + 1)
    assert intake.flush(60) and intake._unstored_bytes == 0
    intake.close()
    assert most - 6 <= longest <= most


def test_large_observations_end_a_piece_by_their_bytes(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "OPEN_BYTES", 5 * 2000)
    intake = Intake(tmp_path, SPEC)
    session = intake.open_session("robot", 0)
    for number, step in enumerate(make_episode(0, 20, end="")):
        intake.offer("robot", session, [dataclasses.replace(step, session=session, episode=0, sequence=number)])
        assert len(intake._sessions["robot", session].open) <= 5
    intake.close()


def refuse(admission: Admission, kind: str, text: str) -> None:
    def abort(code: object, text: str) -> None:
        raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError):
        admission.refuse(SimpleNamespace(peer=lambda: "somebody", abort=abort), grpc.StatusCode.ABORTED, kind, text)


def test_wrong_tokens_do_not_flood_the_log() -> None:
    clock = ManualClock()
    admission = Admission(LOCAL, clock)
    lines = 0
    for _ in range(24 * 360):  # a day, in steps of 10 s
        for _ in range(3):
            refuse(admission, "token", "wrong")
        lines += len(admission.take_notes())
        clock.advance_ns(NOTE_INTERVAL_NS)
    assert 100 < lines < 200
    assert admission.refusals["token"] == 3 * 24 * 360
    clock.advance_ns(100 * NOTE_INTERVAL_NS)  # after a silence it is told at once again
    refuse(admission, "token", "wrong")
    assert len(admission.take_notes()) == 1


def test_nor_do_joins_and_nothing_is_kept_that_nobody_takes() -> None:
    clock = ManualClock()
    admission = Admission(LOCAL, clock)
    for number in range(10_000):
        admission.note(f"robot joined (session {number})")
    assert len(admission.take_notes()) == MOST_NOTES
    clock.advance_ns(NOTE_INTERVAL_NS)
    admission.note("robot joined (session 1)")
    left_out = f"{10_000 - MOST_NOTES} more lines on actors were left out"
    assert admission.take_notes() == [left_out, "robot joined (session 1)"]


def test_control_characters_reach_neither_notes_nor_terminal(wire, server) -> None:
    facts = {"spec": {**SPEC.to_json(), "extra": {CLEAR: CLEAR}}, "agent": {}}
    wire.refused(JOIN, messages.JoinRequest(protocol=PROTOCOL, actor="robot", facts=json.dumps(facts)))
    wire.refused(JOIN, messages.JoinRequest(protocol=PROTOCOL, actor="robot", run=CLEAR, facts="{}"))
    notes = server.take_notes()
    assert len(notes) == 2 and all(note.isprintable() for note in notes)
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, markup=False, highlight=False)
    for text in (CLEAR, "a\x00b\x08c", "\u202etxt.exe\u200b", "\x1b[31mred"):
        console.print(text, style="bold")
    output = stream.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert not any(ord(character) < 32 and character != "\n" for character in output)
    assert "\x9b" not in output and "\u202e" not in output and "[31mred" in output


NO_FACTS = ["", "[", "[" * 100_000, "3", "null", '{"spec": 3}', '{"spec": {}}', '{"a": NaN}', '{"spec": [[]]}']


@pytest.mark.parametrize("facts", NO_FACTS, ids=range(len(NO_FACTS)))
def test_facts_that_are_none_are_refused(wire, facts: str) -> None:
    code, text = wire.refused(JOIN, messages.JoinRequest(protocol=PROTOCOL, actor="robot", facts=facts))
    assert code is grpc.StatusCode.INVALID_ARGUMENT and "facts cannot be read" in text
