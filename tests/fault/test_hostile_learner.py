"""Learners that keep to no protocol: an actor refuses what they send in a line, and they take little of its memory."""

import hashlib
import json
import struct
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
from robo_rl.training.received_policies import ReceivedPolicies
from robo_rl.transport import TransportConfig, connection
from robo_rl.transport import messages_pb2 as messages
from robo_rl.transport.incoming import MOST_ORDERS, LearnerNews
from robo_rl.transport.policy import POLICY_BYTES, PolicyAssembly
from robo_rl.transport.service import JOIN, RETRY_KEY, SERVICE

from ..rigs.deployed import make_agent
from ..rigs.transport_rig import ActorRig

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
        news.take_in(messages.Notice(guidance=messages.Guidance(orders=words)), PolicyAssembly())
    orders = news.take_orders()
    assert len(orders) == MOST_ORDERS and set(orders) <= {"reset", "success", "failure"}


def chunk(**fields: Any) -> Any:
    return messages.PolicyChunk(**{"version": 1, "sha256": b"a" * 32, "total_bytes": 5, "offset": 0} | fields)


@pytest.mark.parametrize("chunks", [
    [chunk()],
    [chunk(data=b"x"), chunk(offset=1)],
    [chunk(data=b"x"), chunk(offset=2, data=b"x")],
    [chunk(data=b"x" * 6)],
    [chunk(total_bytes=POLICY_BYTES + 1, data=b"x")],
    [chunk(total_bytes=2**64 - 1, offset=2**64 - 1)],
    [chunk(data=b"x"), chunk(version=2, offset=1, data=b"x")],
    [chunk(data=b"12345")],
])  # fmt: skip
def test_chunks_that_make_no_policy_are_refused(chunks: list[Any]) -> None:
    news, assembly = LearnerNews(), PolicyAssembly()
    with pytest.raises(CheckpointError, match=r"^policy "):
        for each in chunks:
            news.take_in(messages.Notice(policy=each), assembly)
    assert news.take_policy() is None


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
        LearnerNews().take_in(messages.Notice(policy=message), PolicyAssembly())


@pytest.mark.parametrize("kind", ["sac", "flow", "xqc", "bc", "qc", "fql", "iql"])
def test_policies_of_wrong_names_shapes_and_types_leave_the_one_that_acts(kind: str) -> None:
    agent, notes = make_agent(kind), []
    sound = agent.policy_state()
    spec: Any = SimpleNamespace(observation={}, action=None)
    policies = ReceivedPolicies(agent, spec, notes.append)
    policies._probe = lambda: None  # type: ignore[method-assign]
    policies.take(1, sound)
    wrong: list[Any] = [{}]
    for name, array in sound.items():
        wrong.append({other: value for other, value in sound.items() if other != name})
        flat = array.ravel()
        others = (array.astype(complex), array.astype(bool), flat[:-1], flat[None], np.zeros((2**40, 0), np.float32))
        differ = [other for other in others if (other.dtype, other.shape) != (array.dtype, array.shape)]
        wrong += [sound | {name: other} for other in differ]
    for number, policy in enumerate(wrong, start=2):
        policies.take(number, policy)
    assert policies.refused == len(notes) == len(wrong) and policies.version == 1
    assert all(np.array_equal(array, sound[name]) for name, array in agent.policy_state().items())
