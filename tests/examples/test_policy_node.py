"""examples/deployed/policy_node.c: each action for a control period, rest without observations, and new decisions."""

import shutil
import signal
import socket
import subprocess
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ..rigs.deployed import SPEC, describe, make_agent, write
from ..rigs.guide import EXAMPLES

PATIENCE_SECONDS = 60.0
ACTIONS = 7
"""Actions that are executed on one observation until it is too old: 0.65 s at 10 Hz."""


def runs_of(commands: list[bytes]) -> list[NDArray[np.float32]]:
    """Return the commands without repetitions."""
    return [np.frombuffer(packet, np.float32) for packet, _ in groupby(commands)]


def received(robot: socket.socket, *, at_rest: bool) -> list[bytes]:
    """Receive commands up to the first that is 0, or that is not."""
    commands = [robot.recv(1024)]
    while (not any(np.frombuffer(commands[-1], np.float32))) != at_rest:
        commands.append(robot.recv(1024))
    return commands


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_node_executes_chunks_and_holds_still_without_observations(tmp_path: Path) -> None:
    agent = make_agent("sac_chunk")
    write(agent, "sac_chunk", tmp_path / "policy.h")
    source, program = EXAMPLES / "deployed" / "policy_node.c", tmp_path / "policy_node"
    flags = ["-std=c99", "-O3", "-Wall", "-Wextra", "-Werror", "-pedantic", "-DMAX_AGE=0.65", f"-I{tmp_path}"]
    subprocess.run(["cc", *flags, str(source), "-o", str(program), "-lm"], check=True)
    scale = np.array(describe(agent, "sac_chunk").action_scales()[0], np.float32) * SPEC.control_rate
    decision, rng = agent.decision(), np.random.default_rng(0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as robot:
        robot.bind(("127.0.0.1", 0))
        robot.settimeout(PATIENCE_SECONDS)
        node = subprocess.Popen([program, "0", str(robot.getsockname()[1])], stdout=subprocess.PIPE, text=True)
        try:
            command, address = robot.recvfrom(1024)
            assert command == bytes(4 * 2), "at rest before the first observation"
            for _ in range(2):
                observation = decision.example(rng)
                packet = np.concatenate([observation[key] for key in decision.observed])
                for wrong in (packet[:-1], np.append(packet, np.float32(1)), np.zeros(0, np.float32)):
                    robot.sendto(wrong.tobytes(), address)
                robot.sendto(packet.tobytes(), address)
                received(robot, at_rest=False)
                commands = runs_of(received(robot, at_rest=True))[:-1]
                tensors = {key: torch.from_numpy(value) for key, value in observation.items()}
                chunk = decision.compute(tensors, torch.empty(0)).numpy()
                expected = [scale * chunk[index % len(chunk)] for index in range(ACTIONS)]
                # A busy machine loses packets, but does not reorder them.
                position = 0
                for rates in commands:
                    near = [np.allclose(rates, each, atol=1e-3) for each in expected[position:]]
                    assert any(near), (rates, expected, position)
                    position += near.index(True) + 1
                assert len(commands) > 1
        finally:
            node.send_signal(signal.SIGINT)
            output, _ = node.communicate(timeout=PATIENCE_SECONDS)
    assert node.returncode == 0 and "commands sent" in output


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_node_that_ends_leaves_the_robot_at_rest(tmp_path: Path) -> None:
    agent = make_agent("sac_chunk")
    write(agent, "sac_chunk", tmp_path / "policy.h")
    source, program = EXAMPLES / "deployed" / "policy_node.c", tmp_path / "policy_node"
    flags = ["-std=c99", "-DMAX_AGE=1000", f"-I{tmp_path}"]
    subprocess.run(["cc", *flags, str(source), "-o", str(program), "-lm"], check=True)
    decision = agent.decision()
    observation = decision.example(np.random.default_rng(0))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as robot:
        robot.bind(("127.0.0.1", 0))
        robot.settimeout(PATIENCE_SECONDS)
        node = subprocess.Popen([program, "0", str(robot.getsockname()[1])], stdout=subprocess.PIPE)
        try:
            _, address = robot.recvfrom(1024)
            robot.sendto(np.concatenate([observation[key] for key in decision.observed]).tobytes(), address)
            received(robot, at_rest=False)
        finally:
            node.send_signal(signal.SIGTERM)
            node.communicate(timeout=PATIENCE_SECONDS)
        received(robot, at_rest=True)


FLOOD = """
#include <string.h>
#include <sys/socket.h>
static ssize_t flood(int node, void *packet, size_t size, int flags)
{
    (void)node, (void)flags;
    memset(packet, 0, size);
    return (ssize_t)(size - sizeof(float));
}
#define recv flood
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_flood_of_packets_does_not_stop_the_commands(tmp_path: Path) -> None:
    write(make_agent("sac"), "sac", tmp_path / "policy.h")
    source, program = EXAMPLES / "deployed" / "policy_node.c", tmp_path / "policy_node"
    (tmp_path / "flood.h").write_text(FLOOD)
    flags = ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-include", str(tmp_path / "flood.h"), f"-I{tmp_path}"]
    subprocess.run(["cc", *flags, str(source), "-o", str(program), "-lm"], check=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as robot:
        robot.bind(("127.0.0.1", 0))
        robot.settimeout(PATIENCE_SECONDS)
        node = subprocess.Popen([program, "0", str(robot.getsockname()[1])], stdout=subprocess.PIPE)
        try:
            for _ in range(3):
                assert any(np.frombuffer(robot.recv(1024), np.float32))
        finally:
            node.kill()
            node.communicate(timeout=PATIENCE_SECONDS)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_words_that_are_no_ports_are_answered_with_the_usage(tmp_path: Path) -> None:
    write(make_agent("sac"), "sac", tmp_path / "policy.h")
    program = tmp_path / "policy_node"
    source = EXAMPLES / "deployed" / "policy_node.c"
    subprocess.run(["cc", "-std=c99", f"-I{tmp_path}", str(source), "-o", str(program), "-lm"], check=True)
    outcome = subprocess.run([program], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert outcome.returncode == 2 and "usage: policy_node OBSERVATION_PORT COMMAND_PORT" in outcome.stderr
