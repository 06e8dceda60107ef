"""What is kept of participants that discovery has not found: anybody may send messages about them."""

from types import SimpleNamespace
from typing import Any

from robo_rl.drivers.ros2.dds.known_graph import MOST_UNDISCOVERED, KnownGraph


def info(name: str) -> Any:
    node = SimpleNamespace(node_namespace="/", node_name=name, reader_gid_seq=[], writer_gid_seq=[])
    return SimpleNamespace(node_entities_info_seq=[node])


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_nodes_of_participants_that_never_come_are_forgotten() -> None:
    known = KnownGraph("/own", key(0))
    known.set_participant(key(1), alive=True)
    known.set_nodes(key(1), info("discovered"))
    for number in range(2, 20 * MOST_UNDISCOVERED):
        known.set_nodes(key(number), info(f"node{number}"))
        known.set_nodes(key(2 + number % 3), info("again"))
    assert len(known._nodes) == MOST_UNDISCOVERED + 1
    assert known.snapshot().nodes == ("/discovered", "/own")


def test_nodes_that_come_before_their_participant_are_known_with_it() -> None:
    known = KnownGraph("/own", key(0))
    for number in range(MOST_UNDISCOVERED):
        known.set_nodes(key(1 + number), info(f"node{number}"))
    for number in range(MOST_UNDISCOVERED):
        known.set_participant(key(1 + number), alive=True)
    assert len(known.snapshot().nodes) == MOST_UNDISCOVERED + 1
    known.set_participant(key(1), alive=False)
    assert "/node0" not in known.snapshot().nodes and len(known._nodes) == MOST_UNDISCOVERED - 1
