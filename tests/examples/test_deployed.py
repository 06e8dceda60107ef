"""docs/guide/deploy.md: a policy is written, evaluated, and run by a Python program and a C program."""

import json
import shutil
import sys

import numpy as np
import pytest

from robo_rl.deployment.onnx_policy import OnnxPolicy

from ..rigs.guide import SMALL, Reader, blocks

WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = sys.modules["onnx"] = sys.modules["robo_rl"] = None  # an import raises ImportError
sys.argv = ["run_policy.py", "policy.onnx", "2"]
runpy.run_path("run_policy.py")
"""


def test_the_page_can_be_followed(tmp_path):
    reader = Reader("deploy.md", tmp_path)
    reader.write_files()
    reader.follow("robo-rl train", *SMALL)
    commands = [line.partition("#")[0].split() for line in "".join(blocks("deploy.md", "bash")).splitlines()]
    outputs = [reader.run(words) for words in commands if words[:2] == ["robo-rl", "deploy"]]
    assert len(outputs) == 3 and all("Time per decision on one core" in output for output in outputs)
    assert "2 episodes" in reader.follow("robo-rl eval", "episodes=2")

    policy = OnnxPolicy.load(tmp_path / "policy.onnx")
    facts = policy.description
    keys = {key: facts.spec.observation[key].shape for key in facts.observed}
    chunk = policy.decide({key: np.zeros(shape, np.float32) for key, shape in keys.items()})
    scale = np.array(facts.action_scales()[0])
    expected = [dict(zip(facts.action_names, action, strict=True)) for action in (scale * chunk).tolist()]

    printed = reader.run([sys.executable, "-c", WITHOUT_TORCH]).splitlines()
    rows = [json.loads(line.replace("'", '"')) for line in printed]
    assert len(rows) == 2 * facts.action_chunk
    assert all(row == pytest.approx(wanted, abs=2e-4) for row, wanted in zip(rows, 2 * expected, strict=True))

    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    reader.run(next(words for words in commands if words[:1] == ["cc"]))
    values = [line.rsplit(" ", 1) for line in reader.run(["./run_policy"]).splitlines()]
    wanted = 5 * [(name, value) for action in expected for name, value in action.items()]
    assert [name for name, _ in values] == [name for name, _ in wanted]
    np.testing.assert_allclose([float(value) for _, value in values], [value for _, value in wanted], atol=1e-5)
