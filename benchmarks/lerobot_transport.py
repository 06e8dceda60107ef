"""The wire of LeRobot 0.3.2, measured for comparison: pickled tensors in chunks of 2 MB, into the learner's memory.

It needs ``pip install --no-deps lerobot==0.3.2``: its wire alone runs with what robo-rl installs. Nothing is stored,
acknowledged or checked; images travel as bytes here, where LeRobot itself makes four-byte floats of them.
"""

import multiprocessing
import multiprocessing.connection
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import Any

import grpc
import torch
from lerobot.transport import services_pb2, services_pb2_grpc
from lerobot.transport.utils import (
    bytes_to_transitions,
    grpc_channel_options,
    receive_bytes_in_chunks,
    send_bytes_in_chunks,
    transitions_to_bytes,
)

from robo_rl.core import Transition


class _Service(services_pb2_grpc.LearnerServiceServicer):  # type: ignore[misc]
    def __init__(self) -> None:
        self.queue: Queue[bytes] = Queue()

    def SendTransitions(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        receive_bytes_in_chunks(request_iterator, self.queue, threading.Event())
        return services_pb2.Empty()


def _learn(address: str, count: int, pipe: "multiprocessing.connection.Connection[Any, Any]") -> None:
    """Receive ``count`` transitions, as LeRobot's learner does before it fills its buffer."""
    service = _Service()
    server = grpc.server(ThreadPoolExecutor(4), options=grpc_channel_options())
    services_pb2_grpc.add_LearnerServiceServicer_to_server(service, server)
    server.add_insecure_port(address)
    server.start()
    pipe.send("ready")
    began, received = time.process_time(), 0
    while received < count:
        received += len(bytes_to_transitions(service.queue.get()))
    pipe.send(time.process_time() - began)
    server.stop(0)


def measure(address: str, episodes: list[list[Transition]], row_bytes: int) -> dict[str, float]:
    """Send episodes, one message each as LeRobot's actor does; return rates and CPU time of both processes."""
    count = sum(map(len, episodes))
    pipe, child_pipe = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_learn, args=(address, count, child_pipe), daemon=True
    )
    process.start()
    pipe.recv()
    tensors = [[_as_lerobot(step) for step in episode] for episode in episodes]
    began, began_cpu = time.perf_counter(), time.process_time()

    def messages() -> Iterator[Any]:
        for episode in tensors:
            yield from send_bytes_in_chunks(transitions_to_bytes(episode), services_pb2.Transition)

    with grpc.insecure_channel(address, grpc_channel_options()) as channel:
        services_pb2_grpc.LearnerServiceStub(channel).SendTransitions(messages())
        learner_cpu = pipe.recv()
    seconds, actor_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    process.join()
    return {
        "steps": count,
        "steps_per_second": count / seconds,
        "megabytes_per_second": count * row_bytes / seconds / 1e6,
        "actor_cpu_microseconds": actor_cpu / count * 1e6,
        "learner_cpu_microseconds": learner_cpu / count * 1e6,
    }


def _as_lerobot(step: Transition) -> dict[str, Any]:
    return {
        "state": {key: torch.from_numpy(value)[None] for key, value in step.observation.items()},
        "action": torch.from_numpy(step.executed_action)[None],
        "reward": sum(step.rewards.values()),
        "next_state": {key: torch.from_numpy(value)[None] for key, value in step.next_observation.items()},
        "done": step.terminated,
        "truncated": step.truncated,
        "complementary_info": {},
    }
