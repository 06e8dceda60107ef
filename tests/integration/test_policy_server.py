"""Policies of servers in runs and evaluations, and robo-rl serve, whose clients are those of openpi.

Where ``ROBO_RL_OPENPI_PYTHON`` names an interpreter with openpi_client, its client is asked, too.
"""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from robo_rl.app import load_policy
from robo_rl.deployment.arrays import packed, unpacked

from ..rigs.command_line import refusal, robo_rl
from ..rigs.policy_server import foreign_server, service, straight

REAL = os.environ.get("ROBO_RL_OPENPI_PYTHON")
SHORT = ["run.evaluation_interval=0", "run.final_evaluation_episodes=2", "run.video_episodes=0", "runtime.threads=1"]
COMMON = ["task=reach", "demonstrations.episodes=2", *SHORT]
AGENT = ["agent=residual", "agent.hidden=[32]", "agent.batch_size=32", "agent.update_to_data=2"]
AGENT += ["agent.ensemble_size=3", "agent.learning_starts=10", "agent.actor_delay=10"]
KEY = "a key of some characters"


@pytest.fixture(scope="module")
def clones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs that cloned demonstrations in chunks: one deterministic, one of noise."""
    folder = tmp_path_factory.mktemp("clones")
    clone = ["agent.hidden=[32]", "agent.batch_size=32", "agent.pretrain_steps=20", "run.env_steps=0"]
    for name in ("bc", "flow"):
        robo_rl("train", *COMMON, f"agent={name}", "agent.action_chunk=3", *clone, f"run.dir={folder / name}")
    return folder


@pytest.mark.parametrize("name", ["bc", "flow"])
def test_a_served_policy_acts_as_in_its_run(clones: Path, name: str, tmp_path: Path) -> None:
    run = clones / name
    results = []
    with service(run) as address:
        for file, words in (("own.json", []), ("served.json", [f"policy={address}"])):
            robo_rl("eval", f"run={run}", *words, "episodes=3", f"output={tmp_path / file}")
            results.append(json.loads((tmp_path / file).read_text()))
    assert results[0]["episodes"] == results[1]["episodes"]


def test_a_run_corrects_the_policy_of_a_server_and_outlives_it(clones: Path, tmp_path: Path, capsys: Any) -> None:
    run, is_sound = tmp_path / "run", [False]

    def ends(observation: dict[str, Any]) -> dict[str, Any] | str:
        """Answer until the run has learned for a while."""
        has_learned = any(path.name != "step_000000000" for path in run.glob("checkpoints/step_*"))
        return "the weights are gone" if has_learned and not is_sound[0] else straight(observation)

    with foreign_server(ends) as address:
        server = [f"base.server.address={address}", "base.server.prompt=reach", "base.server.retry_seconds=0"]
        server += [f"run.dir={run}"]
        data = f"demonstrations.path={clones / 'bc' / 'demonstrations'}"
        line = refusal(
            capsys, "train", *COMMON, *AGENT, *server, data, "run.env_steps=400", "run.checkpoint_interval=5"
        )
        assert line == f"robo-rl: the policy of the server {address}: it reported: the weights are gone"
        is_sound[0] = True
        robo_rl("train", f"resume={run}", "run.env_steps=40")
        assert "policy of step 40" in robo_rl("eval", f"run={run}", "episodes=1")
    assert "cannot be reached" in refusal(capsys, "train", f"resume={run}", "run.env_steps=50")


def test_what_does_not_fit_is_refused_before_anything_is_written(clones: Path, tmp_path: Path, capsys: Any) -> None:
    run = f"run.dir={tmp_path / 'run'}"
    with service(clones / "bc") as address:
        server = f"base.server.address={address}"
        line = refusal(capsys, "train", "task=push_cube", "demonstrations.episodes=2", "agent=residual", server, run)
        assert f"the base policy of the server {address} was made for task reach" in line and "push_cube" in line
        line = refusal(capsys, "train", *COMMON, *AGENT, server, "base.server.action_low=[0]", run)
        assert "base.server.action_high must be larger than action_low=[0.0]" in line
        line = refusal(capsys, "train", *COMMON, *AGENT, server, f"base.run={clones / 'bc'}", run)
        assert "base.server.address must be left out where base.run is given" in line
    line = refusal(capsys, "train", *COMMON, *AGENT, "base.server.prompt=x", f"base.run={clones / 'bc'}", run)
    assert "base.server.prompt must be given only where base.server.address is given" in line
    line = refusal(capsys, "eval", f"run={clones / 'bc'}", "policy=ws://192.0.2.1:8000")
    assert "ROBO_RL_POLICY_SERVER=ws://192.0.2.1:8000" in line
    assert not (tmp_path / "run").exists()


@pytest.fixture
def keyed(clones: Path) -> Iterator[str]:
    """The address of a server that requires a key."""
    with service(clones / "bc", KEY) as address:
        yield address


def opened(address: str, **headers: str) -> ClientConnection:
    return connect(address, additional_headers=headers, compression=None, proxy=None)


def test_strangers_and_pages_are_refused(keyed: str, clones: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for headers in ({}, {"Authorization": "Api-Key another"}, {"Authorization": f"Bearer {KEY}"}):
        with pytest.raises(InvalidStatus, match="401"):
            opened(keyed, **headers)
    with pytest.raises(InvalidStatus, match="403"):
        opened(keyed, Authorization=f"Api-Key {KEY}", Origin="http://127.0.0.1")
    with opened(keyed, Authorization=f"Api-Key {KEY}") as connection:
        assert unpacked(connection.recv(decode=False), "it")["robo_rl"]["task"] == "reach"
    web = http.client.HTTPConnection(keyed.removeprefix("ws://"))
    web.request("GET", "/healthz")
    assert web.getresponse().read() == b"OK\n"
    web.close()
    for values in ((f"Api-Key {KEY}", "another"), ("Api-Key \xe9",)):  # neither may end in a traceback of the server
        web.putrequest("GET", "/")
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13")):
            web.putheader(name, value)
        web.putheader("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
        for value in values:
            web.putheader("Authorization", value)
        web.endheaders()
        assert web.getresponse().status == 401
        web.close()
    monkeypatch.setenv("ROBO_RL_POLICY_KEY", KEY)
    assert "policy of step 0" in robo_rl("eval", f"run={clones / 'bc'}", f"policy={keyed}", "episodes=1")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"object": None}, "observation 'object' is missing: expected object, state"),
        (
            {"object": np.zeros(5)},
            r"observation 'object': expected float32 of shape \(6,\), got float64 of shape \(5,\)",
        ),
        ({"object": np.zeros(6, np.complex64)}, "is damaged"),
        ({"object": np.full(6, np.nan)}, "observation 'object': expected finite numbers"),
        ({"object": np.full(6, 1e300)}, "observation 'object': expected finite numbers"),
    ],
)
def test_an_observation_that_does_not_fit_is_answered_with_a_reason(
    clones: Path, change: dict[str, Any], expected: str
) -> None:
    spec = load_policy(clones / "bc").spec
    observation = {key: np.zeros(array.shape) for key, array in spec.observation.items()}
    complex_array = {b"__ndarray__": True, b"data": b"\0" * 48, b"dtype": "<c8", b"shape": [6]}
    changed = {
        key: complex_array if getattr(value, "dtype", None) == np.complex64 else value for key, value in change.items()
    }
    with service(clones / "bc") as address, opened(address) as connection:
        connection.recv()
        connection.send(packed(observation))
        assert unpacked(connection.recv(decode=False), "it")["actions"].shape == (3, 3)
        connection.send(packed(observation | changed))
        assert re.search(expected, str(connection.recv()))
        with pytest.raises(ConnectionClosed):
            connection.recv()


def test_a_client_that_leaves_before_its_answer_is_no_failure(clones: Path, caplog: pytest.LogCaptureFixture) -> None:
    with service(clones / "bc") as address:
        for _ in range(5):
            connection = opened(address)
            connection.recv()
            connection.send(packed({}))
            connection.close()
    assert [record for record in caplog.records if record.name.startswith("websockets")] == []


def test_the_command_serves_until_it_is_ended(clones: Path, capsys: Any) -> None:
    line = refusal(capsys, "serve", f"run={clones / 'bc'}", "address=0.0.0.0:0")
    assert "can be reached from other machines: set the environment variable ROBO_RL_POLICY_KEY" in line
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("ROBO_RL_POLICY_KEY", "€" * 20)  # cannot be sent
        line = refusal(capsys, "serve", f"run={clones / 'bc'}", "address=127.0.0.1:0")
        assert "ROBO_RL_POLICY_KEY must be 16 ASCII characters or more" in line
        monkeypatch.setenv("ROBO_RL_POLICY_KEY", KEY)
        line = refusal(capsys, "serve", f"run={clones / 'bc'}", "address=a..b:1")
        assert "'a..b' is not the name of a host" in line
    assert "address must be HOST:PORT" in refusal(capsys, "serve", f"run={clones / 'bc'}", "address=8000")
    words = [sys.executable, "-m", "robo_rl.cli", "serve", f"run={clones / 'bc'}", "address=127.0.0.1:0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            printed = process.stdout.readline()
            address = re.search(r"ws://\S+\d", printed)
            assert address is not None and printed.startswith(
                "Policy of agent bc for reach, step 0, on ws://127.0.0.1:"
            )
            if REAL is not None:
                ask_with_openpi(address[0])
            process.send_signal(signal.SIGTERM)  # a shell may let what it starts ignore SIGINT
            process.wait(30)
            assert process.returncode == 143 and "Traceback" not in process.stderr.read()
        finally:
            process.kill()


def ask_with_openpi(address: str) -> None:
    """Ask for actions with openpi's own client."""
    code = (
        "import numpy, sys; from openpi_client.websocket_client_policy import WebsocketClientPolicy as Client\n"
        "client = Client(sys.argv[1]); facts = client.get_server_metadata()['robo_rl']['observation']\n"
        "one = {name: numpy.zeros(each['shape'], each['dtype']) for name, each in facts.items()}\n"
        "print(client.infer(one)['actions'].shape)"
    )
    assert REAL is not None
    out = subprocess.run([REAL, "-c", code, address], capture_output=True, text=True, check=True, timeout=60).stdout
    assert out == "(3, 3)\n"
