"""Folders of LeRobot policies, and a stand-in for LeRobot that computes them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

STAND_IN = Path(__file__).with_name("lerobot_stand_in")
VARIABLE = "ROBO_RL_LEROBOT_PYTHON"


def use_stand_in(monkeypatch: pytest.MonkeyPatch, version: str = "0.3.2") -> None:
    """Let this interpreter, with the stand-in for a version of lerobot, compute LeRobot policies."""
    monkeypatch.setenv(VARIABLE, str(STAND_IN / "python"))
    monkeypatch.setenv("STAND_IN_PYTHON", sys.executable)
    monkeypatch.setenv("STAND_IN_VERSION", version)


def write_lerobot(folder: Path, kind: str = "plain", **shapes: list[int]) -> Path:
    """Write a policy of the stand-in; ``shapes`` are those of its inputs, and ``action``."""
    shapes = {"state": [36], "environment_state": [6], "action": [3]} | shapes
    action = shapes.pop("action")
    inputs: dict[str, Any] = {
        f"observation.{name.replace('__', '.')}": {"type": "STATE", "shape": shape} for name, shape in shapes.items()
    }
    config = {
        "type": kind,
        "n_action_steps": 3,
        "pretrained_backbone_weights": "ResNet18_Weights.IMAGENET1K_V1",
        "input_features": inputs,
        "output_features": {"action": {"type": "ACTION", "shape": action}},
    }
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def write_processors(folder: Path, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Path:
    """Write the steps of the processors that LeRobot 0.4 and newer save beside a policy, and their states."""
    for name, steps in (("preprocessor", before), ("postprocessor", after)):
        (folder / f"policy_{name}.json").write_text(json.dumps({"name": f"policy_{name}", "steps": steps}))
        for step in steps:
            if "/" not in (state := step.get("state_file", "/")):
                (folder / state).write_bytes(b"statistics")
    return folder
