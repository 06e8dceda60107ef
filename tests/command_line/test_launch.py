"""Launch files: robo-rl's own, and those of ROS 2 where its launch library is there."""

import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import yaml

from robo_rl.cli import main
from robo_rl.command_line.launching import LAUNCHES, Launch, ProcessPlan, read_plans
from robo_rl.core import ConfigError, Interruption

from ..rigs.command_line import exit_code

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(file.stem for file in LAUNCHES.glob("*.yaml"))


def plan(name, code, main=False):
    """A process of Python code."""
    return ProcessPlan(name, ("-c", code), main)


def run(*plans):
    with Interruption() as interruption:
        return Launch(plans, prefix=[sys.executable]).run(interruption)


SLEEP = "import time; time.sleep(60)"


def test_launches_and_ros_launch_files_are_the_same():
    assert NAMES == ["actor", "record", "reward", "teleop", "train", "virtual_robot"]
    assert sorted(file.name.removesuffix(".launch.py") for file in (ROOT / "launch").glob("*.launch.py")) == NAMES


def test_nodes_are_commands_that_hydra_accepts(tmp_path, capsys):
    """What ``ros2 run robo_rl NODE`` executes: a script that starts a command with words of its own and those given."""
    program, out = tmp_path / "robo-rl", tmp_path / "out"
    program.write_text(f"#!{sys.executable}\nimport json, sys\njson.dump(sys.argv[1:], open({str(out)!r}, 'w'))\n")
    program.chmod(0o755)
    nodes = sorted((ROOT / "launch" / "nodes").iterdir())
    assert {"actor", "teleop", "safety_guard", "recorder", "reward", "virtual_robot"} <= {node.name for node in nodes}
    for node in nodes:
        for environment in ({"ROBO_RL": str(program)}, {"PATH": f"{tmp_path}:{os.environ['PATH']}"}):
            out.unlink(missing_ok=True)
            subprocess.run([node, "task=reach", "a b"], env=os.environ | environment, check=True)
            *words, given, spaced = json.loads(out.read_text())
            assert (given, spaced) == ("task=reach", "a b")
        with pytest.raises(SystemExit) as caught:
            main([*words, "task=reach", "--cfg", "job"])
        assert not caught.value.code, capsys.readouterr().err
        capsys.readouterr()


@pytest.mark.parametrize("name", NAMES)
def test_every_launch_starts_commands_that_hydra_accepts(name, capsys):
    plans = read_plans(LAUNCHES / f"{name}.yaml", ["task=reach"])
    assert sum(each.main for each in plans) == 1
    for each in plans:
        with pytest.raises(SystemExit) as caught:
            main([*each.words, "--cfg", "job"])
        assert not caught.value.code, capsys.readouterr().err
        assert yaml.safe_load(capsys.readouterr().out)["task"]["_target_"]


def test_arguments_reach_their_commands():
    words = ["task=reach", "robot=virtual", "options=run.env_steps=10 'run.dir=runs/my run'"]
    robot, train = read_plans(LAUNCHES / "train.yaml", words)
    assert robot == ProcessPlan("robot", ("robot", "task=reach"), False)
    assert train == ProcessPlan(
        "train", ("train", "task=reach", "robot=virtual", "run.env_steps=10", "run.dir=runs/my run"), True
    )
    plans = read_plans(LAUNCHES / "train.yaml", ["task=reach", "guard=yes"])
    assert ProcessPlan("guard", ("guard", "task=reach", "robot=virtual"), False) in plans
    assert plans[-1].words[-1] == "safety.emergency_stop.guard=true", "it moves only while its guard looks"
    (train,) = read_plans(LAUNCHES / "train.yaml", ["robot=franka", "task=${oc.env:HOME}"])
    assert train.words[1:] == ("task=${oc.env:HOME}", "robot=franka")


def test_who_watches_or_plays_the_robot_gets_the_options_that_say_what_it_is():
    options = [
        "task.max_episode_steps=9",
        "safety.emergency_stop.file=/s",
        "robot.namespace=left",
        "~task.arm",
        "seed=1",
    ]
    words = ["task=reach", "guard=yes", f"options={' '.join(options)}"]
    for name in ("train", "actor"):
        robot, guard, main = read_plans(LAUNCHES / f"{name}.yaml", words)
        assert set(robot.words) & set(options) == {options[0], options[3]}
        assert set(guard.words) & set(options) == set(options[:4])
        assert set(main.words) >= set(options)


def test_a_file_of_ones_own(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "arguments: {seed: {default: 3}}\nprocesses:\n  a: {command: reward benchmark, words: ['seed=${seed}']}\n"
    )
    assert read_plans(file, []) == [ProcessPlan("a", ("reward", "benchmark", "seed=3"), False)]
    for text in (
        "",
        "processes: 1",
        "arguments: {}\nprocesses: {a: {comand: train}}",
        "arguments: {}\nprocesses: [",
        "arguments: {}\nprocesses: {a: {command: train, words: ['${no}']}}",
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match="is not a launch file"):
            read_plans(file, [])


def test_help_lists_every_argument(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["launch", "--help"])
    output = capsys.readouterr().out
    assert ended.value.code == 0
    for file in LAUNCHES.glob("*.yaml"):
        assert f"\n{file.stem}\n" in output
        for name, facts in yaml.safe_load(file.read_text())["arguments"].items():
            assert f"  {name:<10}{facts['text']} (" in output


def test_mistakes_are_answered_by_a_line(capsys):
    for words, message in (
        ([], "needs a file.yaml or one of: actor, record"),
        (["trian"], "did you mean 'train'"),
        (["train", "tsak=reach"], "train takes no 'tsak=reach': did you mean 'task'"),
        (["no/such.yaml"], "there is no launch file"),
    ):
        assert exit_code("launch", *words) == 2
        assert message in capsys.readouterr().err


PULSE = "from robo_rl.operators.pulse import Pulse; import os, signal, time; p = Pulse.inherited()\n"


def test_lines_of_two_processes_do_not_mix(monkeypatch):
    class SlowOutput(io.StringIO):
        def write(self, text):
            time.sleep(0.001)
            return super().write(text)

    output = SlowOutput()
    monkeypatch.setattr(sys, "stdout", output)
    code = "import sys\nfor i in range(50): print(i, flush=True)"
    assert run(plan("a", code), plan("b", code)) == 0
    assert sorted(output.getvalue().splitlines()) == sorted(f"[{name}] {i}" for name in "ab" for i in range(50))


def test_a_process_that_watches_a_robot_and_hangs_ends_all(capsys, monkeypatch):
    monkeypatch.setattr("robo_rl.command_line.launching.WATCHING", ("-c",))
    hangs = f"{PULSE}for _ in range(9): p.turn(); time.sleep(0.02)\nos.kill(os.getpid(), signal.SIGSTOP)"
    beats = f"{PULSE}while True: p.turn(); time.sleep(0.02)"
    assert run(plan("guard", hangs), plan("train", beats, main=True)) == 1
    out = capsys.readouterr().out
    assert "[guard] has printed nothing for 1 s: it hangs; all commands are ended" in out and "[train]" not in out


def test_the_main_process_ends_the_others(capsys):
    began = time.monotonic()
    assert run(plan("robot", SLEEP), plan("train", "print('learned')", main=True)) == 0
    assert time.monotonic() - began < 30
    assert "[train] learned" in capsys.readouterr().out


def test_a_failure_ends_all_and_is_the_exit_code(capsys):
    assert run(plan("robot", "import sys; sys.exit(7)"), plan("train", SLEEP, main=True)) == 7
    assert "[robot] ended with exit code 7" in capsys.readouterr().out
    assert run(plan("robot", "import os; os.kill(os.getpid(), 9)"), plan("train", SLEEP, main=True)) == 128 + 9


def test_without_a_main_process_all_are_waited_for(capsys):
    assert run(plan("a", "print(1)"), plan("b", "import time; time.sleep(0.3); print(2)")) == 0
    assert "[b] 2" in capsys.readouterr().out


def test_what_does_not_end_is_killed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("robo_rl.command_line.launching.GRACE_SECONDS", 0.5)
    up = tmp_path / "up"
    stubborn = f"import signal, time; signal.signal(15, signal.SIG_IGN); open({str(up)!r}, 'w'); time.sleep(60)"
    ready = f"import os, time\nwhile not os.path.exists({str(up)!r}): time.sleep(0.02)"
    assert run(plan("robot", stubborn), plan("train", ready, main=True)) == 0
    assert "[robot] has not ended after 0.5 s and is killed" in capsys.readouterr().out


def test_what_a_process_left_behind_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("robo_rl.command_line.launching.PRINT_SECONDS", 0.5)
    began = time.monotonic()
    left = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)"
    assert run(plan("train", left, main=True)) == 0
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_passed_on_once(tmp_path, number):
    """A launch of a real file in a process of its own: each of its processes hears the signal, and says so."""
    note = tmp_path / "heard"
    listener = tmp_path / "listener.py"
    listener.write_text(
        "import signal, sys, time\n"
        f"def heard(number, _):\n    open({str(note)!r} + sys.argv[1], 'a').write(f'{{number}} ')\n"
        "signal.signal(2, heard); signal.signal(15, heard)\nprint('up', flush=True)\n"
        f"import os\nwhile not os.path.exists({str(note)!r} + sys.argv[1]): time.sleep(0.02)\ntime.sleep(0.3)\n"
    )
    code = (
        "import signal, sys\nfor each in (2, 15): signal.signal(each, signal.default_int_handler)\n"
        "from robo_rl.core.interruption import Interruption\nfrom robo_rl.command_line.launching import *\n"
        f"plans = [ProcessPlan(name, ({str(listener)!r}, name), False) for name in 'ab']\n"
        "with Interruption() as interruption: sys.exit(Launch(plans, [sys.executable]).run(interruption))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert sorted(process.stdout.readline() for _ in range(2)) == ["[a] up\n", "[b] up\n"]
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    finally:
        process.kill()
    assert [(tmp_path / f"heard{name}").read_text() for name in "ab"] == [f"{int(number)} "] * 2


# --- ROS 2's own launch library, from a ROS 2 installation or its sources on PYTHONPATH -------------------------------


def has_ros_launch():
    """Whether ``launch`` is ROS 2's library: neither this repository's folder nor PyPI's package of that name."""
    spec = importlib.util.find_spec("launch")
    return spec is not None and spec.origin is not None and (Path(spec.origin).parent / "actions").is_dir()


@pytest.mark.skipif(not has_ros_launch(), reason="ROS 2's launch library is not there")
@pytest.mark.parametrize("name", NAMES)
def test_ros_launches_with_the_arguments_of_ours(name, tmp_path):
    from launch import LaunchContext, LaunchDescription, LaunchService
    from launch.actions import IncludeLaunchDescription
    from launch.launch_description_sources import PythonLaunchDescriptionSource

    source = PythonLaunchDescriptionSource(str(ROOT / f"launch/{name}.launch.py"))
    arguments = yaml.safe_load((LAUNCHES / f"{name}.yaml").read_text())["arguments"]
    declared = {each.name: each for each in source.get_launch_description(LaunchContext()).get_launch_arguments()}
    assert declared.pop("program").default_value[0].text == "robo-rl"
    facts = {key: {"default": each.default_value[0].text, "text": each.description} for key, each in declared.items()}
    assert facts == arguments

    program, out = tmp_path / "robo-rl", tmp_path / "out"
    program.write_text(f"#!{sys.executable}\nimport json, sys\njson.dump(sys.argv[1:], open({str(out)!r}, 'w'))\n")
    program.chmod(0o755)
    service = LaunchService()
    given = [("program", str(program)), ("task", "reach")]
    service.include_launch_description(LaunchDescription([IncludeLaunchDescription(source, launch_arguments=given)]))
    assert service.run() == 0
    expected = {argument: each["default"] for argument, each in arguments.items()} | {"task": "reach"}
    assert json.loads(out.read_text()) == ["launch", name, *(f"{key}={value}" for key, value in expected.items())]


@pytest.mark.parametrize("given", ["robo-rl", "/nowhere/bin/robo-rl", "env/bin/robo-rl"])
def test_ros_launch_without_robo_rl_says_what_to_do(given, monkeypatch, tmp_path):
    """A stand-in for the library is enough: the check raises before any process would be started."""
    for name in ("launch", "launch.actions", "launch.substitutions"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    sys.modules["launch.substitutions"].LaunchConfiguration.return_value.perform.return_value = given
    spec = importlib.util.spec_from_file_location("robo_rl_launch", ROOT / "launch/robo_rl_launch.py")
    shared = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shared)
    shared.describe("train", {})
    check = sys.modules["launch.actions"].OpaqueFunction.call_args.kwargs["function"]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match=rf"{given!r} is not on the path.*program:=/path/to/bin/robo-rl"):
        check(None)
    program = tmp_path / given.lstrip("/")
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    sys.modules["launch.substitutions"].LaunchConfiguration.return_value.perform.return_value = str(program)
    check(None)
