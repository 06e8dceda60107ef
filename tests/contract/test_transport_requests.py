"""Replayed, stale and malformed requests, and those beyond a cap or a rate."""

import dataclasses
import hashlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest

from robo_rl.core import ArraySpec, ManualClock, TransportError
from robo_rl.transport import RecordDecoder, RecordEncoder
from robo_rl.transport import messages_pb2 as messages
from robo_rl.transport.connection import retry_seconds
from robo_rl.transport.service import EXCHANGE, JOIN, PROTOCOL, RETRY_KEY, WATCH, metadata
from robo_rl.transport.views import PRESENT_SECONDS

from ..rigs.replay_episodes import SPEC, assert_same
from ..rigs.transport_rig import ActorRig, make_server, steps_of, stored_steps, wait_until
from .conftest import LOCAL, config_for


class Wire:
    """Requests by hand."""

    def __init__(self, server) -> None:
        self.channel = grpc.insecure_channel(server.address)
        self.server = server

    def call(self, call, request):
        method = self.channel.unary_unary(call.path, call.request.SerializeToString, call.reply.FromString)
        return method(request, timeout=60, metadata=metadata(LOCAL.token()))

    def refused(self, call, request) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.RpcError) as caught:
            self.call(call, request)
        return caught.value.code(), caught.value.details()

    def join(self, **fields):
        facts = json.dumps({"spec": SPEC.to_json()})
        request = messages.JoinRequest(**({"protocol": PROTOCOL, "actor": "robot", "facts": facts} | fields))
        return self.call(JOIN, request)


@pytest.fixture
def wire(server) -> Iterator[Wire]:
    made = Wire(server)
    yield made
    made.channel.close()


def exchange_of(joined, records: Sequence[bytes] = (), **fields) -> messages.ExchangeRequest:
    return messages.ExchangeRequest(
        **{
            "run": joined.run,
            "incarnation": joined.incarnation,
            "actor": "robot",
            "session": joined.session,
            "record_session": joined.session,
            "records": records,
        }
        | fields
    )


def encoded(rig_session: int, lengths: list[int]) -> list[bytes]:
    encoder = RecordEncoder(SPEC)
    return [encoder.encode(step) for step in steps_of(rig_session, lengths)]


def test_a_replayed_request_stores_nothing_twice(intake, wire, tmp_path: Path) -> None:
    joined = wire.join()
    request = exchange_of(joined, encoded(joined.session, [6]))
    for _ in range(3):
        reply = wire.call(EXCHANGE, request)
        assert reply.wanted == 6
    assert intake.flush(120)
    assert intake.totals()[:3] == (6, 6, 0)
    assert_same(stored_steps(tmp_path / "replay")["robot", 1], steps_of(1, [6]))


def test_a_session_that_took_over_waits_for_what_the_one_before_has_under_way(
    intake, wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The actor's process died with a request at the learner, and the next one sends the same steps again."""
    busy, transition = threading.Event(), RecordDecoder._transition

    def slow(decoder, *record):
        busy.set()
        time.sleep(0.02)
        return transition(decoder, *record)

    monkeypatch.setattr(RecordDecoder, "_transition", slow)
    first = wire.join()
    records = encoded(first.session, [40])
    with ThreadPoolExecutor(1) as thread:
        under_way = thread.submit(wire.call, EXCHANGE, exchange_of(first, records))
        assert busy.wait(60)
        second = wire.join(newest_session=first.session, held_sessions=[first.session])
        again = exchange_of(second, records, record_session=first.session, session_ended=True)
        assert wire.call(EXCHANGE, again).wanted == under_way.result().wanted == 40
    assert intake.flush(120) and intake.totals()[:3] == (40, 40, 0)
    assert_same(stored_steps(tmp_path / "replay")["robot", first.session], steps_of(first.session, [40]))


def test_a_request_that_comes_too_early_is_asked_for_again(intake, wire) -> None:
    joined = wire.join()
    records = encoded(joined.session, [6, 3])
    assert wire.call(EXCHANGE, exchange_of(joined, records[4:])).wanted == 0
    assert wire.call(EXCHANGE, exchange_of(joined, records[:5])).wanted == 5
    assert wire.call(EXCHANGE, exchange_of(joined, records[2:])).wanted == 9
    assert intake.flush(120) and intake.totals()[:3] == (9, 9, 0)


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"run": "run-2"}, grpc.StatusCode.FAILED_PRECONDITION, "this is the learner of run run-1, not of run-2"),
        ({"run": ""}, grpc.StatusCode.FAILED_PRECONDITION, "this is the learner of run run-1, not of none"),
        ({"incarnation": "old"}, grpc.StatusCode.ABORTED, "the learner was restarted; join again"),
        ({"actor": "other"}, grpc.StatusCode.ABORTED, "join again"),
        ({"actor": "../x"}, grpc.StatusCode.INVALID_ARGUMENT, "an actor's name consists of letters"),
        ({"session": 2, "record_session": 2}, grpc.StatusCode.ABORTED, "join again"),
        ({"record_session": 2}, grpc.StatusCode.FAILED_PRECONDITION, "robot has no session 2 here"),
        ({"record_session": 0}, grpc.StatusCode.FAILED_PRECONDITION, "robot has no session 0 here"),
        ({"records": [b"\xff"]}, grpc.StatusCode.INVALID_ARGUMENT, "a record is damaged"),
        (
            {"records": [messages.Record(sequence=n).SerializeToString() for n in (0, 2)]},
            grpc.StatusCode.INVALID_ARGUMENT,
            "records are not in sequence",
        ),
    ],
)
def test_what_does_not_belong_here_is_refused(intake, wire, fields, code, text) -> None:
    joined = wire.join()
    found = wire.refused(EXCHANGE, exchange_of(joined, **fields))
    assert found[0] == code and text in found[1]
    assert intake.totals().taken == 0


def test_sessions_that_never_were_or_are_over_are_refused(wire) -> None:
    first = wire.join()
    wire.join()
    code, text = wire.refused(EXCHANGE, exchange_of(first, []))
    assert code == grpc.StatusCode.ALREADY_EXISTS and "session 1 of robot was replaced by 2" in text
    for fields, wanted in (
        ({"session": 1}, "another actor has taken the name robot"),
        ({"session": 9}, "robot has no session 9 here"),
        ({"newest_session": 2**60}, "the spool is damaged"),
        ({"protocol": 1}, "the learner speaks protocol 4, the actor 1; install the same version of robo-rl on both"),
        ({"facts": "{"}, "the actor's facts cannot be read"),
        ({"facts": "[" * 5000}, "the actor's facts cannot be read"),
        ({"facts": '{"spec": {"observation": 3}}'}, "the actor's facts cannot be read"),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            wire.join(**fields)
        assert wanted in caught.value.details()


def test_a_message_beyond_the_cap_is_refused(intake, tmp_path: Path) -> None:
    server = make_server(dataclasses.replace(LOCAL, message_bytes=65536), intake)
    wire = Wire(server)
    joined = wire.join()
    code, text = wire.refused(EXCHANGE, exchange_of(joined, [bytes(70_000)]))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED and "65536" in text
    assert wire.call(EXCHANGE, exchange_of(joined, [])).wanted == 0
    wire.channel.close()
    server.close(0)


def test_an_actor_sends_no_larger_messages_than_its_learner_takes(intake, tmp_path: Path) -> None:
    server = make_server(dataclasses.replace(LOCAL, message_bytes=65536), intake)
    large = dataclasses.replace(SPEC, observation={"images/front": ArraySpec((128, 128, 3), "uint8")})
    with pytest.raises(TransportError, match=r"accepts messages of 65536 .* raise its runtime.transport.message_bytes"):
        rig = ActorRig(config_for(server), tmp_path / "large", spec=large)
        rig.link._sender._facts = json.dumps({"spec": SPEC.to_json()})
        rig.join()
    rig.close()
    rig = ActorRig(config_for(server), tmp_path / "spool")
    session = rig.join()
    steps = steps_of(session, [100])
    rig.put(steps)
    rig.finish()
    rig.close()
    server.close(0)
    assert_same(stored_steps(tmp_path / "replay")["robot", session], steps)


@pytest.mark.parametrize("limit", [{"bytes_per_second": 200_000.0}, {"requests_per_second": 4.0}])
def test_an_actor_that_sends_too_much_is_told_to_wait_and_loses_nothing(intake, tmp_path: Path, limit) -> None:
    clock = ManualClock()
    server = make_server(dataclasses.replace(LOCAL, **limit), intake, clock=clock)
    rig = ActorRig(config_for(server), tmp_path / "spool")
    session = rig.join()
    rig.link._sender._batch_bytes = 50_000
    steps = steps_of(session, [100, 100])
    rig.put(steps)
    wait_until(lambda: "robot sends more than" in rig.link.status.blocked)

    def stored_after_another_second() -> bool:
        clock.advance_ns(1_000_000_000)
        return intake.totals().stored == len(steps)

    wait_until(stored_after_another_second)
    rig.finish()
    rig.close()
    assert intake.totals()[:3] == (200, 200, 0)
    assert_same(stored_steps(tmp_path / "replay")["robot", session], steps)
    assert any("robot sends more than" in note and "per second; try again in" in note for note in server.take_notes())
    server.close(0)


def test_the_rate_of_one_actor_is_no_other_actors(intake) -> None:
    server = make_server(dataclasses.replace(LOCAL, requests_per_second=2.0), intake)
    wire = Wire(server)
    greedy = wire.join(actor="greedy")
    refused = 0
    for _ in range(20):
        try:
            wire.call(EXCHANGE, exchange_of(greedy, [], actor="greedy"))
        except grpc.RpcError as error:
            refused += 1
            assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert float(dict(error.trailing_metadata())[RETRY_KEY]) > 0
    assert refused > 0
    modest = wire.join(actor="modest")
    assert wire.call(EXCHANGE, exchange_of(modest, [], actor="modest")).wanted == 0
    wire.channel.close()
    server.close(0)


def test_more_actors_than_allowed_are_refused(intake) -> None:
    server = make_server(dataclasses.replace(LOCAL, max_actors=1), intake)
    wire = Wire(server)
    joined = wire.join(actor="one")
    with pytest.raises(grpc.RpcError) as caught:
        wire.join(actor="two")
    assert caught.value.details() == "1 actors are connected already"
    assert retry_seconds(caught.value) == PRESENT_SECONDS, "it may come again"
    leaving = exchange_of(joined, [])
    leaving.actor, leaving.session_ended = "one", True
    wire.call(EXCHANGE, leaving)
    wire.join(actor="two")
    with pytest.raises(grpc.RpcError):
        wire.join(actor="one")
    wire.channel.close()
    server.close(0)


def test_actors_that_are_gone_without_a_word_make_room(intake) -> None:
    clock = ManualClock()
    server = make_server(dataclasses.replace(LOCAL, max_actors=1), intake, clock=clock)
    wire = Wire(server)
    gone = wire.join(actor="one")
    clock.advance_ns(int(PRESENT_SECONDS * 1e9))
    assert not server.order("one", "success"), "it would be about another episode when it comes back"
    present = wire.join(actor="two")
    with pytest.raises(grpc.RpcError, match="1 actors are connected already"):
        wire.join(actor="one", session=gone.session)
    wire.join(actor="two", session=present.session)
    assert server.order("two", "success")
    wire.channel.close()
    server.close(0)


def test_of_an_actors_own_names_and_numbers_only_sound_ones_are_kept(server, wire) -> None:
    joined = wire.join()
    practice = {"length": 1.0, "practice/resets": 2.0, "practice/rate": np.nan, "practice/\n": 1.0}
    many = {f"practice/{'a' * number}": 1.0 for number in range(1, 60)}
    for given, kept in ((practice, {"practice/resets": 2.0}), (many, None)):
        statistics = messages.ActorStatistics(practice=given, practice_state="\x1b[2J")
        wire.call(EXCHANGE, exchange_of(joined, statistics=statistics))
        view = server.actors()["robot"]
        assert view.practice_state == ""
        assert len(view.practice) == 32 if kept is None else view.practice == kept


def remaining_orders(notices: Iterator[messages.Notice]) -> list[str]:
    """Return the orders in what is left of a replaced stream."""
    orders: list[str] = []
    try:
        for notice in notices:
            orders += notice.guidance.orders
    except grpc.RpcError as error:
        # The server cancels a stream that is replaced before its last notice is known to be sent.
        assert error.code() is grpc.StatusCode.CANCELLED
    return orders


def test_only_the_newest_watch_of_an_actor_is_given_orders(server, wire) -> None:
    joined = wire.join()
    call = wire.channel.unary_stream(WATCH.path, WATCH.request.SerializeToString, WATCH.reply.FromString)
    fields = {"run": joined.run, "incarnation": joined.incarnation, "actor": "robot", "session": joined.session}
    first = call(messages.WatchRequest(**fields), timeout=60, metadata=metadata(LOCAL.token()))
    assert next(first).HasField("guidance")
    wire.join(session=joined.session)
    assert server.order("robot", "success")
    assert [order for notice in first for order in notice.guidance.orders] == [], "it ends without them"
    second = call(messages.WatchRequest(**fields), timeout=60, metadata=metadata(LOCAL.token()))
    assert next(second).guidance.orders == ["success"]
    third = call(messages.WatchRequest(**fields), timeout=60, metadata=metadata(LOCAL.token()))
    assert next(third).HasField("guidance")
    server.order("robot", "reset")
    assert remaining_orders(second) == []
    assert next(notice for notice in third if notice.guidance.orders).guidance.orders == ["reset"]


def test_a_watch_ends_when_its_session_is_replaced(server, wire) -> None:
    joined = wire.join()
    call = wire.channel.unary_stream(WATCH.path, WATCH.request.SerializeToString, WATCH.reply.FromString)
    fields = {"run": joined.run, "incarnation": joined.incarnation, "actor": "robot", "session": joined.session}
    notices = call(messages.WatchRequest(**fields), timeout=60, metadata=metadata(LOCAL.token()))
    assert next(notices).HasField("guidance")
    wire.join()
    server.publish(1, {"weight": np.ones(2, np.float32)})
    with pytest.raises(grpc.RpcError) as caught:
        list(notices)
    assert caught.value.code() == grpc.StatusCode.ALREADY_EXISTS


def test_the_checked_in_code_is_that_of_the_schema(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    script = root / "tests" / "rigs" / "transport_schema.sh"
    subprocess.run([script, tmp_path], check=True, env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"})
    for name in ("messages_pb2.py", "messages_pb2.pyi"):
        made, kept = ((folder / name).read_bytes() for folder in (tmp_path, root / "robo_rl" / "transport"))
        assert hashlib.sha256(made).digest() == hashlib.sha256(kept).digest(), f"run {script.name}"
