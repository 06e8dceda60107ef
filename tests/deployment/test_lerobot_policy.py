"""LeRobot policies in a process of their own: actions, episodes, what is refused, and a process that misbehaves."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robo_rl.app.lerobot_base import LeRobotBase, open_lerobot
from robo_rl.core import ArraySpec, ConfigError, DataError
from robo_rl.deployment import lerobot_process
from robo_rl.deployment.lerobot_policy import LeRobotPolicy
from robo_rl.deployment.lerobot_process import LeRobotError
from robo_rl.residual import BASE_ACTION, BaseActionBackend
from robo_rl.sim import make_backend

from ..rigs.lerobot_folder import VARIABLE, use_stand_in, write_lerobot
from ..rigs.specs import toy_spec

SPEC = toy_spec({"state": ArraySpec((36,)), "object": ArraySpec((6,))}, 3)
STATE = np.linspace(-1, 1, 36, dtype=np.float32)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_in(monkeypatch)


def observed(shift: float = 0.0) -> dict[str, np.ndarray]:
    return {"state": STATE + np.float32(shift), "object": np.zeros(6, np.float32)}


def opened(folder: Path, kind: str = "plain") -> LeRobotPolicy:
    policy = open_lerobot(write_lerobot(folder / kind, kind))
    assert policy.differences(SPEC) == []
    return policy


def first(state: np.ndarray, oldest: np.ndarray) -> np.ndarray:
    return 2 * np.tanh(state[:3] + oldest[:3])


def test_chunks_are_lerobots_and_actions_are_clipped(tmp_path: Path) -> None:
    policy = opened(tmp_path)
    assert policy.action_chunk == 3 and policy.type == "plain"
    actions = [policy.act(observed(shift)) for shift in (0, 0.5, 0.6)]
    chunk = [first(STATE, STATE) / (1 + step) for step in range(3)]
    np.testing.assert_allclose(actions, np.clip(chunk, -1, 1), atol=1e-6)
    assert np.abs(chunk[0]).max() > 1 and actions[0].dtype == np.float32


def test_an_episode_resets_the_policy_and_an_action_beyond_reach_only_its_chunk(tmp_path: Path) -> None:
    base = LeRobotBase(opened(tmp_path))
    base.begin_episode(0)
    base.act(observed())
    base.forget_plan()
    expected = first(STATE + 0.3, STATE)  # the history goes on
    np.testing.assert_allclose(base.act(observed(0.3)), expected.clip(-1, 1), atol=1e-6)
    base.begin_episode(None)
    expected = first(STATE + 0.7, STATE + 0.7)
    np.testing.assert_allclose(base.act(observed(0.7)), expected.clip(-1, 1), atol=1e-6)


def test_what_an_episode_samples_follows_from_its_seed(tmp_path: Path) -> None:
    base = LeRobotBase(opened(tmp_path, "noise"))
    actions = []
    for seed in (1, 2, 1, None):
        base.begin_episode(seed)
        actions.append(base.act({"state": 0 * STATE, "object": np.zeros(6, np.float32)}))
    np.testing.assert_array_equal(actions[0], actions[2])
    assert not np.array_equal(actions[0], actions[1]) and not np.array_equal(actions[0], actions[3])


def test_images_arrive_as_lerobot_expects_them(tmp_path: Path) -> None:
    spec = replace(SPEC, observation={**SPEC.observation, "images/front": ArraySpec((8, 10, 3), "uint8")})
    policy = open_lerobot(write_lerobot(tmp_path / "policy", images__front=[3, 8, 10]))
    assert policy.differences(spec) == []
    policy.act(observed() | {"images/front": np.full((8, 10, 3), 255, np.uint8)})
    assert policy.differences(SPEC) == [
        "input 'observation.images.front' of the policy: no such observation; the task has observation.state, "
        "observation.environment_state"
    ]


def test_a_base_that_does_not_match_is_refused_with_both_sides(tmp_path: Path) -> None:
    backend = make_backend("reach")
    base = LeRobotBase(open_lerobot(write_lerobot(tmp_path / "policy", environment_state=[9], action=[2])))
    with pytest.raises(ConfigError) as error:
        BaseActionBackend(backend, base, 0.2)
    text = str(error.value)
    assert "the policy expects shape (9,), observation 'object' has (6,)" in text
    assert "decides 'action' of shape (2,), the task needs 'action' of shape (3,)" in text
    base = LeRobotBase(open_lerobot(write_lerobot(tmp_path / "other")))
    step = BaseActionBackend(backend, base, 0.2).reset(3)
    expected = first(step.observation["state"], step.observation["state"])
    np.testing.assert_allclose(step.observation[BASE_ACTION], expected.clip(-1, 1), atol=1e-6)
    backend.close()


def test_the_fingerprint_changes_with_each_file(tmp_path: Path) -> None:
    folder, found = write_lerobot(tmp_path / "policy"), set()
    for name in ("", "config.json", "model.safetensors"):
        if name:
            (folder / name).write_bytes((folder / name).read_bytes() + b" ")
        found.add(open_lerobot(folder).fingerprint)
    assert len(found) == 3


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("crash", "ended. It printed: .*ValueError: the weights are strange"),
        ("talkative", "ended. It printed: .*ValueError: the weights are strange"),
        ("exit", "ended. It printed: .*out of memory"),
        ("silent", "was silent for too long. It printed: a line that libraries print"),
        ("shape", r"returned actions of shape \[1, 4\], expected \[n, 3\]"),
        ("nan", "returned an action that is not finite"),
    ],
)
def test_a_process_that_misbehaves_is_ended_and_named(
    kind: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lerobot_process, "ANSWER_SECONDS", 0.5 if kind == "silent" else 20.0)
    policy = opened(tmp_path, kind)
    with pytest.raises(LeRobotError, match=message):
        policy.act(observed())
    process = policy._process
    assert process is not None and process._process.poll() is not None
    assert len(process._output._kept) <= lerobot_process.KEPT_BYTES  # of 100 MB that one of them prints


@pytest.mark.parametrize("variable", ["PYTHONPATH", "PYTHONHOME"])
@pytest.mark.parametrize("module", ["json", "torch", "lerobot"])
def test_packages_of_this_interpreter_are_not_those_of_lerobots(
    variable: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example those of a sourced ROS 2, or the current folder where the variable has an empty entry."""
    (tmp_path / f"{module}.py").write_text("raise SystemExit('imported')")
    monkeypatch.setenv(variable, str(tmp_path))
    assert opened(tmp_path).act(observed()).shape == (3,)


def test_an_answer_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = tmp_path / "worker.py"
    for answer, message in ((b"\\xff\\xff\\xff\\x7f", "no answer"), (b"\\x02\\0\\0\\0[]", "no answer")):
        worker.write_text(f"import os, time; os.write(0, b'{answer.decode()}'); time.sleep(60)")
        monkeypatch.setattr(lerobot_process, "WORKER", worker)
        with pytest.raises(LeRobotError, match=message):
            opened(tmp_path / message / str(len(answer))).act(observed())


def test_an_answer_that_was_not_read_is_not_that_of_the_next_observation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = opened(tmp_path)
    policy.act(observed())

    def interrupt(*_: object) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(lerobot_process.LeRobotProcess, "_receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            policy.act(observed(0.5))
    with pytest.raises(LeRobotError):
        policy.act(observed(0.5))


def test_the_process_ends_when_the_socket_is_closed(tmp_path: Path) -> None:
    """The socket is closed when the program is killed."""
    policy = opened(tmp_path)
    policy.act(observed())
    process = policy._process
    assert process is not None
    process._socket.close()
    assert process._process.wait(timeout=20) == 0


def test_an_interpreter_that_is_not_named_or_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = opened(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "python"))
    with pytest.raises(LeRobotError, match="cannot be started: No such file"):
        policy.act(observed())
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(LeRobotError, match=f"set the environment variable {VARIABLE}"):
        policy.act(observed())


def test_folders_that_are_no_policy_are_refused(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "policy")
    config = json.loads((folder / "config.json").read_text())
    for change in ({"input_features": None}, {"output_features": {"action": {"shape": [-1]}}}, {"n_action_steps": 0.5}):
        (folder / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(DataError, match=r"config\.json is damaged"):
            open_lerobot(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"is not a policy of LeRobot: .*model\.safetensors cannot be read"):
        open_lerobot(folder)
