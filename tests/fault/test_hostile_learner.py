"""Learners that keep to no protocol: an actor refuses what they send in a line, and they take little of its memory."""

import hashlib
import json
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest

from robo_rl.core import CheckpointError, TransportError
from robo_rl.replay import Intake
from robo_rl.training.received_policies import ReceivedPolicies
from robo_rl.transport import TransportConfig, connection
from robo_rl.transport import messages_pb2 as messages
from robo_rl.transport.incoming import MOST_ORDERS, LearnerNews
from robo_rl.transport.policy import CHUNK_BYTES, PolicyAssembly, largest_policy, pack_policy
from robo_rl.transport.service import JOIN, RETRY_KEY, SERVICE

from ..rigs.deployed import make_agent
from ..rigs.replay_episodes import SPEC
from ..rigs.transport_rig import ActorRig, make_server, wait_until

MOST_BYTES = 1 << 20
SOUND = {"run": "run-1", "incarnation": "i", "session": 1, "message_bytes": 8 << 20}


@contextmanager
def learner(path: Path, join: Callable[[Any, Any], Any]) -> Iterator[TransportConfig]:
    """Answer every request to join as ``join`` does."""
    server = grpc.server(ThreadPoolExecutor(2))
    handler = grpc.unary_unary_rpc_method_handler(join, JOIN.request.FromString, JOIN.reply.SerializeToString)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {JOIN.name: handler})])
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield TransportConfig(f"unix:{path}", timeout_seconds=5.0)
    finally:
        server.stop(0)


def joined(path: Path, join: Callable[[Any, Any], Any], should_stop: Callable[[], bool] = lambda: False) -> bool:
    with learner(path / "socket", join) as config:
        rig = ActorRig(config, path / "spool")
        try:
            return rig.link.join(0, should_stop)
        finally:
            rig.close()


@pytest.mark.parametrize(
    "change",
    [
        {"session": 0},
        {"session": 2**64 - 1},
        {"session": (1 << 48) + 1},
        {"run": ""},
        {"run": "x" * 3_000_000},
    ],
    ids=str,
)
def test_sessions_and_runs_that_no_learner_gives_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="is none of robo-rl: it gave session") as refused:
        joined(tmp_path, lambda *_: messages.JoinReply(**SOUND | change))
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_a_learner_that_takes_no_step_is_refused(size: int, tmp_path: Path) -> None:
    with pytest.raises(TransportError, match=f"accepts messages of {size} bytes, but a step takes"):
        joined(tmp_path, lambda *_: messages.JoinReply(**SOUND | {"message_bytes": size}))


@pytest.mark.parametrize("value", ["soon", "nan", "inf", "", "1e999", "0x10"])
def test_a_pause_that_is_no_number_is_a_refusal(value: str, tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="refused robot: later"):
        joined(tmp_path, refusing(value))


@pytest.mark.parametrize("value", ["1e9", "1e300", "-5", "0.0"])
def test_pauses_are_short(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MOST_RETRY_SECONDS", 0.1)
    attempts = iter([False, False, True])
    assert not joined(tmp_path, refusing(value), lambda: next(attempts))


def refusing(value: str) -> Callable[[Any, Any], Any]:
    def refuse(_: Any, context: Any) -> Any:
        context.set_trailing_metadata([(RETRY_KEY, value)])
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "later")

    return refuse


@pytest.mark.parametrize("words", [["reset"] * 300, ["success", "dance"] * 100, ["x" * 1_000_000, "failure"]])
def test_orders_without_end_take_no_memory(words: list[str]) -> None:
    news = LearnerNews()
    for _ in range(50):
        news.take_in(messages.Notice(guidance=messages.Guidance(orders=words)), PolicyAssembly(MOST_BYTES))
    orders = news.take_orders()
    assert len(orders) == MOST_ORDERS and set(orders) <= {"reset", "success", "failure"}


def chunk(**fields: Any) -> Any:
    return messages.PolicyChunk(**{"version": 1, "sha256": b"a" * 32, "total_bytes": 5, "offset": 0} | fields)


@pytest.mark.parametrize("chunks", [
    [chunk()],
    [chunk(data=b"x"), chunk(offset=1)],
    [chunk(data=b"x"), chunk(offset=2, data=b"x")],
    [chunk(data=b"x" * 6)],
    [chunk(total_bytes=MOST_BYTES + 1, data=b"x")],
    [chunk(total_bytes=2**64 - 1, offset=2**64 - 1)],
    [chunk(data=b"x"), chunk(version=2, offset=1, data=b"x")],
    [chunk(data=b"12345")],
])  # fmt: skip
def test_chunks_that_make_no_policy_are_refused(chunks: list[Any]) -> None:
    news, assembly = LearnerNews(), PolicyAssembly(MOST_BYTES)
    with pytest.raises(CheckpointError, match=r"^policy "):
        for each in chunks:
            news.take_in(messages.Notice(policy=each), assembly)
    assert news.take_policy() is None


@pytest.mark.parametrize("kind", ["sac", "bc", "flow", "xqc", "qc", "fql", "dsrl", "iql", "drq"])
def test_an_actor_takes_in_no_policy_that_is_larger_than_its_agents_own(kind: str) -> None:
    own = make_agent(kind).policy_state()
    policies: list[dict[str, np.ndarray]] = [
        {name: np.concatenate([array.ravel()] * 2) for name, array in own.items()},
        {name: array.astype(np.float64) for name, array in own.items()},
        own | {"more": np.zeros(2 * CHUNK_BYTES, np.uint8)},
        own | {"name " * 5000: np.zeros(1)},
    ]
    news, assembly = LearnerNews(), PolicyAssembly(largest_policy(own))
    for version, policy in enumerate(policies):
        chunks = list(pack_policy(version, policy).chunks())
        with pytest.raises(CheckpointError, match=rf"policy {version}: it has \d+ bytes, but a policy of this actor's"):
            assembly.add(chunks[0])
        assert all(assembly.add(chunk) is None for chunk in chunks[1:]), "ignored, without another error"
        assert not assembly._data
    for sound in pack_policy(9, own).chunks():
        news.take_in(messages.Notice(policy=sound), assembly)
    taken = news.take_policy()
    assert taken is not None and taken[0] == 9 and taken[1].keys() == own.keys()


def test_chunks_of_a_byte_take_no_more_memory_than_the_policy() -> None:
    assembly, size = PolicyAssembly(MOST_BYTES), 100_000
    tracemalloc.start()
    try:
        for offset in range(size - 1):
            assembly.add(chunk(total_bytes=size, offset=offset, data=b"x"))
        assert tracemalloc.get_traced_memory()[0] < 3 * size
    finally:
        tracemalloc.stop()


def test_an_actor_reports_a_policy_that_is_too_large_in_one_message(tmp_path: Path) -> None:
    intake, notes = Intake(tmp_path / "replay", SPEC), []
    server = make_server(TransportConfig(f"unix:{tmp_path}/socket"), intake)
    rig = ActorRig(TransportConfig(server.address), tmp_path / "spool")
    rig.link._notify = notes.append
    try:
        rig.join()
        for version in range(1, 4):
            server.publish(version, {"weight": np.zeros(CHUNK_BYTES, np.float32)})
            wait_until(lambda version=version: rig.link._report.damaged_policies == version)
        server.publish(4, {"weight": np.zeros(3)})
        assert rig.link.wait_for_policy(20)
    finally:
        rig.close()
        server.close(0)
        intake.close()
    assert len(notes) == 1 and "The learner's policy is not used: policy 1: it has 41943" in notes[0]


def tensor(kind: str, shape: list[int], size: int) -> dict[str, Any]:
    return {"w": {"dtype": kind, "shape": shape, "data_offsets": [0, size]}}


@pytest.mark.parametrize(
    "header",
    [
        tensor("BF16", [2], 4),
        tensor("F8_E4M3", [4], 4),
        tensor("Q9", [4], 4),
        tensor("F32", [-1], 4),
        tensor("F32", [2**62], 4),
        tensor("F32", [1], 2**40),
        "[" * 1000,
        "",
    ],
)
def test_files_of_other_kinds_are_refused(header: Any) -> None:
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    data = struct.pack("<Q", len(text)) + text + bytes(4)
    message = chunk(sha256=hashlib.sha256(data).digest(), total_bytes=len(data), data=data)
    with pytest.raises(CheckpointError, match="policy 1: not a safetensors file"):
        LearnerNews().take_in(messages.Notice(policy=message), PolicyAssembly(MOST_BYTES))


@pytest.mark.parametrize("kind", ["sac", "flow", "xqc", "bc", "qc", "fql", "dsrl", "iql"])
def test_policies_of_wrong_names_shapes_and_types_leave_the_one_that_acts(kind: str) -> None:
    agent, notes = make_agent(kind), []
    sound = agent.policy_state()
    spec: Any = SimpleNamespace(observation={}, action=None)
    policies = ReceivedPolicies(agent, spec, notes.append)
    policies._probe = lambda: None  # type: ignore[method-assign]
    policies.take(1, sound)
    wrong: list[Any] = [{}]
    for name, array in sound.items():
        if name != "value_steps":  # policies of earlier versions lack it
            wrong.append({other: value for other, value in sound.items() if other != name})
        flat = array.ravel()
        others = (array.astype(complex), array.astype(bool), flat[:-1], flat[None], np.zeros((2**40, 0), np.float32))
        differ = [other for other in others if (other.dtype, other.shape) != (array.dtype, array.shape)]
        wrong += [sound | {name: other} for other in differ]
    for number, policy in enumerate(wrong, start=2):
        policies.take(number, policy)
    assert policies.refused == len(notes) == len(wrong) and policies.version == 1
    assert all(np.array_equal(array, sound[name]) for name, array in agent.policy_state().items())
