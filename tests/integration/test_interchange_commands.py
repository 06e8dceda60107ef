"""robo-rl export and import: from the command line, with what users get wrong."""

import dataclasses
import shutil

import pytest

from robo_rl.recording.teleoperation import record_expert
from robo_rl.replay import EpisodeStore
from robo_rl.sim import make_backend

from ..rigs.bags import write_bag
from ..rigs.command_line import exit_code
from ..rigs.replay_episodes import assert_same


@pytest.fixture(scope="module")
def reach(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "reach"
    record_expert(make_backend("reach"), path, 2, noise=0.3, seed=0)
    return path


@pytest.mark.parametrize(
    "options", [["format=lerobot"], ["format=rlds"], ["format=robomimic"], ["format=rosbag", "format.storage=sqlite3"]]
)
def test_a_data_set_comes_back(reach, tmp_path, capsys, options):
    exported, back = tmp_path / "there", tmp_path / "back"
    assert exit_code("export", f"path={reach}", f"output={exported}", "instruction=reach the point", *options) == 0
    assert exit_code("import", f"path={exported}", f"output={back}", options[0]) == 0
    assert "holds 2 episodes, 2 successful" in capsys.readouterr().out
    with EpisodeStore.open(reach) as before, EpisodeStore.open(back) as after:
        assert after.spec == before.spec
        assert after.metadata["instructions"] == ["reach the point"] * 2
        assert after.metadata["seed"] == before.metadata["seed"]
        assert after.metadata["imported_from"]["path"] == str(exported)
        for number in range(2):
            assert_same(after.episode(number), before.episode(number))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["back", "there"]


def test_episodes_of_a_single_frame_are_left_out_and_counted(reach, tmp_path, capsys):
    """As a LeRobotDataset of others, which has no final observation, such an episode has no step."""
    arguments = [f"path={tmp_path / 'there'}", "foreign.task=reach"]
    with EpisodeStore.open(reach) as store:
        steps = store.episode(0)
        first = [dataclasses.replace(steps[0], terminated=False, truncated=True, success=None)]
        with EpisodeStore.create(tmp_path / "short", store.spec, {"instructions": ["a", "b", "c"]}) as mixed:
            mixed.append_episodes([first, steps, first])
        with EpisodeStore.create(tmp_path / "none", store.spec) as none:
            none.append_episode(first)
    for name in ("short", "none"):
        assert exit_code("export", f"path={tmp_path / name}", f"output={tmp_path / 'there'}", "format=lerobot") == 0
        (tmp_path / "there" / "meta" / "robo_rl" / "dataset.json").unlink()
        capsys.readouterr()
        status = exit_code("import", *arguments, f"output={tmp_path / 'back'}_{name}")
        output = capsys.readouterr()
        if name == "short":
            assert status == 0
            assert "Episodes without an action between two observations, left out: 2 (0, 2)" in output.out
            assert "holds 1 episode" in output.out
        else:
            assert status == 2 and "no episode has an action between two observations" in output.err
        shutil.rmtree(tmp_path / "there")
    with EpisodeStore.open(tmp_path / "back_short") as back:
        assert back.metadata["instructions"] == ["b"] and back.metadata["imported_from"]["format"] == "LeRobot"
        assert [record.session for record in back.records] == [1]
    assert not (tmp_path / "back_none").exists()


def test_mistakes_are_answered_by_a_line(reach, tmp_path, capsys):
    for arguments, message in (
        (["export", f"path={reach}", f"output={reach}"], "already exists; choose another folder, or remove it"),
        (["export", f"path={tmp_path / 'no'}", f"output={tmp_path / 'x'}"], "there is no data set"),
        (["export", f"path={reach}", f"output={tmp_path / 'x'}", "format=lerobo"], "did you mean 'lerobot'"),
        (
            ["export", f"path={reach}", f"output={tmp_path / 'x'}", "format.images=jpg"],
            "format.images must be one of png",
        ),
        (["export", f"path={reach}"], "output is required"),
        (["import", f"path={reach}", f"output={tmp_path / 'x'}"], "is not a LeRobotDataset"),
        (["import", f"path={reach}", f"output={tmp_path / 'x'}", "format=robomimic"], "is not a file"),
        (["import", f"path={reach}", f"output={tmp_path / 'x'}", "foreign.source=cat"], "foreign.source must be"),
    ):
        assert exit_code(*arguments) == 2, arguments
        assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


LAB = """
defaults:
  - rosbag

topics:
  joints: {topic: joint_states, gives: state, fields: [position], names: [a, b]}
  command: {topic: cmd_vel, gives: action, fields: [linear.x]}
"""


def test_a_bag_is_imported_by_a_configuration_of_ones_own(tmp_path, capsys):
    (tmp_path / "configs/format").mkdir(parents=True)
    (tmp_path / "configs/format/lab.yaml").write_text(LAB)
    write_bag(tmp_path / "bag")
    arguments = ["--config-dir", str(tmp_path / "configs"), f"path={tmp_path / 'bag'}", f"output={tmp_path / 'lab'}"]
    arguments += ["format=lab", "foreign.control_rate=10"]
    assert exit_code("import", *arguments) == 0
    with EpisodeStore.open(tmp_path / "lab") as store:
        assert store.spec.observation["state"].names == ("a_position", "b_position")
        assert store.spec.control_rate == 10 and store.summary().sources == {"human": 9}
    assert (
        exit_code(
            "import", *arguments[:-3], f"output={tmp_path / 'x'}", *arguments[-2:], "format.topics.joints.max_age=0"
        )
        == 2
    )
    assert "format.topics.*.max_age must be in (0, 604800]" in capsys.readouterr().err
