"""The matrix of middlewares and implementations, against nodes of real ROS 2: wherever rclpy can be imported.

Source a workspace made for this Python, with rmw_cyclonedds_cpp, rmw_fastrtps_cpp and control_msgs. What was measured
is printed (``pytest -s``). Latencies are judged on an idle machine alone; losses and faults on every one.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from robo_rl.drivers.ros2 import missing_packages
from robo_rl.drivers.ros2.opening import why_no_rclpy

from ..rigs.ros2_domain import free_domain

RIGS = Path(__file__).resolve().parents[1] / "rigs"
NO_RCLPY = why_no_rclpy()
pytestmark = pytest.mark.skipif(NO_RCLPY is not None, reason=f"needs real ROS 2: {NO_RCLPY}")

MIDDLEWARES = ("rmw_cyclonedds_cpp", "rmw_fastrtps_cpp")
BUSY = 0.6
"""Load per core, before a case begins, from which latencies are not judged."""


def is_installed(middleware: str) -> bool:
    folders = os.environ.get("AMENT_PREFIX_PATH", "").split(":")
    return any(Path(folder, "share", middleware).is_dir() for folder in folders)


@contextmanager
def running(environment: dict[str, str], *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program of tests/rigs until the block ends."""
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=RIGS,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def ready(environment: dict[str, str], *words: str) -> Iterator[subprocess.Popen[str]]:
    with running(environment, "rclpy_peer.py", *words) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


@pytest.fixture(
    scope="module", params=[(rmw, client) for rmw in MIDDLEWARES for client in ("rclpy", "dds")], ids="-".join
)
def seen(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What a process of robo-rl saw of real nodes on one middleware, through one implementation."""
    middleware, client = request.param
    if not is_installed(middleware) or "control_msgs" in missing_packages():
        pytest.skip(f"the sourced workspace lacks {middleware} or control_msgs")
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    with free_domain() as domain:
        environment = {**domain, "RMW_IMPLEMENTATION": middleware}
        with ready(environment, "peer"), running(environment, "rclpy_subject.py", client) as subject:
            assert subject.stdout is not None
            with ready(environment, "resetter", "--hangs") as resetter:
                line = subject.stdout.readline()
                assert line == "restart\n", subject.communicate()[1]
                with pytest.raises(subprocess.TimeoutExpired):
                    resetter.wait(1.0)  # the request is on its way
                resetter.send_signal(signal.SIGKILL)
                resetter.wait()
            with ready(environment, "resetter"):
                output, errors = subject.communicate(timeout=120)
    result: dict[str, Any] = json.loads(output)
    result |= {"errors": errors, "middleware": middleware, "ours": client, "load": load}
    result["services"] = client == "rclpy" or middleware == "rmw_cyclonedds_cpp"
    print(f"\n{middleware} {client}: {json.dumps({key: value for key, value in result.items() if key != 'errors'})}")
    return result


def test_joint_states_at_500_hz_are_not_lost(seen: dict[str, Any]) -> None:
    assert int(seen["sent"]) == seen["joints"]
    assert seen["in_order"]


def test_a_control_loop_of_100_ms_keeps_its_periods(seen: dict[str, Any]) -> None:
    if seen["load"] > BUSY:
        pytest.skip(f"other work on this machine: a load of {seen['load']:.1f} per core; {seen['steps']}")
    assert seen["steps"]["late_ms"] < 20
    assert seen["steps"]["cores"] < 0.5


def test_a_stop_by_topic_is_heard_from_publishers_of_every_profile(seen: dict[str, Any]) -> None:
    assert all(seen[profile] >= 1 for profile in ("best_effort", "volatile", "latched")), seen


def test_a_stop_by_service_is_answered_or_refused_at_once(seen: dict[str, Any]) -> None:
    assert seen["call"] == ("stopped" if seen["services"] else "unavailable")
    assert seen["act"] == ("moved" if seen["services"] else "unavailable")


def test_actions_of_real_servers(seen: dict[str, Any]) -> None:
    if seen["services"]:
        assert seen["goal"] == {"status": "SUCCEEDED", "result": "moved", "feedback": 3}
    else:
        assert "no server of the action /peer/move" in seen["goal"] and "rmw_cyclonedds_cpp" in seen["goal"]
        assert "/peer" in seen["unanswering"]


def test_large_images_are_listened_to_as_they_are_published(seen: dict[str, Any]) -> None:
    assert seen["images"]["reliability"] == "reliable"
    assert seen["images"]["count"] >= 20, seen["images"]


def test_a_server_that_is_started_again_is_noticed(seen: dict[str, Any]) -> None:
    first, *then = seen["restart"]
    if not seen["services"]:
        assert first["outcome"].startswith("DriverError: /reset (std_srvs/srv/Trigger) is served by Fast DDS")
        assert first["seconds"] < 5, "of the 30 that are allowed"
        return
    assert first["outcome"].startswith("ServerLostError: /reset"), first
    assert first["seconds"] < 20  # of the 30 that are allowed; a dead participant's lease is 10 to 20
    assert then[0]["outcome"] == "True"


def test_nothing_is_said_that_is_no_news(seen: dict[str, Any]) -> None:
    assert seen["problems"] == []
    assert "Traceback" not in seen["errors"] and "InvalidHandle" not in seen["errors"], seen["errors"]
