"""Processors beside LeRobot policies: what they change, their files, and folders that do not fit an environment."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from robo_rl.app.lerobot_base import LeRobotBase, open_lerobot
from robo_rl.core import ArraySpec, DataError
from robo_rl.deployment.lerobot_files import read_lerobot
from robo_rl.deployment.lerobot_policy import LeRobotPolicy
from robo_rl.deployment.lerobot_process import LeRobotError

from ..rigs.lerobot_folder import use_stand_in, write_lerobot, write_processors
from ..rigs.specs import toy_spec

SPEC = toy_spec({"state": ArraySpec((36,)), "object": ArraySpec((6,))}, 3)
STATE = np.linspace(-1, 1, 36, dtype=np.float32)
DEVICE = {"registry_name": "device_processor", "config": {"device": "cuda"}}
NORM = {"features": {"action": {"type": "ACTION", "shape": [3]}}, "norm_map": {"ACTION": "MEAN_STD"}}


def scale(factor: float, state: str = "scale.safetensors") -> dict[str, Any]:
    return {"registry_name": "scale", "config": {"factor": factor}, "state_file": state}


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_in(monkeypatch, "0.4.4")


def written(folder: Path, kind: str = "plain", **shapes: list[int]) -> Path:
    return write_processors(write_lerobot(folder, kind, **shapes), [scale(0.5), DEVICE], [scale(0.25, "a.safetensors")])


def opened(folder: Path) -> LeRobotPolicy:
    policy = open_lerobot(folder)
    assert policy.differences(SPEC) == []
    return policy


def observed(shift: float = 0.0) -> dict[str, np.ndarray]:
    return {"state": STATE + np.float32(shift), "object": np.zeros(6, np.float32)}


def test_processors_change_what_the_policy_observes_and_each_action_of_a_chunk(tmp_path: Path) -> None:
    """On a device that exists, whatever that of the training was."""
    policy = opened(written(tmp_path / "policy"))
    expected = [0.25 * 2 * np.tanh(STATE[:3]) / (1 + step) for step in range(3)]
    np.testing.assert_allclose(policy.decide(observed()), expected, atol=1e-6)
    base = LeRobotBase(policy)
    base.begin_episode(0)
    np.testing.assert_allclose([base.act(observed(shift)) for shift in (0, 0.5, 0.6)], expected, atol=1e-6)


def test_renamed_observations_are_those_of_the_data_set(tmp_path: Path) -> None:
    renames = [
        {"registry_name": "rename_observations_processor", "config": {"rename_map": {old: new}}}
        for old, new in (
            ("observation.environment_state", "observation.target"),
            ("observation.target", "observation.x"),
        )
    ]
    folder = write_lerobot(tmp_path / "policy", environment_state=[36], x=[6])
    config = json.loads((folder / "config.json").read_text())
    del config["input_features"]["observation.environment_state"]
    (folder / "config.json").write_text(json.dumps(config))
    policy = opened(write_processors(folder, renames, []))
    np.testing.assert_allclose(policy.act(observed()), np.clip(2 * np.tanh(2 * STATE[:3]), -1, 1), atol=1e-6)
    assert open_lerobot(write_processors(folder, [], [])).differences(SPEC) == [
        "input 'observation.x' of the policy: no such observation; the task has observation.state, "
        "observation.environment_state"
    ]


@pytest.mark.parametrize(
    ("changes", "originals"),
    [
        ([{"a": "b", "b": "a"}], {"a": "b", "b": "a"}),
        ([{"a": "b", "b": "c"}], {"b": "a", "c": "b"}),
        ([{"a": "b"}, {"b": "c"}, {"c": "a"}], {"a": "a"}),
    ],
)
def test_observations_are_renamed_at_once(
    changes: list[dict[str, str]], originals: dict[str, str], tmp_path: Path
) -> None:
    sizes = {"a": 36, "b": 6, "c": 9}
    folder = write_lerobot(tmp_path / "policy", **{name: [sizes[original]] for name, original in originals.items()})
    config = json.loads((folder / "config.json").read_text())
    config["input_features"] = {name: config["input_features"][f"observation.{name}"] for name in originals}
    (folder / "config.json").write_text(json.dumps(config))
    steps = [{"registry_name": "rename_observations_processor", "config": {"rename_map": change}} for change in changes]
    assert read_lerobot(write_processors(folder, steps, [])).inputs == {
        original: (sizes[original],) for original in originals.values()
    }


def test_a_normaliser_has_statistics_of_all_that_it_normalises(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "policy")
    step = {"registry_name": "normalizer_processor", "config": NORM, "state_file": "s.safetensors"}
    write_processors(folder, [step], [])
    save_file({"action.mean": np.zeros(3), "action.std": np.ones(3)}, folder / "s.safetensors")
    assert "s.safetensors" in read_lerobot(folder).names


def test_files_of_processors_belong_to_the_policy(tmp_path: Path) -> None:
    folder, found = written(tmp_path / "policy"), set()
    names = ["policy_preprocessor.json", "scale.safetensors", "policy_postprocessor.json", "a.safetensors"]
    for name in ("", *names):
        if name:
            (folder / name).write_bytes((folder / name).read_bytes() + b" ")
        policy = open_lerobot(folder)
        assert list(policy.files) == ["config.json", "model.safetensors", *names]
        found.add(policy.fingerprint)
    assert len(found) == 5


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            {"class": "subprocess.Popen", "config": {}},
            r"step 0 is the class subprocess\.Popen: only steps with a",
        ),
        (
            scale(1, "../a.safetensors"),
            r"step 0 \(scale\): expected state_file to name a \.safetensors file",
        ),
        (scale(1, "weights.pkl"), r"expected state_file to name a \.safetensors file of the folder, found 'weights"),
        (
            {"registry_name": "normalizer_processor", "config": NORM},
            "has no statistics of action in a state_file, so LeRobot would not normalise",
        ),
        (
            {"registry_name": "normalizer_processor", "config": NORM, "state_file": "other.safetensors"},
            r"has no statistics of action in other\.safetensors",
        ),
        (
            {"registry_name": "normalizer_processor", "config": NORM, "state_file": "damaged.safetensors"},
            r"damaged\.safetensors is not a safetensors file: its header would have",
        ),
        (scale(1, "a\0.safetensors"), "expected state_file to name a"),
        (scale(1, "\x1b[31m.safetensors"), r"found '\\x1b\[31m"),
        (scale(1) | {"artifacts": ["tokenizer"]}, "has artifacts"),
        ({"registry_name": "relative_actions_processor", "config": {"enabled": True}}, "relative to the observed st"),
        ({"registry_name": "x", "config": {"norm_map": 3, "features": {"a": 1}}}, r"policy_preprocessor\.json is dam"),
        (3, r"policy_preprocessor\.json is damaged"),
    ],
)
def test_steps_that_robo_rl_does_not_compute_are_refused_before_lerobot_starts(
    step: Any, message: str, tmp_path: Path
) -> None:
    folder = write_lerobot(tmp_path / "policy")
    save_file({"observation.state.mean": np.zeros(36)}, folder / "other.safetensors")
    (folder / "damaged.safetensors").write_bytes(b"damaged, surely")
    for name in ("pre", "post"):
        (folder / f"policy_{name}processor.json").write_text(json.dumps({"steps": [step] if name == "pre" else []}))
    with pytest.raises(DataError, match=message):
        open_lerobot(folder)


@pytest.mark.parametrize("name", ["policy_preprocessor.json", "policy_postprocessor.json", "a.safetensors"])
def test_a_folder_without_one_of_its_files_is_refused(name: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "policy")
    (folder / name).unlink()
    message = f"lacks {name}: LeRobot saves both" if name.endswith("json") else f"{name} cannot be read"
    with pytest.raises(DataError, match=message):
        open_lerobot(folder)


def test_a_folder_of_another_version_than_the_installed_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path / "policy")
    config = json.loads((folder / "config.json").read_text())
    old = write_lerobot(tmp_path / "old")
    with pytest.raises(LeRobotError, match=r"policy_preprocessor\.json is missing, with which lerobot 0\.4\.4 normal"):
        opened(old).start()
    (folder / "config.json").write_text(json.dumps(config | {"type": "pi9"}))
    with pytest.raises(LeRobotError, match=r"lerobot 0\.4\.4 has no policies of type 'pi9', only crash, exit, "):
        opened(folder).start()
    (folder / "config.json").write_text(json.dumps(config | {"revision": None}))
    with pytest.raises(LeRobotError, match=r"options of plain that lerobot 0\.4\.4 lacks: revision\. Another version"):
        opened(folder).start()
    (folder / "config.json").write_text(json.dumps(config))
    write_processors(folder, [{"registry_name": "fold"}], [])
    with pytest.raises(
        LeRobotError,
        match=r"steps that lerobot 0\.4\.4 lacks, or registers outside the policy: fold\. .* name an environment",
    ):
        opened(folder).start()
    use_stand_in(monkeypatch, "0.3.2")
    with pytest.raises(LeRobotError, match=r"trained by LeRobot 0\.4 or newer, and lerobot 0\.3\.2 has no processors"):
        opened(folder).start()
