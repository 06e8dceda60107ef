"""Policies that a server computes: what they send, and every answer that is none."""

import http
import threading
import time
from dataclasses import replace

import msgpack
import numpy as np
import pytest
from websockets.sync.server import serve

from robo_rl.core import ConfigError, DataError
from robo_rl.deployment import server_policy
from robo_rl.deployment.arrays import packed, unpacked
from robo_rl.deployment.server_policy import PolicyServerError, ServerPolicy, Translation
from robo_rl.sim import make_backend

from ..rigs.policy_server import foreign_server, straight

ACTIONS = np.zeros((2, 3))


@pytest.fixture(scope="module")
def spec():
    return make_backend("reach").spec


def observation_of(spec):
    return {key: np.ones(array.shape, array.dtype) for key, array in spec.observation.items()}


def test_a_server_receives_its_names_and_its_actions_are_translated(spec):
    received = []

    def answer(message):
        received.append(message)
        return {"actions": np.array([[0.0, 1.0, 4.0], [2.0, 2.0, 2.0], [9.0, 9.0, 9.0]])}

    translation = Translation({"observation/target": "object"}, "reach it", (0.0, 0.0, 0.0), (2.0, 2.0, 2.0), 2)
    with foreign_server(answer) as address:
        policy = ServerPolicy(address, translation)
        assert policy.differences(spec) == []
        actions = [policy.act(observation_of(spec)) for _ in range(3)]
    np.testing.assert_array_equal(actions, [[-1, 0, 1], [1, 1, 1], [-1, 0, 1]])
    assert len(received) == 2, "two actions of each chunk are executed"
    assert received[0].keys() == {"observation/target", "prompt"} and received[0]["prompt"] == "reach it"
    np.testing.assert_array_equal(received[0]["observation/target"], observation_of(spec)["object"])


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"actions": np.zeros((2, 4))}, r"returned actions of shape \(2, 4\), expected shape \(h, 3\)"),
        ({"actions": np.zeros(3)}, r"returned actions of shape \(3,\)"),
        ({"actions": np.zeros((0, 3))}, r"returned actions of shape \(0, 3\)"),
        ({"actions": [[0.0, 0.0, 0.0]]}, "returned actions of list"),
        ({"action": ACTIONS}, "returned actions of NoneType"),
        ({"actions": np.full((1, 3), np.nan)}, "not finite"),
        ("Traceback\n  ...\nValueError: strange weights", "reported: ValueError: strange weights$"),
        (b"\xc1", "gave no answer: its answer is damaged"),
        (msgpack.packb([1]), "expected a mapping of names, got list"),
        (None, "was silent for 0.3 s"),
    ],
)
def test_an_answer_without_actions_is_an_error_and_closes_the_connection(spec, reply, expected, monkeypatch):
    if reply is None:
        monkeypatch.setattr(server_policy, "FIRST_SECONDS", 0.3)
    with foreign_server(lambda _: reply) as address:
        policy = ServerPolicy(address, retry_seconds=0)
        policy.differences(spec)
        with pytest.raises(PolicyServerError, match=expected):
            policy.act(observation_of(spec))
    with pytest.raises(PolicyServerError, match="cannot be reached"):
        policy.act(observation_of(spec))


def test_the_connection_outlives_a_rest(spec, monkeypatch):
    monkeypatch.setattr(server_policy, "CONNECT_SECONDS", 1.5)
    with foreign_server(straight) as address:
        policy = ServerPolicy(address)
        policy.differences(spec)
        time.sleep(1.8)
        policy.act(observation_of(spec))


def test_a_server_that_ends_is_an_error(spec):
    with foreign_server(straight) as address:
        policy = ServerPolicy(address, retry_seconds=0)
        policy.differences(spec)
        policy.act(observation_of(spec))
        policy.forget_plan()
    with pytest.raises(PolicyServerError, match=f"{address}: it (ended the connection|did not take an observation)"):
        policy.act(observation_of(spec))
    with pytest.raises(PolicyServerError, match="cannot be reached"):
        ServerPolicy(address)


@pytest.mark.parametrize("fault", [{"actions": np.zeros((2, 4))}, b"\xc1", "out of memory", None])
def test_a_server_that_recovers_is_asked_for_the_same_observation(spec, fault, monkeypatch, capsys):
    monkeypatch.setattr(server_policy, "PAUSE_SECONDS", 0.05)
    if fault is None:
        monkeypatch.setattr(server_policy, "FIRST_SECONDS", 1.0)
    replies, asked = [fault, fault, {"actions": ACTIONS}], []

    def answer(message):
        asked.append(message["object"])
        return replies[len(asked) - 1]

    with foreign_server(answer) as address:
        policy = ServerPolicy(address)
        policy.differences(spec)
        np.testing.assert_array_equal(policy.decide(observation_of(spec)), ACTIONS)
    np.testing.assert_array_equal(asked, [observation_of(spec)["object"]] * 3)
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"the policy of the server {address}: it ")
    assert first.endswith("The robot holds still; asking again for 30 s")
    assert last.startswith(f"the policy of the server {address} answers again after ")


def test_a_failure_is_not_announced_while_a_person_judges_blindly(spec, monkeypatch, capsys):
    replies = ["out of memory", {"actions": ACTIONS}]
    with foreign_server(lambda _: replies.pop(0)) as address:
        policy = ServerPolicy(address)
        policy.announces = False
        policy.differences(spec)
        policy.decide(observation_of(spec))
    assert capsys.readouterr().out == ""


def test_a_server_that_returns_with_another_policy_is_refused(spec, monkeypatch):
    monkeypatch.setattr(server_policy, "PAUSE_SECONDS", 0.05)
    models = ["first", "second"]
    with foreign_server(lambda _: "broken", lambda: {"model": models.pop(0)}) as address:
        policy = ServerPolicy(address)
        policy.differences(spec)
        with pytest.raises(ConfigError, match="another policy than before"):
            policy.decide(observation_of(spec))


def test_a_server_that_stays_away_ends_the_wait(spec, monkeypatch):
    monkeypatch.setattr(server_policy, "PAUSE_SECONDS", 0.05)
    with foreign_server(straight) as address:
        policy = ServerPolicy(address, retry_seconds=0.5)
        policy.differences(spec)
        policy.decide(observation_of(spec))
    started = time.monotonic()
    with pytest.raises(PolicyServerError, match="cannot be reached"):
        policy.decide(observation_of(spec))
    assert time.monotonic() - started >= 0.5


def test_what_does_not_fit_is_named(spec):
    with foreign_server(straight) as address:
        policy = ServerPolicy(address, Translation({"image": "images/front"}, low=(0.0,), high=(1.0,)))
        lines = policy.differences(spec)
        assert ServerPolicy(address).fingerprint != policy.fingerprint
    assert lines[0].startswith("input 'image' of the server: no observation 'images/front'; the task has")
    assert lines[1:] == [f"action_{end}: 1 values for actions of 3 elements" for end in ("low", "high")]


@pytest.mark.parametrize("address", ["", "gpu:8000", "http://127.0.0.1:1", "ws://", "ws://127.0.0.1:0", "ws://[::1"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(ConfigError, match="expected ws://HOST:PORT"):
        ServerPolicy(address)


@pytest.mark.parametrize("host", ["192.0.2.1", "gpu", "127.0.0.1.example.org", "localhost.example.org", "0x7f.1.1"])
def test_a_run_folder_cannot_name_a_server_on_another_machine(host, monkeypatch):
    """It would see all observations, and the key."""
    monkeypatch.setenv("ROBO_RL_POLICY_SERVER", "ws://other:8000")
    with pytest.raises(ConfigError, match=f"ROBO_RL_POLICY_SERVER=ws://{host}:8000 if it is yours"):
        ServerPolicy(f"ws://{host}:8000")


def test_a_server_cannot_redirect_to_another_one(spec):
    """It would see all observations, whatever the address in the configuration."""
    with foreign_server(straight) as other:

        def redirect(connection, request):
            response = connection.respond(http.HTTPStatus.FOUND, "elsewhere")
            response.headers["Location"] = other
            return response

        with serve(lambda _: None, "127.0.0.1", 0, process_request=redirect) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                with pytest.raises(PolicyServerError, match="cannot be reached"):
                    ServerPolicy(f"ws://127.0.0.1:{server.socket.getsockname()[1]}")
            finally:
                server.shutdown()
                thread.join()


def test_messages_are_those_of_openpi():
    """The bytes that openpi_client 0.1.2 writes for these values."""
    array = np.arange(3, dtype=np.float32)
    data = packed({"a": array, "b": np.float64(0.5), "c": "text", "d": np.ones((1, 2), np.uint8)})
    expected = {b"__ndarray__": True, b"data": array.tobytes(), b"dtype": "<f4", b"shape": [3]}
    assert msgpack.unpackb(data)["a"] == expected
    back = unpacked(data, "here")
    np.testing.assert_array_equal(back["a"], array)
    assert back["b"] == 0.5 and back["c"] == "text" and back["d"].shape == (1, 2)


def lie(**changes):
    claims = {b"__ndarray__": True, b"data": b"\0" * 8, b"dtype": "<f4", b"shape": [2]}
    return msgpack.packb({"actions": claims | {name.encode(): value for name, value in changes.items()}})


NESTED = b"\x81\xa1a" * 5000 + b"\xc0"


@pytest.mark.parametrize(
    "data",
    [
        lie(dtype="O"),
        lie(dtype="|V8"),
        lie(dtype="<U999999999"),
        lie(dtype="(1000000000,)f4"),
        lie(dtype="08f4"),
        lie(dtype="(,f4"),
        lie(dtype="<f5"),
        lie(dtype=4),
        lie(shape=[3]),
        lie(shape=[1 << 40, 0]),
        lie(shape=[-1]),
        lie(shape=[2.0]),
        lie(shape=[1] * 100),
        lie(data="text"),
        lie(data=None),
        msgpack.packb({1: 2}),
        msgpack.packb({"a": {b"__npgeneric__": True, b"data": "x", b"dtype": "<f8"}}),
        msgpack.packb({"a": {b"__ndarray__": True}}),
        NESTED,
        b"",
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xffabc",
    ],
)
def test_a_message_that_lies_is_refused(data):
    with pytest.raises(DataError, match="here"):
        unpacked(data, "here")


def test_only_numbers_are_sent():
    for value in (np.array([None]), np.array(["a"]), object()):
        with pytest.raises(TypeError, match="expected an array of numbers"):
            packed({"a": value})


def test_a_policy_described_for_another_task_is_named(spec):
    from robo_rl.deployment import PolicyDescription

    other = replace(spec, task="push_cube", control_rate=7.0)
    facts = PolicyDescription(other, "bc", 5, 2, ("object",), 0, 0, "0.1.0")
    with foreign_server(straight, lambda: {"robo_rl": facts.to_json()}) as address:
        policy = ServerPolicy(address)
        assert policy.action_chunk == 2 and any("7" in line for line in policy.differences(spec))
        ranged = ServerPolicy(address, Translation(low=(0.0,), high=(1.0,)))
        assert f"action_low: 1 values for actions of {spec.action.shape[0]} elements" in ranged.differences(spec)
    with (
        foreign_server(straight, lambda: {"robo_rl": {"format": 1}}) as address,
        pytest.raises(DataError, match=address),
    ):
        ServerPolicy(address)
