"""Who may speak on the wire: runs, environments, names, tokens, certificates and addresses."""

import contextlib
import dataclasses
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from cryptography import x509

from robo_rl.actor import Spool
from robo_rl.core import ArraySpec, ConfigError, TransportError
from robo_rl.transport import LearnerLink, TransportConfig, connection, make_keys, send_command, service
from robo_rl.transport.service import CONTROL, EXCHANGE, JOIN, SERVICE, WATCH
from robo_rl.transport.waiting import MOST_WAITING

from ..rigs.replay_episodes import SPEC
from ..rigs.transport_rig import RUN, ActorRig, make_server, steps_of, wait_until
from .conftest import LOCAL, config_for


def write_secret(file: Path, text: str, mode: int = 0o600) -> None:
    file.write_text(text)
    file.chmod(mode)


def refusal(rig: ActorRig) -> str:
    with pytest.raises(TransportError) as caught:
        rig.join()
    rig.close()
    return str(caught.value)


def test_another_run_another_environment_and_another_name(server, tmp_path: Path) -> None:
    config = config_for(server)
    rig = ActorRig(config, tmp_path / "a")
    rig.link._sender.run = "run-9"
    assert "this is the learner of run run-1, not of run-9; connect to the learner of that run" in refusal(rig)
    spec = dataclasses.replace(SPEC, action=ArraySpec((5,), low=-1, high=1))
    message = refusal(ActorRig(config, tmp_path / "b", spec=spec))
    assert "does not fit the learner: action: expected shape (2,), found (5,)" in message
    assert "an actor's name consists of letters, digits" in refusal(ActorRig(config, tmp_path / "c", actor="no/name"))
    assert server.refusals == {"run": 1, "facts": 1, "form": 1}
    assert any("Refused a request from ipv4:127.0.0.1" in note for note in server.take_notes())


@pytest.mark.parametrize("given", [None, "another secret 123456"])
def test_a_wrong_token_is_refused_and_told(intake, tmp_path: Path, given: str | None) -> None:
    write_secret(tmp_path / "token", "the secret of this run\n")
    write_secret(tmp_path / "other", given or "")
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


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", "[::1]:0"])
def test_a_port_of_this_machine_is_for_this_user_alone(intake, tmp_path: Path, monkeypatch, address: str) -> None:
    """Other users have another folder; whether the learner or an actor makes the token makes no difference."""
    own = dataclasses.replace(LOCAL, address=address)
    assert own.token() == own.token(), "made once"
    file = Path(os.environ["XDG_STATE_HOME"]) / "robo_rl" / "learner_token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and [file] == list(file.parent.glob("learner_token*"))
    server = make_server(own, intake)
    config = dataclasses.replace(own, address=server.address)
    rig = ActorRig(config, tmp_path / "spool")
    rig.join()
    rig.close()
    channel = grpc.insecure_channel(server.address)
    with pytest.raises(grpc.RpcError, match="the token is missing or not that of the learner"):
        channel.stream_unary(f"/{SERVICE}/{CONTROL.name}")(iter([b""]))
    channel.close()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    assert "only processes of one user on one machine" in refusal(ActorRig(config, tmp_path / "other"))
    with pytest.raises(TransportError, match="the token is missing"):
        send_command(config, "stop")
    assert server.take_commands() == []
    server.close(0)


def test_who_needs_no_token_makes_none(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for config in (TransportConfig(), TransportConfig("unix:"), TransportConfig("a.lan:5", certificates="keys")):
        assert config.token() == ""
    assert list(tmp_path.rglob("learner_token*")) == []
    (tmp_path / "robo_rl").mkdir()
    (tmp_path / "robo_rl" / "learner_token").write_text("seen by everybody on this machine")
    with pytest.raises(ConfigError, match=r"learner_token cannot be read: .*others can read"):
        TransportConfig("127.0.0.1:5").token()


def test_strangers_who_send_nothing_hold_no_thread(intake, tmp_path: Path) -> None:
    write_secret(tmp_path / "token", "the secret of this run\n")
    secured = dataclasses.replace(LOCAL, token_file=str(tmp_path / "token"), max_actors=2)
    server = make_server(secured, intake)
    silence, over = 50, threading.Event()

    def nothing() -> Iterator[bytes]:
        over.wait()
        yield from ()

    with grpc.insecure_channel(server.address) as channel:
        calls = [channel.stream_unary(EXCHANGE.path).future(nothing()) for _ in range(silence)]
        # The connection ends with its first refused call, and the others with it.
        codes = {call.code() for call in calls}
        assert grpc.StatusCode.UNAUTHENTICATED in codes
        assert codes <= {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE}
        assert 1 <= server.refusals["token"] <= silence
        rig = ActorRig(dataclasses.replace(secured, address=server.address), tmp_path / "spool")
        rig.join()
        rig.close()
        over.set()
    server.close(0)


def test_strangers_who_only_connect_are_closed_and_keep_no_actor_out(intake, tmp_path: Path, monkeypatch) -> None:
    """More of them than the learner takes; by default it would keep each for two minutes."""
    monkeypatch.setattr(service, "STRANGER_SECONDS", 1.0)
    monkeypatch.setattr(service, "MOST_CONNECTIONS", 40)
    server = make_server(LOCAL, intake)
    host, _, port = server.address.rpartition(":")
    strangers = [socket.create_connection((host, int(port))) for _ in range(60)]
    rig = ActorRig(dataclasses.replace(LOCAL, address=server.address), tmp_path / "spool")
    rig.join()
    rig.close()
    for stranger in strangers[:30]:
        stranger.settimeout(10)
        while stranger.recv(4096):  # the settings of HTTP/2, then the end
            pass
        stranger.close()
    server.close(0)


def test_the_default_socket_is_for_this_user_alone(intake, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    config = TransportConfig(address="unix:")
    server = make_server(config, intake)
    path = tmp_path / "state" / "robo_rl" / "learner"
    assert server.address == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with pytest.raises(ConfigError, match=r"another learner is there\. Give this one and its actors an address"):
        make_server(config, intake)
    rig = ActorRig(config, tmp_path / "spool")
    rig.join()
    rig.close()
    server.close(0)
    make_server(config, intake).close(0)  # what is left behind is taken over


def test_paths_that_no_socket_can_have_are_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("x" * 100)))
    for address in ("unix:", f"unix:/{'y' * 120}", f"unix:/{'é' * 60}"):
        with pytest.raises(ConfigError, match=r"transport\.address must be a path of at most 107 bytes"):
            TransportConfig(address=address)


@pytest.mark.parametrize("call", [JOIN, EXCHANGE, CONTROL, WATCH], ids=lambda call: call.name)
def test_calls_without_a_request_keep_no_actor_out_where_there_is_no_token(intake, tmp_path: Path, call) -> None:
    """More of them than the learner has threads, and new ones for those that it ends."""
    local = dataclasses.replace(LOCAL, address=f"unix:{tmp_path}/learner", max_actors=2)
    server = make_server(local, intake)
    over = threading.Event()

    def nothing() -> Iterator[bytes]:
        over.wait()
        yield from ()

    with contextlib.ExitStack() as ends:
        ends.callback(server.close, 0)
        channel = ends.enter_context(grpc.insecure_channel(server.address))
        ends.callback(over.set)
        calls = [channel.stream_unary(call.path).future(nothing()) for _ in range(80)]
        wait_until(lambda: sum(each.done() for each in calls) >= 80 - MOST_WAITING)
        calls += [channel.stream_unary(call.path).future(nothing()) for _ in range(20)]
        rig = ActorRig(dataclasses.replace(local, address=server.address), tmp_path / "spool")
        session = rig.join()
        rig.put(steps_of(session, [5]))
        rig.finish()
        rig.close()
        connection = dataclasses.replace(local, address=server.address)
        assert send_command(connection, "pause") == f"run {RUN}: pause: accepted"
        assert {each.code() for each in calls if each.done()} == {grpc.StatusCode.CANCELLED}


def test_mutual_tls(
    intake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.0)
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
    assert "the certificate belongs to operator, not to thief" in refusal(
        ActorRig(config, tmp_path / "b", actor="thief")
    )
    # Strangers and the unencrypted do not get through at all, and hear why.
    for certificates, hint in (
        (str(strangers), "that both sides have certificates of one authority"),
        (None, "that it has no certificates either"),
    ):
        capsys.readouterr()
        rig = ActorRig(dataclasses.replace(config, certificates=certificates), tmp_path / "c")
        end, printed = time.monotonic() + 60.0, []

        def is_said(hint=hint, end=end, printed=printed) -> bool:
            printed.append(capsys.readouterr().out)
            return hint in "".join(printed) or time.monotonic() > end

        assert not rig.link.join(0, is_said)
        rig.close()
        output = "".join(printed)
        assert f"The learner at {server.address} has not answered" in output and hint in output
    server.close(0)


def test_who_stands_at_a_robot_may_end_the_run_with_the_actors_certificate_alone(intake, tmp_path: Path) -> None:
    make_keys(tmp_path / "keys", ["127.0.0.1"], ["robot"])
    (tmp_path / "own").mkdir()
    for name in ("ca.pem", "robot.pem", "robot.key"):
        (tmp_path / "own" / name).write_bytes((tmp_path / "keys" / name).read_bytes())
    with contextlib.ExitStack() as ends:
        server = make_server(dataclasses.replace(LOCAL, certificates=str(tmp_path / "keys")), intake)
        ends.callback(server.close, 0)
        config = dataclasses.replace(LOCAL, address=server.address, certificates=str(tmp_path / "own"))
        rig = ActorRig(config, tmp_path / "spool")
        ends.callback(rig.close)
        rig.join()
        rig.link.end_run()
        commands: list[str] = []
        wait_until(lambda: bool(commands.extend(server.take_commands()) or commands))
        rig.finish()
        assert [*commands, *server.take_commands()] == ["stop"]
        assert "A person at robot ends the run" in server.take_notes()


def test_certificates_of_more_actors_can_be_made_later(tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost"], ["one"])
    authority = (tmp_path / "ca.pem").read_bytes()
    make_keys(tmp_path, ["localhost"], ["two"])
    assert (tmp_path / "ca.pem").read_bytes() == authority and (tmp_path / "two.pem").exists()
    for name in ("learner", "a/b", ""):
        with pytest.raises(ConfigError, match="an actor's name must be letters, digits"):
            make_keys(tmp_path, ["localhost"], [name])
    with pytest.raises(ConfigError, match="hosts must be at least one name or address"):
        make_keys(tmp_path, [], ["one"])


def certificate(folder: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / f"{name}.pem").read_bytes())


def hosts_of(folder: Path) -> list[str]:
    names = certificate(folder, "learner").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def test_keys_made_again_for_other_hosts_serve_those_of_before_too(tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost", "127.0.0.1"], ["one"])
    make_keys(tmp_path, ["localhost", "192.168.1.5"], ["one"])
    assert hosts_of(tmp_path) == ["localhost", "127.0.0.1", "192.168.1.5"]


def test_an_authority_outlives_what_it_certifies_and_stays_the_same(tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost"], ["one"], days=1)
    first, leaf = certificate(tmp_path, "ca"), certificate(tmp_path, "one")
    make_keys(tmp_path, ["localhost"], ["two"], days=800)
    second = certificate(tmp_path, "ca")
    assert first.not_valid_after_utc < certificate(tmp_path, "two").not_valid_after_utc <= second.not_valid_after_utc
    leaf.verify_directly_issued_by(second)
    certificate(tmp_path, "two").verify_directly_issued_by(first)


def test_keys_whose_making_was_killed_are_completed(tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost"], ["one"])
    for name in ("ca.pem", "learner.key", "learner.pem", "one.pem"):
        (tmp_path / name).unlink()
    make_keys(tmp_path, ["localhost"], ["one"])
    for name in ("learner", "one"):
        certificate(tmp_path, name).verify_directly_issued_by(certificate(tmp_path, "ca"))
    (tmp_path / "ca.key").unlink()
    with pytest.raises(ConfigError, match=r"ca.key is missing, and only its key can sign for ca.pem"):
        make_keys(tmp_path, ["localhost"], ["two"])
    (tmp_path / "ca.key").write_text("-----BEGIN")
    with pytest.raises(ConfigError, match=r"ca.key was not made by robo-rl keys"):
        make_keys(tmp_path, ["localhost"], ["two"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"address": "0.0.0.0:5000"}, "can be reached from other machines: give transport.certificates"),
        ({"address": "robot.lan:5000"}, "can be reached from other machines"),
        ({"address": "localhost"}, "transport.address must be HOST:PORT or unix:/path, got 'localhost'"),
        ({"address": "localhost:99999"}, "transport.address must be HOST:PORT"),
        ({"message_bytes": 10}, "transport.message_bytes must be 65536 or more"),
        ({"max_actors": 0}, "transport.max_actors must be 1 or more, got 0"),
        ({"timeout_seconds": 0.0}, r"transport.timeout_seconds must be in \(0, 604800\]"),
    ],
)
def test_configuration_is_checked(changes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TransportConfig(**changes)


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"token_file .*absent cannot be read"):
        TransportConfig(token_file=str(tmp_path / "absent")).token()
    write_secret(tmp_path / "short", "abc")
    with pytest.raises(ConfigError, match="16 characters or more, got '3'"):
        TransportConfig(token_file=str(tmp_path / "short")).token()
    write_secret(tmp_path / "open", "the secret of this run", 0o644)
    with pytest.raises(ConfigError, match=r"token_file .*others can read \(mode 0644\): chmod 600"):
        TransportConfig(token_file=str(tmp_path / "open")).token()
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
        with pytest.raises(ConfigError, match="another learner is there"):
            make_server(config, intake)
        rig.close()
        server.close(0)
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(tmp_path / "socket"))


def test_a_file_where_the_socket_shall_be_is_not_removed(intake, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("of importance")
    with pytest.raises(ConfigError, match="is taken by something that is not a socket"):
        make_server(TransportConfig(f"unix:{tmp_path}/notes"), intake)
    assert (tmp_path / "notes").read_text() == "of importance"
