"""Strangers with many connections to a learner: a share is left for clients with the token."""

import contextlib
import dataclasses
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from robo_rl.replay import Intake
from robo_rl.transport import TransportConfig, make_keys, send_command, service, strangers
from robo_rl.transport.strangers import Strangers

from ..rigs.http2 import connected
from ..rigs.replay_episodes import SPEC
from ..rigs.transport_rig import ActorRig, make_server, steps_of, wait_until

LOCAL = TransportConfig("127.0.0.1:0", timeout_seconds=20.0)
STRANGERS = 300
SECONDS = 10.0
"""Longest time until a client with the token is answered while there are :data:`STRANGERS`."""


def is_closed(stranger: socket.socket) -> bool:
    stranger.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while stranger.recv(4096, socket.MSG_PEEK):
            stranger.recv(4096)
        return True
    return False


@pytest.mark.parametrize("secured", [False, True], ids=["token", "certificates"])
def test_strangers_who_connect_again_at_once_delay_no_operator_and_no_actor(secured: bool, tmp_path: Path) -> None:
    config = LOCAL
    if secured:
        make_keys(tmp_path / "keys", ["127.0.0.1"], ["robot"])
        config = dataclasses.replace(LOCAL, certificates=str(tmp_path / "keys"))
    with contextlib.ExitStack() as ends:
        intake = Intake(tmp_path / "replay", SPEC)
        ends.callback(intake.close)
        server = make_server(config, intake)
        ends.callback(server.close, 0)
        host, _, port = server.address.rpartition(":")
        arguments = [sys.executable, "-m", "tests.rigs.reconnecting", host, port, str(STRANGERS)]
        process = subprocess.Popen(arguments, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)
        ends.callback(process.communicate)
        ends.callback(process.kill)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        config = dataclasses.replace(config, address=server.address)
        for _ in range(4):
            start = time.monotonic()
            assert send_command(config, "pause").endswith("pause: accepted")
            assert time.monotonic() - start < SECONDS
            time.sleep(0.5)
        start = time.monotonic()
        rig = ActorRig(config, tmp_path / "spool")
        ends.callback(rig.close)
        rig.put(steps_of(rig.join(), [5]))
        rig.finish()
        assert time.monotonic() - start < SECONDS


def test_strangers_beyond_a_share_are_closed_and_an_actor_keeps_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST_CONNECTIONS", 40)
    monkeypatch.setattr(service, "STRANGER_SECONDS", 600.0)  # after which connections without a call are closed anyway
    with contextlib.ExitStack() as ends:
        intake = Intake(tmp_path / "replay", SPEC)
        ends.callback(intake.close)
        server = make_server(LOCAL, intake)
        ends.callback(server.close, 0)
        rig = ActorRig(dataclasses.replace(LOCAL, address=server.address), tmp_path / "spool")
        ends.callback(rig.close)
        session = rig.join()
        wait_until(lambda: rig.link._connection._watching is not None)
        call = rig.link._connection._watching
        visitors = [ends.enter_context(connected(server.address)) for _ in range(30)]
        wait_until(lambda: sum(map(is_closed, visitors)) == 10)
        time.sleep(0.6)  # another count of the connections
        assert sum(map(is_closed, visitors)) == 10
        assert rig.link._connection._watching is call
        rig.put(steps_of(session, [5]))
        rig.finish()
        rig.close()
        assert send_command(dataclasses.replace(LOCAL, address=server.address), "pause")
        wait_until(lambda: not server._admission.strangers._trusted)


@pytest.mark.parametrize(
    ("hosts", "closed"),
    [
        ("a" * 20 + "b", {("a", number) for number in range(11)}),
        ("b" + "a" * 20, {("a", number) for number in range(1, 12)}),
        (
            "ab" * 10,
            {("a", 0), ("b", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5), ("a", 6), ("b", 7), ("a", 8), ("b", 9)},
        ),
        ("abcdefghij", set()),
        ("a" * 10, set()),
    ],
    ids=["one more", "an older one", "two hosts", "ten hosts", "a share"],
)
def test_the_oldest_of_the_busiest_host_make_room(
    hosts: str, closed: set[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]
    monkeypatch.setattr(strangers.time, "monotonic", lambda: seconds[0])
    watch, present = Strangers(10), set()
    for number, host in enumerate(hosts):
        present.add((host, number))
        assert len(watch._choose(present)) == 0 or seconds[0] > strangers.GRACE_SECONDS
        seconds[0] += 0.001
    seconds[0] += 1
    assert watch._choose(present) == closed
    for host, number in present:
        watch.trust(f"ipv4:{host}:{number}")
    assert watch._choose(present) == set()


def test_new_connections_have_time_for_a_call_and_closed_ones_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    monkeypatch.setattr(strangers.time, "monotonic", lambda: seconds[0])
    watch = Strangers(10)
    present = {("a", number) for number in range(30)}
    assert watch._choose(present) == set()
    watch.trust("ipv4:a:3")
    seconds[0] = 2 * strangers.GRACE_SECONDS
    assert len(watch._choose(present)) == 19
    assert watch._choose(set()) == set() and not watch._seen_seconds


@pytest.mark.parametrize("address", ["unix:/tmp/learner", "unix:", "", "ipv4:127.0.0.1"])
def test_peers_without_a_port_are_not_kept(address: str) -> None:
    watch = Strangers(10)
    watch.trust(address)
    assert not watch._trusted


@pytest.mark.parametrize(("files", "most"), [(1024, 512), (256, 128), (1 << 20, 1024), (-1, 1024)])
def test_connections_leave_the_learner_half_of_its_files(
    files: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.resource, "getrlimit", lambda _: (files, files))
    assert service.most_connections() == most
