"""Reward code: what it computes, and everything that it must not do."""

from pathlib import Path

import numpy as np
import pytest

from robo_rl.core import ArraySpec, CheckpointError, ConfigError
from robo_rl.rewards.asking.endpoint import EndpointConfig
from robo_rl.rewards.modules.code import CodeConfig, elements
from robo_rl.rewards.sandbox.process import RewardCodeError, Sandbox
from robo_rl.rewards.writing import Writer, code_block

from ..rigs.specs import joint_spec
from ..rigs.vlm_server import requests, vlm_server

SPEC = joint_spec(
    {"state": ArraySpec((3,), names=("x", "y", "grip-force")), "object": ArraySpec((2,))},
    action=ArraySpec((1,), names=("push",)),
)
CODE = '''
"""Near the object, without pushing hard."""

def near(a, b):
    return exp(-square(a - b))

def reward(x, before_x, object_1, action_push):
    """Each argument is a column."""
    closer = abs(before_x - object_1) - abs(x - object_1)
    total = where((closer > 0) & (x > 0), closer, 0.0)
    for k in range(1, 4):
        total += near(x, object_1) / k
    return total - 0.01 * action_push ** 2
'''


def batch(n, seed=0):
    rng = np.random.default_rng(seed)
    rows = {"action": rng.uniform(-1, 1, (n, 1)).astype(np.float32)}
    for prefix in ("observation", "next_observation"):
        rows[f"{prefix}/state"] = rng.normal(size=(n, 3)).astype(np.float32)
        rows[f"{prefix}/object"] = rng.normal(size=(n, 2)).astype(np.float32)
    return rows


@pytest.fixture
def make(tmp_path):
    def module(code, **options):
        (tmp_path / "reward.py").write_text(code)
        return CodeConfig(file=str(tmp_path / "reward.py"), **options).make("mine", SPEC, 0)

    return module


def test_code_computes_what_it_says(make):
    rows = batch(50)
    x, before = (rows[f"{prefix}observation/state"][:, 0].astype(float) for prefix in ("next_", ""))
    goal, push = rows["next_observation/object"][:, 1].astype(float), rows["action"][:, 0].astype(float)
    expected = []
    for i in range(50):
        closer = abs(before[i] - goal[i]) - abs(x[i] - goal[i])
        total = closer if closer > 0 and x[i] > 0 else 0.0
        total += np.exp(-((x[i] - goal[i]) ** 2)) * (1 + 1 / 2 + 1 / 3)
        expected.append(total - 0.01 * push[i] ** 2)
    module = make(CODE)
    np.testing.assert_allclose(module(rows), expected, rtol=1e-6)
    one = {key: value[:1] for key, value in rows.items()}
    np.testing.assert_array_equal(module(one), module(rows)[:1])
    assert not module.judges_state and make("def reward(x):\n return -abs(x)").judges_state
    np.testing.assert_array_equal(make("def reward():\n return 1")(rows), np.ones(50))


def test_what_is_added_to_an_argument_is_added_to_no_other_name():
    code = "def reward(x):\n y = x\n for i in range(2):\n  x += 1\n m = x > 2\n m *= 10\n return m + y"
    np.testing.assert_array_equal(Sandbox(code, 1, 64)(np.array([[0.0, 1.0]])), [0, 11])


def test_names_of_what_is_there():
    known = elements(SPEC)
    assert known["grip_force"] == ("next_observation/state", 2)
    assert known["before_object_0"] == ("observation/object", 0)
    assert known["action_push"] == ("action", 0)


REFUSED = {
    "import": "import os\ndef reward(x):\n return x",
    "import within": "def reward(x):\n import os\n return x",
    "attribute": "def reward(x):\n return x.dtype",
    "underscores": "def reward(x):\n return x.__class__.__base__",
    "name with underscores": "def reward(x):\n return __builtins__",
    "argument with underscores": "def reward(__x__):\n return 1",
    "subscript": "def reward(x):\n return x[0]",
    "open": "def reward(x):\n return open(0)",
    "eval": "def reward(x):\n return eval(x)",
    "call of a call": "def reward(x):\n return abs(x)(x)",
    "while": "def reward(x):\n while True:\n  x = x\n return x",
    "string": "def reward(x):\n return 'x' * 9",
    "format": "def reward(x):\n return f'{x}'",
    "lambda": "def reward(x):\n return (lambda: x)()",
    "comprehension": "def reward(x):\n return [x for i in range(3)]",
    "tuple": "def reward(x):\n return (x,) * 9",
    "default": "def reward(x, y=abs(1)):\n return x",
    "default of the first of two": "def f(x, y=abs(1)):\n return x\ndef f(x):\n return x\ndef reward(x):\n return x",
    "decorator of the first of two": "@abs\ndef reward(x):\n return x\ndef reward(x):\n return x",
    "type parameter": "def reward[T: abs(1)](x):\n return x",
    "annotation": "def reward(x: abs(1)):\n return x",
    "decorator": "@abs\ndef reward(x):\n return x",
    "stars": "def reward(*x):\n return 1",
    "keyword": "def reward(x):\n return clip(x, 0, 1, out=x)",
    "inner function": "def reward(x):\n def f():\n  return 1\n return x",
    "global": "def reward(x):\n global abs\n return x",
    "shadow": "def reward(x):\n where = x\n return x",
    "try": "def reward(x):\n try:\n  return x\n except:\n  return 0",
    "chain": "def reward(x):\n return 0 < x < 1",
    "shift": "def reward(x):\n return x << 100",
    "complex": "def reward(x):\n return 1j * x",
    "rows of each other": "def reward(x):\n m = 0.0\n for v in x:\n  m = m + v\n return x - m",
    "loop of a name": "def reward(x):\n k = range(3)\n for v in k:\n  x = x + v\n return x",
    "row numbers": "def reward(x):\n return range(3)",
    "range as an argument": "def f(r):\n return r\ndef reward(x):\n return f(range)",
    "where": "def reward(x):\n return where(x > 0)",
    "delete": "def reward(x):\n del x",
    "statement": "abs(1)\ndef reward(x):\n return x",
    "no function": "def other(x):\n return x",
    "no Python": "def reward(x)\n return x",
    "null byte": "def reward(x):\n return x\0",
    "nested": "def reward(x):\n return " + "-" * 9000 + "x",
    "long": "def reward(x):\n return x" + "\n" * 30_000,
}


@pytest.mark.parametrize("kind", REFUSED)
def test_escapes_are_refused_before_anything_runs(kind):
    with pytest.raises(RewardCodeError):
        Sandbox(REFUSED[kind], 1, 64)


FAILING = {
    "no number": ("def reward(x):\n return x / 0.0 * 0", "nan"),
    "infinite": ("def reward(x):\n return exp(x * x + 800)", "returned inf"),
    "too large": ("def reward(x):\n return 1001 + x * x", "expected a number of at most 1000"),
    "nothing": ("def reward(x):\n pass", "returned nan"),
    "recursion": ("def reward(x):\n return reward(x)", "RecursionError"),
    "division": ("def reward(x):\n return 1 // 0", "ZeroDivisionError"),
    "undefined": ("def reward(x):\n return y", "NameError"),
    "written to": ("def reward(x):\n return abs(x, x)", "read-only"),
    "complex": ("def reward(x):\n return (-8) ** 0.5", "complex number"),
    "complex rows": ("def reward(x):\n return x * (-1) ** 0.5", "complex number"),
}


@pytest.mark.parametrize("kind", FAILING)
def test_what_fails_is_said(kind, make):
    code, reason = FAILING[kind]
    with pytest.raises(RewardCodeError, match=reason):
        make(code)(batch(5))


@pytest.mark.parametrize(
    ("body", "times"), [("for i in range(10 ** 12):\n  x = x + 1", 2), ("x = x * 9 ** 9 ** 9 ** 9", 1)]
)
def test_endless_computations_are_ended(body, times):
    sandbox = Sandbox(f"def reward(x):\n {body}\n return x", 1, 64)
    for _ in range(times):  # the second time in a new process
        with pytest.raises(RewardCodeError, match="may take 1 s of processor time"):
            sandbox(np.ones((1, 3)))


def test_a_memory_bomb_is_stopped_and_the_sandbox_goes_on():
    names = [f"a{i}" for i in range(40)]
    bomb = "".join(f" {name} = x * {i}\n" for i, name in enumerate(names))
    sandbox = Sandbox(f"def reward(x):\n{bomb} return {' + '.join(names)}", 5, 64)
    with pytest.raises(RewardCodeError, match="MemoryError"):
        sandbox(np.ones((1, 1_000_000)))  # 8 MB each
    np.testing.assert_array_equal(sandbox(np.ones((1, 2))), [780, 780])


def test_the_process_has_no_secrets_and_no_files(monkeypatch):
    """What would be left to code that got out of the language: here read from outside."""
    monkeypatch.setenv("SOME_KEY", "sk-secret")
    sandbox = Sandbox("def reward(x):\n return x", 1, 64)
    sandbox(np.ones((1, 1)))
    process = Path(f"/proc/{sandbox._process.pid}")
    assert b"secret" not in (process / "environ").read_bytes()
    lines = (process / "limits").read_text().splitlines()
    limits = {line[:25].strip(): line[25:].split()[:2] for line in lines}
    assert limits["Max file size"] == limits["Max core file size"] == ["0", "0"]
    assert limits["Max open files"] == ["3", "3"]


def test_what_does_not_fit_is_named(make, tmp_path):
    with pytest.raises(ConfigError, match="the code asks for 'grip_forc': did you mean 'grip_force'"):
        make("def reward(grip_forc):\n return 1")
    with pytest.raises(ConfigError, match=r"reward.modules.mine.file must be a file of Python"):
        CodeConfig().make("mine", SPEC, 0)
    with pytest.raises(ConfigError, match="cannot be read"):
        CodeConfig(file=str(tmp_path / "missing.py")).make("mine", SPEC, 0)


def test_rewards_of_other_code_are_not_gone_on_with(make):
    first = make("def reward(x):\n return x")
    make("def reward(x):\n return x").load(first.state())
    with pytest.raises(CheckpointError, match="has changed"):
        make("def reward(x):\n return x + 1").load(first.state())


def test_a_model_is_told_what_was_wrong_until_the_code_runs(tmp_path):
    folder = tmp_path / "server"
    with vlm_server(folder) as url:
        endpoint = EndpointConfig(url=url, model="writer", cache=str(tmp_path / "cache"), retries=0)
        bodies = ["x.dtype", "x / (x - x)", "-x"]
        for number, code in enumerate(f"def reward(x):\n return {body}" for body in bodies):
            (folder / f"writer_{number + 1}.txt").write_text(f"So:\n```python\n{code}\n```\nGood luck.")
        writer = Writer(endpoint, 2, CodeConfig())
        code, module = writer.write("push", SPEC, [batch(5), batch(7, seed=1)], "def reward(y):\n return y", "slower")
        assert code == "def reward(x):\n return -x\n"
        np.testing.assert_allclose(module(batch(3)), -batch(3)["next_observation/state"][:, 0])
        first, second, third = (each["text"] for each in requests(folder))
        assert "goal: push" in first and "return y" in first and "slower" in first and "grip_force: -" in first
        assert "Attribute is not allowed" in second
        assert ("returned" in third and "nan" in third) or "inf" in third
        with pytest.raises(RewardCodeError, match="no code of 1 could be used"):
            Writer(endpoint, 0, CodeConfig()).write("else", SPEC, [batch(5)], None, None)


def test_code_is_found_in_an_answer():
    assert code_block("a\n```\nb\n```\nc\n```python\nd\n```") == "d\n"
    assert code_block("def reward():\n return 1") == "def reward():\n return 1\n"
