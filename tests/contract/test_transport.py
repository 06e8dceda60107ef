"""Both ends of the wire together, in one process."""

import dataclasses
import hashlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc
import numpy as np
import pytest

from robo_rl.actor import Spool
from robo_rl.core import ArraySpec, ConfigError, TransportError
from robo_rl.replay import Intake
from robo_rl.transport import LearnerLink, RecordEncoder, TransportConfig, make_keys, send_command
from robo_rl.transport import client as client_module
from robo_rl.transport import messages_pb2 as messages
from robo_rl.transport.policy import PolicyMessage
from robo_rl.transport.service import EXCHANGE, JOIN, PROTOCOL, RETRY_KEY, WATCH

from ..replay_episodes import SPEC, assert_same
from ..transport_rig import RUN, ActorRig, make_server, steps_of, stored_steps, wait_until

LOCAL = TransportConfig("127.0.0.1:0", timeout_seconds=20.0)


@pytest.fixture
def intake(tmp_path: Path) -> Iterator[Intake]:
    made = Intake(tmp_path / "replay", SPEC)
    yield made
    made.close()


@pytest.fixture
def server(intake: Intake):
    made = make_server(LOCAL, intake)
    yield made
    made.close(0)


def config_for(server) -> TransportConfig:
    return dataclasses.replace(LOCAL, address=server.address)


@pytest.fixture
def rig(server, tmp_path: Path) -> Iterator[ActorRig]:
    made = ActorRig(config_for(server), tmp_path / "spool")
    yield made
    made.close()


@pytest.mark.parametrize("batch_bytes", [1, 20_000, 4 << 20])
def test_steps_arrive_once_and_in_order_and_leave_the_spool_when_stored(
    intake, rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_bytes: int
) -> None:
    monkeypatch.setattr(client_module, "BATCH_BYTES", batch_bytes)
    rig.close()
    rig = ActorRig(rig.link._config, tmp_path / "other spool")
    session = rig.join()
    steps = steps_of(session, [12, 30, 5])
    rig.put(steps[:20])
    wait_until(lambda: intake.totals().taken == 20)
    assert intake.progress("robot", session).stored <= 12
    assert rig.spool.held_records >= 8, "the open episode is not stored, so it stays with the actor"
    rig.put(steps[20:])
    rig.finish()
    assert rig.spool.sessions() == [] and rig.spool.held_bytes == 0
    assert intake.totals() == (47, 47, 0, 0)
    assert_same(intake.take(), steps)
    rig.close()
    assert_same(stored_steps(tmp_path / "replay")["robot", session], steps)


def test_an_open_episode_is_stored_when_the_session_ends(intake, rig, tmp_path: Path) -> None:
    session = rig.join()
    steps = steps_of(session, [12])[:7]
    rig.put(steps)
    rig.finish()
    assert_same(stored_steps(tmp_path / "replay")["robot", session], steps)


def test_policy_and_guidance_come_down(server, rig) -> None:
    server.publish(3, {"weight": np.arange(400_000, dtype=np.float64)})
    rig.join()
    assert rig.link.wait_for_policy(120)
    version, state = rig.link.take_policy()
    assert version == 3
    np.testing.assert_array_equal(state["weight"], np.arange(400_000, dtype=np.float64))
    assert rig.link.take_policy() is None
    server.publish(4, {"weight": np.zeros(3, np.float32)})
    assert rig.link.wait_for_policy(120) and rig.link.take_policy()[0] == 4
    server.guide(room=0, stop=False, env_steps=12)
    wait_until(lambda: rig.link.status.hold)
    assert rig.link.status.env_steps == 12 and not rig.link.status.stop
    server.guide(room=1, stop=True, env_steps=13)
    wait_until(lambda: rig.link.status.stop)
    assert not rig.link.status.hold


def test_actors_are_held_by_the_step_that_takes_the_last_room(server, intake, rig) -> None:
    server.guide(room=3, stop=False, env_steps=0)
    steps = steps_of(rig.join(), [12])
    rig.put(steps[:2])
    wait_until(lambda: intake.totals().taken == 2)
    assert not rig.link.status.hold
    rig.put(steps[2:3])
    wait_until(lambda: rig.link.status.hold)
    server.guide(room=1, stop=False, env_steps=3)
    wait_until(lambda: not rig.link.status.hold)


@pytest.mark.parametrize("spoil", [lambda data: data[:-1] + b"\0", lambda data: data[:-1], lambda data: data + b"\0"])
def test_a_policy_that_was_damaged_on_its_way_is_not_used(server, rig, spoil, monkeypatch) -> None:
    whole = PolicyMessage.chunks

    def damaged(self):
        for chunk in whole(self):
            chunk.data = spoil(chunk.data)
            yield chunk

    monkeypatch.setattr(PolicyMessage, "chunks", damaged)
    server.publish(1, {"weight": np.ones(3, np.float32)})
    rig.join()
    assert not rig.link.wait_for_policy(0.5)
    monkeypatch.undo()
    server.publish(2, {"weight": np.ones(3, np.float32)})
    assert rig.link.wait_for_policy(120) and rig.link.take_policy()[0] == 2
    before = rig.link._damaged_policies
    server.publish(3, {"weight": np.full(3, np.nan, np.float32)})
    wait_until(lambda: rig.link._damaged_policies == before + 1)
    assert rig.link.take_policy() is None


def test_the_learner_sees_its_actors(server, rig) -> None:
    session = rig.join()
    rig.link.report(produced=7, policy_version=5, refused_policies=1, held_seconds=0.5)
    wait_until(lambda: server.actors()["robot"].produced == 7)
    view = server.actors()["robot"]
    assert (view.session, view.policy_version, view.refused_policies, view.held_seconds) == (session, 5, 1, 0.5)
    assert view.silent_seconds < 60 and not view.left
    rig.finish()
    wait_until(lambda: server.actors()["robot"].left)
    assert any("robot joined (session 1)" in note for note in server.take_notes())


def test_a_new_session_takes_over_and_empties_the_old_spool(server, intake, rig, tmp_path: Path) -> None:
    first = rig.join()
    steps = steps_of(first, [10, 10])
    rig.put(steps[:15])
    wait_until(lambda: intake.totals().taken == 15)
    rig.link.close()
    rig.put(steps[15:18])
    rig.spool.close()
    again = ActorRig(config_for(server), tmp_path / "spool")
    second = again.join()
    assert second == first + 1
    later = steps_of(second, [4])
    again.put(later)
    again.finish()
    again.close()
    found = stored_steps(tmp_path / "replay")
    assert_same(found["robot", first], steps[:18])
    assert_same(found["robot", second], later)
    assert intake.totals()[:3] == (22, 22, 0)


def test_a_second_actor_of_the_same_name_puts_the_first_out(server, rig, tmp_path: Path) -> None:
    rig.join()
    other = ActorRig(config_for(server), tmp_path / "other")
    other.join()

    def refused() -> bool:
        try:
            return rig.link.status is None
        except TransportError as error:
            assert "session 1 of robot was replaced by 2" in str(error)
            return True

    wait_until(refused)
    other.close()


def test_steps_that_the_spool_lost_are_counted_as_refused(server, intake, rig) -> None:
    session = rig.join()
    steps = steps_of(session, [6, 6])
    rig.spool.append(6, rig.encoder.encode(steps[6]))
    rig.put(steps[7:])
    rig.finish()
    progress = intake.progress("robot", session)
    assert (progress.stored, progress.refused, progress.settled) == (6, 6, 12)


# --- who may speak ---------------------------------------------------------------------------------------------------


def refusal(rig: ActorRig) -> str:
    with pytest.raises(TransportError) as caught:
        rig.join()
    rig.close()
    return str(caught.value)


def test_another_run_another_environment_and_another_name(server, tmp_path: Path) -> None:
    config = config_for(server)
    rig = ActorRig(config, tmp_path / "a")
    rig.link.run = "run-9"
    assert "this learner is of run run-1, not of run-9; connect to the learner of that run" in refusal(rig)
    spec = dataclasses.replace(SPEC, action=ArraySpec((5,), low=-1, high=1))
    message = refusal(ActorRig(config, tmp_path / "b", spec=spec))
    assert "does not fit the learner: action: expected shape (2,), found (5,)" in message
    assert "an actor's name is letters, digits" in refusal(ActorRig(config, tmp_path / "c", actor="no/name"))
    assert server.refusals == {"run": 1, "facts": 1, "form": 1}
    assert any("Refused a request from ipv4:127.0.0.1" in note for note in server.take_notes())


@pytest.mark.parametrize("given", [None, "another secret 123456"])
def test_a_wrong_token_is_refused_and_told(intake, tmp_path: Path, given: str | None) -> None:
    (tmp_path / "token").write_text("the secret of this run\n")
    (tmp_path / "other").write_text(given or "")
    secured = dataclasses.replace(LOCAL, token_file=str(tmp_path / "token"))
    server = make_server(secured, intake)
    config = dataclasses.replace(secured, address=server.address)
    wrong = dataclasses.replace(config, token_file=str(tmp_path / "other") if given else None)
    assert "the token is missing or not that of the learner" in refusal(ActorRig(wrong, tmp_path / "spool"))
    with pytest.raises(TransportError, match="the token is missing"):
        send_command(wrong, "stop")
    assert server.take_commands() == [] and server.refusals["token"] == 2
    assert "the token is missing" in server.take_notes()[0]
    rig = ActorRig(config, tmp_path / "spool")
    rig.join()
    rig.close()
    server.close(0)


def test_mutual_tls(intake, tmp_path: Path) -> None:
    keys, strangers = tmp_path / "keys", tmp_path / "strangers"
    files = make_keys(keys, ["127.0.0.1", "localhost"], ["robot"])
    assert {file.name for file in files} == {
        f"{n}.{e}" for n in ("ca", "learner", "operator", "robot") for e in ("key", "pem")
    }
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    make_keys(strangers, ["127.0.0.1"], ["robot"])
    secured = TransportConfig("127.0.0.1:0", certificates=str(keys), timeout_seconds=20.0)
    server = make_server(secured, intake)
    config = dataclasses.replace(secured, address=server.address)
    rig = ActorRig(config, tmp_path / "a")
    session = rig.join()
    rig.put(steps_of(session, [5]))
    rig.finish()
    rig.close()
    assert send_command(config, "checkpoint", RUN) == f"run {RUN}: checkpoint: accepted"
    # The operator's certificate is no actor's.
    (keys / "thief.key").write_bytes((keys / "operator.key").read_bytes())
    (keys / "thief.pem").write_bytes((keys / "operator.pem").read_bytes())
    assert "the certificate is of operator, not of thief" in refusal(ActorRig(config, tmp_path / "b", actor="thief"))
    # Strangers and the unencrypted do not get through at all.
    for other in (
        dataclasses.replace(config, certificates=str(strangers)),
        dataclasses.replace(config, certificates=None),
    ):
        rig = ActorRig(other, tmp_path / "c")
        end = time.monotonic() + 1.0
        assert not rig.link.join(0, lambda end=end: time.monotonic() > end)
        rig.close()
    server.close(0)


def test_certificates_of_more_actors_can_be_made_later(tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost"], ["one"])
    authority = (tmp_path / "ca.pem").read_bytes()
    make_keys(tmp_path, ["localhost"], ["two"])
    assert (tmp_path / "ca.pem").read_bytes() == authority and (tmp_path / "two.pem").exists()
    for name in ("learner", "a/b", ""):
        with pytest.raises(ConfigError, match="an actor's name must be letters, digits"):
            make_keys(tmp_path, ["localhost"], [name])
    with pytest.raises(ConfigError, match="hosts must be one name or address at least"):
        make_keys(tmp_path, [], ["one"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"address": "0.0.0.0:5000"}, "can be reached from other machines: give transport.certificates"),
        ({"address": "robot.lan:5000"}, "can be reached from other machines"),
        ({"address": "localhost"}, "transport.address must be HOST:PORT or unix:/path, got 'localhost'"),
        ({"address": "localhost:99999"}, "transport.address must be HOST:PORT"),
        ({"message_bytes": 10}, "transport.message_bytes must be 65536 or more"),
        ({"timeout_seconds": 0.0}, "transport.timeout_seconds must be above 0"),
    ],
)
def test_configuration_is_checked(changes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TransportConfig(**changes)


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"token_file .*absent cannot be read"):
        TransportConfig(token_file=str(tmp_path / "absent")).token()
    (tmp_path / "short").write_text("abc")
    with pytest.raises(ConfigError, match="16 characters or more, got '3'"):
        TransportConfig(token_file=str(tmp_path / "short")).token()
    with pytest.raises(ConfigError, match=r"ca.pem cannot be read .*; make it with robo-rl keys"):
        ActorRig(TransportConfig("127.0.0.1:1", certificates=str(tmp_path)), tmp_path / "spool")


def test_the_address_must_be_free(server, intake) -> None:
    with pytest.raises(ConfigError, match=r"is another learner there\?"):
        make_server(config_for(server), intake)


def test_a_step_must_fit_into_a_message(tmp_path: Path) -> None:
    large = dataclasses.replace(SPEC, observation={"images/front": ArraySpec((256, 256, 3), "uint8")})
    with Spool(tmp_path) as spool, pytest.raises(ConfigError, match="message_bytes is 65536, but a step takes"):
        LearnerLink(TransportConfig(message_bytes=65536), "robot", large, {}, spool)


def test_unix_socket(intake, tmp_path: Path) -> None:
    config = TransportConfig(f"unix:{tmp_path}/socket")
    for _ in range(2):  # a killed learner leaves its socket behind
        server = make_server(config, intake)
        assert (tmp_path / "socket").stat().st_mode & 0o077 == 0
        rig = ActorRig(config, tmp_path / "spool")
        rig.join()
        with pytest.raises(ConfigError, match=r"is another learner there\?"):
            make_server(config, intake)
        rig.close()
        server.close(0)
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(tmp_path / "socket"))


def test_a_file_where_the_socket_shall_be_is_not_removed(intake, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("of importance")
    with pytest.raises(ConfigError, match="is taken by something that is no socket"):
        make_server(TransportConfig(f"unix:{tmp_path}/notes"), intake)
    assert (tmp_path / "notes").read_text() == "of importance"


# --- replayed, stale and malformed requests ---------------------------------------------------------------------------


class Wire:
    """Requests by hand."""

    def __init__(self, server) -> None:
        self.channel = grpc.insecure_channel(server.address)
        self.server = server

    def call(self, call, request):
        method = self.channel.unary_unary(call.path, call.request.SerializeToString, call.reply.FromString)
        return method(request, timeout=60)

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
        ({"run": "run-2"}, grpc.StatusCode.FAILED_PRECONDITION, "this learner is of run run-1, not of run-2"),
        ({"run": ""}, grpc.StatusCode.FAILED_PRECONDITION, "this learner is of run run-1, not of none"),
        ({"incarnation": "old"}, grpc.StatusCode.ABORTED, "the learner was started anew; join again"),
        ({"actor": "other"}, grpc.StatusCode.ABORTED, "join again"),
        ({"actor": "../x"}, grpc.StatusCode.INVALID_ARGUMENT, "an actor's name is letters"),
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
        ({"newest_session": 2**60}, "session numbers end at"),
        ({"protocol": 1}, "the learner speaks protocol 2, the actor 1; install one robo-rl on both"),
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
    with pytest.raises(TransportError, match=r"takes messages of 65536 .* raise its runtime.transport.message_bytes"):
        rig = ActorRig(config_for(server), tmp_path / "large", spec=large)
        rig.link._facts = json.dumps({"spec": SPEC.to_json()})
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
    server = make_server(dataclasses.replace(LOCAL, **limit), intake)
    rig = ActorRig(config_for(server), tmp_path / "spool")
    session = rig.join()
    rig.link._batch_bytes = 50_000
    steps = steps_of(session, [100, 100])
    rig.put(steps)
    wait_until(lambda: "robot sends more than" in rig.link.status.blocked)
    rig.finish()
    rig.close()
    assert intake.totals()[:3] == (200, 200, 0)
    assert_same(stored_steps(tmp_path / "replay")["robot", session], steps)
    assert any("robot sends more than" in note and "per second; come again in" in note for note in server.take_notes())
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
    server = make_server(LOCAL, intake, max_actors=1)
    wire = Wire(server)
    joined = wire.join(actor="one")
    with pytest.raises(grpc.RpcError) as caught:
        wire.join(actor="two")
    assert caught.value.details() == "1 actors are connected already"
    leaving = exchange_of(joined, [])
    leaving.actor, leaving.session_ended = "one", True
    wire.call(EXCHANGE, leaving)
    wire.join(actor="two")
    with pytest.raises(grpc.RpcError):
        wire.join(actor="one")
    wire.channel.close()
    server.close(0)


def test_commands(server) -> None:
    config = config_for(server)
    assert send_command(config, "pause") == f"run {RUN}: pause: accepted"
    send_command(config, "checkpoint", RUN)
    assert server.take_commands() == ["pause", "checkpoint"]
    with pytest.raises(TransportError, match="unknown command 'jump'; valid: pause, resume, checkpoint, stop"):
        send_command(config, "jump")
    with pytest.raises(TransportError, match="this learner is of run run-1, not of run-2"):
        send_command(config, "stop", "run-2")
    server.close(0)
    with pytest.raises(TransportError, match="did not take 'stop'"):
        send_command(config, "stop")


def test_a_watch_ends_when_its_session_is_replaced(server, wire) -> None:
    joined = wire.join()
    call = wire.channel.unary_stream(WATCH.path, WATCH.request.SerializeToString, WATCH.reply.FromString)
    fields = {"run": joined.run, "incarnation": joined.incarnation, "actor": "robot", "session": joined.session}
    notices = call(messages.WatchRequest(**fields), timeout=60)
    assert next(notices).HasField("guidance")
    wire.join()
    server.publish(1, {"weight": np.ones(2, np.float32)})
    with pytest.raises(grpc.RpcError) as caught:
        list(notices)
    assert caught.value.code() == grpc.StatusCode.ALREADY_EXISTS


def test_the_checked_in_code_is_that_of_the_schema(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    script = root / "tests" / "transport_schema.sh"
    subprocess.run([script, tmp_path], check=True, env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"})
    for name in ("messages_pb2.py", "messages_pb2.pyi"):
        made, kept = ((folder / name).read_bytes() for folder in (tmp_path, root / "robo_rl" / "transport"))
        assert hashlib.sha256(made).digest() == hashlib.sha256(kept).digest(), f"run {script.name}"


def test_pictures_come_up_and_orders_and_pauses_go_down(server, rig) -> None:
    rig.join()
    server.watch(True)
    wait_until(lambda: rig.link.status.watched)
    rig.link.show({"wrist": b"jpeg"}, "")
    wait_until(lambda: server.actors()["robot"].pictures == {"wrist": b"jpeg"})
    rig.link.show({"wrist": bytes(LOCAL.message_bytes)}, "too large to be sent")
    wait_until(lambda: server.actors()["robot"].picture_problem == "too large to be sent")
    assert server.actors()["robot"].pictures == {"wrist": b"jpeg"}

    assert server.order("robot", "reset") and server.order("robot", "success")
    taken: list[str] = []
    wait_until(lambda: taken.extend(rig.link.take_orders()) or len(taken) == 2)
    assert taken == ["reset", "success"] and not server.order("nobody", "reset")

    server.pause(True)
    wait_until(lambda: rig.link.status.hold)
    server.guide(room=1, stop=False, env_steps=5)
    wait_until(lambda: rig.link.status.env_steps == 5)
    assert rig.link.status.hold and server.paused
    server.pause(False)
    wait_until(lambda: not rig.link.status.hold)
