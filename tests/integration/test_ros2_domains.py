"""Domains of ROS 2 and the settings of Cyclone DDS: which nodes hear of each other, and what is refused."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from robo_rl.core import DriverError
from robo_rl.drivers.ros2 import Node, open_node

from ..rigs.ros2_domain import domain_of_peer, free_domain
from ..rigs.ros2_rig import STRING, TRIGGER, peer, wait_until


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with domain_of_peer(), open_node("tester", "/lab", "dds") as opened:
        yield opened


def test_domains_do_not_see_each_other(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    with free_domain() as environment:
        monkeypatch.setenv("ROS_DOMAIN_ID", environment["ROS_DOMAIN_ID"])
        with open_node("far", implementation="dds") as far:
            near = far.create_publisher(STRING, "/description")
            wait_until(lambda: "/description" in far.graph.topics)
            time.sleep(0.5)
            assert far.graph.nodes == ("/far",) and near.matched_count == 0
            assert "/far" not in node.graph.nodes


WAITS_TO_BE_FOUND = """
<CycloneDDS><Domain>
  <General>
    <Interfaces><NetworkInterface address="127.0.0.1"/></Interfaces><AllowMulticast>false</AllowMulticast>
  </General>
  <Discovery><ParticipantIndex>auto</ParticipantIndex><Peers addlocalhost="false"/></Discovery>
</Domain></CycloneDDS>
"""


def test_who_comes_later_and_looks_for_nobody_is_found_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of the range SUBNET look for others by multicast alone, which nodes of this machine alone do not hear."""
    monkeypatch.delenv("ROS_LOCALHOST_ONLY", raising=False)
    with free_domain() as environment:
        domain = {"ROS_DOMAIN_ID": environment["ROS_DOMAIN_ID"]}
        monkeypatch.setenv("ROS_DOMAIN_ID", domain["ROS_DOMAIN_ID"])
        monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        with open_node("first", implementation="dds") as node:
            time.sleep(2.0)
            variables = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SYSTEM_DEFAULT", "CYCLONEDDS_URI": WAITS_TO_BE_FOUND}
            with peer(domain | variables):
                wait_until(lambda: "/peer" in node.graph.nodes)
                assert node.create_client(TRIGGER, "/send_joints").wait(20.0)


def test_an_interface_may_be_chosen_in_cyclones_own_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = '<General><Interfaces><NetworkInterface address="127.0.0.1"/></Interfaces></General>'
    monkeypatch.delenv("ROS_LOCALHOST_ONLY", raising=False)
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    monkeypatch.setenv("CYCLONEDDS_URI", f"<CycloneDDS><Domain>{chosen}</Domain></CycloneDDS>")
    with free_domain() as environment:
        monkeypatch.setenv("ROS_DOMAIN_ID", environment["ROS_DOMAIN_ID"])
        with open_node("alone", implementation="dds") as node:
            assert node.graph.nodes == ("/alone",)


def test_settings_of_an_open_domain_are_not_changed_silently(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_STATIC_PEERS", "192.0.2.1")
    with pytest.raises(DriverError, match="All nodes of a process share the settings"):
        open_node("second", implementation="dds")


def test_a_configuration_that_cyclone_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", "101")
    monkeypatch.setenv("CYCLONEDDS_URI", "<CycloneDDS><Domain><Nonsense/></Domain></CycloneDDS>")
    with pytest.raises(DriverError, match=r"could not open domain 101.*CYCLONEDDS_URI.*Nonsense"):
        open_node("refused", implementation="dds")


MANY_NODES = """
import threading
from robo_rl.drivers.ros2 import open_node

def open_and_close(thread):
    for number in range(40):
        open_node(f"n{thread}_{number}").close()

watching = [open_node(f"watching{number}") for number in range(4)]
threads = [threading.Thread(target=open_and_close, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for node in watching:
    node.close()
"""


def test_nodes_of_several_threads_hear_of_each_other_at_the_same_time() -> None:
    """The binding converts quality of service in memory that all threads share: garbled, or a crash of the process."""
    command = [sys.executable, "-c", MANY_NODES]
    with free_domain() as domain:
        done = subprocess.run(
            command, env=os.environ | domain, capture_output=True, text=True, timeout=300, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")
