"""Names, arguments, quality of service and environment variables of drivers/ros2."""

import xml.etree.ElementTree as ElementTree

import pytest
import yaml

from robo_rl.cli import main
from robo_rl.core import ConfigError, parse_ros_arguments, pass_on, passed_on
from robo_rl.drivers.ros2 import LATCHED, QoSProfile, open_node
from robo_rl.drivers.ros2.dds.configuration import Discovery
from robo_rl.drivers.ros2.dds.library import why_not_raw
from robo_rl.drivers.ros2.names import Names, for_node

from ..rigs.command_line import exit_code


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("joints", "/arm/joints"),
        ("/joints", "/joints"),
        ("~/joints", "/arm/driver/joints"),
        ("~", "/arm/driver"),
        ("a/b_1", "/arm/a/b_1"),
    ],
)
def test_names_are_resolved(name: str, full: str) -> None:
    assert Names.make("driver", "arm", {}).resolve(name) == full


def test_names_are_remapped() -> None:
    rules = {"joints": "/joint_states", "~/goal": "goal", "driver:only": "mine", "other:only": "theirs", "/x": "y"}
    names = Names.make("driver", "/arm", rules)
    assert names.resolve("joints") == "/joint_states"
    assert names.resolve("/arm/joints") == "/joint_states"
    assert names.resolve("~/goal") == "/arm/goal"
    assert names.resolve("only") == "/arm/mine"
    assert names.resolve("/x") == "/arm/y"
    assert names.resolve("/joints") == "/joints"
    renamed = Names.make("driver", "", {"__ns": "/left", "driver:__node": "drive"})
    assert (renamed.full_name, renamed.resolve("~/x")) == ("/left/drive", "/left/drive/x")
    assert Names.make("driver", "", {}).full_name == "/driver"


def test_parameters_for_one_node() -> None:
    assert for_node("driver", {"driver:rate": 1, "other:rate": 2, "size": 3}) == {"rate": 1, "size": 3}


@pytest.mark.parametrize("name", ["", "1st", "a//b", "a-b", "a/", "/", "~a", "a b"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is no ROS 2 name"):
        Names.make("driver", "", {}).resolve(name)


def test_bad_nodes_and_namespaces_are_refused() -> None:
    with pytest.raises(ConfigError, match="'a/b' is no name of a ROS 2 node"):
        Names.make("a/b", "", {})
    with pytest.raises(ConfigError, match="'/a-b' is no ROS 2 namespace"):
        Names.make("a", "a-b", {})


@pytest.mark.parametrize(
    "rule", [{"a__b": "c"}, {"a": "lab/c__d"}, {"__node": "left__arm"}, {"__ns": "/a__b"}, {"my__node:a": "b"}]
)
def test_rules_that_rcl_does_not_read_are_refused(rule: dict[str, str]) -> None:
    """rcl's lexer of remapping rules knows no token with two underscores in a row, though names may have them."""
    with pytest.raises(ConfigError, match="is none that ROS 2 reads: choose names without __"):
        Names.make("driver", "", rule)
    assert Names.make("my__node", "", {"driver:__ns": "/left", "__node": "drive"}).resolve("a__b") == "/a__b"


def test_ros_arguments() -> None:
    first = "--verbose --ros-args -r __ns:=/left -r joints:=j -p rate:=20.5 --param names:=[a,b] --"
    parsed = parse_ros_arguments([*first.split(), "file", "--ros-args", "-p", "on:=true"])
    assert parsed.remappings == {"__ns": "/left", "joints": "j"}
    assert parsed.parameters == {"rate": 20.5, "names": ["a", "b"], "on": True}
    assert parsed.rest == ["--verbose", "file"]


PARAMETERS = """
/**:
  ros__parameters: {use_sim_time: false, rate: 1.0, camera: {front: {width: 64, names: [a, b]}}}
left:
  driver:
    ros__parameters: {rate: 2.0}
/left/*:
  ros__parameters: {gain: 3}
/right/driver:
  ros__parameters: {rate: 4.0}
/**/driver:
  ros__parameters: {held: true}
"""


@pytest.mark.parametrize(
    ("node", "remappings", "expected"),
    [
        ("driver", "-r __ns:=/left", {"rate": 2.0, "gain": 3, "held": True}),
        ("driver", "", {"rate": 1.0, "held": True}),
        ("driver", "-r __ns:=right -r __node:=other", {"rate": 1.0}),
        ("drive", "-r __node:=driver -r __ns:=/a/b", {"rate": 1.0, "held": True}),
    ],
)
def test_parameter_files_are_for_the_nodes_that_they_name(tmp_path, node, remappings, expected) -> None:
    (tmp_path / "all.yaml").write_text(PARAMETERS)
    parsed = parse_ros_arguments(["--ros-args", *remappings.split(), "--params-file", str(tmp_path / "all.yaml")])
    common = {"use_sim_time": False, "camera.front.width": 64, "camera.front.names": ["a", "b"]}
    assert parsed.of_node(node) == common | expected


def test_a_parameter_file_reaches_the_settings_of_a_command_and_the_command_line_counts_more(
    tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("ROBO_RL_ROS_ARGS", "")
    file = tmp_path / "robot.yaml"
    file.write_text("virtual_robot: {ros__parameters: {use_sim_time: false, state_rate: 100.0, name: arm}}\nb: {}")
    words = ["robot", "task=reach", "--ros-args", "-p", "name:=left", "--params-file", str(file), "--", "--cfg", "job"]
    with pytest.raises(SystemExit):
        main(words)
    settings = yaml.safe_load(capsys.readouterr().out)["virtual"]
    assert (settings["state_rate"], settings["name"]) == (100.0, "left")
    for content, said in (
        ("virtual_robot: {ros__parameters: {use_sim_time: true}}", "use_sim_time: robo-rl keeps time by"),
        ("virtual_robot: {ros__parameters: {state_rat: 1.0}}", "unknown option 'virtual.state_rat': did you mean"),
        ("virtual_robot: {state_rate: 1.0}", "expected NODE: {ros__parameters: {NAME: VALUE}}"),
        ("a: [", "robot.yaml cannot be read"),
    ):
        file.write_text(content)
        assert exit_code(*words) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--ros-args -r joints", "expected NAME:=VALUE"),
        ("--ros-args --params-file", "expected FILE after it"),
        ("--ros-args --params-file /nowhere.yaml", "/nowhere.yaml cannot be read: .*No such file"),
        ("--ros-args -p", "at the end"),
        ("--ros-args -p a:=[", r"-p a:=\[: expected YAML .*; a value is YAML, for example"),
        ("--ros-args -p a:=*b", r"-p a:=\*b: expected YAML"),
        ("--ros-args -p a:=2026-13-45", "month must be in"),
        ("--ros-args --log-level debug", "unknown ROS argument '--log-level'"),
    ],
)
def test_bad_ros_arguments_are_named(line: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        parse_ros_arguments(line.split())


def test_ros_arguments_of_a_command_reach_its_settings_and_all_its_nodes(monkeypatch, capsys) -> None:
    monkeypatch.setenv("ROBO_RL_ROS_ARGS", "")
    words = ["--ros-args", "-r", "__ns:=/left arm", "-r", "joint_states:=joints"]
    given = ["-p", "virtual_robot:state_rate:=100.0", "-p", "name:=arm", "--", "--cfg", "job"]
    with pytest.raises(SystemExit):
        main(["robot", "task=reach", *words, *given])
    settings = yaml.safe_load(capsys.readouterr().out)
    assert settings["task"]["_target_"].startswith("robo_rl.sim")
    assert (settings["virtual"]["state_rate"], settings["virtual"]["name"]) == (100.0, "arm")
    assert passed_on() == {"__ns": "/left arm", "joint_states": "joints"}
    with pytest.raises(ConfigError, match="'/left arm' is no ROS 2 namespace"):
        open_node("lab", implementation="dds")
    pass_on({"__ns": "/left"})
    with open_node("lab", implementation="dds") as node, open_node("b", "", "dds", {"__ns": "/right"}) as other:
        assert (node.name, other.name) == ("/left/lab", "/right/b")
    monkeypatch.setenv("ROBO_RL_ROS_ARGS", "-x")
    with pytest.raises(ConfigError, match="ROBO_RL_ROS_ARGS: unknown ROS argument '-x'"):
        passed_on()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("label --ros-args -r a:=b", "robo-rl label opens no ROS 2 node; --ros-args are for robot, guard, reward pub"),
        ("robot --ros-args -p other:state_rate:=5", "cannot set the parameter 'other:state_rate': virtual_robot:state"),
        ("launch train --ros-args -p seed:=5", "cannot set the parameter 'seed': give them to the commands"),
        ("reward publish --ros-args -p publish.rat:=5", "unknown option 'publish.rat': did you mean 'rate'"),
        ("train --ros-args -r a", "-r a: expected NAME:=VALUE"),
    ],
)
def test_ros_arguments_that_a_command_cannot_take_are_answered_by_a_line(monkeypatch, capsys, line, said) -> None:
    monkeypatch.setenv("ROBO_RL_ROS_ARGS", "")
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_what_serves_whom() -> None:
    reliable, rough = QoSProfile(), QoSProfile(reliability="best_effort")
    assert reliable.serves(rough) and not rough.serves(reliable)
    assert LATCHED.serves(reliable) and not reliable.serves(LATCHED)
    assert str(QoSProfile(history="keep_all")) == "reliable, volatile, depth all"


@pytest.mark.parametrize("field", [{"depth": 0}, {"reliability": "good"}, {"durability": "long"}, {"history": "none"}])
def test_bad_profiles_are_refused(field: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(field))):
        QoSProfile(**field)  # type: ignore[arg-type]


def configured(**environment: str) -> ElementTree.Element:
    return ElementTree.fromstring(Discovery.from_environment(environment).cyclone()[0])


def test_the_environment_becomes_cyclones_configuration() -> None:
    subnet = configured()
    assert subnet.find(".//ParticipantIndex").text == "auto"  # type: ignore[union-attr]
    assert subnet.find(".//AllowMulticast") is None and subnet.find(".//Peers") is None
    peers = configured(ROS_STATIC_PEERS="10.0.0.2")
    assert peers.find(".//InitialLocatorPruneDelay").text == "inf"  # type: ignore[union-attr]
    assert peers.find(".//NetworkInterface") is None
    local = configured(ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST", ROS_STATIC_PEERS="10.0.0.2; robot.local")
    assert local.find(".//AllowMulticast").text == "false"  # type: ignore[union-attr]
    assert [peer.get("address") for peer in local.iter("Peer")] == ["127.0.0.1", "10.0.0.2", "robot.local"]
    assert [interface.get("address") for interface in local.iter("NetworkInterface")] == [None, "127.0.0.1"]
    only = configured(ROS_LOCALHOST_ONLY="1", ROS_AUTOMATIC_DISCOVERY_RANGE="SUBNET", ROS_STATIC_PEERS="10.0.0.2")
    assert [interface.get("address") for interface in only.iter("NetworkInterface")] == ["127.0.0.1"]
    assert [peer.get("address") for peer in only.iter("Peer")] == ["127.0.0.1"]
    off = configured(ROS_AUTOMATIC_DISCOVERY_RANGE="OFF", ROS_STATIC_PEERS="10.0.0.2")
    assert off.find(".//ParticipantIndex").text == "none"  # type: ignore[union-attr]
    assert off.find(".//Tag") is not None and off.find(".//Peers") is None


def test_cyclones_own_configuration_comes_last() -> None:
    both = Discovery.from_environment({"CYCLONEDDS_URI": "file:///c.xml", "ROS_DOMAIN_ID": "7"})
    assert both.domain == 7 and both.cyclone()[0].endswith("</CycloneDDS>,file:///c.xml")
    alone = {"CYCLONEDDS_URI": "file:///c.xml", "ROS_AUTOMATIC_DISCOVERY_RANGE": "SYSTEM_DEFAULT"}
    assert Discovery.from_environment(alone).cyclone() == ["file:///c.xml"]


@pytest.mark.parametrize(
    "environment", [{"ROS_DOMAIN_ID": "-1"}, {"ROS_DOMAIN_ID": "233"}, {"ROS_AUTOMATIC_DISCOVERY_RANGE": "WORLD"}]
)
def test_bad_environments_are_refused(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(environment))} must be .*{next(iter(environment.values()))}"):
        Discovery.from_environment(environment)


def test_another_version_of_the_binding_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_not_raw() is None
    monkeypatch.setattr("importlib.metadata.version", lambda name: "12.0.0")
    assert why_not_raw() == "cyclonedds 12.0.0 is installed, 11.0.1 was tested"
    monkeypatch.undo()
    monkeypatch.setattr("robo_rl.drivers.ros2.dds.library._RAW_FUNCTIONS", ("dds_takecdr", "dds_gone"))
    assert why_not_raw() == "the library of cyclonedds 11.0.1 lacks dds_gone"
