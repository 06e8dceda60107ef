"""What a node of drivers/ros2 tells of itself, read by a participant that shares no code with it; and mismatches."""

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsParticipant,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct, annotations, types
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from robo_rl.core import DriverError
from robo_rl.drivers.ros2 import Node, QoSProfile, open_node
from robo_rl.drivers.ros2.dds.library import QOS_CONVERSION

from ..rigs.ros2_domain import domain_of_peer, free_domain
from ..rigs.ros2_rig import BEST_EFFORT, GRIPPER, JOINTS, SET_BOOL, STRING, TRIGGER, peer, wait_until

HASH_OF_STRING = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
HASH_OF_INFO = "RIHS01_91a0593bacdcc50ea9bdcf849a938b128412cc1ea821245c663bcd26f83c295e"


@annotations.final
@dataclass
class Gid(IdlStruct, typename="rmw_dds_common.msg.dds_.Gid_"):
    data: types.array[types.uint8, 16]  # type: ignore[type-arg]


@annotations.final
@dataclass
class NodeInfo(IdlStruct, typename="rmw_dds_common.msg.dds_.NodeEntitiesInfo_"):
    node_namespace: types.bounded_str[256]  # type: ignore[type-arg]
    node_name: types.bounded_str[256]  # type: ignore[type-arg]
    reader_gid_seq: types.sequence[Gid]  # type: ignore[type-arg]
    writer_gid_seq: types.sequence[Gid]  # type: ignore[type-arg]


@annotations.final
@dataclass
class ParticipantInfo(IdlStruct, typename="rmw_dds_common.msg.dds_.ParticipantEntitiesInfo_"):
    gid: Gid
    node_entities_info_seq: types.sequence[NodeInfo]  # type: ignore[type-arg]


class Observer:
    """Another participant, made with the binding alone."""

    def __init__(self, domain: int) -> None:
        self._participant = DomainParticipant(domain)
        reliable = Policy.Reliability.Reliable(10**9)
        qos = Qos(
            reliable,
            Policy.Durability.TransientLocal,
            Policy.History.KeepAll,
            Policy.DataRepresentation(use_cdrv0_representation=True),
        )
        topic = Topic(self._participant, "ros_discovery_info", ParticipantInfo)
        self._infos = DataReader(self._participant, topic, qos)
        self._builtin = {
            name: BuiltinDataReader(self._participant, kind)
            for name, kind in (
                ("participants", BuiltinTopicDcpsParticipant),
                ("writers", BuiltinTopicDcpsPublication),
                ("readers", BuiltinTopicDcpsSubscription),
            )
        }

    def infos(self) -> dict[str, ParticipantInfo]:
        """Return the newest message of every participant by the name of its first node."""
        return {info.node_entities_info_seq[0].node_name: info for info in self._infos.read(200)}

    def seen(self, name: str) -> dict[bytes, Any]:
        with QOS_CONVERSION:  # nodes of this process convert in the same buffers
            samples = self._builtin[name].read(500)
        return {sample.key.bytes: sample for sample in samples}


@pytest.fixture(scope="module")
def domain() -> Iterator[int]:
    with domain_of_peer() as environment:
        yield int(environment["ROS_DOMAIN_ID"])


@pytest.fixture
def node(domain: int) -> Iterator[Node]:
    with open_node("tester", "/lab", "dds", remappings={"chatter": "talk", "tester:old": "new"}) as opened:
        yield opened


def test_discovery_messages_name_every_endpoint(domain: int, node: Node) -> None:
    observer = Observer(domain)
    wait_until(lambda: "peer" in observer.infos() and "tester" in observer.infos())

    def complete() -> bool:
        info = observer.infos()["peer"]
        (node_info,) = info.node_entities_info_seq
        participant = bytes(info.gid.data)
        for kind, gids in (("writers", node_info.writer_gid_seq), ("readers", node_info.reader_gid_seq)):
            seen = observer.seen(kind)
            own = {key for key, sample in seen.items() if sample.participant_key.bytes == participant}
            topics = {key for key in own if seen[key].topic_name != "ros_discovery_info"}
            if {bytes(gid.data) for gid in gids} != topics:
                return False
        return (node_info.node_namespace, node_info.node_name) == ("/", "peer")

    wait_until(complete)
    participant = observer.seen("participants")[bytes(observer.infos()["peer"].gid.data)]
    assert bytes(participant.qos[Policy.Userdata].data) == b"enclave=/;"
    for kind in ("writers", "readers"):
        own = [sample for sample in observer.seen(kind).values() if sample.topic_name == "ros_discovery_info"]
        user_data = [
            bytes(sample.qos[Policy.Userdata].data).decode() for sample in own if Policy.Userdata in sample.qos
        ]
        assert f"typehash={HASH_OF_INFO};" in user_data
    local = observer.infos()["tester"].node_entities_info_seq[0]
    assert (local.node_namespace, local.node_name) == ("/lab", "tester")


def test_endpoints_are_as_ros_makes_them(domain: int, node: Node) -> None:
    observer = Observer(domain)

    def named(topic: str) -> Any:
        found = [sample for sample in observer.seen("writers").values() if sample.topic_name == topic]
        return found[0] if found else None

    wait_until(lambda: named("rt/description") and named("rr/setReply") and named("rt/rough"))
    description, rough, reply = named("rt/description"), named("rt/rough"), named("rr/setReply")
    assert description.type_name == "std_msgs::msg::dds_::String_"
    assert bytes(description.qos[Policy.Userdata].data).decode() == f"typehash={HASH_OF_STRING};"
    assert description.qos[Policy.Durability] == Policy.Durability.TransientLocal
    assert isinstance(description.qos[Policy.Reliability], Policy.Reliability.Reliable)
    assert rough.qos[Policy.Reliability] == Policy.Reliability.BestEffort
    assert reply.type_name == "std_srvs::srv::dds_::SetBool_Response_"
    user_data = bytes(reply.qos[Policy.Userdata].data).decode()
    identity = user_data.partition(";")[0].removeprefix("serviceid=").split(".")
    assert len(identity) == 16 and all(0 <= int(part, 16) <= 255 for part in identity)
    assert named("rr/peer/set_parameters_atomicallyReply")
    assert named("rt/grip/_action/feedback").type_name == "control_msgs::action::dds_::GripperCommand_FeedbackMessage_"


def test_the_graph_by_ros_names(node: Node) -> None:
    wait_until(
        lambda: "/peer" in node.graph.nodes and "/images" in node.graph.topics and "/fail" in node.graph.services
    )
    graph = node.graph
    assert graph.nodes == ("/lab/tester", "/peer")
    assert graph.topics["/description"] == (STRING,)
    assert graph.topics["/grip/_action/status"] == ("action_msgs/msg/GoalStatusArray",)
    assert graph.services["/set"] == (SET_BOOL,)
    assert graph.services["/grip/_action/send_goal"] == (f"{GRIPPER}_SendGoal",)
    assert graph.services["/lab/tester/get_parameters"] == ("rcl_interfaces/srv/GetParameters",)
    assert graph.unanswering == ()


def test_namespace_and_remapping_reach_the_wire(node: Node) -> None:
    assert node.name == "/lab/tester"
    node.create_publisher(STRING, "chatter")
    node.create_publisher(STRING, "old")
    node.create_publisher(STRING, "/plain")
    node.create_publisher(STRING, "~/own")
    expected = {"/lab/talk", "/lab/new", "/plain", "/lab/tester/own"}
    wait_until(lambda: expected <= node.graph.topics.keys())
    assert not {"/lab/chatter", "/lab/old"} & node.graph.topics.keys()


def test_mismatches_are_reported_within_5_s(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    wait_until(lambda: "/peer" in node.graph.nodes)
    began = time.monotonic()
    node.create_subscription(JOINTS, "/description")
    node.create_subscription(STRING, "/rough", None, QoSProfile(reliability="reliable"))
    node.create_publisher(JOINTS, "/echo/in", BEST_EFFORT)
    node.create_client(TRIGGER, "/set")
    wait_until(
        lambda: {problem.topic for problem in node.problems} == {"/description", "/rough", "/echo/in", "/set"}, 5
    )
    assert time.monotonic() - began < 5
    wait_until(lambda: all(problem.node == "/peer" for problem in node.problems))
    by_topic = {problem.topic: problem for problem in node.problems}
    description = by_topic["/description"]
    assert (description.local, description.remote) == (JOINTS, STRING)
    assert description.text.startswith(f"/description has type {JOINTS} here and {STRING} at /peer")
    rough = by_topic["/rough"]
    assert (rough.local, rough.remote) == ("reliable, volatile", "best_effort, volatile")
    assert "[reliable, volatile]" in rough.text and "[best_effort, volatile]" in rough.text
    assert (by_topic["/echo/in"].local, by_topic["/echo/in"].remote) == ("best_effort, volatile", "reliable, volatile")
    assert "Trigger" in by_topic["/set"].local and "SetBool" in by_topic["/set"].remote
    assert "/description has type" in caplog.text


def test_a_mismatch_with_a_later_node_goes_with_it(node: Node) -> None:
    subscription = node.create_subscription(STRING, "late", None, QoSProfile(durability="transient_local"))
    assert not node.problems
    with open_node("late", "/lab", "dds") as late:
        late.create_publisher(STRING, "late")
        wait_until(lambda: node.problems)
        assert node.problems[0].local == "reliable, transient_local" and subscription.matched_count == 0
        wait_until(lambda: late.problems)
    wait_until(lambda: not node.problems)


def test_deadlines_that_others_ask_for_are_compared(domain: int, node: Node) -> None:
    @annotations.final
    @dataclass
    class String(IdlStruct, typename="std_msgs.msg.dds_.String_"):
        data: str

    node.create_publisher(STRING, "strict")
    participant = DomainParticipant(domain)
    qos = Qos(Policy.Reliability.BestEffort, Policy.Deadline(50_000_000))
    reader = DataReader(participant, Topic(participant, "rt/lab/strict", String), qos)
    wait_until(lambda: node.problems)
    assert node.problems[0].remote == "best_effort, volatile, deadline 50 ms"
    assert reader.get_requested_incompatible_qos_status().total_count == 1


def test_another_definition_of_the_same_type_is_reported(domain: int, node: Node) -> None:
    @annotations.final
    @dataclass
    class String(IdlStruct, typename="std_msgs.msg.dds_.String_"):
        data: str

    other = "RIHS01_" + "0" * 64
    participant = DomainParticipant(domain)
    qos = Qos(Policy.Reliability.BestEffort, Policy.Userdata(f"typehash={other};".encode()))
    writer = DataWriter(participant, Topic(participant, "rt/lab/versions", String), qos)
    node.create_subscription(STRING, "versions", None, BEST_EFFORT)
    wait_until(lambda: node.problems)
    assert (node.problems[0].local, node.problems[0].remote) == (HASH_OF_STRING, other)
    assert "ROS_DISTRO" in node.problems[0].text
    assert writer is not None


def test_nodes_with_the_definitions_of_humble(monkeypatch: pytest.MonkeyPatch) -> None:
    """Humble's discovery messages identify endpoints by 24 bytes."""
    monkeypatch.setenv("ROS_DISTRO", "humble")
    with free_domain() as environment, peer(environment | {"ROS_DISTRO": "humble"}):
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        with open_node("tester", implementation="dds") as node:
            node.create_subscription(STRING, "/rough", None, QoSProfile(reliability="reliable"))
            wait_until(lambda: any(problem.node == "/peer" for problem in node.problems))
            answer = node.create_client(SET_BOOL, "set").call(node.types.make(f"{SET_BOOL}_Request", data=True), 20.0)
            assert answer.message == "set True"


def test_nodes_of_humble_are_named_with_the_cure(
    domain: int, node: Node, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Humble's nodes send what identifies them with 8 zeros more; it would be read as nobody."""
    names = struct.pack("<II4sI4sII", 1, 2, b"/", 4, b"arm", 0, 0)
    sent = b"\0\1\0\0" + bytes(range(1, 17)) + bytes(8) + names
    monkeypatch.setattr(ParticipantInfo, "serialize", lambda self, **options: sent)
    participant = DomainParticipant(domain)
    qos = Qos(Policy.Durability.TransientLocal, Policy.Reliability.Reliable(10**9))
    writer = DataWriter(participant, Topic(participant, "ros_discovery_info", ParticipantInfo), qos)
    writer.write(ParticipantInfo(Gid(bytes(16)), []))
    wait_until(lambda: "Set ROS_DISTRO=humble here" in caplog.text)
    with pytest.raises(DriverError, match=r"no server of /absent.*the message definitions of ROS 2 Humble"):
        node.create_client(TRIGGER, "/absent").call(node.types.make(f"{TRIGGER}_Request"), 0.1)


def test_fast_dds_is_named_with_the_cure(node: Node, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """No Fast DDS is here: Cyclone's own mark is taken for its."""
    monkeypatch.setattr("robo_rl.drivers.ros2.dds.endpoints.FAST_DDS", b"\x01\x10")
    with open_node("foreign", implementation="dds"):
        wait_until(lambda: "/foreign" in node.graph.unanswering)
        assert "On Fast DDS (rmw_fastrtps): /foreign. Topics work with it, services" in caplog.text
        with pytest.raises(DriverError, match=r"RMW_IMPLEMENTATION=rmw_cyclonedds_cpp on the robot"):
            node.create_client(TRIGGER, "absent").call(node.types.make(f"{TRIGGER}_Request"), 0.1)


def test_tools_on_fast_dds_are_named_once(node: Node, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Each run of ``ros2 topic`` is a node with another hidden name."""
    monkeypatch.setattr("robo_rl.drivers.ros2.dds.endpoints.FAST_DDS", b"\x01\x10")
    for name in ("_tool_1", "_tool_2", "arm", "_tool_3", "leg"):
        with open_node(name, implementation="dds"):
            wait_until(lambda: f"/{name}" in node.graph.unanswering)  # noqa: B023
    messages = [record.getMessage() for record in caplog.records if record.getMessage().startswith("On Fast DDS")]
    named = [
        name for text in messages for name in ("_tool_1", "_tool_2", "arm", "_tool_3", "leg") if f"/{name}." in text
    ]
    assert list(dict.fromkeys(named)) == ["_tool_1", "arm", "leg"], messages


def test_no_request_goes_to_fast_dds_nor_is_read_from_it(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Its servers would take the header for the request, and its requests have none."""
    requests: list[Any] = []
    with open_node("server", implementation="dds") as server:
        response = server.types.make(f"{TRIGGER}_Response", success=True)

        def answer(request: Any) -> Any:
            requests.append(request)
            return response

        server.create_service(TRIGGER, "/asked", answer)
        before, request = node.create_client(TRIGGER, "/asked"), node.types.make(f"{TRIGGER}_Request")
        assert before.wait(20.0)  # it knows the server already when that becomes Fast DDS's
        monkeypatch.setattr("robo_rl.drivers.ros2.dds.endpoints.FAST_DDS", b"\x01\x10")
        began = time.monotonic()
        with pytest.raises(
            DriverError, match=r"/asked .*is served by Fast DDS and cannot be called\. .*rmw_cyclonedds"
        ):
            node.create_client(TRIGGER, "/asked").call(request, 60.0)
        assert time.monotonic() - began < 20
        assert "/asked: a request was not read" not in caplog.text
        with pytest.raises(DriverError, match=r"/asked .* did not answer within"):
            before.call(request, 2.0)
        wait_until(lambda: "/asked: a request was not read, as it is from Fast DDS" in caplog.text)
        assert not requests


def test_clients_on_fast_dds_do_not_regard_services_as_available(domain: int, node: Node) -> None:
    """They require as many request readers as reply writers; Cyclone's clients count those that they match."""
    node.create_service(TRIGGER, "/asked_here", lambda request: None)
    observer = Observer(domain)
    readers: list[Any] = []

    def look() -> bool:
        readers[:] = [
            sample for sample in observer.seen("readers").values() if sample.topic_name == "rq/asked_hereRequest"
        ]
        writers = [sample for sample in observer.seen("writers").values() if sample.topic_name == "rr/asked_hereReply"]
        return len(readers) == 2 and len(writers) == 1

    wait_until(look)
    partitions = [reader.qos[Policy.Partition] for reader in readers]
    # At no moment has a client discovered a reader that it matches, and as many readers as writers.
    assert [policy.partitions if policy is not None else None for policy in partitions] == [("unmatched",), None]
    with open_node("client", implementation="dds") as client:
        assert client.create_client(TRIGGER, "/asked_here").wait(20.0)
