"""Peers of a learner that keep to no protocol: none takes its memory, its threads or its connections from actors."""

import contextlib
import dataclasses
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
from google.protobuf.message import DecodeError

from robo_rl.replay import Intake
from robo_rl.transport import LearnerServer, TransportConfig, make_keys, send_command, service
from robo_rl.transport import messages_pb2 as messages
from robo_rl.transport.framing import MOST_FIELDS, split_fields
from robo_rl.transport.server import LEASES_PER_ACTOR
from robo_rl.transport.service import EXCHANGE, WATCH, metadata

from ..contract.test_transport_requests import Wire, exchange_of
from ..rigs import tls_strangers
from ..rigs.http2 import END_OF_HEADERS, HEADERS, RESET, call_headers, connected, frame, wait_for_end
from ..rigs.replay_episodes import SPEC, assert_same
from ..rigs.transport_rig import ActorRig, make_server, steps_of, stored_steps, wait_until

LOCAL = TransportConfig("127.0.0.1:0", timeout_seconds=20.0, max_actors=2)


@pytest.fixture
def intake(tmp_path: Path) -> Iterator[Intake]:
    made = Intake(tmp_path / "replay", SPEC)
    yield made
    made.close()


@pytest.fixture
def server(intake: Intake) -> Iterator[LearnerServer]:
    made = make_server(LOCAL, intake)
    yield made
    made.close(0)


@pytest.fixture
def wire(server: LearnerServer) -> Iterator[Wire]:
    made = Wire(server)
    yield made
    made.channel.close()


def assert_serves(server: LearnerServer, folder: Path, actor: str = "honest") -> None:
    """Check that an actor joins, and that its steps arrive."""
    rig = ActorRig(dataclasses.replace(LOCAL, address=server.address), folder / f"spool-{actor}", actor)
    try:
        rig.put(steps_of(rig.join(), [5, 4], actor))
        rig.finish()
    finally:
        rig.close()


def test_connections_without_a_call_are_closed_and_keep_no_actor_out(
    intake: Intake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have exchanged settings, so that no handshake is open any more."""
    monkeypatch.setattr(service, "STRANGER_SECONDS", 1.0)
    monkeypatch.setattr(service, "MOST_CONNECTIONS", 30)
    server = make_server(LOCAL, intake)
    with contextlib.ExitStack() as ends:
        ends.callback(server.close, 0)
        strangers = [ends.enter_context(connected(server.address)) for _ in range(30)]
        assert_serves(server, tmp_path)
        for stranger in strangers:
            wait_for_end(stranger, 20)


@pytest.mark.parametrize("kind", tls_strangers.KINDS)
def test_strangers_who_spoil_tls_keep_neither_an_actor_nor_an_operator_out(
    kind: str, intake: Intake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are more of them than the learner has connections, and they come again when they are closed."""
    monkeypatch.setattr(service, "STRANGER_SECONDS", 0.5)
    monkeypatch.setattr(service, "MOST_CONNECTIONS", 20)
    make_keys(tmp_path / "keys", ["127.0.0.1"], ["robot"])
    secured = dataclasses.replace(LOCAL, certificates=str(tmp_path / "keys"))
    server = make_server(secured, intake)
    host, _, port = server.address.rpartition(":")
    over = threading.Event()

    def come_again() -> None:
        while not over.wait(0.5):
            with contextlib.suppress(OSError), tls_strangers.tls_stranger((host, int(port)), kind) as stranger:
                stranger.settimeout(1.0)
                while stranger.recv(4096):
                    pass

    with contextlib.ExitStack() as ends:
        ends.callback(server.close, 0)
        pool = ends.enter_context(ThreadPoolExecutor(30))
        ends.callback(over.set)
        for _ in range(30):
            pool.submit(come_again)
        time.sleep(0.8)  # the strangers take the connections that the learner allows, and come again once
        connection = dataclasses.replace(secured, address=server.address)
        for command in ("pause", "resume"):
            assert send_command(connection, command).endswith(f"{command}: accepted")
        rig = ActorRig(connection, tmp_path / "spool")
        rig.put(steps_of(rig.join(), [5]))
        rig.finish()
        rig.close()


SPOILED = """
import sys, time
from pathlib import Path
from robo_rl.replay import Intake
from robo_rl.transport import TransportConfig, make_keys
from tests.rigs.replay_episodes import SPEC
from tests.rigs.tls_strangers import KINDS, tls_stranger
from tests.rigs.transport_rig import make_server

folder = Path(sys.argv[1])
make_keys(folder / "keys", ["127.0.0.1"], ["robot"])
server = make_server(TransportConfig("127.0.0.1:0", certificates=str(folder / "keys")), Intake(folder / "data", SPEC))
strangers = [tls_stranger(("127.0.0.1", int(server.address.rpartition(":")[2])), kind) for kind in KINDS]
time.sleep(0.5)  # the handshakes fail in another thread, and nothing says when
server.close(0)
"""


def test_handshakes_that_fail_write_nothing_to_the_learners_terminal(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2]
    learner = subprocess.run([sys.executable, "-c", SPOILED, tmp_path], cwd=folder, capture_output=True, timeout=60)
    assert (learner.returncode, learner.stderr) == (0, b"")


def test_a_connection_without_the_token_ends_with_its_first_call(server: LearnerServer, tmp_path: Path) -> None:
    """Otherwise calls that are opened and reset at once would fill the queue of the learner's threads."""
    headers = call_headers(EXCHANGE.path, server.address)
    cancel = struct.pack(">I", 8)
    with contextlib.ExitStack() as ends:
        for ended in (True, False):
            stranger = ends.enter_context(connected(server.address))
            calls = b"".join(
                frame(HEADERS, END_OF_HEADERS, number, headers) + frame(RESET, 0, number, cancel) * ended
                for number in range(1, 6001, 2)
            )
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                stranger.sendall(calls)
            wait_for_end(stranger, 20)
        assert_serves(server, tmp_path)
    assert 1 <= server.refusals["token"] < 2000


@pytest.mark.parametrize("names", [["robot"], ["a", "b", "c", "d", "e", "f"]], ids=["one name", "many names"])
def test_streams_that_nobody_reads_take_no_thread_from_actors(
    server: LearnerServer, wire: Wire, tmp_path: Path, names: list[str]
) -> None:
    server.publish(1, {"weight": np.zeros(1 << 20, np.float32)})  # more than a connection takes without a reader
    threads = threading.active_count()
    channels = []
    for name in names:
        joined = wire.join(actor=name)
        request = {"run": joined.run, "incarnation": joined.incarnation, "actor": name, "session": joined.session}
        for _ in range(60 // len(names)):
            channel = grpc.insecure_channel(server.address, [("grpc.use_local_subchannel_pool", 1)])
            call = channel.unary_stream(WATCH.path, WATCH.request.SerializeToString)
            unread = call(messages.WatchRequest(**request), metadata=metadata(LOCAL.token()))
            channels.append((channel, unread))
        wire.call(EXCHANGE, exchange_of(joined, actor=name, session_ended=True))
    assert_serves(server, tmp_path)
    wait_until(lambda: len(server._notices._streams._streams) <= LOCAL.max_actors)
    assert threading.active_count() - threads <= 80
    for channel, _ in channels:
        channel.close()


def test_names_without_end_are_forgotten_and_an_actor_among_them_loses_nothing(
    intake: Intake, wire: Wire, server: LearnerServer, tmp_path: Path
) -> None:
    rig = ActorRig(dataclasses.replace(LOCAL, address=server.address), tmp_path / "spool")
    session = rig.join()
    steps = steps_of(session, [6, 5])
    rig.put(steps[:6])
    wait_until(lambda: rig.link.status.stored == 6)
    for number in range(30):
        name = f"name{number}"
        joined = wire.join(actor=name)
        wire.call(EXCHANGE, exchange_of(joined, actor=name, session_ended=True))
    most = LEASES_PER_ACTOR * LOCAL.max_actors
    assert len(server.actors()) <= most and "robot" in server.actors(), "it is present"
    assert len(server._admission._allowances) <= most + 1 and len(server._calls._receiver._decoders) <= most
    # As if it had been silent for longer than the others.
    with server._notices.news:
        del server._leases._leases["robot"]
    rig.put(steps[6:])
    rig.finish()
    rig.close()
    assert_same(stored_steps(tmp_path / "replay")["robot", session], steps)


def test_a_message_of_millions_of_records_is_refused_before_they_are_read(wire: Wire, server: LearnerServer) -> None:
    joined = wire.join()
    field = bytes([messages.ExchangeRequest.RECORDS_FIELD_NUMBER << 3 | 2, 0])
    assert len(split_fields(field * MOST_FIELDS, messages.ExchangeRequest.RECORDS_FIELD_NUMBER)[1][0]) == MOST_FIELDS
    with pytest.raises(DecodeError, match="more than 65536 fields"):
        split_fields(field * 4_000_000, messages.ExchangeRequest.RECORDS_FIELD_NUMBER)
    code, text = wire.refused(EXCHANGE, exchange_of(joined, [b""] * (MOST_FIELDS + 1)))
    assert code is grpc.StatusCode.INVALID_ARGUMENT and "this is not a Exchange request" in text


def test_small_records_that_are_refused_take_a_line_of_the_ledger_and_count_as_memory(
    wire: Wire, intake: Intake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = wire.join()
    records = [messages.Record(sequence=number).SerializeToString() for number in range(20_000)]
    reply = wire.call(EXCHANGE, exchange_of(joined, records))
    assert reply.wanted == 20_000
    assert intake.flush(60) and intake.totals().refused == 20_000 and intake._unstored_bytes == 0
    ledger = (tmp_path / "replay" / "ledger.jsonl").read_bytes()
    assert len(ledger) < 1000 and b'"count": 20000' in ledger
    disk = threading.Event()
    monkeypatch.setattr(intake, "_store", lambda batch: disk.wait(60))
    monkeypatch.setattr(intake, "_backlog_bytes", 10_000)
    for number in range(100):
        refused = messages.Record(sequence=20_000 + number, refusal=f"{number}").SerializeToString()
        blocked = wire.call(EXCHANGE, exchange_of(joined, [refused])).blocked
        if blocked:
            break
    disk.set()
    assert blocked == "the learner's disk is slower than its actors"


@pytest.mark.parametrize("text", ["x", "\x1b[2J", "\N{PILE OF POO}"])
def test_texts_without_end_come_back_as_a_line(wire: Wire, server: LearnerServer, text: str) -> None:
    joined = wire.join()
    code, answer = wire.refused(EXCHANGE, exchange_of(joined, run=text * 500_000))
    assert code is grpc.StatusCode.FAILED_PRECONDITION and "this is the learner of run run-1, not of" in answer
    assert len(answer) <= 4000 and answer.isprintable()
    assert all(len(note) <= 1000 and note.isprintable() for note in server.take_notes())


def test_a_message_that_is_too_large_is_noted_with_its_sender(wire: Wire, server: LearnerServer) -> None:
    joined = wire.join()
    code, _ = wire.refused(EXCHANGE, exchange_of(joined, [bytes(LOCAL.message_bytes + 1)]))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    notes: list[str] = []
    wait_until(lambda: bool(notes.extend(server.take_notes()) or any("Refused" in note for note in notes)))
    (note,) = [note for note in notes if "Refused" in note]
    assert "from ipv4:127.0.0.1:" in note and "or with one of more than 8388608 bytes" in note
