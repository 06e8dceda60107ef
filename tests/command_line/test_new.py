"""robo-rl new: packages from the examples under other names, and configuration files of robots."""

import html
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from robo_rl.command_line.package_files import TEMPLATES
from robo_rl.commands.new import KINDS, run
from robo_rl.core import ConfigError, DataError

from ..rigs.command_line import SMALL_AGENT, robo_rl
from ..rigs.urdf_arm import write_urdf

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_new_package_has_its_own_names(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("new", [kind, "wipe_table", f"folder={tmp_path / 'made'}"]) == 0
    printed = capsys.readouterr().out
    assert "wipe_table" in printed.splitlines()[-1] and f"{TEMPLATES[kind].page}.md" in printed
    names = {path.name for path in (tmp_path / "made").iterdir()}
    assert names == {"pyproject.toml", "wipe_table.py", "test_wipe_table.py"}
    text = "".join(path.read_text() for path in (tmp_path / "made").iterdir())
    template = TEMPLATES[kind]
    assert not any(word in text for word in (template.example, template.example.replace("_", "-"), template.stem))
    assert "WipeTable" in text


def test_new_packages_pass_their_own_tests(tmp_path: Path) -> None:
    """All in one process, which imports PyTorch once."""
    model = f"model={ROOT / 'examples/six_joint_arm/arm.xml'}"
    folders = {kind: tmp_path / kind for kind in KINDS}
    for kind, folder in folders.items():
        more = [model] if kind == "robot" else []
        assert run("new", [kind, f"wipe_{kind}", f"folder={folder}", *more]) == 0
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *map(str, folders.values())]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders.values()))}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for kind in KINDS:
        assert re.search(rf"^PASSED \S*test_wipe_{kind}\.py::", done.stdout, re.MULTILINE), kind


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["task"],
            r"takes kinds, each once and followed by a name: robo-rl new task\|reward\|filter\|agent\|robot NAME",
        ),
        (["task", "one", "two"], "takes kinds, each once"),
        (["task", "one", "task", "two"], "takes kinds, each once"),
        (["task", "one", "folder=a", "folder=b"], "takes kinds, each once"),
        (["task", "one", "reward", "one"], "each part needs a different name, not one, one"),
        (["tusk", "one"], "knows no 'tusk': .*task"),
        (["task", "My-Task"], "'My-Task' must be that of a Python module"),
        (["task", "../up"], "must be that of a Python module"),
        (["task", "class"], "must be that of a Python module"),
        (["task", "numpy"], "there is a module 'numpy' already"),
        (["task", "reach"], "task 'reach' exists already"),
        (["reward", "novelty"], "reward 'novelty' exists already"),
        (["agent", "rlpd"], "agent 'rlpd' exists already"),
    ],
)
def test_wrong_words_are_refused_and_write_nothing(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        run("new", words)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(DataError, match="mine already exists; choose another folder"):
        run("new", ["task", "wipe_table", f"folder={tmp_path / 'mine'}"])
    with pytest.raises(DataError, match="cannot be written"):
        run("new", ["task", "wipe_table", f"folder={tmp_path / 'mine' / 'below'}"])
    assert (tmp_path / "mine").read_text() == "kept"


def test_several_parts_make_one_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "mine"
    words = ["agent", "my_agent", "reward", "my_term", "filter", "my_filter", f"folder={folder}"]
    assert run("new", words) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert all(
        option in last
        for option in ("task=pick_cube", "agent=my_agent", "reward.modules.my_term=my_term", "my_filter.MyFilter")
    )
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert project["project"]["name"] == "my-agent"
    entries = {"my_agent": "my_agent:register_configs", "my_term": "my_term:register"}
    assert project["project"]["entry-points"]["robo_rl.config"] == entries
    modules = project["tool"]["setuptools"]["py-modules"]
    assert modules == ["my_agent", "my_term", "my_filter"]
    assert {path.name for path in folder.iterdir()} == {
        "pyproject.toml",
        *(f"{prefix}{module}.py" for module in modules for prefix in ("", "test_")),
    }


@pytest.mark.parametrize("parts", [["reward", "my_term"], []], ids=["reward", "alone"])
def test_the_configuration_files_of_an_installed_package_are_found(
    parts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An editable installation is metadata on the path of Python that names a module in the folder."""
    folder = tmp_path / "mine"
    model = ROOT / "examples/six_joint_arm/arm.xml"
    words = ["my_arm", *parts, f"model={model}", f"folder={folder}"]
    assert run("new", ["robot", *words]) == 0
    assert "--config-dir" not in (printed := capsys.readouterr().out) and "ROBO_RL_CONFIG_PATH" not in printed
    points = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]
    metadata = folder / "my_term-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-term\nVersion: 0.1\n")
    lines = [f"[{group}]\n{name} = {value}\n" for group, each in points.items() for name, value in each.items()]
    (metadata / "entry_points.txt").write_text("".join(lines))
    command = [sys.executable, "-m", "robo_rl.cli", "train", "task=reach_my_arm", "robot=my_arm", "--cfg", "job"]
    environment = {name: value for name, value in os.environ.items() if name != "ROBO_RL_CONFIG_PATH"}
    environment["PYTHONPATH"] = str(folder)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "name: my_arm" in done.stdout, done.stderr


@pytest.mark.parametrize("model", ["examples/six_joint_arm/arm.xml", "tests/data/cases/arms/arm.urdf"])
def test_the_files_of_a_robot_compose_and_its_task_can_be_simulated(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    assert run("new", ["robot", "my_arm", f"model={ROOT / model}", f"folder={folder}"]) == 0
    printed = capsys.readouterr().out
    assert f"pip install -e {folder}\n  python -m pytest {folder}\n  robo-rl train task=reach_my_arm" in printed
    assert tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"] == "my-arm"
    assert "Check velocity_limits" in printed or "Check end_effector" in printed
    assert "# Check home" in (folder / "arm/my_arm.yaml").read_text()
    assert yaml.safe_load((folder / "arm/my_arm.yaml").read_text())["arm"]["model"] == "arm/my_arm.xml"
    options = [*SMALL_AGENT, "run.env_steps=60", "run.evaluation_interval=0", "run.final_evaluation_episodes=1"]
    options += ["agent=rlpd_without_demonstrations", "run.video_episodes=0", f"run.dir={tmp_path / 'run'}"]
    output = robo_rl("train", "task=reach_my_arm", "--config-dir", str(folder), *options)
    assert "60 environment steps" in output
    assert "my_arm" in robo_rl(
        "train", "task=reach_my_arm", "robot=my_arm", "reward=shaped", "--config-dir", str(folder), "--cfg", "job"
    )


@pytest.fixture
def descriptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package ``robot_descriptions`` with an arm in URDF, one in xacro, and one that cannot be fetched."""
    package = tmp_path / "site" / "robot_descriptions"
    package.mkdir(parents=True)
    file = write_urdf(tmp_path / "cache")
    for name, text in {
        "__init__": "",
        "loaders": "",
        "demo_description": f"URDF_PATH = {str(file)!r}",
        "soft_description": f"XACRO_PATH = {str(file)!r}",
        "far_description": "raise RuntimeError('Could not resolve host: github.com')",
    }.items():
        (package / f"{name}.py").write_text(f"{text}\n")
    monkeypatch.syspath_prepend(package.parent)
    yield package
    for name in [name for name in sys.modules if name.startswith("robot_descriptions")]:
        del sys.modules[name]


def test_a_urdf_becomes_an_arm_that_trains_with_its_gripper(
    descriptions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    words = ["robot", "my_arm", "model=demo_description", "end_effector=hand_tcp", f"folder={folder}"]
    assert run("new", words) == 0
    printed = capsys.readouterr().out
    assert "Check armature" in printed and "Check end_effector" not in printed
    arm = yaml.safe_load((folder / "arm/my_arm.yaml").read_text())["arm"]
    assert arm["model"] == "arm/my_arm.xml" and arm["gripper_actuator"] == "gripper"
    options = [*SMALL_AGENT, "run.env_steps=60", "run.evaluation_interval=0", "run.final_evaluation_episodes=1"]
    options += ["agent=rlpd_without_demonstrations", "run.video_episodes=0", f"run.dir={tmp_path / 'run'}"]
    options += ["task.controller.action_axes=xyz+gripper"]
    assert "60 environment steps" in robo_rl("train", "task=reach_my_arm", "--config-dir", str(folder), *options)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("dmo_description", "robot_descriptions has no 'dmo_description': .*demo_description"),
        ("soft_description", r"neither MJCF nor URDF, but perhaps xacro \(.*demo.urdf\): resolve it with xacro"),
        ("far_description", r"could not fetch far_description \(Could not resolve host.*with access to the network"),
    ],
)
def test_names_of_robot_descriptions_that_give_no_file_are_refused(
    model: str, message: str, descriptions: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        run("new", ["robot", "my_arm", f"model={model}", f"folder={tmp_path / 'mine'}"])
    assert not (tmp_path / "mine").exists()


@pytest.mark.skipif(
    importlib.util.find_spec("robot_descriptions") is not None, reason="robot_descriptions is installed"
)
def test_names_of_robot_descriptions_need_the_package(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pip install robot_descriptions"):
        run("new", ["robot", "my_arm", "model=panda_description", f"folder={tmp_path / 'mine'}"])


@pytest.mark.parametrize(
    ("name", "written"),
    [("w&#10;x: 1&#10;#", True), ("on", True), ("null", True), ("a: b", True), ("1e1", False), ("${x}", False)],
)
def test_names_of_a_model_are_text_in_the_files(name: str, written: bool, tmp_path: Path) -> None:
    model, folder = tmp_path / "arm.xml", tmp_path / "mine"
    model.write_text((ROOT / "examples/six_joint_arm/arm.xml").read_text().replace('name="pan"', f'name="{name}"'))
    words = ["robot", "my_arm", f"model={model}", f"folder={folder}"]
    if written:
        assert run("new", words) == 0
        content = yaml.safe_load((folder / "arm/my_arm.yaml").read_text())
        assert content["arm"]["joints"][0] == html.unescape(name) and "x" not in content
        return
    with pytest.raises(ConfigError, match=r"arm.xml (cannot stand|would be read)|a name in arm.xml"):
        run("new", words)
    assert not folder.exists()


def test_models_and_options_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words, message in (
        (["robot", "my_arm"], "model=FILE is the MJCF or URDF .*: robo-rl new robot NAME model=FILE"),
        (["task", "my_task", "model=arm.xml"], "robot NAME model=FILE"),
        (["task", "my_task", "end_effector=tool"], "robot NAME model=FILE"),
        (["robot", "my_arm", "modle=arm.xml"], "no option 'modle': .*model"),
        (["robot", "my_arm", "model=arm.xml"], "there is no file .*arm.xml"),
        (["robot", "virtual", "model=arm.xml"], "robot 'virtual' exists already"),
        (["robot", "my_arm", "model=~nobody_here/arm.xml"], "~nobody_here"),
    ):
        with pytest.raises(ConfigError, match=message):
            run("new", words)
    assert not list(tmp_path.iterdir())
