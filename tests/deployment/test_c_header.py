"""C headers of policies: what compilers say of them, and what they hold."""

import dataclasses
import shutil
import subprocess

import numpy as np
import pytest

from robo_rl.core import ArraySpec, ConfigError, DataError
from robo_rl.deployment.c_policy import CPolicy, c_compiler

from ..rigs.deployed import SPEC, VECTORS, describe, make_agent, write
from ..rigs.specs import toy_spec

COMPILERS = [path for name in ("gcc", "clang") if (path := shutil.which(name))]
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wshadow", "-Wstrict-prototypes"]
pytestmark = pytest.mark.skipif(not COMPILERS, reason="no C compiler")


def compile_program(folder, text, *flags, compiler=None):
    (folder / "program.c").write_text(text)
    command = [compiler or COMPILERS[0], *FLAGS, *flags, "program.c", "-o", "program", "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return subprocess.run([folder / "program"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_headers_compile_without_warnings(name, compiler, tmp_path):
    write(make_agent(name), name, tmp_path / "policy.h", 1)
    noise = "noise, " if name in ("flow", "fql", "qc", "qc_before_selection") else ""
    text = (
        '#include "policy.h"\n#include "policy.h"\n'
        "int main(void)\n{\n    static float observation[POLICY_OBSERVATION_SIZE];\n"
        f"{'    static float noise[POLICY_NOISE_SIZE];' if noise else ''}\n"
        "    float action[POLICY_ACTION_CHUNK * POLICY_ACTION_SIZE];\n"
        f"    policy_act(observation, {noise}action);\n    return action[0] > 1.0f;\n}}\n"
    )
    compile_program(tmp_path, text, "-O1", compiler=compiler)


def test_files_that_do_not_call_it_may_include_it_also_in_cpp(tmp_path):
    write(make_agent("sac"), "sac", tmp_path / "policy.h", 1)
    compile_program(tmp_path, '#include "policy.h"\nint main(void)\n{\n    return POLICY_ACTION_SIZE == 0;\n}\n')
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    call = "float o[POLICY_OBSERVATION_SIZE] = {}, a[POLICY_ACTION_CHUNK * POLICY_ACTION_SIZE]; policy_act(o, a);"
    (tmp_path / "node.cpp").write_text(f'#include "policy.h"\nint main() {{ {call} return a[0] > 1.0f; }}\n')
    command = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "node.cpp", "-o", "node", "-lm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_relative_observations_are_named(tmp_path):
    spec = toy_spec({"state": ArraySpec((2,))}, 2, extra={"observation_frame": "first_pose"})
    agent = VECTORS["sac"][0](spec=spec, seed=0, hidden=(8,))
    write(agent, "sac", tmp_path / "policy.h", 1, spec=spec)
    assert "Frame of end_effector_* in state: first_pose." in (tmp_path / "policy.h").read_text()


def test_a_compiler_for_another_machine_is_reported(tmp_path, monkeypatch):
    (tmp_path / "cross").write_text('#!/bin/sh\nfor word; do test "$last" = -o && echo > "$word"; last=$word; done\n')
    (tmp_path / "cross").chmod(0o755)
    monkeypatch.setenv("CC", str(tmp_path / "cross"))
    with pytest.raises(DataError, match="CC must name a compiler for this machine"):
        write(make_agent("bc"), "bc", tmp_path / "policy.h")
    assert [path.name for path in tmp_path.iterdir()] == ["cross"]


def test_it_needs_no_memory_and_changes_no_globals(tmp_path):
    write(make_agent("sac"), "sac", tmp_path / "policy.h", 1)
    text = (tmp_path / "policy.h").read_text()
    assert "malloc" not in text and "calloc" not in text
    assert {line for line in text.splitlines() if line.startswith("#include")} == {
        "#include <math.h>",
        "#include <stddef.h>",
    }
    outside = [line for line in text.splitlines() if line.startswith("static")]
    assert all(line.startswith("static const") or "(" in line for line in outside)


def test_facts_are_constants(tmp_path):
    names = ("x", "y", "z", "gripper")
    spec = toy_spec(
        {"state": ArraySpec((2,), names=("joint1_position", "joint1_velocity")), "object": ArraySpec((1,))},
        4,
        task="pick",
        action_space="end_effector_delta",
        extra={"translation_scale": 0.05},
        control_rate=12.5,
    )
    spec = dataclasses.replace(spec, action=ArraySpec((4,), low=-1, high=1, names=names))
    agent = VECTORS["sac"][0](spec=spec, seed=0, hidden=(8,), action_chunk=3)
    write(agent, "sac", tmp_path / "arm.h", spec=spec)
    program = (
        '#include "arm.h"\n#include <stdio.h>\n'
        "int main(void)\n{\n"
        '    printf("%s %d %d %d %g\\n", arm_task, ARM_OBSERVATION_SIZE, ARM_ACTION_SIZE, ARM_ACTION_CHUNK, '
        "(double)ARM_CONTROL_RATE);\n"
        "    for (int i = 0; i < ARM_OBSERVATION_SIZE; ++i)\n"
        '        printf("%s [%s] ", arm_observation_names[i], arm_observation_units[i]);\n'
        "    for (int i = 0; i < ARM_ACTION_SIZE; ++i)\n"
        '        printf("\\n%s %g %g [%s] ", arm_action_names[i], (double)arm_action_scale[i], '
        "(double)arm_action_offset[i], arm_action_units[i]);\n"
        "    return 0;\n}\n"
    )
    assert compile_program(tmp_path, program, "-Wno-unused-function").splitlines() == [
        "pick 3 4 3 12.5",
        "object0 [] joint1_position [rad] joint1_velocity [rad/s] ",
        "x 0.05 0 [m] ",
        "y 0.05 0 [m] ",
        "z 0.05 0 [m] ",
        "gripper 1 0 [] ",
    ]


def test_the_layout_is_the_concatenation_of_the_keys(tmp_path):
    agent = make_agent("sac")
    write(agent, "sac", tmp_path / "policy.h")
    text = (tmp_path / "policy.h").read_text()
    assert " *     [0, 3)  object\n *     [3, 9)  state\n" in text
    policy = CPolicy(tmp_path / "policy.h", describe(agent, "sac"), c_compiler())
    observation = agent.decision().example(np.random.default_rng(0))
    expected = agent.act(observation, explore=False)
    np.testing.assert_allclose(policy.decide(observation)[0], expected, atol=1e-5)


def test_nan_is_passed_on(tmp_path):
    """A caller can recognise it; a policy that turned it into a plausible action would hide a broken sensor."""
    for name in ("sac", "xqc"):
        agent = make_agent(name)
        write(agent, name, tmp_path / "policy.h")
        policy = CPolicy(tmp_path / "policy.h", describe(agent, name), c_compiler())
        observation = agent.decision().example(np.random.default_rng(0))
        observation["state"][2] = np.nan
        assert np.isnan(policy.decide(observation)).all()


@pytest.mark.parametrize("text", ["*/ int x; /*", 'a"; int x; //', "a\\", "??/", "näme\n#error", "%s"])
def test_names_are_data(text, tmp_path):
    spec = dataclasses.replace(SPEC, task=text, action=ArraySpec((2,), low=-1, high=1, names=(text, "b")))
    agent = make_agent("bc")
    write(agent, text, tmp_path / "policy.h", spec=spec)
    program = '#include "policy.h"\n#include <stdio.h>\nint main(void) { fputs(policy_task, stdout); return 0; }\n'
    assert compile_program(tmp_path, program, "-Wno-unused-function") == text


def test_two_policies_fit_into_one_program(tmp_path):
    for name in ("first", "second"):
        write(make_agent("bc"), "bc", tmp_path / f"{name}.h")
    compile_program(
        tmp_path,
        '#include "first.h"\n#include "second.h"\nint main(void)\n{\n'
        "    float observation[9] = {0}, one[2], two[2];\n    first_act(observation, one);\n"
        "    second_act(observation, two);\n    return one[0] != two[0];\n}\n",
    )


@pytest.mark.parametrize("name", ["2nd.h", "my-policy.h", "a b.h"])
def test_names_that_are_no_prefix_are_refused(name, tmp_path):
    with pytest.raises(ConfigError, match="the name of a header is the prefix of its C functions"):
        write(make_agent("bc"), "bc", tmp_path / name)


def test_without_a_compiler_it_is_written_and_not_compared(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no_such_compiler")
    assert write(make_agent("bc"), "bc", tmp_path / "policy.h") is None
    assert (tmp_path / "policy.h").is_file()


def test_a_compiler_that_fails_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "false")
    with pytest.raises(DataError, match=r"policy.h does not compile with -std=c99"):
        write(make_agent("bc"), "bc", tmp_path / "policy.h")
    assert not list(tmp_path.iterdir())


def test_other_dtypes_are_refused(tmp_path):
    spec = toy_spec({"state": ArraySpec((3,), "float64")}, 2)
    agent = VECTORS["sac"][0](spec=spec, seed=0, hidden=(8,))
    with pytest.raises(ConfigError, match=r"acts on 'state' \(float64\)"):
        write(agent, "sac", tmp_path / "policy.h", spec=spec)
    assert write(agent, "sac", tmp_path / "policy.onnx", spec=spec).difference < 1e-5
